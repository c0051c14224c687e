package io.github.refitd.snapshot;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The parameters of a model, in doubles whatever type they are stored in, and its names. Arrays are row by row. */
final class Contents implements Cloneable {
    double[] basis; // d×k
    double[] weights; // k×m
    double[] linear; // d×m; null for none
    double[] bias; // m
    double[] mapWeights; // D×m; null for none
    Map<String, double[]> tensors = new LinkedHashMap<>(); // of a feature map
    List<List<String>> vocabulary; // names per field of Schema.named, in column order
    List<Added> added = List.of(); // columns that deltas added behind all others
    boolean single; // stored as F32
    Trees trees;
    Tables known;

    /** A name that a delta adds to a field of Schema.named. */
    record Added(int field, String name) {
    }

    /** A tensor of the file. */
    record Tensor(String name, long... shape) {
        long size() {
            long size = 1;
            for (long n : shape) {
                size *= n;
            }
            return size;
        }
    }

    Contents copy() {
        try {
            return (Contents) clone();
        } catch (CloneNotSupportedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Returns the tensors of a shape in the order of the file. */
    static List<Tensor> tensorsOf(Manifest m, long features, boolean linear) {
        List<Tensor> found = new ArrayList<>(List.of(new Tensor("basis", features, m.numBasis),
                new Tensor("weights", m.numBasis, m.numOutputs)));
        if (linear) {
            found.add(new Tensor("linear", features, m.numOutputs));
        }
        found.add(new Tensor("bias", m.numOutputs));
        Schema.FeatureMap map = m.schema.featureMap;
        if (map != null) {
            int p = map.scales().length;
            found.add(new Tensor("map_weights", map.columns(), m.numOutputs));
            if (map.kind().equals("bins")) {
                found.add(new Tensor("map_edges", p, map.count() - 1));
            } else if (map.kind().equals("fourier")) {
                found.add(new Tensor("map_frequencies", map.count(), p));
                found.add(new Tensor("map_phases", map.count()));
            }
        }
        return found;
    }

    /** Returns the one header that a shape has. */
    static byte[] header(List<Tensor> tensors, boolean single) {
        double total = 0;
        for (Tensor t : tensors) {
            double size = 1;
            for (long n : t.shape) {
                size *= n;
            }
            total += size;
        }
        if (total > Manifest.MAX_MODEL_BYTES / 8) {
            throw new FormatException("model.safetensors: " + total + " parameters, the limit is "
                    + Manifest.MAX_MODEL_BYTES / 8);
        }
        StringBuilder text = new StringBuilder("{\"__metadata__\":{\"format\":\"refitd 1\"}");
        long offset = 0;
        for (Tensor t : tensors) {
            long end = offset + (single ? 4 : 8) * t.size();
            text.append(",\"").append(t.name).append("\":{\"dtype\":\"").append(single ? "F32" : "F64")
                    .append("\",\"shape\":").append(Arrays.toString(t.shape).replace(" ", ""))
                    .append(",\"data_offsets\":[").append(offset).append(',').append(end).append("]}");
            offset = end;
        }
        text.append('}');
        while (text.length() % 8 != 0) {
            text.append(' ');
        }
        return ByteBuffer.allocate(8 + text.length()).order(ByteOrder.LITTLE_ENDIAN).putLong(text.length())
                .put(Json.bytes(text.toString())).array();
    }

    /** Reads model.safetensors, which has the one header of the shape that the manifest says. */
    private Map<String, double[]> decodeTensors(Manifest m, byte[] content) {
        for (boolean isSingle : new boolean[] {false, true}) {
            for (boolean withLinear : new boolean[] {false, true}) {
                List<Tensor> list = tensorsOf(m, m.numFeatures, withLinear);
                byte[] header = header(list, isSingle);
                int n = header.length;
                if (content.length < n || !Arrays.equals(header, 0, n, content, 0, n)) {
                    continue;
                }
                single = isSingle;
                long want = n + (isSingle ? 4 : 8) * list.stream().mapToLong(Tensor::size).sum();
                if (content.length != want) {
                    throw new FormatException("model.safetensors: " + content.length + " bytes, want " + want);
                }
                ByteBuffer in = ByteBuffer.wrap(content, n, content.length - n).order(ByteOrder.LITTLE_ENDIAN);
                Map<String, double[]> found = new LinkedHashMap<>();
                for (Tensor t : list) {
                    found.put(t.name, numbers("model.safetensors: " + t.name, in, (int) t.size(), isSingle));
                }
                return found;
            }
        }
        throw new FormatException("model.safetensors: the header is not the one of " + m.numFeatures + " features, "
                + m.numOutputs + " outputs and " + m.numBasis + " basis vectors in F64 or F32");
    }

    /** Reads numbers, which have to be finite. */
    static double[] numbers(String what, ByteBuffer in, int count, boolean single) {
        double[] found = new double[count];
        for (int i = 0; i < count; i++) {
            found[i] = single ? in.getFloat() : in.getDouble();
            if (!Double.isFinite(found[i])) {
                throw new FormatException(what + " has a number that is not finite");
            }
        }
        return found;
    }

    /** Returns begin and end of each line; what follows the last end of a line is one more, unless it is empty. */
    static List<int[]> lines(byte[] content) {
        List<int[]> found = new ArrayList<>();
        for (int at = 0; at < content.length;) {
            int end = find(content, (byte) '\n', at);
            end = end < 0 ? content.length : end;
            found.add(new int[] {at, end});
            at = end + 1;
        }
        return found;
    }

    static int find(byte[] content, byte b, int at) {
        for (; at < content.length; at++) {
            if (content[at] == b) {
                return at;
            }
        }
        return -1;
    }

    /** Reads the lines ["field","name"], whose fields are in the order of the schema. */
    private static List<List<String>> decodeVocabulary(Manifest m, byte[] content) {
        if (content.length > 0 && content[content.length - 1] != '\n') {
            throw new FormatException("vocabulary: the last line has no end");
        }
        List<String> order = m.schema.named;
        List<List<String>> names = new ArrayList<>();
        order.forEach(field -> names.add(new ArrayList<>()));
        int at = 0;
        int number = 0;
        for (int[] line : lines(content)) {
            String where = "vocabulary, line " + ++number;
            Added pair = pair(where, Json.parse(where, content, line[0], line[1]), order);
            if (pair.field < at) {
                throw new FormatException(where + ": the fields are not in the order of the schema");
            }
            at = pair.field;
            names.get(at).add(pair.name);
        }
        return names;
    }

    /** Reads ["field","name"]. */
    static Added pair(String where, Object value, List<String> order) {
        if (!(value instanceof List<?> pair) || pair.size() != 2 || !(pair.get(1) instanceof String name)
                || !(pair.get(0) instanceof String field) || !order.contains(field)) {
            throw new FormatException(where + ": want [\"field\",\"name\"] with a field of the vocabulary");
        }
        return new Added(order.indexOf(field), name);
    }

    /**
     * Reads parameters and names, and trees and tables, null for none. Throws FormatException unless they fit each
     * other and the manifest.
     */
    static Contents decode(Manifest m, byte[] tensors, byte[] names, byte[] trees, byte[] tables) {
        m.checkShape();
        Contents c = new Contents();
        Map<String, double[]> found = c.decodeTensors(m, tensors);
        c.vocabulary = decodeVocabulary(m, names);
        long columns = m.schema.numExtra() + c.vocabulary.stream().mapToLong(List::size).sum();
        if (columns != m.numFeatures) {
            throw new FormatException(
                    m.numFeatures + " features, but vocabulary and schema have " + columns + " columns");
        }
        for (List<String> list : c.vocabulary) {
            if (list.contains("") || new HashSet<>(list).size() != list.size()) {
                throw new FormatException("vocabulary: a field has an empty or repeated name");
            }
        }
        c.basis = found.remove("basis");
        c.weights = found.remove("weights");
        c.linear = found.remove("linear");
        c.bias = found.remove("bias");
        c.mapWeights = found.remove("map_weights");
        c.tensors = found;
        c.trees = trees == null ? null : Trees.decode(trees, m.schema, m.numOutputs);
        c.check(m);
        c.known = tables == null ? null : Tables.decode(tables, m.schema);
        return c;
    }

    private void check(Manifest m) {
        double[] edges = tensors.get("map_edges");
        for (int i = 1; edges != null && i < edges.length; i++) {
            if (i % (m.schema.featureMap.count() - 1) != 0 && edges[i] < edges[i - 1]) {
                throw new FormatException("map_edges: an edge is less than the one before");
            }
        }
        boolean said = any(weights) || any(linear) || any(bias) || any(mapWeights);
        said = said || trees != null && trees.trees.stream().anyMatch(tree -> any(tree.leaves()));
        if (!m.link.equals("identity") && !said) {
            throw new FormatException("all weights, linear terms and biases are zero: the model says nothing");
        }
        if (m.foldIn != null) {
            m.foldIn.check(m, weights);
        }
    }

    private static boolean any(double[] values) {
        return values != null && Arrays.stream(values).anyMatch(v -> v != 0);
    }
}
