package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** The names of a field that are predicted best given the rest of an event. One is asked once. */
final class TopK {
    private static final String TOO_FAR = "an output is not finite: a numeric field is too far from its center";

    private final Scorer scorer;
    private final int field;
    private final int k;
    private final int output;
    private final Input x;
    private final Set<String> excluded;
    private final List<Table.Asked> where;
    private final Scratch scratch = new Scratch();
    private final double[] o;

    /** A candidate: its place in the order of names, its outputs before output_limit, and what it is ranked by. */
    private record Ranked(int at, String name, double[] outputs, double key) {
    }

    TopK(Scorer scorer, Map<String, ?> event, String over, int k, Collection<?> exclude, String className,
            Map<String, ?> conditions) {
        Schema schema = scorer.manifest.schema;
        this.scorer = scorer;
        this.k = k;
        field = schema.categorical.indexOf(over);
        if (field < 0) {
            throw new InputException(
                    "'" + over + "' is not a categorical field of the schema " + schema.categorical);
        }
        Input read = Events.read(schema, event, over);
        if (scorer.rankedField() == field) {
            throw new InputException("the history is of names of '" + over + "': rank over another field");
        }
        if (k < 1) {
            throw new InputException(k + " names wanted, at least 1");
        }
        output = output(schema, className);
        where = Where.read(scorer.contents.known, field, over, conditions);
        excluded = exclude == null ? Set.of() : new HashSet<>(List.of(Events.names("exclude takes", exclude)));
        x = ofTable() ? scorer.contents.known.without(field, read) : read;
        o = new double[scorer.manifest.numOutputs];
    }

    private static int output(Schema schema, String className) {
        if (!schema.task.equals("multiclass") && !schema.task.equals("multilabel")) {
            return 0;
        }
        int found = schema.classes.indexOf(className);
        if (found < 0) {
            throw new InputException("set a class to rank by: '" + className + "' is none of the model's");
        }
        return found;
    }

    /** Reports whether names bring other columns with them, or an event without the field may have it, by tables. */
    private boolean ofTable() {
        Tables known = scorer.contents.known;
        return known != null
                && (known.has(field) || known.column(scorer.manifest.schema.categorical.get(field)) != null);
    }

    List<Item> items() {
        List<String> names = scorer.columns.candidates(field);
        double[] added = added(names.size());
        if (ofTable()) {
            return ofTable(names, added);
        }
        List<Ranked> keys = keys(names, added);
        keys.sort(Comparator.comparingDouble((Ranked r) -> 0.0 - r.key).thenComparingInt(Ranked::at));
        List<Ranked> best = new ArrayList<>();
        for (Ranked r : keys.subList(0, Math.min(k, keys.size()))) {
            Ranked exact = exact(r.at, r.name, added[r.at]);
            for (double v : exact.outputs) {
                if (!Double.isFinite(v)) {
                    throw new InputException(TOO_FAR);
                }
            }
            best.add(exact);
        }
        return sorted(best);
    }

    /** Scores each candidate; names that only tables know are ranked, too. */
    private List<Item> ofTable(List<String> names, double[] added) {
        if (!where.isEmpty()) { // in the order of their columns, then those without one
            names = new ArrayList<>(Where.passing(where));
            names.sort(Comparator.comparingLong(this::rank).thenComparing(Table.BY_CODE_POINT));
        } else {
            TreeSet<String> extras = new TreeSet<>(Table.BY_CODE_POINT);
            for (Table t : scorer.contents.known.tables) {
                if (t.of == field) {
                    t.entities().stream().filter(name -> scorer.columns.column(field, name) < 0).forEach(extras::add);
                }
            }
            names.addAll(extras);
        }
        List<Ranked> found = new ArrayList<>();
        for (int i = 0; i < names.size(); i++) {
            if (!excluded.contains(names.get(i))) {
                int place = scorer.columns.place(field, names.get(i));
                Ranked r = exact(i, names.get(i), place >= 0 ? added[place] : 0);
                if (Double.isNaN(r.key)) {
                    throw new InputException(TOO_FAR);
                }
                found.add(r);
            }
        }
        found.sort(Comparator.comparingDouble((Ranked r) -> 0.0 - r.key).thenComparingInt(Ranked::at));
        List<Ranked> best = found.subList(0, Math.min(k, found.size()));
        if (best.stream().anyMatch(r -> !Arrays.stream(r.outputs).allMatch(Double::isFinite))) {
            throw new InputException(TOO_FAR);
        }
        return sorted(best);
    }

    private long rank(String name) {
        int column = scorer.columns.column(field, name);
        return column < 0 ? Long.MAX_VALUE : column;
    }

