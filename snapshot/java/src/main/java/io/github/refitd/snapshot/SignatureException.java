package io.github.refitd.snapshot;

/** A version or an alias is not signed by a key that the reader trusts. */
public final class SignatureException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public SignatureException(String message) {
        super(message);
    }
}
