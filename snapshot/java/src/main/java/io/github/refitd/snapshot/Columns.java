package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Numbers the columns of a model, and makes an event into columns. It never changes. */
final class Columns {
    final List<List<String>> names; // of the version, by field
    final int[] first; // the column of the first name of each field
    private final Schema schema;
    private final List<NameIndex> index; // of the version's names
    private final List<Map<String, Integer>> added = new ArrayList<>();
    private final List<List<String>> addedNames = new ArrayList<>();
    private final List<Contents.Added> order;
    private final int[][] crosses;
    private final int numFeatures;
    private final Map<String, double[]> tensors;
    private final Tables known; // null without tables

    /** numFeatures is how many columns the version has. base, if any, is of the version, whose index is shared. */
    Columns(Schema schema, Contents c, int numFeatures, Columns base) {
        this.schema = schema;
        this.numFeatures = numFeatures;
        names = c.vocabulary;
        tensors = c.tensors;
        known = c.known;
        order = c.added;
        index = base == null ? new ArrayList<>() : base.index;
        first = base == null ? new int[names.size()] : base.first;
        int column = 0;
        for (int f = 0; f < names.size(); f++) {
            added.add(new HashMap<>());
            addedNames.add(new ArrayList<>());
            if (base == null) {
                first[f] = column;
                index.add(new NameIndex(names.get(f), column));
                column += names.get(f).size();
            }
        }
        for (int i = 0; i < order.size(); i++) {
            Contents.Added a = order.get(i);
            added.get(a.field()).put(a.name(), numFeatures + i);
            addedNames.get(a.field()).add(a.name());
        }
        crosses = schema.cross.stream()
                .map(parts -> parts.stream().mapToInt(schema.categorical::indexOf).toArray()).toArray(int[][]::new);
    }

    /** Returns the column of a name of a field, or -1. */
    int column(int field, String name) {
        int found = index.get(field).column(name);
        return found < 0 && !added.get(field).isEmpty() ? added.get(field).getOrDefault(name, -1) : found;
    }

    /** Returns the place of a name among the version's names of a field, or -1. */
    int place(int field, String name) {
        int found = index.get(field).column(name);
        return found < 0 ? -1 : found - first[field];
    }

    /** Returns the names of a field in the order of the vocabulary, those that were added behind. */
    List<String> candidates(int field) {
        List<String> found = new ArrayList<>(names.get(field));
        found.addAll(addedNames.get(field));
        return found;
    }

    boolean isCrossed(int field) {
        return Arrays.stream(crosses).anyMatch(parts -> Arrays.stream(parts).anyMatch(f -> f == field));
    }

    /** Writes the columns of an event into s, those of each list increasing, but for column but. */
    void row(Input x, int but, Scratch s) {
        s.count = 0;
        for (int f = 0; f < x.categorical.length; f++) {
            int column = column(f, x.categorical[f]);
            if (column >= 0 && column != but) {
                s.add(column, 1);
            }
        }
        for (int c = 0; c < crosses.length; c++) {
            int column = crossed(x, c);
            if (column >= 0) {
                s.add(column, 1);
            }
        }
        for (int f = 0; f < x.multi.length; f++) {
            list(f, x.multi[f], s);
        }
        int begin = numFeatures - schema.numExtra();
        for (int f = 0; f < x.numeric.length; f++) {
            double v = Double.isNaN(x.numeric[f]) ? 0 : schema.numeric.get(f).scaled(x.numeric[f]);
            if (v != 0) {
                s.add(begin + f, v);
            }
        }
        if (schema.augment) {
            s.add(numFeatures - 1, 1);
        }
        s.hasMapped = false;
        for (int f = 0; schema.featureMap != null && f < x.numeric.length; f++) {
            s.hasMapped |= !Double.isNaN(x.numeric[f]);
        }
        if (s.hasMapped) {
            map(schema.featureMap, x.numeric, s.scaled, s.mapped);
        }
    }

