package io.github.refitd.snapshot;

/** A file is not the one that was published: cut off, altered, or of another version. */
public final class DigestException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public DigestException(String message) {
        super(message);
    }
}