    private List<Item> sorted(List<Ranked> best) {
        best.sort(Comparator.comparingDouble((Ranked r) -> 0.0 - r.key).thenComparingInt(Ranked::at));
        List<Item> items = new ArrayList<>();
        for (Ranked r : best) {
            double[] limited = r.outputs.clone();
            scorer.manifest.limit(limited);
            items.add(new Item(r.name, value(key(limited))));
        }
        return items;
    }

    /** Returns a name with its outputs as those of one event, and what co-choices add to it. */
    private Ranked exact(int at, String name, double added) {
        double[] outputs = new double[o.length];
        scorer.outputs(outputs, scorer.joined(x.with(field, name)), scratch);
        for (int c = 0; c < outputs.length; c++) {
            outputs[c] += added;
        }
        return new Ranked(at, name, outputs, key(outputs));
    }

    /**
     * Returns the candidates with their keys. A name of a one-hot field changes the kernels by S_r h_r (anova) or
     * (2 S_r + h_r) h_r (homogeneous), of degree 3 by A_r h_r, with the kernel of degree 2 of the other columns, or
     * (3 S_r² + (3 S_r + h_r) h_r) h_r.
     */
    private List<Ranked> keys(List<String> names, double[] added) {
        boolean crossed = scorer.columns.isCrossed(field);
        Trees trees = scorer.contents.trees;
        Set<String> asked = trees == null ? Set.of() : trees.asked.getOrDefault(field, Set.of());
        Scratch s = new Scratch();
        double[] base = new double[o.length];
        scorer.outputs(base, scorer.joined(x.with(field, "")), s);
        List<Ranked> found = new ArrayList<>();
        for (int i = 0; i < names.size(); i++) {
            String name = names.get(i);
            if (excluded.contains(name)) {
                continue;
            }
            double key;
            if (crossed || asked.contains(name)) {
                key = exact(i, name, 0).key;
            } else {
                changed(base, s.total, scorer.columns.column(field, name));
                key = key(o);
            }
            if (Double.isNaN(key + added[i])) {
                throw new InputException(TOO_FAR);
            }
            found.add(new Ranked(i, name, null, key + added[i]));
        }
        return found;
    }

    private void changed(double[] base, double[] total, int column) {
        Contents c = scorer.contents;
        int n = scorer.manifest.numBasis;
        boolean anova = scorer.manifest.kernel.equals("anova");
        boolean three = scorer.manifest.degree == 3;
        System.arraycopy(base, 0, o, 0, o.length);
        for (int v = 0; v < n; v++) {
            double h = c.basis[column * n + v];
            double t = total[v];
            double change = anova ? h * t : three ? (3 * t * t + (3 * t + h) * h) * h : (2 * t + h) * h;
            for (int j = 0; j < o.length; j++) {
                o[j] += change * c.weights[v * o.length + j];
            }
        }
        for (int j = 0; c.linear != null && j < o.length; j++) {
            o[j] += c.linear[column * o.length + j];
        }
    }

    /** Returns what co-choices add to each name of the field. */
    private double[] added(int names) {
        CoChoices together = scorer.coChoices;
        double[] added = new double[names];
        String entity = together == null ? "" : x.categorical[together.by];
        if (together == null || together.over != field || entity.isEmpty()) {
            return added;
        }
        int[] recent = scorer.chosen(entity);
        int at = scorer.columns.place(together.by, entity);
        if (recent.length == 0 && at >= 0 && at < together.recent.length) {
            recent = together.recent[at];
        }
        double[] own = new double[scorer.columns.names.get(field).size()];
        together.added(recent, own);
        System.arraycopy(own, 0, added, 0, own.length);
        return added;
    }

    /** Orders candidates: by an output, by the expected level, or by −Σ exp(o_j − o_c), as softmax probabilities do. */
    private double key(double[] outputs) {
        switch (scorer.manifest.link) {
            case "ordinal":
                return Prediction.level(scorer.manifest, outputs);
            case "softmax":
                double sum = 0;
                for (double v : outputs) {
                    sum += Math.exp(v - outputs[output]);
                }
                return -sum;
            default:
                return outputs[output];
        }
    }

    private double value(double key) {
        Manifest m = scorer.manifest;
        return switch (m.link) {
            case "softmax" -> -1 / key;
            case "logistic" -> m.schema.task.equals("multiclass") ? key : Prediction.sigmoid(key);
            case "identity" -> m.schema.task.equals("ordinal") ? Math.min(Math.max(key, 1), m.schema.levels) : key;
            default -> key;
        };
    }
}
