package io.github.refitd.snapshot;

/** A version was refused by the program, by Options.onLoad. */
public final class RefusedException extends SnapshotException {
    private static final long serialVersionUID = 1;

    public RefusedException(String message) {
        super(message);
    }
}
