package io.github.refitd.snapshot;

/** A delta has a row, a name or numbers that its model cannot have. */
public final class ContentsException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public ContentsException(String message) {
        super(message);
    }
}
