package io.github.refitd.snapshot;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;

/** Opens and watches the versions that refitd publishes. A store is a directory, or the URL of a daemon. */
public final class Snapshots {
    private static final int MAX_REREADS = 100; // of an alias whose version was pruned before it was read

    private Snapshots() {
    }

    /** Is open of the champion. */
    public static Model open(String store, String model) {
        return open(store, model, new Options());
    }

    /**
     * Reads a version of a model. Nothing is parsed before its signature, where there are keys, its size and its digest
     * are verified, and the model is returned only once its golden events score as published. Throws a
     * SnapshotException, or UncheckedIOException where a store cannot be read.
     */
    public static Model open(String store, String model, Options options) {
        return open(source(store, options), model, options);
    }

    public static Model open(Source source, String model, Options options) {
        try {
            return read(source, model, options);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new UncheckedIOException(new IOException("interrupted", error));
        }
    }

    /**
     * Follows an alias: loads the version that it names, then waits for the next one, until close. A version that is
     * refused changes nothing: the last good one is served on. It does not wait for the first model.
     */
    public static Watcher watch(String store, String model, Options options) {
        return new Watcher(source(store, options), model, options);
    }

    public static Watcher watch(Source source, String model, Options options) {
        return new Watcher(source, model, options);
    }

    static Source source(String store, Options options) {
        if (store.startsWith("http://") || store.startsWith("https://")) {
            return new HTTPSource(store, options.headers);
        }
        if (!options.headers.isEmpty()) {
            throw new IllegalArgumentException("headers are for a store behind http:// or https://");
        }
        return new DirSource(Path.of(store), options.every);
    }

    private static Model read(Source source, String model, Options o) throws IOException, InterruptedException {
        Trust trust = o.trust();
        if (o.version > 0) {
            Pointer.checkName("model", model);
            return read(source, trust, model, Pointer.of(o.version), o);
        }
        Pointer last = Pointer.NONE;
        for (int i = 0; i < MAX_REREADS; i++) {
            Pointer pointer = source.alias(model, o.alias);
            pointer.verify(model, o.alias, o.keys);
            pointer = pointer.with(pointer.verifiedRenewal(model, o.alias, o.keys));
            try {
                return read(source, trust, model, pointer, o);
            } catch (NotFoundException error) {
                if (pointer.same(last)) {
                    throw error;
                }
            }
            last = pointer; // it may have been pruned since: see whether the alias has moved on
        }
        throw new NotFoundException(
                "the alias moved " + MAX_REREADS + " times while it was read: prune less often");
    }

    private static Model read(Source source, Trust trust, String model, Pointer pointer, Options o)
            throws IOException, InterruptedException {
        Model loaded = trust.load(source, model, pointer);
        byte[] cut = Trust.file(source, loaded.manifest, loaded.manifest.cutFile);
        if (cut != null) {
            Json.parse("cut.json", cut);
        }
        while (o.deltas != null && o.deltas) {
            Position at = loaded.position();
            List<byte[]> frames = source.deltas(model, at.version(), at.sequence(), null);
            if (frames.isEmpty()) {
                break;
            }
            Deltas.Applied applied = Deltas.apply(loaded, frames, trust.keys());
            if (applied.refused() != null) {
                throw applied.refused();
            }
            loaded = applied.model();
        }
        return loaded;
    }
}
