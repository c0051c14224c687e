package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

/**
 * What a model says of one event. value is the predicted number: of a binary label the class 0 or 1, of a multiclass
 * one its position, of a multilabel one how many. classes are the predicted names of these two, else null.
 * probabilities are of 0 and 1, of the classes or of the levels; null where the link has none. outputs are clipped to
 * output_limit of the manifest. unseen are names outside the vocabulary, as "user=u9", absent the fields that the event
 * lacks. label is what commands show: a Double, a String or a list of names. ranked are all classes of a multiclass
 * label, best first, else null. The arrays belong to the caller.
 */
public record Prediction(double value, List<String> classes, double[] probabilities, double[] outputs,
        List<String> unseen, List<String> absent, Object label, List<String> ranked) {

    static Prediction of(Manifest m, double[] o, List<String> unseen, List<String> absent) {
        Schema s = m.schema;
        double threshold = m.link.equals("identity") ? 0.5 : 0;
        double value = o[0];
        List<String> classes = null;
        List<String> ranked = null;
        Object label = null;
        switch (s.task) {
            case "binary" -> {
                value = o[0] > threshold ? 1 : 0;
                label = s.labelNames() == null ? null : s.labelNames().get((int) value);
            }
            case "ordinal" -> value = level(m, o);
            case "multiclass" -> {
                ranked = IntStream.range(0, o.length).boxed()
                        .sorted(Comparator.comparingDouble((Integer c) -> 0.0 - o[c])).map(s.classes::get).toList();
                classes = List.of(ranked.get(0));
                value = s.classes.indexOf(ranked.get(0));
                label = ranked.get(0);
            }
            case "multilabel" -> {
                classes = new ArrayList<>();
                for (int c = 0; c < o.length; c++) {
                    if (o[c] > threshold) {
                        classes.add(s.classes.get(c));
                    }
                }
                value = classes.size();
                label = classes;
            }
            default -> { }
        }
        return new Prediction(value, classes, probabilities(m, o), o, unseen, absent,
                label == null ? (Object) value : label, ranked);
    }

    /** Returns the expected level of an ordinal label. */
    static double level(Manifest m, double[] o) {
        if (m.link.equals("identity")) {
            return Math.min(Math.max(o[0], 1), m.schema.levels);
        }
        double level = m.schema.levels;
        for (double v : o) {
            level -= sigmoid(v);
        }
        return level;
    }

    private static double[] probabilities(Manifest m, double[] o) {
        switch (m.link) {
            case "softmax": {
                double[] p = new double[o.length];
                double most = Double.NEGATIVE_INFINITY;
                double sum = 0;
                for (double v : o) {
                    most = Math.max(most, v);
                }
                for (int c = 0; c < o.length; c++) {
                    p[c] = Math.exp(o[c] - most);
                    sum += p[c];
                }
                for (int c = 0; c < o.length; c++) {
                    p[c] /= sum;
                }
                return p;
            }
            case "ordinal": {
                double[] p = new double[o.length + 1];
                double last = 0;
                for (int c = 0; c < o.length; c++) {
                    double below = sigmoid(o[c]);
                    p[c] = below - last;
                    last = below;
                }
                p[o.length] = 1 - last;
                return p;
            }
            case "logistic": {
                if (m.schema.task.equals("binary")) {
                    return new double[] {sigmoid(-o[0]), sigmoid(o[0])};
                }
                boolean multilabel = m.schema.task.equals("multilabel");
                return multilabel ? java.util.Arrays.stream(o).map(Prediction::sigmoid).toArray() : null;
            }
            default:
                return null;
        }
    }

    /** Returns 1/(1 + exp(-x)) without overflow. */
    static double sigmoid(double x) {
        double e = Math.exp(-Math.abs(x));
        return x < 0 ? e / (1 + e) : 1 / (1 + e);
    }
}
