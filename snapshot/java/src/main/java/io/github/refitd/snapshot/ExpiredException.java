package io.github.refitd.snapshot;

/** A version may not be used any more: its manifest says so. */
public final class ExpiredException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public ExpiredException(String message) {
        super(message);
    }
}
