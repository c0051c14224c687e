package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Names the fields of an event, what is predicted, and how fields become columns: the names of each categorical field,
 * those of each cross, those of each multi field, one for each numeric field, and a constant one if augment is set.
 */
public final class Schema {
    static final String CROSS_SIGN = "×";
    static final int MAX_OUTPUTS = 1 << 16;
    private static final int MAX_MAP_COLUMNS = 1 << 20;
    private static final int PRODUCT_DEGREE = 2;
    // Members that change no score, and that the digest of the payload leaves out.
    private static final Set<String> UNSCORED = Set.of("optional", "derived");

    /** regression, binary, multiclass, multilabel or ordinal. */
    public final String task;
    public final String label;
    public final int levels;
    public final List<String> classes;
    public final List<String> categorical;
    public final List<String> multi;
    public final List<NumericField> numeric;
    /** Fields that an event may lack; null lets it lack any. */
    public final List<String> optional;
    final List<String> multiWeights;
    final boolean augment;
    final List<List<String>> cross;
    final FeatureMap featureMap;
    final String positive;
    final String negative;
    final Map<String, Object> digested;
    final List<String> unknown;
    /** The fields of the vocabulary in the order of columns. */
    final List<String> named;

    /** A number that becomes (value - center) / scale, within ±clip unless that is 0. */
    public record NumericField(String name, double center, double scale, double clip) {
        double scaled(double value) {
            double x = (value - center) / scale;
            return clip > 0 ? Math.min(Math.max(x, -clip), clip) : x;
        }
    }

    /** What makes further columns of the numeric fields: random Fourier features, bins or products. */
    record FeatureMap(String kind, int count, double clip, double[] centers, double[] scales) {
        int columns() {
            int p = scales.length;
            return switch (kind) {
                case "bins" -> p * count;
                case "products" -> p * (p + 3) / 2;
                default -> count;
            };
        }

        void check(int fields) {
            String where = "schema.feature_map: ";
            if (!Set.of("fourier", "bins", "products").contains(kind)) {
                throw new FormatException(where + "kind '" + kind + "' is not fourier, bins or products");
            }
            if (fields == 0 || scales.length != fields) {
                throw new FormatException(
                        where + "scaling of " + scales.length + " fields, the schema has " + fields + " numeric ones");
            }
            int most = MAX_MAP_COLUMNS / fields;
            if (count < 2 || count > most) {
                throw new FormatException(
                        where + "count is " + count + ", a map of " + fields + " fields has 2 to " + most);
            }
            if (kind.equals("products") && (count != PRODUCT_DEGREE || fields > most)) {
                throw new FormatException(where + "products of degree " + count + " of " + fields + " fields");
            }
            if (!(clip > 0)) {
                throw new FormatException(where + "clip " + clip + " has to be positive");
            }
            for (double scale : scales) {
                if (!(scale > 0)) {
                    throw new FormatException(where + "scale " + scale + " has to be positive");
                }
            }
        }
    }

    /**
     * Reads the schema of a manifest; check says whether it is sound. The digest of the payload covers the members as
     * the manifest has them, so no member that is read here can be missing there.
     */
    Schema(Fields f) {
        numeric = f.objects("numeric").stream().map(n -> new NumericField(n.text("name"), n.number("center"),
                n.number("scale"), n.number("clip"))).toList();
        featureMap = mapOf(f.object("feature_map"));
        cross = new ArrayList<>();
        for (Object parts : f.items("cross")) {
            if (!(parts instanceof List<?> list)) {
                throw new FormatException("schema.cross: not lists of texts");
            }
            cross.add(f.textsOf("cross", list));
        }
        optional = f.has("optional") ? f.texts("optional") : null;
        task = f.text("task");
        label = f.text("label");
        levels = f.size("levels");
        classes = f.texts("classes");
        f.number("label_min");
        f.number("label_max");
        categorical = f.texts("categorical");
        multi = f.texts("multi");
        multiWeights = f.texts("multi_weights");
        augment = f.flag("augment");
        positive = f.text("positive");
        negative = f.text("negative");
        digested = new LinkedHashMap<>(f.known());
        digested.keySet().removeAll(UNSCORED);
        unknown = f.unknown().stream().filter(name -> !name.equals(f.what + ".derived")
                && !name.equals(f.what + ".optional")).sorted().toList();
        for (Fields d : f.objects("derived")) {
            for (String name : List.of(d.text("name"), d.text("of"))) {
                if (!name.isEmpty() && !categorical.contains(name) && !multi.contains(name)) {
                    throw new FormatException("schema.derived: '" + name + "' is not a field of the schema");
                }
            }
        }
        named = new ArrayList<>(categorical);
        cross.forEach(parts -> named.add(String.join(CROSS_SIGN, parts)));
        named.addAll(multi);
    }

