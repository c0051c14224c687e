package io.github.refitd.snapshot;

import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A store, or a synchronised copy of one. Paths do not leave the directory of the model, by ".." or by links. */
public final class DirSource implements Source {
    private static final long MAX_SEGMENT_BYTES = 128 << 20; // begun anew at 16 MiB; a delta takes 65 MiB at most

    private final Path store;
    private final Duration every; // mean pause between two looks; each is drawn from ±20 %
    private volatile Place place = new Place("", 0, 0, 0, 0); // of the version that deltas were asked of last

    /** Where a delta begins in the segments of a version, so that a look at them reads what came since the last one. */
    private record Place(String model, long version, long segment, long sequence, long offset) {
    }

    public DirSource(Path store, Duration every) {
        this.store = store;
        this.every = every;
    }

    @Override
    public Pointer alias(String model, String alias) throws IOException {
        Pointer.checkName("alias", alias);
        Path root = root(model);
        byte[] content = read(root, "aliases/" + alias, Pointer.MAX_BYTES, 0);
        if (content == null) {
            throw new NotFoundException("no alias " + alias + " of model " + model
                    + ": promote a version, or choose one by its number");
        }
        Pointer pointer = Pointer.decode(alias, content);
        try {
            return pointer.withRenewal(read(root, "renewals/" + alias, Pointer.MAX_BYTES, 0));
        } catch (SnapshotException | IOException error) {
            return pointer; // what is no renewal takes nothing from the alias
        }
    }

    private boolean pause(CountDownLatch stop) throws InterruptedException {
        double share = ThreadLocalRandom.current().nextDouble(0.8, 1.2);
        return stop.await((long) (every.toNanos() * share), TimeUnit.NANOSECONDS);
    }

    @Override
    public Pointer await(String model, String alias, Pointer last, CountDownLatch stop)
            throws IOException, InterruptedException {
        while (true) {
            Pointer pointer = alias(model, alias);
            if (!pointer.unchanged(last) || pause(stop)) {
                return pointer;
            }
        }
    }

    @Override
    public byte[] read(String model, long version, String name, long most) throws IOException {
        Path root = root(model);
        BasicFileAttributes kind = attributes(root.resolve(Long.toString(version)));
        if (kind == null) {
            throw new NotFoundException("no version " + version + ": it was pruned or never published");
        }
        if (!kind.isDirectory()) {
            throw new FormatException("version " + version + " is not a directory");
        }
        return read(root, version + "/" + name, most, 0);
    }

    @Override
    public List<byte[]> deltas(String model, long version, long after, CountDownLatch stop)
            throws IOException, InterruptedException {
        List<byte[]> frames = frames(model, version, after);
        if (!frames.isEmpty() || stop == null || pause(stop)) {
            return frames;
        }
        return frames(model, version, after);
    }

    /** Returns the whole deltas of one segment after a sequence. */
    private List<byte[]> frames(String model, long version, long after) throws IOException {
        Path root = root(model);
        if (!Files.isDirectory(root.resolve(Long.toString(version)))) {
            throw new NotFoundException("no version " + version + ": it was pruned or never published");
        }
        long[] segments = segments(root.resolve(version + "/deltas"));
        long[] before = Arrays.stream(segments).filter(s -> s <= after + 1).toArray();
        if (before.length == 0) {
            if (after > 0 || segments.length > 0) {
                throw new ChainException(
                        "delta " + (after + 1) + " of version " + version + " is not there, and none before it");
            }
            return List.of();
        }
        long segment = before[before.length - 1];
        String name = String.format(java.util.Locale.ROOT, "%d/deltas/%012d.seg", version, segment);
        Place from = place;
        boolean known = from.model.equals(model) && from.version == version && from.segment == segment
                && from.sequence <= after + 1;
        if (!known || from.offset > Files.size(root.resolve(name))) {
            from = new Place(model, version, segment, segment, 0);
        }
        byte[] content = read(root, name, MAX_SEGMENT_BYTES, from.offset);
        if (content == null) {
            return List.of();
        }
        List<byte[]> frames = new ArrayList<>();
        long sequence = from.sequence;
        long offset = from.offset;
        for (byte[] frame : Frames.split(content)) { // of one that is being written there may be a part
            if (sequence > after) {
                frames.add(frame);
            } else {
                offset += frame.length;
                sequence++;
            }
        }
        place = new Place(model, version, segment, sequence, offset);
        long newest = sequence + frames.size() - 1;
        if (frames.isEmpty() && (newest < after || segments.length > before.length)) {
            throw new ChainException("delta " + (after + 1) + " of version " + version
                    + " is not there, the newest before it is " + newest);
        }
        return frames;
    }

    private static long[] segments(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return new long[0];
        }
        try (Stream<Path> list = Files.list(folder)) {
            return list.map(p -> p.getFileName().toString()).filter(n -> n.matches("[0-9]{12}\\.seg"))
                    .mapToLong(n -> Long.parseLong(n.substring(0, 12))).sorted().toArray();
        }
    }

    private Path root(String model) throws IOException {
        Pointer.checkName("model", model);
        if (!Files.isDirectory(store)) {
            throw new NotFoundException("no store at " + store + ": check the path");
        }
        Path root = store.resolve(model);
        if (!Files.isDirectory(root)) {
            throw new NotFoundException(
                    "no model " + model + " in " + store + ": check the name, or publish a first version");
        }
        if (!root.toRealPath().startsWith(store.toRealPath())) {
            throw new FormatException("model " + model + ": its path leaves the store");
        }
        return root;
    }

    private static BasicFileAttributes attributes(Path path) throws IOException {
        try {
            return Files.readAttributes(path, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
        } catch (NoSuchFileException error) {
            return null;
        }
    }

    /** Reads a regular file of at most so many bytes, from an offset on; null if it is missing. */
    private static byte[] read(Path root, String name, long most, long offset) throws IOException {
        Path path = root.resolve(name);
        BasicFileAttributes kind = attributes(path); // before it is opened: opening a pipe would wait for its writer
        if (kind == null) {
            return null;
        }
        if (!kind.isRegularFile()) {
            throw new FormatException(name + ": not a regular file");
        }
        byte[] content;
        try {
            if (!path.toRealPath().startsWith(root.toRealPath())) {
                throw new FormatException(name + ": its path leaves the directory of the model");
            }
            Set<java.nio.file.OpenOption> options = Set.of(StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
            try (SeekableByteChannel file = Files.newByteChannel(path, options);
                    InputStream in = Channels.newInputStream(file.position(offset))) {
                if (file.size() - offset > most) {
                    throw new DigestException(name + ": " + file.size() + " bytes, at most " + most + " expected");
                }
                content = in.readNBytes((int) Math.min(most + 1, Integer.MAX_VALUE - 8));
            }
        } catch (NoSuchFileException error) {
            return null;
        }
        if (content.length > most) {
            throw new DigestException(name + ": more than the " + most + " bytes expected");
        }
        return content;
    }
}
