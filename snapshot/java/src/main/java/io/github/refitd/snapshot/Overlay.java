package io.github.refitd.snapshot;

import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A model with replaced rows for some entities, made from events of theirs. It scores like the model below it, which
 * it shares, and never changes: learn returns another one.
 */
public final class Overlay extends Scorer {
    static final int MAX_HISTORY = 1000;
    private static final double LOSS_FADE = 0.99; // of what the rates of an entity lost, at each of its events
    private static final double LOSS_MAX = 25; // of one event

    private final Model model;
    private final FoldIn.Field by; // null where a history is for lists alone, or empty
    private final int field; // of Schema.categorical; -1 without by
    private final Map<String, EntityRow> rows = new LinkedHashMap<>();
    private final Map<String, int[]> chosenBy = new HashMap<>();
    private int folded;

    private Overlay(Model model, FoldIn.Field by) {
        super(model.manifest, model.contents, model.columns, model.coChoices);
        this.model = model;
        this.by = by;
        field = by == null ? -1 : model.manifest.schema.categorical.indexOf(by.name());
    }

    /** Returns the model below. */
    public Model model() {
        return model;
    }

    /** Returns how many events were folded in. */
    public int folded() {
        return folded;
    }

    /** Returns the names that have rows, in the order of their first event. */
    public List<String> entities() {
        return List.copyOf(rows.keySet());
    }

    /** Is learn with a weight of 1. */
    public Overlay learn(Map<String, ?> event) {
        return learn(event, 1);
    }

    /** Returns the overlay after one more labelled event. Throws NoFoldInException or InputException. */
    public Overlay learn(Map<String, ?> event, double weight) {
        Overlay changed = new Overlay(model, by != null || listsAlone(model, "") ? by : fieldOf(model, ""));
        changed.rows.putAll(rows);
        changed.chosenBy.putAll(chosenBy);
        changed.folded = folded;
        changed.finish(changed.add(event, weight, false));
        return changed;
    }

    static Overlay fold(Model model, List<? extends Map<String, ?>> history, String field, double[] weights, int held) {
        if (history.isEmpty()) {
            return new Overlay(model, null);
        }
        FoldIn.Field by = listsAlone(model, field) ? null : fieldOf(model, field);
        int n = history.size();
        if (n > MAX_HISTORY) {
            throw new InputException(
                    "a history of " + n + " events, at most " + MAX_HISTORY + ": leave the oldest out");
        }
        if (weights != null && weights.length != n) {
            throw new InputException(weights.length + " weights for " + n + " events");
        }
        if (held < 0 || held > n) {
            throw new InputException(held + " events that the version holds, of " + n);
        }
        Overlay over = new Overlay(model, by);
        for (int i = 0; i < n; i++) {
            try {
                over.add(history.get(i), weights == null ? 1 : weights[i], i < held);
            } catch (InputException error) {
                throw new InputException("event " + i + ": " + error.getMessage());
            }
        }
        over.rows.keySet().forEach(over::finish);
        return over;
    }

    /** Reports whether a history is for lists alone: the version has no fold-in, but co-choices. */
    private static boolean listsAlone(Model model, String field) {
        CoChoices together = model.coChoices;
        return model.manifest.foldIn == null && together != null
                && (field.isEmpty() || field.equals(model.manifest.schema.categorical.get(together.by)));
    }

    /** Returns the field whose names are folded in, the first of the version's for "". */
    private static FoldIn.Field fieldOf(Model model, String field) {
        FoldIn f = model.manifest.foldIn;
        if (f == null) {
            String why = model.manifest.noFoldIn;
            throw new NoFoldInException(why.isEmpty() ? "the version was written by a build without it" : why);
        }
        return f.fields().stream().filter(d -> field.isEmpty() || d.name().equals(field)).findFirst().orElseThrow(
                () -> new InputException("field '" + field + "' is none whose names can be folded in"));
    }

    @Override
    EntityRow own(Input x) {
        return rows.isEmpty() ? null : rows.get(x.categorical[field]);
    }

    @Override
    int[] chosen(String entity) {
        return chosenBy.getOrDefault(entity, new int[0]);
    }

    @Override
    int rankedField() {
        return rows.isEmpty() ? -1 : field;
    }

    /** Keeps the choice of an event, if lists take it into account. */
    private void note(Input x, double label) {
        if (coChoices == null || !(label > 0)) {
            return;
        }
        String entity = x.categorical[coChoices.by];
        String name = x.categorical[coChoices.over];
        if (!entity.isEmpty() && !name.isEmpty()) {
            int[] before = chosen(entity);
            int[] after = Arrays.copyOf(before, before.length + 1);
            after[before.length] = columns.place(coChoices.over, name);
            chosenBy.put(entity, after);
        }
    }

