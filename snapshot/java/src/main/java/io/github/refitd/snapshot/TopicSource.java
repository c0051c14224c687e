package io.github.refitd.snapshot;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;

/**
 * A source over records that a program reads of publish.topic and publish.deltas.topic, with any client of Kafka. It
 * keeps the newest announcement of each model, whatever the order of records. A record that no trusted key signed is
 * ignored, and so are files in it that are not those of the version. All threads may use it.
 */
public final class TopicSource implements Source {
    private static final System.Logger LOG = System.getLogger("io.github.refitd.snapshot");
    private static final String CHAMPION = "champion"; // the alias that is announced
    private static final int MAX_VALUE_BYTES = 90 << 20;
    private static final long MAX_HELD_BYTES = 1L << 30; // of deltas
    private static final long PAUSE = 250; // milliseconds until deltas of another version are asked for

    private final Source files;
    private final Trust trust;
    private final Map<String, Announced> last = new HashMap<>();
    private final Map<Chain, TreeMap<Long, Held>> frames = new HashMap<>();
    private final Map<String, Place> places = new HashMap<>(); // by keys of records
    private long held;
    private long ignored;
    private boolean caughtUp;
    private boolean hasDeltas;

    private record Announced(Pointer pointer, Map<String, byte[]> inline) { // null for none
    }

    private record Chain(String model, long version) {
    }

    private record Place(Chain chain, long sequence) {
    }

    private record Held(String key, byte[] frame) { // a publisher of another lineage may send a delta again
    }

    /**
     * Makes one. files has what does not travel in topics: a directory or a URL, null if all does. Of options it takes
     * keys and headers; without keys any writer to the topic can announce.
     */
    public TopicSource(String files, Options options) {
        this.files = files == null ? null : Snapshots.source(files, options);
        trust = options.trust();
    }

    /** Says that what the topic of announcements held at the start was read. Until then nothing is loaded. */
    public synchronized void caughtUp() {
        caughtUp = true;
        notifyAll();
    }

    /** Says that deltas come from their topic. Unless it is called they come from where the files are. */
    public synchronized void followDeltas() {
        hasDeltas = true;
    }

    /** Returns how many records were ignored since the start: the log says why. */
    public synchronized long ignored() {
        return ignored;
    }

    /** Takes a record of publish.topic: key, value and the header refitd-format, of which each may be null. */
    public synchronized void announce(byte[] key, byte[] value, byte[] format) {
        if (value == null) {
            return;
        }
        try {
            take(key, value, format);
            notifyAll();
        } catch (RuntimeException error) { // of base64, too
            ignore("announcement", error);
        }
    }

    private void take(byte[] key, byte[] value, byte[] format) {
        if (!Arrays.equals(format, Json.bytes("1")) || value.length > MAX_VALUE_BYTES) {
            throw new FormatException("a record of " + value.length + " bytes and another format than 1");
        }
        Fields f = new Fields("announcement", Json.parse("announcement", value));
        String model = f.text("model");
        if (!Arrays.equals(key, Json.bytes(model))) {
            throw new FormatException("its key is not its model " + model);
        }
        Pointer found = Pointer.read("announcement", f);
        found.verify(model, CHAMPION, trust.keys());
        Pointer pointer = found.with(found.verifiedRenewal(model, CHAMPION, trust.keys()));
        Map<String, byte[]> inline = inline(model, pointer, f.object("inline"));
        Announced before = last.get(model);
        if (before == null || pointer.sequence() > before.pointer.sequence()) {
            last.put(model, new Announced(pointer, inline));
        } else if (pointer.sequence() == before.pointer.sequence()) { // again, perhaps with files or a renewal
            if (!pointer.manifestDigest().equals(before.pointer.manifestDigest())) {
                throw new FormatException("two versions were announced as the same: the first one is kept");
            }
            Pointer.Renewal old = before.pointer.renewal();
            Pointer.Renewal next = pointer.renewal();
            boolean older = old.renewed() != null
                    && (next.renewed() == null || old.renewed().isAfter(next.renewed()));
            last.put(model, new Announced(older ? pointer.with(old) : pointer,
                    inline == null ? before.inline : inline));
        }
    }

