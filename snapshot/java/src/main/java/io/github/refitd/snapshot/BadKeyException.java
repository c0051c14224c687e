package io.github.refitd.snapshot;

/** A key file cannot be used: unreadable, or not an Ed25519 public key. */
public final class BadKeyException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public BadKeyException(String message) {
        super(message);
    }
}
