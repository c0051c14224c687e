package io.github.refitd.snapshot;

import java.time.Instant;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The manifest of a version: what it is, where it comes from, and the digests of its files. It never changes. */
final class Manifest {
    static final int FORMAT_VERSION = 8; // the newest version of the format that this build reads
    static final int MAX_BYTES = 64 << 10;
    static final int MAX_MODEL_BYTES = 256 << 20;
    private static final int DEGREE_FORMAT = 5; // of kernels of degree 3
    private static final int MAX_CUT_BYTES = 32 << 20;
    private static final int MAX_TABLES_BYTES = 1 << 30;
    private static final byte[] TAIL = Json.bytes("  \"manifest_digest\": \"sha256:");
    private static final byte[] END = Json.bytes("\"\n}\n");
    private static final String[] NAMES = {"model.safetensors", "vocabulary", "golden.jsonl"};
    private static final int[] MOST = {MAX_MODEL_BYTES + (1 << 10), 256 << 20, 16 << 20};
    private static final Map<String, List<String>> LINKS = Map.of("binary", List.of("logistic"), "ordinal",
            List.of("ordinal"), "multiclass", List.of("logistic", "softmax"), "multilabel", List.of("logistic"));

    Map<String, Object> fields;
    String digest;
    String model;
    long version;
    Instant created;
    Instant expires;
    Instant watermark;
    String kernel;
    int degree;
    String link;
    int numFeatures;
    int numOutputs;
    int numBasis;
    double outputLimit;
    Schema schema;
    FoldIn foldIn;
    String noFoldIn;
    List<File> files;
    File cutFile;
    File coChoices;
    File trees;
    File tables;
    String payloadDigest;

    /** One file of a version, as the manifest vouches for it. */
    record File(String name, long size, String sha256) {
        /** Throws DigestException unless the content is what was published. */
        void verify(byte[] content) {
            String found = Json.sha256(content);
            if (content.length != size || !found.equals(sha256)) {
                throw new DigestException(name + ": " + content.length + " bytes with SHA-256 " + found
                        + ", published with " + size + " bytes and " + sha256
                        + ": restore the file or take another version");
            }
        }
    }

    private Manifest() {
    }

    /** Checks the digest of a manifest before it reads it. Unknown fields are passed over: the format may grow. */
    static Manifest decode(byte[] content) {
        String what = "manifest.json";
        int cut = content.length - TAIL.length - 64 - END.length;
        if (cut < 0 || content.length > MAX_BYTES) {
            throw new DigestException(what + " of " + content.length + " bytes: publish the version again");
        }
        String digest = Json.sha256(content, 0, cut);
        byte[] tail = Json.bytes(new String(TAIL) + digest + new String(END));
        if (!Arrays.equals(content, cut, content.length, tail, 0, tail.length)) {
            throw new DigestException(what + " does not end in the digest of the bytes before it, sha256:" + digest
                    + ": take another version or publish again");
        }
        Fields f = new Fields(what, Json.parse(what, content));
        long version = f.whole("format");
        if (version > FORMAT_VERSION) {
            throw new FormatException(what + ": format " + version + " is newer than this build, which reads 1 to "
                    + FORMAT_VERSION + ": use a newer build of this package");
        }
        if (version < 1) {
            throw new FormatException(what + ": format " + version + ", this build reads 1 to " + FORMAT_VERSION
                    + ": publish the version again");
        }
        Manifest m = new Manifest();
        m.digest = "sha256:" + digest;
        m.read(f);
        m.checkFormat(version);
        return m;
    }

    private void read(Fields f) {
        schema = new Schema(new Fields("schema", f.has("schema") ? f.value.get("schema") : Map.of()));
        fields = settled(f.value);
        model = f.text("model");
        version = f.whole("version");
        created = f.time("created");
        expires = f.time("expires");
        watermark = f.time("event_time_watermark");
        kernel = f.text("kernel");
        degree = f.size("degree");
        link = f.text("link");
        numFeatures = f.size("features");
        numOutputs = f.size("outputs");
        numBasis = f.size("k");
        outputLimit = f.number("output_limit");
        foldIn = FoldIn.read(f);
        noFoldIn = f.text("no_fold_in");
        files = f.objects("files").stream().map(Manifest::file).toList();
        cutFile = file(f, "cut_file");
        coChoices = file(f, "co_choices");
        trees = file(f, "trees");
        tables = file(f, "tables");
        payloadDigest = f.text("payload_digest");
    }

    private void checkFormat(long version) {
        int needs = Math.max(degree > 2 ? DEGREE_FORMAT : 1, schema.format());
        needs = Math.max(needs, trees == null ? 1 : 7);
        needs = Math.max(needs, tables == null ? 1 : 8);
        if (version < needs) {
            throw new FormatException("manifest.json: what the version has is of format " + needs + ", not " + version
                    + ": publish it again");
        }
    }

    private static File file(Fields f) {
        return new File(f.text("name"), f.whole("bytes"), f.text("sha256"));
    }

    private static File file(Fields f, String name) {
        return f.has(name) ? file(new Fields("manifest.json: " + name, f.value.get(name))) : null;
    }

