package io.github.refitd.snapshot;

/** An event does not have the shape that the schema asks for, or numbers too large to be scored. */
public final class InputException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public InputException(String message) {
        super(message);
    }
}