    private static FeatureMap mapOf(Fields m) {
        if (m == null) {
            return null;
        }
        List<Fields> scaling = m.objects("scaling");
        return new FeatureMap(m.text("kind"), m.size("count"), m.number("clip"),
                scaling.stream().mapToDouble(s -> s.number("center")).toArray(),
                scaling.stream().mapToDouble(s -> s.number("scale")).toArray());
    }

    /** Returns how many columns have no name in the vocabulary. */
    int numExtra() {
        return numeric.size() + (augment ? 1 : 0);
    }

    /** Returns the names of a binary label, in the order of 0 and 1; null where it has none. */
    public List<String> labelNames() {
        if (!task.equals("binary") || positive.isEmpty()) {
            return null;
        }
        return List.of(negative.isEmpty() ? "not " + positive : negative, positive);
    }

    boolean isOptional(String field) {
        return optional == null || optional.contains(field);
    }

    int numericIndex(String name) {
        for (int i = 0; i < numeric.size(); i++) {
            if (numeric.get(i).name.equals(name)) {
                return i;
            }
        }
        return -1;
    }

    /**
     * Returns the value of each name of a list in a multi field: 1/n or 1/sqrt(n) of n different ones; schemas without
     * weights count repeats, too.
     */
    double multiValue(int field, String[] names) {
        if (multiWeights.isEmpty()) {
            return 1.0 / Math.max(1, names.length);
        }
        double n = Math.max(1, different(names));
        return multiWeights.get(field).equals("sqrt") ? 1 / Math.sqrt(n) : 1 / n;
    }

    private static int different(String[] names) {
        if (names.length > 32) {
            Set<String> set = new HashSet<>(List.of(names));
            set.remove("");
            return set.size();
        }
        int n = 0; // without garbage
        for (int i = 0; i < names.length; i++) {
            boolean first = !names[i].isEmpty();
            for (int j = 0; first && j < i; j++) {
                first = !names[i].equals(names[j]);
            }
            n += first ? 1 : 0;
        }
        return n;
    }

    /** Returns the version of the format that the schema needs. */
    int format() {
        if (!multiWeights.isEmpty()) {
            return 6;
        }
        if (!cross.isEmpty()) {
            return 4;
        }
        if (featureMap != null) {
            return 3;
        }
        return numeric.stream().anyMatch(f -> f.clip > 0) ? 2 : 1;
    }

    /** Throws FormatException unless the schema is sound. */
    void check() {
        switch (task) {
            case "ordinal" -> {
                if (levels < 2 || levels > MAX_OUTPUTS) {
                    throw new FormatException("schema.levels is " + levels + ", want 2 to " + MAX_OUTPUTS);
                }
            }
            case "multiclass", "multilabel" -> distinct("schema.classes", classes);
            case "regression", "binary" -> { }
            default -> throw new FormatException("schema.task '" + task
                    + "' is not regression, binary, multiclass, multilabel or ordinal");
        }
        List<String> fields = new ArrayList<>(categorical);
        fields.addAll(multi);
        for (NumericField f : numeric) {
            fields.add(f.name);
            if (!(f.scale > 0) || f.clip < 0) {
                throw new FormatException("schema.numeric '" + f.name + "': scale " + f.scale
                        + " has to be positive, and clip " + f.clip + " not negative");
            }
        }
        if (!multiWeights.isEmpty() && multiWeights.size() != multi.size()) {
            throw new FormatException(
                    "schema.multi_weights: " + multiWeights.size() + " of " + multi.size() + " multi fields");
        }
        for (String weight : multiWeights) {
            if (!weight.equals("mean") && !weight.equals("sqrt")) {
                throw new FormatException("schema.multi_weights: '" + weight + "' is not mean or sqrt");
            }
        }
        for (String name : optional == null ? List.<String>of() : optional) {
            if (!fields.contains(name)) {
                throw new FormatException("schema.optional: '" + name + "' is not a field of the schema");
            }
        }
        if (featureMap != null) {
            featureMap.check(numeric.size());
        }
        checkCrosses(fields);
    }

    private void checkCrosses(List<String> fields) {
        for (List<String> parts : cross) {
            if (parts.size() < 2) {
                throw new FormatException("schema.cross: a cross has at least two fields");
            }
            for (String name : parts) {
                if (!categorical.contains(name)) {
                    throw new FormatException(
                            "schema.cross: '" + name + "' is not a categorical field of the schema");
                }
            }
            distinct("schema.cross", parts);
            fields.add(String.join(CROSS_SIGN, parts));
        }
        distinct("schema fields", fields);
        distinct("schema.optional", optional == null ? List.of() : optional);
    }

    /** Refuses empty and repeated names. */
    static void distinct(String what, List<String> names) {
        if (names.contains("")) {
            throw new FormatException(what + ": an empty name");
        }
        if (new HashSet<>(names).size() != names.size()) {
            throw new FormatException(what + ": a name is there twice");
        }
    }
}
