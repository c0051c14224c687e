package io.github.refitd.snapshot;

/** The store has no such model, alias or version. */
public final class NotFoundException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public NotFoundException(String message) {
        super(message);
    }
}
