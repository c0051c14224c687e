package io.github.refitd.snapshot;

import java.io.IOException;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** What a reader asks of a version besides digests and golden events. keys null accepts unsigned ones. */
record Trust(Keys keys, boolean allowExpired, Supplier<Instant> now) {
    private static final int MAX_SIGNATURE_BYTES = 512;
    private static final double TOLERANCE = 1e-9; // of golden outputs, relative to 1 + |want|: sums are rounded

    /**
     * Reads, verifies, parses and tests the version that a pointer names, in this order: size of the manifest,
     * signature over its bytes, its digest, that it is the version that the pointer names, expiry, sizes and digests of
     * the files; and only then the files are parsed.
     */
    Model load(Files source, String model, Pointer pointer) throws IOException, InterruptedException {
        Head head = head(source, model, pointer);
        Manifest m = head.manifest;
        byte[] tensors = file(source, m, m.files.get(0));
        byte[] names = file(source, m, m.files.get(1));
        byte[] golden = file(source, m, m.files.get(2));
        m.checkPayload();
        byte[] trees = file(source, m, m.trees);
        byte[] tables = file(source, m, m.tables);
        Contents c = Contents.decode(m, tensors, names, trees, tables);
        byte[] together = file(source, m, m.coChoices);
        CoChoices coChoices = together == null ? null : new CoChoices(together, m.schema, c.vocabulary);
        Model loaded = new Model(m, c, head.signedBy, head.expires, coChoices);
        checkGolden(loaded, golden);
        return loaded;
    }

    /** Where the files of versions come from, as Source.read says. */
    interface Files {
        byte[] read(String model, long version, String name, long most) throws IOException, InterruptedException;
    }

    private record Head(Manifest manifest, String signedBy, Instant expires) {
    }

    /** Is load without parsing files, and without asking whether the version has expired. */
    void verifyFiles(Files source, String model, Pointer pointer) throws IOException, InterruptedException {
        Manifest m = new Trust(keys, true, now).head(source, model, pointer).manifest;
        for (Manifest.File f : m.files) {
            file(source, m, f);
        }
        for (Manifest.File f : Arrays.asList(m.trees, m.tables, m.coChoices)) {
            file(source, m, f);
        }
    }

    private Head head(Files source, String model, Pointer pointer) throws IOException, InterruptedException {
        long version = pointer.version();
        byte[] raw = read(source, model, version, "manifest.json", Manifest.MAX_BYTES);
        String signedBy = "";
        if (keys != null) {
            signedBy = keys.verifyManifest(raw, source.read(model, version, "manifest.sig", MAX_SIGNATURE_BYTES));
        }
        Manifest m = Manifest.decode(raw);
        if (!m.model.equals(model) || m.version != version) {
            throw new DigestException("the manifest is that of model " + m.model + " version " + m.version
                    + ": restore the directory");
        }
        if (!pointer.manifestDigest().isEmpty() && !pointer.manifestDigest().equals(m.digest)) {
            throw new DigestException("the alias names manifest " + pointer.manifestDigest() + ", version " + version
                    + " has " + m.digest + ": set the alias again");
        }
        Instant expires = pointer.expiry(m.expires);
        if (!allowExpired && expires != null && !now.get().isBefore(expires)) {
            throw new ExpiredException(
                    "version " + version + " was valid until " + expires + ": publish a new one");
        }
        m.checkFiles();
        return new Head(m, signedBy, expires);
    }

    private static byte[] read(Files source, String model, long version, String name, long most)
            throws IOException, InterruptedException {
        byte[] content = source.read(model, version, name, most);
        if (content == null) {
            throw new NotFoundException(name + ": the version is incomplete or was just pruned");
        }
        return content;
    }

    /** Returns a file that a version may have, verified; null for null. */
    static byte[] file(Files source, Manifest m, Manifest.File f) throws IOException, InterruptedException {
        if (f == null) {
            return null;
        }
        byte[] content = read(source, m.model, m.version, f.name(), f.size());
        f.verify(content);
        return content;
    }

    /** Throws GoldenException unless the events of golden.jsonl score as they were published. */
    private static void checkGolden(Model model, byte[] content) {
        String advice = ": use the build of refitd that wrote the version";
        List<int[]> lines = Contents.lines(content);
        for (int i = 0; i < lines.size(); i++) {
            String where = "golden.jsonl, line " + (i + 1);
            Fields f = new Fields(where, Json.parse(where, content, lines.get(i)[0], lines.get(i)[1]));
            double[] want = f.numbers("outputs");
            Map<String, Object> event = new Fields(where, f.value.get("event")).value;
            try {
                Events.parse(model.manifest.schema, event, "");
            } catch (InputException error) {
                throw new FormatException(where + ": " + error.getMessage());
            }
            Prediction found;
            try {
                found = model.predict(event);
            } catch (InputException error) {
                throw new GoldenException(where + ": " + error.getMessage());
            }
            boolean near = want.length == found.outputs().length;
            for (int c = 0; near && c < want.length; c++) {
                near = near(found.outputs()[c], want[c]);
            }
            if (!near) {
                throw new GoldenException(where + ": other outputs than those published" + advice);
            }
            // Names are not compared: outputs that are equal but for rounding may lie on either side of a tie.
            boolean number = f.value.get("prediction") instanceof Number && !model.schema().task.equals("binary");
            if (number && !near(found.value(), f.number("prediction"))) {
                throw new GoldenException(where + ": another prediction than that published" + advice);
            }
        }
        if (lines.isEmpty()) {
            throw new FormatException("golden.jsonl: no golden events");
        }
    }

    private static boolean near(double got, double want) {
        return Math.abs(got - want) <= TOLERANCE * (1 + Math.abs(want));
    }
}
