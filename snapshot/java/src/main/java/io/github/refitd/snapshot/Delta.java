package io.github.refitd.snapshot;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** What changed in a model since its version, or the delta before; its values are absolute. null is unchanged. */
final class Delta {
    String model;
    long base; // version that the chain belongs to
    String baseDigest;
    long sequence;
    String previous; // digest of the delta before; baseDigest for the first
    String digest;
    Instant created;
    Instant watermark;
    String payloadDigest; // of the model after it; "" where it does not say
    List<Contents.Added> added = new ArrayList<>(); // whose columns follow all others
    List<Tables.Change> tableRows = new ArrayList<>();
    Trees trees;
    Manifest.File treesFile; // of the trees, as the manifest would have it
    long[] columns; // changed rows, ascending; the last ones are those of added
    double[][] linear;
    double[][] basis;
    double[] bias;
    double[] weights;
    double[] mapWeights;
    double[][] losses; // of the fields of the fold-in

    private Delta() {
    }

    /**
     * Reads one frame for models of the shape of a model. Lengths, digests and the signature, unless keys is null, are
     * verified before the payload is parsed. Throws FormatException, DigestException or SignatureException.
     */
    static Delta decode(byte[] frame, Model shape, Keys keys) {
        Delta d = new Delta();
        Fields f = d.head(frame, keys);
        int begin = Frames.FIXED + Frames.headerBytes(frame, 0);
        int end = begin + (int) f.whole("payload_bytes");
        int at = d.names((int) f.whole("added"), frame, begin, end, shape.manifest.schema);
        at = d.tableRows((int) f.whole("table_rows"), frame, at, end, shape.contents.known);
        at = d.readTrees((int) f.whole("trees_bytes"), frame, at, end, shape);
        d.numbers(f, ByteBuffer.wrap(frame, at, end - at).order(ByteOrder.LITTLE_ENDIAN), shape);
        d.readLosses(f, shape.manifest.foldIn);
        return d;
    }

    /** Is decode of what the header says alone. */
    static Delta decodeHeader(byte[] frame, Keys keys) {
        Delta d = new Delta();
        d.head(frame, keys);
        return d;
    }

    private Fields head(byte[] frame, Keys keys) {
        if (Frames.end(frame, 0) != frame.length) {
            throw new FormatException("delta: " + frame.length + " bytes are not one frame");
        }
        int begin = Frames.FIXED + Frames.headerBytes(frame, 0);
        Fields f = Frames.header(frame, 0, begin);
        int end = begin + (int) f.whole("payload_bytes");
        sequence = f.whole("sequence");
        base = f.whole("base");
        byte[] head = Arrays.copyOfRange(frame, Frames.FIXED, begin);
        if (keys != null) {
            byte[] text = ByteBuffer.allocate(Frames.SIGNED.length + head.length).put(Frames.SIGNED).put(head).array();
            keys.verify("delta " + sequence + " of version " + base, f.text("key_id"), text,
                    Arrays.copyOfRange(frame, end, frame.length));
        }
        if (!Json.sha256(frame, begin, end).equals(f.text("payload_sha256"))) {
            throw new DigestException(
                    "payload of delta " + sequence + ": it was altered: take it from the publisher again");
        }
        if (sequence < 1 || base < 0) {
            throw new FormatException("delta " + sequence + " after version " + base + ": they count from 1");
        }
        model = f.text("model");
        baseDigest = f.text("base_digest");
        previous = f.text("previous");
        digest = "sha256:" + Json.sha256(head);
        created = f.time("created");
        watermark = f.time("event_time_watermark");
        payloadDigest = checked(f);
        return f;
    }

    private String checked(Fields f) {
        Fields said = new Fields("delta: checked", f.has("checked") ? f.value.get("checked") : Map.of());
        long at = said.whole("sequence");
        String text = said.text("payload_digest");
        if (!said.value.isEmpty() && (at < 0 || at > sequence || text.isEmpty())) {
            throw new FormatException("delta " + sequence + ": checked: " + said.value);
        }
        return at == sequence ? text : "";
    }

    private static int line(byte[] frame, int at, int end, String what) {
        int found = Contents.find(frame, (byte) '\n', at);
        if (found < 0 || found >= end) {
            throw new FormatException("delta: fewer " + what + " than its header says");
        }
        return found;
    }

    /** Reads the names added, and returns where what follows them begins. */
    private int names(int count, byte[] frame, int begin, int end, Schema schema) {
        int at = begin;
        for (int i = 0; i < count; i++) {
            int stop = line(frame, at, end, "names");
            String what = "delta: added name " + i;
            Contents.Added name = Contents.pair(what, Json.parse(what, frame, at, stop), schema.named);
            if (name.name().isEmpty()) {
                throw new FormatException(what + ": it is empty");
            }
            added.add(name);
            at = stop + 1;
        }
        return at;
    }

