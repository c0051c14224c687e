package io.github.refitd.snapshot;

/** A version cannot take events in: an older build wrote it, or its model has no posterior. */
public final class NoFoldInException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public NoFoldInException(String message) {
        super(message);
    }
}
