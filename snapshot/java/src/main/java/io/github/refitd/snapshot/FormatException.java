package io.github.refitd.snapshot;

/** Bytes do not follow the format, or follow one that this build does not read. */
public final class FormatException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public FormatException(String message) {
        super(message);
    }
}
