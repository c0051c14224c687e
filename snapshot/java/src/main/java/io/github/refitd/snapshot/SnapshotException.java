package io.github.refitd.snapshot;

/** The base of all exceptions of this package; their names have the stems of the Python package. */
public abstract class SnapshotException extends RuntimeException {
    private static final long serialVersionUID = 1;

    SnapshotException(String message) {
        super(message);
    }
}
