package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** A model to which deltas are applied. It takes O(model) once, whatever the number of deltas. */
final class Deltas {
    private final Model model;
    private final Contents contents;
    private final Set<Contents.Added> fresh = new HashSet<>();
    private final List<Delta> taken = new ArrayList<>();
    private Manifest manifest;
    private Position position;
    private long rows;

    /** The model after the deltas that were taken, and why the next one was refused; null for none. */
    record Applied(Model model, SnapshotException refused) {
    }

    private Deltas(Model model) {
        this.model = model;
        contents = model.contents.copy();
        contents.added = new ArrayList<>(contents.added);
        manifest = model.manifest;
        position = model.position();
        rows = manifest.numFeatures + contents.added.size();
    }

    /**
     * Returns the model after the deltas of frames, up to the first one that is refused: out of order or of another
     * chain (ChainException), with rows or names that it cannot have (ContentsException), or by Delta.decode.
     */
    static Applied apply(Model model, List<byte[]> frames, Keys keys) {
        Deltas state = new Deltas(model);
        SnapshotException refused = null;
        for (byte[] frame : frames) {
            try {
                state.take(Delta.decode(frame, model, keys));
            } catch (SnapshotException error) {
                refused = error;
                break;
            }
        }
        return new Applied(state.result(), refused);
    }

    /** Checks that a delta follows, and keeps it. */
    private void take(Delta d) {
        String where = "delta " + d.sequence + " of " + d.model + " version " + d.base;
        checkChain(d, where);
        int known = d.columns.length - d.added.size();
        if (known > 0 && d.columns[known - 1] >= rows || !d.added.isEmpty() && d.columns[known] != rows) {
            throw new ContentsException(where + ": its columns are not those of the model, which has " + rows);
        }
        Set<Contents.Added> names = new HashSet<>(d.added);
        boolean there = d.added.stream()
                .anyMatch(a -> fresh.contains(a) || model.columns.column(a.field(), a.name()) >= 0);
        if (names.size() != d.added.size() || there) {
            throw new ContentsException(where + ": a name is added that the model has");
        }
        FoldIn foldIn = manifest.foldIn;
        if (d.losses != null && foldIn != null) {
            foldIn = foldIn.with(d.losses);
        }
        long after = rows + d.added.size();
        long total = after * (manifest.numBasis + (contents.linear == null ? 0 : manifest.numOutputs))
                + contents.weights.length + contents.bias.length;
        if (total > Manifest.MAX_MODEL_BYTES / 8) {
            throw new ContentsException(
                    where + ": " + total + " parameters, the limit is " + Manifest.MAX_MODEL_BYTES / 8);
        }
        if (d.weights != null && foldIn != null) {
            try {
                foldIn.check(manifest, d.weights);
            } catch (FormatException error) {
                throw new ContentsException(where + ": " + error.getMessage());
            }
        }
        contents.bias = d.bias == null ? contents.bias : d.bias;
        contents.weights = d.weights == null ? contents.weights : d.weights;
        contents.mapWeights = d.mapWeights == null || contents.mapWeights == null ? contents.mapWeights : d.mapWeights;
        contents.added.addAll(d.added);
        contents.trees = d.trees == null ? contents.trees : d.trees;
        Manifest.File file = d.trees == null ? manifest.trees : d.treesFile;
        manifest = foldIn == manifest.foldIn && file == manifest.trees ? manifest : manifest.with(foldIn, file);
        rows = after;
        fresh.addAll(names);
        position = new Position(position.version(), d.sequence, d.digest, d.payloadDigest, d.created,
                d.watermark == null ? position.watermark() : d.watermark);
        taken.add(d);
    }

    private void checkChain(Delta d, String where) {
        Manifest m = manifest;
        if (!d.model.equals(m.model) || d.base != m.version || !d.baseDigest.equals(m.digest)) {
            throw new ChainException(where + " does not belong to " + m.model + " version " + m.version
                    + " with manifest " + m.digest + ": take the deltas of that version");
        }
        if (d.sequence != position.sequence() + 1) {
            throw new ChainException(
                    where + ": the model is at delta " + position.sequence() + ": take the one after it");
        }
        if (!d.previous.equals(position.digest())) {
            throw new ChainException(where + " follows " + d.previous + ", the model is at " + position.digest()
                    + ": read the version again, and its deltas from the first");
        }
    }

    /** Returns the model after the deltas taken. */
    private Model result() {
        if (taken.isEmpty()) {
            return model;
        }
        int k = manifest.numBasis;
        int m = manifest.numOutputs;
        contents.basis = Arrays.copyOf(contents.basis, (int) rows * k);
        contents.linear = contents.linear == null ? null : Arrays.copyOf(contents.linear, (int) rows * m);
        List<Tables.Change> changes = new ArrayList<>();
        for (Delta d : taken) {
            for (int i = 0; i < d.columns.length; i++) {
                int column = (int) d.columns[i];
                System.arraycopy(d.basis[i], 0, contents.basis, column * k, k);
                if (contents.linear != null) {
                    System.arraycopy(d.linear[i], 0, contents.linear, column * m, m);
                }
            }
            changes.addAll(d.tableRows);
        }
        if (contents.known != null && !changes.isEmpty()) {
            contents.known = contents.known.changed(changes);
        }
        return new Model(model, manifest, contents, position);
    }
}