    /** Says the form of a version whose trainer did not, and leaves out the gap where that was of the convex stage. */
    private static Map<String, Object> settled(Map<String, Object> fields) {
        Map<String, Object> settled = new LinkedHashMap<>(fields);
        Object kind = fields.get("kind");
        boolean said = fields.get("form") instanceof String form && !form.isEmpty();
        if (!said && ("refit".equals(kind) || "update".equals(kind))) {
            boolean swept = fields.get("sweeps") instanceof Long n && n > 0
                    || fields.get("solver") instanceof String solver && solver.contains("variational");
            settled.put("form", kind.equals("update") ? "update" : swept ? "variational" : "convex");
        }
        Object form = settled.get("form");
        if ("variational".equals(form) || "update".equals(form)) {
            List.of("gap_kind", "gap_limit", "nuclear_norm").forEach(settled::remove);
            for (String name : List.of("gap", "gap_relative", "basis_gap", "basis_gap_relative")) {
                settled.put(name, null);
            }
        }
        return Collections.unmodifiableMap(settled);
    }

    /** Clips finite outputs to output_limit. */
    void limit(double[] o) {
        for (int c = 0; outputLimit > 0 && c < o.length; c++) {
            o[c] = Math.min(Math.max(o[c], -outputLimit), outputLimit);
        }
    }

    /** Throws FormatException unless the files are those of the format, within its limits. */
    void checkFiles() {
        if (files.size() != NAMES.length) {
            throw new FormatException("manifest.json: " + files.size() + " files, want " + NAMES.length);
        }
        for (int i = 0; i < NAMES.length; i++) {
            check(files.get(i), NAMES[i], 0, MOST[i]);
        }
        check(coChoices, CoChoices.FILE, 1, CoChoices.MAX_BYTES);
        check(trees, Trees.FILE, 1, Trees.MAX_BYTES);
        check(tables, Tables.FILE, 1, MAX_TABLES_BYTES);
        check(cutFile, "cut.json", 0, MAX_CUT_BYTES);
    }

    private static void check(File f, String name, int least, int most) {
        if (f != null && (!f.name.equals(name) || f.size < least || f.size > most)) {
            throw new FormatException("manifest.json: file '" + f.name + "' of " + f.size + " bytes, want " + name
                    + " of at most " + most);
        }
    }

    /** Returns the digest of all that scores depend on, given those of the files in hex; null is a file less. */
    String payloadDigestOf(int features, String tensors, String names, String tablesSum) {
        Map<String, Object> head = new LinkedHashMap<>();
        head.put("kernel", kernel);
        head.put("degree", (long) degree);
        head.put("link", link);
        head.put("features", (long) features);
        head.put("outputs", (long) numOutputs);
        head.put("k", (long) numBasis);
        head.put("schema", schema.digested);
        String text = Json.write(head) + "\n" + tensors + "\n" + names + "\n";
        text += trees == null ? "" : trees.sha256 + "\n";
        text += tablesSum == null ? "" : "tables " + tablesSum + "\n";
        return "sha256:" + Json.sha256(Json.bytes(text));
    }

    /** Throws DigestException unless that digest is that of fields and files, FormatException of a newer format. */
    void checkPayload() {
        String found = payloadDigestOf(numFeatures, files.get(0).sha256, files.get(1).sha256,
                tables == null ? null : tables.sha256);
        if (!found.equals(payloadDigest) && !schema.unknown.isEmpty()) {
            throw new FormatException("manifest.json: this build does not know " + String.join(", ", schema.unknown)
                    + ", on which scores depend: the version is of a newer format: use a newer build of this package");
        }
        if (!found.equals(payloadDigest)) {
            throw new DigestException(
                    "manifest.json: payload_digest is " + payloadDigest + ", the files have " + found);
        }
    }

    /** Throws FormatException unless schema, kernel, link and the three sizes belong together. */
    void checkShape() {
        schema.check();
        if (!kernel.equals("anova") && !kernel.equals("homogeneous")) {
            throw new FormatException("manifest.json: kernel '" + kernel + "' is not anova or homogeneous");
        }
        if (degree != 2 && degree != 3) {
            throw new FormatException(
                    "manifest.json: kernel of degree " + degree + ": this build has degrees 2 and 3");
        }
        if (numFeatures < 0 || numOutputs < 1 || numOutputs > Schema.MAX_OUTPUTS || numBasis < 0) {
            throw new FormatException("manifest.json: " + numFeatures + " features, " + numOutputs + " outputs, "
                    + numBasis + " basis vectors: out of range");
        }
        String task = schema.task;
        if (!link.equals("identity") && !LINKS.getOrDefault(task, List.of()).contains(link)) {
            throw new FormatException("manifest.json: link '" + link + "' does not go with task " + task);
        }
        int want = 1;
        if (task.equals("multiclass") || task.equals("multilabel")) {
            want = schema.classes.size();
        } else if (link.equals("ordinal")) {
            want = schema.levels - 1;
        }
        if (numOutputs != want) {
            throw new FormatException("manifest.json: " + numOutputs + " outputs, task " + task + " with link " + link
                    + " has " + want);
        }
    }

    /** Returns it with another fold-in and the file of other trees. */
    Manifest with(FoldIn other, File rules) {
        Manifest m = new Manifest();
        m.fields = fields;
        m.digest = digest;
        m.model = model;
        m.version = version;
        m.created = created;
        m.expires = expires;
        m.watermark = watermark;
        m.kernel = kernel;
        m.degree = degree;
        m.link = link;
        m.numFeatures = numFeatures;
        m.numOutputs = numOutputs;
        m.numBasis = numBasis;
        m.outputLimit = outputLimit;
        m.schema = schema;
        m.foldIn = other;
        m.noFoldIn = noFoldIn;
        m.files = files;
        m.cutFile = cutFile;
        m.coChoices = coChoices;
        m.trees = rules;
        m.tables = tables;
        m.payloadDigest = payloadDigest;
        return m;
    }
}