    /** Returns the files of a record, null for none and for others than those of the version. */
    private Map<String, byte[]> inline(String model, Pointer pointer, Fields said) {
        if (said == null) {
            return null;
        }
        try {
            Map<String, byte[]> found = new LinkedHashMap<>();
            said.value.keySet().forEach(name -> found.put(name, Base64.getDecoder().decode(said.text(name))));
            trust.verifyFiles((m, version, name, most) -> found.get(name), model, pointer);
            return found;
        } catch (RuntimeException | IOException error) {
            ignore("files of an announcement", error);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error); // nothing waits here
        }
        return null;
    }

    private void ignore(String what, Exception error) {
        ignored++;
        LOG.log(System.Logger.Level.WARNING, "{0} ignored: {1}", what, error);
    }

    /** Takes a record of publish.deltas.topic. A value of null takes a delta back. */
    public synchronized void delta(byte[] key, byte[] value) {
        try {
            String name = Json.utf8(key, 0, key.length);
            if (value == null) {
                drop(name);
                return;
            }
            Delta d = Delta.decodeHeader(value, trust.keys());
            if (!name.startsWith(d.model + "/") || !name.endsWith("/" + d.base + "/" + d.sequence)) {
                throw new FormatException("its key is " + name);
            }
            if (held + value.length > MAX_HELD_BYTES) {
                throw new FormatException("the deltas of the topic take more than 1 GiB");
            }
            drop(name);
            Place at = new Place(new Chain(d.model, d.base), d.sequence);
            Held before = frames.computeIfAbsent(at.chain, chain -> new TreeMap<>())
                    .put(d.sequence, new Held(name, value));
            places.put(name, at);
            held += value.length;
            if (before != null) {
                places.remove(before.key);
                held -= before.frame.length;
            }
            notifyAll();
        } catch (IOException | RuntimeException error) {
            ignore("delta", error);
        }
    }

    private void drop(String key) {
        Place at = places.remove(key);
        if (at != null) {
            frames.computeIfPresent(at.chain, (chain, left) -> {
                held -= left.remove(at.sequence).frame.length;
                return left.isEmpty() ? null : left;
            });
        }
    }

    @Override
    public synchronized Pointer alias(String model, String alias) {
        Announced found = alias.equals(CHAMPION) && caughtUp ? last.get(model) : null;
        if (found == null) {
            throw new NotFoundException("no announcement of the alias " + alias + " of " + model + " was read");
        }
        return found.pointer;
    }

    @Override
    public synchronized Pointer await(String model, String alias, Pointer before, CountDownLatch stop)
            throws InterruptedException {
        while (stop.getCount() > 0 && (!caughtUp || alias(model, alias).unchanged(before))) {
            wait();
        }
        return stop.getCount() > 0 ? alias(model, alias) : before;
    }

    @Override
    public byte[] read(String model, long version, String name, long most) throws IOException, InterruptedException {
        Announced found;
        synchronized (this) {
            found = last.get(model);
        }
        boolean here = found != null && found.pointer.version() == version && found.inline != null;
        if (here && found.inline.containsKey(name)) {
            return found.inline.get(name);
        }
        if (files == null && !here) {
            throw new NotFoundException("version " + version + " of " + model
                    + " was announced without its files: say where they are");
        }
        return files == null ? null : files.read(model, version, name, most);
    }

    @Override
    public List<byte[]> deltas(String model, long version, long after, CountDownLatch stop)
            throws IOException, InterruptedException {
        boolean elsewhere;
        synchronized (this) {
            elsewhere = !hasDeltas && files != null;
        }
        return elsewhere ? files.deltas(model, version, after, stop) : held(new Chain(model, version), after, stop);
    }

    /** It gives up soon: another version may have been announced. */
    private synchronized List<byte[]> held(Chain chain, long after, CountDownLatch stop) throws InterruptedException {
        if (stop != null && frames(chain).higherKey(after) == null) {
            wait(PAUSE);
        }
        TreeMap<Long, Held> known = frames(chain);
        List<byte[]> found = new ArrayList<>();
        for (long next = after + 1; known.containsKey(next); next++) {
            found.add(known.get(next).frame);
        }
        if (caughtUp && found.isEmpty() && known.higherKey(after) != null) {
            throw new ChainException("delta " + (after + 1) + " of version " + chain.version + " of " + chain.model
                    + " is not in the topic, and later ones are");
        }
        return found;
    }

    private TreeMap<Long, Held> frames(Chain chain) {
        return frames.getOrDefault(chain, new TreeMap<>());
    }
}
