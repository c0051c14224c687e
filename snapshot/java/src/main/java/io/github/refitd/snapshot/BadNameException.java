package io.github.refitd.snapshot;

/** A model or alias name is not of the form [a-z0-9][a-z0-9._-]{0,63}. */
public final class BadNameException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public BadNameException(String message) {
        super(message);
    }
}