    /** Reads rows of tables, which ascend by table and name, and returns where what follows them begins. */
    private int tableRows(int count, byte[] frame, int begin, int end, Tables known) {
        Tables tables = known == null ? new Tables(List.of()) : known;
        int at = begin;
        Tables.Change last = null;
        for (int i = 0; i < count; i++) {
            int stop = line(frame, at, end, "rows of tables");
            String what = "delta: row " + i + " of tables";
            Tables.Change row = tables.decodeRow(what, Json.parse(what, frame, at, stop));
            boolean behind = last == null || last.table() < row.table() || last.table() == row.table()
                    && Table.BY_CODE_POINT.compare(last.name(), row.name()) < 0;
            if (!behind) {
                throw new FormatException(what + " is not behind the one before, by table and name");
            }
            tableRows.add(row);
            last = row;
            at = stop + 1;
        }
        return at;
    }

    /** Reads trees of so many bytes, if there are any, and returns where what follows them begins. */
    private int readTrees(int size, byte[] frame, int at, int end, Model shape) {
        if (size > end - at || size > 0 && shape.contents.trees == null) {
            throw new FormatException("delta " + sequence + ": " + size + " bytes of trees in " + (end - at)
                    + " bytes, of a version without them or too short");
        }
        if (size > 0) {
            byte[] content = Arrays.copyOfRange(frame, at, at + size);
            trees = Trees.decode(content, shape.manifest.schema, shape.manifest.numOutputs);
            treesFile = new Manifest.File(Trees.FILE, size, Json.sha256(content));
        }
        return at + size;
    }

    private void numbers(Fields f, ByteBuffer in, Model shape) {
        Contents c = shape.contents;
        int rows = (int) f.whole("rows");
        int m = shape.manifest.numOutputs;
        int k = shape.manifest.numBasis;
        int width = c.linear == null ? 0 : m;
        int size = c.single ? 4 : 8;
        int mapped = c.mapWeights == null ? 0 : c.mapWeights.length;
        long others = (f.flag("bias") ? m : 0) + (f.flag("weights") ? (long) k * m : 0)
                + (f.flag("map_weights") ? mapped : 0);
        long want = rows * (4 + (long) size * (width + k)) + size * others;
        if (in.remaining() != want) {
            throw new FormatException("delta " + sequence + ": " + in.remaining() + " bytes of numbers for " + rows
                    + " rows, want " + want);
        }
        String what = "delta " + sequence;
        columns = new long[rows];
        linear = new double[rows][];
        basis = new double[rows][];
        for (int i = 0; i < rows; i++) {
            columns[i] = in.getInt() & 0xffffffffL;
            linear[i] = Contents.numbers(what, in, width, c.single);
            basis[i] = Contents.numbers(what, in, k, c.single);
        }
        bias = f.flag("bias") ? Contents.numbers(what, in, m, c.single) : null;
        weights = f.flag("weights") ? Contents.numbers(what, in, k * m, c.single) : null;
        mapWeights = f.flag("map_weights") ? Contents.numbers(what, in, mapped, c.single) : null;
        for (int i = 0; i < rows; i++) {
            if (columns[i] > Integer.MAX_VALUE || i > 0 && columns[i] <= columns[i - 1]) {
                throw new FormatException(what + ": its columns do not ascend");
            }
        }
        int known = rows - added.size();
        if (known < 0 || !added.isEmpty() && columns[rows - 1] - columns[known] != added.size() - 1) {
            throw new FormatException(what + ": " + added.size() + " names are added with " + rows
                    + " rows: the last rows have to be theirs");
        }
    }

    private void readLosses(Fields f, FoldIn foldIn) {
        if (!f.has("fold_in_losses")) {
            return;
        }
        List<Object> parts = f.items("fold_in_losses");
        List<FoldIn.Field> fields = foldIn == null ? List.of() : foldIn.fields();
        boolean fits = parts.size() == fields.size();
        losses = new double[parts.size()][];
        for (int i = 0; i < parts.size(); i++) {
            losses[i] = new Fields("delta", java.util.Collections.singletonMap("losses", parts.get(i)))
                    .numbers("losses");
            fits = fits && losses[i].length == fields.get(i).rates().length;
        }
        if (!fits) {
            throw new FormatException("delta " + sequence + ": losses of the rates of " + parts.size()
                    + " fields of the fold-in, which the version has otherwise");
        }
    }
}
