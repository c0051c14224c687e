package io.github.refitd.snapshot;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Keeps the newest acceptable model of an alias, on threads of its own making. Any number of threads may use it. */
public final class Watcher implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("io.github.refitd.snapshot");
    // Milliseconds after a failure, doubling; and at most while there is no such alias yet.
    private static final long RETRY_MIN = 250;
    private static final long RETRY_MAX = 5000;
    private static final long RETRY_ABSENT = 500;
    private static final int MAX_ACCEPTED_BYTES = 4 << 10;

    private final Source source;
    private final String name;
    private final Options options;
    private final Trust trust;
    private final CountDownLatch stop = new CountDownLatch(1);
    private final CountDownLatch loaded = new CountDownLatch(1); // or closed
    private final Thread running;
    // Of the thread of run.
    private Pointer accepted;
    private Thread following; // takes the deltas of what is served

    // What follows is guarded by this.
    private Model model;
    private Model base; // the same without deltas
    private Pointer served = Pointer.NONE;
    private Instant expires;
    private Instant loadedAt;
    private Instant checked;
    private long loads;
    private long refused;
    private Exception error;
    private long deltasApplied;
    private long deltasRefused;
    private Exception deltaError;

    Watcher(Source source, String name, Options options) {
        Pointer.checkName("model", name);
        Pointer.checkName("alias", options.alias);
        this.source = source;
        this.name = name;
        this.options = options;
        trust = options.trust();
        accepted = readAccepted();
        running = start(this::run);
    }

    private Thread start(Runnable run) {
        Thread thread = new Thread(run, "refitd " + name + " " + options.alias);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private boolean takesDeltas() {
        return options.deltas == null || options.deltas;
    }

    /**
     * Returns the model to score with, null before the first one is loaded, and once it has expired unless that is
     * allowed. Take it once for a request and use it for the whole of that request.
     */
    public synchronized Model model() {
        return isExpired() && !trust.allowExpired() ? null : model;
    }

    public synchronized Status status() {
        Manifest m = base == null ? null : base.manifest;
        if (m == null) {
            return new Status(0, "", "", "", null, null, null, null, false, null, checked, loads, refused, error, null,
                    deltasApplied, deltasRefused, deltaError);
        }
        return new Status(m.version, m.digest, m.payloadDigest, base.signedBy, m.created, model.position().watermark(),
                expires, served.renewedAt(), isExpired(), loadedAt, checked, loads, refused, error, model.position(),
                deltasApplied, deltasRefused, deltaError);
    }

    /** Returns the first model as soon as there is one. Throws TimeoutException with the reason if none is in time. */
    public Model await(Duration timeout) throws InterruptedException, TimeoutException {
        loaded.await(timeout.toNanos(), TimeUnit.NANOSECONDS);
        synchronized (this) {
            if (model == null) {
                throw new TimeoutException("watch " + name + ": no model yet: " + error);
            }
            return model;
        }
    }

    /** Stops watching. The last model can still score. */
    @Override
    public void close() {
        stop.countDown();
        loaded.countDown();
        try {
            end(running);
            end(following); // which nobody replaces any more
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Interrupts a request that is held, and waits for the end of its thread. */
    private static void end(Thread thread) throws InterruptedException {
        if (thread != null) {
            thread.interrupt();
            thread.join();
        }
    }

    private boolean isExpired() {
        return expires != null && !trust.now().get().isBefore(expires);
    }

    private boolean stopped() {
        return stop.getCount() == 0;
    }

    /** Waits after a failure, longer after each; true if it is stopped. */
    private void pause(int failures, long most) throws InterruptedException {
        long pause = Math.min(RETRY_MIN << Math.min(failures - 1, 10), most);
        stop.await((long) (pause * ThreadLocalRandom.current().nextDouble(0.8, 1.2)), TimeUnit.MILLISECONDS);
    }

    /** Loads what the alias names until it is stopped. */
    private void run() {
        Pointer seen = Pointer.NONE; // what the source is asked for a change of: accepted, or refused for good
        int failures = 0;
        while (!stopped()) {
            Pointer pointer = seen;
            try {
                long most = RETRY_MAX;
                try {
                    pointer = next(seen);
                    if (stopped()) {
                        return;
                    }
                    look(pointer, seen);
                    seen = pointer;
                    failures = 0;
                    continue;
                } catch (OlderException | GoldenException | RefusedException again) { // the same bytes say the same
                    seen = pointer;
                    failures = 0;
                    continue;
                } catch (NotFoundException absent) {
                    most = RETRY_ABSENT;
                    note(absent);
                } catch (IOException | RuntimeException damaged) { // it may still be on its way to a directory
                    note(damaged);
                } catch (OutOfMemoryError large) { // what was served is served on
                    note(new IllegalStateException("not enough memory for the version: " + large.getMessage()));
                }
                pause(++failures, most);
            } catch (InterruptedException closed) {
                return;
            }
        }
    }

    private synchronized void note(Exception failure) {
        error = failure;
    }

    /** Asks the source, or the operator's pin. */
    private Pointer next(Pointer seen) throws IOException, InterruptedException {
        if (options.version == 0) {
            return source.await(name, options.alias, seen, stop);
        }
        if (seen.version() == options.version) {
            stop.await();
        }
        return Pointer.of(options.version);
    }

    private void look(Pointer pointer, Pointer seen) throws IOException, InterruptedException {
        synchronized (this) {
            checked = trust.now().get();
        }
        if (pointer.unchanged(seen)) {
            return;
        }
        if (pointer.same(accepted) && isServed()) { // renewed, or a refused alias is back
            renew(pointer);
        } else {
            accept(pointer);
        }
    }

    private synchronized boolean isServed() {
        return model != null;
    }

    /** Verifies, loads and serves what a pointer names. */
    private void accept(Pointer offered) throws IOException, InterruptedException {
        Pointer pointer = offered;
        Model found;
        try {
            pointer = pointer.with(renewalOf(pointer));
            found = load(pointer);
            if (options.version == 0) {
                writeAccepted(pointer);
            }
        } catch (IOException | RuntimeException failure) {
            synchronized (this) {
                error = failure;
                refused++;
            }
            LOG.log(System.Logger.Level.WARNING, "version {0} of {1} refused: {2}", offered.version(), name, failure);
            throw failure;
        }
        accepted = pointer;
        Model state = caughtUp(found);
        synchronized (this) {
            model = state;
            base = found;
            served = pointer;
            deltasApplied += state.position().sequence();
            expires = found.expires;
            loadedAt = trust.now().get();
            loads++;
            error = null;
            deltaError = null;
        }
        LOG.log(System.Logger.Level.INFO, "version {0} of {1} loaded", found.version(), name);
        loaded.countDown();
        if (takesDeltas()) {
            end(following);
            following = start(() -> runDeltas(found, state));
        }
    }

    /**
     * Returns an update that is about to be served with the deltas that there are of it: readers do not go back in
     * time for a moment. A refit or an earlier version, as by a rollback, is served as it is.
     */
    private Model caughtUp(Model found) throws InterruptedException {
        boolean follows = base != null && base.version() < found.version(); // base is written by this thread alone
        if (!takesDeltas() || !follows || !"update".equals(found.manifest.fields.get("kind"))) {
            return found;
        }
        Model state = found;
        try {
            while (true) {
                List<byte[]> frames = source.deltas(name, found.version(), state.position().sequence(), null);
                if (frames.isEmpty()) {
                    return state;
                }
                Deltas.Applied applied = Deltas.apply(state, frames, trust.keys());
                state = applied.model();
                if (applied.refused() != null) {
                    return state;
                }
            }
        } catch (IOException | RuntimeException | OutOfMemoryError failure) {
            return state; // runDeltas finds and reports again what is wrong with the next delta
        }
    }

    private Model load(Pointer pointer) throws IOException, InterruptedException {
        if (options.version == 0) {
            pointer.verify(name, options.alias, trust.keys());
            pointer.follow(accepted);
        }
        Model found = trust.load(source, name, pointer);
        if (options.onLoad != null) {
            try {
                options.onLoad.accept(found);
            } catch (RuntimeException failure) {
                throw new RefusedException("version " + pointer.version() + ": refused by the program: " + failure);
            }
        }
        return found;
    }

    /** Returns the newer of a pointer's renewal and the one that was accepted of the same move. */
    private Pointer.Renewal renewalOf(Pointer pointer) {
        Pointer.Renewal renewal = pointer.verifiedRenewal(name, options.alias, trust.keys());
        Pointer.Renewal last = accepted.renewal();
        boolean older = pointer.same(accepted) && last.renewed() != null
                && (renewal.renewed() == null || last.renewed().isAfter(renewal.renewed()));
        return older ? last : renewal; // a copy may bring back an old one
    }

    /** Takes up the renewal of what is being served, if it is one. */
    private void renew(Pointer pointer) throws IOException {
        Pointer.Renewal renewal = renewalOf(pointer);
        if (Objects.equals(renewal.renewed(), accepted.renewal().renewed())) {
            note(null);
            return;
        }
        accepted = accepted.with(renewal);
        synchronized (this) {
            served = accepted;
            expires = accepted.expiry(base.manifest.expires);
            error = null;
        }
        writeAccepted(accepted);
    }

    /**
     * Applies the deltas of a version, until it is interrupted. One that is refused changes nothing: the last good
     * state is served on, deltas are asked for again, and after a break in the chain all of them from the version on.
     */
    private void runDeltas(Model from, Model begin) {
        Model state = begin;
        int failures = 0;
        while (!stopped() && isBase(from)) {
            try {
                Exception failure;
                try {
                    List<byte[]> frames = source.deltas(name, from.version(), state.position().sequence(), stop);
                    Deltas.Applied applied = Deltas.apply(state, frames, trust.keys());
                    state = applied.model();
                    serve(from, state);
                    failure = applied.refused();
                } catch (IOException | RuntimeException error) {
                    failure = error;
                } catch (OutOfMemoryError large) {
                    failure = new IllegalStateException("not enough memory for the deltas: " + large.getMessage());
                }
                if (failure == null) {
                    failures = 0;
                    continue;
                }
                if (failure instanceof ChainException) {
                    state = from;
                }
                synchronized (this) {
                    if (base != from) {
                        return;
                    }
                    deltaError = failure;
                    deltasRefused += failure instanceof SnapshotException ? 1 : 0;
                }
                pause(++failures, RETRY_MAX);
            } catch (InterruptedException closed) {
                return;
            }
        }
    }

    private synchronized boolean isBase(Model from) {
        return base == from;
    }

    /** Serves a state of a version, if that is served and the state is newer. */
    private synchronized void serve(Model from, Model state) {
        if (base != from) {
            return;
        }
        long gained = state.position().sequence() - model.position().sequence();
        if (gained > 0) {
            model = state;
            deltasApplied += gained;
        }
        if (gained >= 0) {
            deltaError = null;
        }
    }

    /** Returns the pointer that was accepted last, by the state file, if it would be accepted from the source, too. */
    private Pointer readAccepted() {
        if (options.stateFile == null) {
            return Pointer.NONE;
        }
        String where = "state file " + options.stateFile;
        byte[] content;
        try (InputStream in = Files.newInputStream(options.stateFile)) {
            content = in.readNBytes(MAX_ACCEPTED_BYTES + 1);
        } catch (NoSuchFileException absent) {
            return Pointer.NONE;
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
        if (content.length > MAX_ACCEPTED_BYTES) {
            throw new FormatException(where + ": more than " + MAX_ACCEPTED_BYTES + " bytes");
        }
        Fields state = new Fields(where, Json.parse(where, content));
        if (!state.text("model").equals(name) || !state.text("alias").equals(options.alias)) {
            throw new FormatException(where + ": it belongs to model '" + state.text("model") + "' and alias '"
                    + state.text("alias") + "': give each watcher its own");
        }
        Pointer last = Pointer.read(where, new Fields(where, state.value.get("last")));
        last.check(name, options.alias);
        try {
            last.verify(name, options.alias, trust.keys());
        } catch (SnapshotException failure) {
            LOG.log(System.Logger.Level.WARNING, "what was accepted before counts for nothing: {0}", failure);
            return Pointer.NONE;
        }
        return last.with(last.verifiedRenewal(name, options.alias, trust.keys()));
    }

    /** Replaces the state file, durably. */
    private void writeAccepted(Pointer pointer) throws IOException {
        if (options.stateFile == null) {
            return;
        }
        Map<String, Object> state = new LinkedHashMap<>();
        state.put("model", name);
        state.put("alias", options.alias);
        state.put("last", pointer.members());
        Path file = options.stateFile.toAbsolutePath();
        Path temporary = Files.createTempFile(file.getParent(), ".refitd-", "");
        try {
            try (FileOutputStream out = new FileOutputStream(temporary.toFile())) { // close interrupts no stream
                out.write(Json.bytes(Json.write(state) + "\n"));
                out.getFD().sync();
            }
            Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException failure) {
            Files.deleteIfExists(temporary);
            throw failure;
        }
    }
}
