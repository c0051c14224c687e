package io.github.refitd.snapshot;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Returns what aliases name, and the files of versions. Nothing that it says is trusted. */
public interface Source extends Trust.Files {
    /** Returns what an alias says, unverified. Throws NotFoundException. */
    Pointer alias(String model, String alias) throws IOException, InterruptedException;

    /**
     * Is alias; if that is still last, it waits for a change, until stop is zero, and may give up after a while and
     * return last.
     */
    Pointer await(String model, String alias, Pointer last, CountDownLatch stop)
            throws IOException, InterruptedException;

    /** Returns a file of a version, null if it is missing. One of more than so many bytes is a DigestException. */
    @Override
    byte[] read(String model, long version, String name, long most) throws IOException, InterruptedException;

    /**
     * Returns frames of deltas of a version that follow the one with sequence after. Until the next one is there it
     * waits, unless stop is null, and may give up after a while. Throws ChainException if the next one is missing.
     */
    List<byte[]> deltas(String model, long version, long after, CountDownLatch stop)
            throws IOException, InterruptedException;
}
