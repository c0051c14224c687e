package io.github.refitd.snapshot;

/** This build scores the golden events of a version differently from its writer. */
public final class GoldenException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public GoldenException(String message) {
        super(message);
    }
}