    private int crossed(Input x, int cross) {
        StringBuilder name = new StringBuilder();
        for (int f : crosses[cross]) {
            if (x.categorical[f].isEmpty()) {
                return -1;
            }
            name.append(name.isEmpty() ? "" : Schema.CROSS_SIGN).append(x.categorical[f]);
        }
        return column(x.categorical.length + cross, name.toString());
    }

    private void list(int field, String[] list, Scratch s) {
        int begin = s.count;
        double v = list.length == 0 ? 0 : schema.multiValue(field, list);
        for (String name : list) {
            int column = column(schema.categorical.size() + crosses.length + field, name);
            if (column >= 0) {
                s.add(column, v);
            }
        }
        Arrays.sort(s.index, begin, s.count);
        int end = begin;
        for (int i = begin; i < s.count; i++) {
            if (end == begin || s.index[end - 1] != s.index[i]) {
                s.index[end++] = s.index[i];
            }
        }
        s.count = end;
    }

    /** Writes the columns of the feature map of an event with some number. */
    private void map(Schema.FeatureMap m, double[] numeric, double[] z, double[] out) {
        int p = numeric.length;
        for (int i = 0; i < p; i++) {
            double v = (numeric[i] - m.centers()[i]) / m.scales()[i];
            z[i] = Double.isNaN(numeric[i]) ? 0 : Math.min(Math.max(v, -m.clip()), m.clip());
        }
        if (m.kind().equals("fourier")) {
            double[] frequencies = tensors.get("map_frequencies");
            double[] phases = tensors.get("map_phases");
            double scale = 4 * Math.sqrt(2.0 / m.count());
            for (int j = 0; j < m.count(); j++) {
                double angle = phases[j];
                for (int i = 0; i < p; i++) {
                    angle += z[i] * frequencies[j * p + i];
                }
                out[j] = scale * Math.cos(angle);
            }
        } else if (m.kind().equals("products")) {
            int at = p;
            for (int i = 0; i < p; i++) {
                out[i] = z[i];
                for (int j = 0; j <= i; j++) {
                    out[at++] = z[i] * z[j];
                }
            }
        } else {
            Arrays.fill(out, 0);
            double[] edges = tensors.get("map_edges");
            int n = m.count() - 1;
            for (int i = 0; i < p; i++) {
                int bin = 0;
                while (bin < n && edges[i * n + bin] <= z[i]) {
                    bin++;
                }
                if (!Double.isNaN(numeric[i])) {
                    out[i * m.count() + bin] = 1;
                }
            }
        }
    }

    /** Returns the names of an event that the vocabulary does not have, as "user=u9", without those of field but. */
    List<String> unseen(Input x, int but) {
        List<String> found = new ArrayList<>();
        for (int f = 0; f < x.categorical.length; f++) {
            if (f != but) {
                unseen(found, f, x.categorical[f]);
            }
        }
        for (int f = 0; f < x.multi.length; f++) {
            for (String name : x.multi[f]) {
                unseen(found, schema.categorical.size() + crosses.length + f, name);
            }
        }
        return found;
    }

    private void unseen(List<String> found, int field, String name) {
        if (!name.isEmpty() && column(field, name) < 0 && !isFilter(field)) {
            found.add(schema.named.get(field) + "=" + name);
        }
    }

    /** Whether a field is a column of tables that nothing has learned: its names serve conditions alone. */
    private boolean isFilter(int field) {
        return names.get(field).isEmpty() && known != null && known.column(schema.named.get(field)) != null;
    }

    /** Names a column: "user=u1", "age", or "(constant)". */
    String name(int column) {
        if (column >= numFeatures) {
            Contents.Added a = order.get(column - numFeatures);
            return schema.named.get(a.field()) + "=" + a.name();
        }
        for (int f = 0; f < first.length; f++) {
            int at = column - first[f];
            if (at >= 0 && at < names.get(f).size()) {
                return schema.named.get(f) + "=" + names.get(f).get(at);
            }
        }
        int i = column - (numFeatures - schema.numExtra());
        return i < schema.numeric.size() ? schema.numeric.get(i).name() : "(constant)";
    }
}