    /** Folds an event into the row of its entity, which it makes if it is missing, and returns the entity. */
    private String add(Map<String, ?> event, double weight, boolean held) {
        Manifest m = manifest;
        Input x = Events.read(m.schema, event, "");
        int of = by != null || coChoices == null ? field : coChoices.by;
        String entity = x.categorical[of];
        if (entity.isEmpty()) {
            throw new InputException("missing_field: the event has no field '" + m.schema.categorical.get(of) + "'");
        }
        if (!(weight > 0 && weight < Double.POSITIVE_INFINITY)) {
            throw new InputException("weight " + weight + ", want a positive number");
        }
        Events.Label label = Events.label(m.schema, event);
        if (by != null) {
            double[] targets = Events.targets(m, m.foldIn.labelRange(), label);
            EntityRow row = rows.containsKey(entity) ? rows.get(entity).copy() : begin(entity);
            learn(row, x, targets, weight, held);
            rows.put(entity, row);
        }
        note(x, label.value());
        folded++;
        return entity;
    }

    /** Returns the prior of an entity: around the row that the model has of it, or around 0. */
    private EntityRow begin(String entity) {
        FoldIn f = manifest.foldIn;
        int linear = f.linear(manifest.numOutputs);
        double[] center = new double[by.precision().length];
        int column = columns.column(field, entity);
        if (column >= 0) {
            for (int c = 0; contents.linear != null && c < linear; c++) {
                center[c] = contents.linear[column * manifest.numOutputs + c];
            }
            for (int v = 0; v < manifest.numBasis; v++) {
                int sign = by.signs()[v];
                if (sign != 0) { // the same by every vector of the coordinate
                    center[linear + f.coordinates()[v]] =
                            contents.basis[column * manifest.numBasis + v] / (sign * f.scale()[v]);
                }
            }
        }
        return new EntityRow(by.rates().length, linear, field, center);
    }

    /** Folds an event in. Of one that the row of the model holds already the curvature counts alone. */
    private void learn(EntityRow row, Input x, double[] targets, double weight, boolean held) {
        Scratch s = new Scratch();
        Input joined = joined(x);
        int column = columns.column(field, x.categorical[field]);
        rowWithout(joined, column, s);
        double[] rest = new double[manifest.numOutputs];
        outputs(rest, joined, null, s);
        double[][] gradient = slopes(row, s.total);
        Likelihood likelihood = new Likelihood(manifest.foldIn, row, by, targets, rest, gradient);
        likelihood.observe(weight);
        if (held && column >= 0) {
            for (int c = 0; c < row.numLinear; c++) {
                likelihood.right[c] = likelihood.omega[c] * likelihood.ownPart(row.center, c);
            }
        } else {
            for (int g = 0; g < row.loss.length; g++) {
                double loss = likelihood.loss(row.means[g]);
                row.loss[g] = LOSS_FADE * row.loss[g] + (loss < LOSS_MAX ? loss : LOSS_MAX);
            }
        }
        row.add(by.rates(), likelihood.omega, likelihood.right, gradient);
        row.solve(by.precision());
    }

    /** Returns the gradient of the outputs by the coordinates, linear × coordinates, from the sums over columns. */
    private double[][] slopes(EntityRow row, double[] total) {
        FoldIn f = manifest.foldIn;
        double[][] gradient = new double[row.numLinear][row.coordinates];
        double factor = manifest.kernel.equals("homogeneous") ? 2 : 1;
        for (int v = 0; v < manifest.numBasis; v++) {
            int sign = by.signs()[v];
            for (int c = 0; sign != 0 && c < row.numLinear; c++) {
                gradient[c][f.coordinates()[v]] += contents.weights[v * manifest.numOutputs + c]
                        * (factor * sign * f.scale()[v] * total[v]);
            }
        }
        return gradient;
    }

    /** Writes the mixed mean of an entity as a row of the model. */
    private void finish(String entity) {
        if (by == null) {
            return;
        }
        EntityRow row = rows.get(entity);
        FoldIn f = manifest.foldIn;
        double[] mixed = Likelihood.mixed(row, by);
        row.linear = new double[manifest.numOutputs];
        for (int c = 0; c < row.linear.length; c++) {
            row.linear[c] = mixed[row.numLinear == 1 ? 0 : c];
        }
        row.basis = new double[manifest.numBasis];
        for (int v = 0; v < row.basis.length; v++) {
            int sign = by.signs()[v];
            row.basis[v] = sign == 0 ? 0 : sign * f.scale()[v] * mixed[row.numLinear + f.coordinates()[v]];
        }
        if (!row.isFinite()) {
            throw new InputException("events of '" + entity + "' have numbers too far from their field's center");
        }
    }
}
