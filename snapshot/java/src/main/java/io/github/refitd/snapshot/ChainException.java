package io.github.refitd.snapshot;

/** A delta does not follow what the reader has: out of order, missing, or of another chain. */
public final class ChainException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public ChainException(String message) {
        super(message);
    }
}
