package io.github.refitd.snapshot;

/** An alias is older than the one that was accepted before. */
public final class OlderException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public OlderException(String message) {
        super(message);
    }
}
