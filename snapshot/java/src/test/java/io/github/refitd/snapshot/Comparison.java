package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Compares what a model says with what the Go library says. */
final class Comparison {
    static final double SCORE = 1e-12; // tolerances relative to 1 + |want|
    static final double FOLD = 1e-9;

    static int compared;

    private Comparison() {
    }

    static void check(boolean holds, Object... what) {
        compared++;
        if (!holds) {
            throw new AssertionError(Arrays.deepToString(what));
        }
    }

    static void equal(Object got, Object want, Object where) {
        check(Objects.equals(got, want), where, "got", got, "want", want);
    }

    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> maps(Object list) {
        return list == null ? List.of() : (List<Map<String, Object>>) list;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    static List<?> list(Object value) {
        return value == null ? List.of() : (List<?>) value;
    }

    static double[] numbers(Object value) {
        return list(value).stream().mapToDouble(v -> ((Number) v).doubleValue()).toArray();
    }

    static void near(double[] got, Object wanted, double tolerance, Object where) {
        check((got == null) == (wanted == null), where, got, wanted);
        double[] want = numbers(wanted);
        check(got == null || got.length == want.length, where, got, wanted);
        for (int i = 0; i < want.length; i++) {
            check(Math.abs(got[i] - want[i]) <= tolerance * (1 + Math.abs(want[i])), where, got, wanted);
        }
    }

    /** Returns the name that an exception has in the Python package. */
    static String nameOf(Exception error) {
        return error == null ? "" : error.getClass().getSimpleName().replaceFirst("Exception$", "Error");
    }

    static String refused(Runnable ask) {
        try {
            ask.run();
            return "";
        } catch (SnapshotException error) {
            return nameOf(error);
        }
    }

    static void scores(Scorer scorer, Object list, double tolerance, String what) {
        Scratch scratch = new Scratch();
        double[] o = new double[scorer.numOutputs()];
        for (Map<String, Object> want : maps(list)) {
            Map<String, Object> event = map(want.get("event"));
            String where = what + ": " + Json.write(event);
            if (!want.get("error").equals("")) {
                equal(refused(() -> scorer.predict(event)), want.get("error"), where);
                equal(refused(() -> scorer.score(event)), want.get("error"), where);
                continue;
            }
            Prediction p = scorer.predict(event);
            near(p.outputs(), want.get("Outputs"), tolerance, where);
            scorer.score(o, scorer.input(event), scratch); // with what the last event left
            near(o, want.get("Outputs"), tolerance, where);
            near(p.probabilities(), want.get("Probabilities"), tolerance, where);
            near(new double[] {p.value()}, List.of(want.get("Value")), tolerance, where);
            equal(p.ranked(), want.get("ranked"), where);
            equal(p.classes(), want.get("Classes"), where);
            equal(p.unseen(), list(want.get("Unseen")), where);
            equal(p.absent(), list(want.get("Absent")), where);
            if (p.label() instanceof Double label) {
                near(new double[] {label}, List.of(want.get("label")), tolerance, where);
            } else {
                equal(p.label(), want.get("label"), where);
            }
        }
    }

    static void tops(Scorer scorer, Object list, double tolerance, String what) {
        for (Map<String, Object> want : maps(list)) {
            String where = what + ": " + Json.write(want);
            int k = ((Long) want.get("k")).intValue();
            Map<String, Object> conditions = map(want.get("where"));
            List<Item> items;
            try {
                items = scorer.topK(map(want.get("event")), "item", k, list(want.get("exclude")),
                        (String) want.get("class"), conditions);
            } catch (InputException error) {
                check(want.get("items") == null, where, error);
                continue;
            }
            check(want.get("items") != null, where, items);
            List<Map<String, Object>> wanted = maps(want.get("items"));
            equal(items.stream().map(Item::name).toList(), wanted.stream().map(i -> i.get("Name")).toList(), where);
            near(items.stream().mapToDouble(Item::value).toArray(),
                    wanted.stream().map(i -> i.get("Value")).toList(), tolerance, where);
        }
    }

    /** Compares terms of some size: what cancels may leave something by rounding, or nothing. */
    static void explained(Model model, Object list, String what) {
        for (Map<String, Object> want : maps(list)) {
            List<Explanation.Term> got = new ArrayList<>(model.explain(map(want.get("event"))).terms());
            List<Explanation.Term> wanted = new ArrayList<>();
            for (Map<String, Object> term : maps(want.get("terms"))) {
                List<String> features = list(term.get("Features")).stream().map(String.class::cast).toList();
                wanted.add(new Explanation.Term(features, numbers(term.get("Contribution"))));
            }
            for (List<Explanation.Term> terms : List.of(got, wanted)) {
                terms.removeIf(term -> term.size() <= SCORE);
                terms.sort((a, b) -> {
                    int order = a.features().toString().compareTo(b.features().toString());
                    return order != 0 ? order : Arrays.compare(a.contribution(), b.contribution());
                });
            }
            equal(got.size(), wanted.size(), what);
            for (int i = 0; i < got.size(); i++) {
                equal(got.get(i).features(), wanted.get(i).features(), what);
                near(got.get(i).contribution(), Arrays.stream(wanted.get(i).contribution()).boxed().toList(), SCORE,
                        what);
            }
        }
    }

    static void folds(Model model, Object list, String what) {
        for (Map<String, Object> want : maps(list)) {
            List<Map<String, Object>> history = maps(want.get("history"));
            double[] weights = numbers(want.get("weights"));
            String field = (String) want.get("field");
            int held = ((Long) want.get("held")).intValue();
            String where = what + " by " + field + ", " + held + " held";
            Overlay over = model.fold(history, field, weights, held);
            equal(over.folded(), history.size(), where);
            scores(over, want.get("events"), FOLD, where);
            tops(over, want.get("tops"), FOLD, where);
            int n = history.size() - 1;
            Overlay before = model.fold(history.subList(0, n), field, Arrays.copyOf(weights, n), Math.min(held, n));
            List<double[]> known = new ArrayList<>();
            maps(want.get("events")).forEach(e -> known.add(before.score(map(e.get("event")))));
            scores(before.learn(history.get(n), weights[n]), want.get("events"), FOLD, where);
            for (int i = 0; i < known.size(); i++) { // learning changed nothing below
                Map<String, Object> e = maps(want.get("events")).get(i);
                check(Arrays.equals(before.score(map(e.get("event"))), known.get(i)), where);
                double[] total = new double[model.numOutputs()];
                for (Explanation.Term term : over.explain(map(e.get("event"))).terms()) {
                    for (int c = 0; c < total.length; c++) {
                        total[c] += term.contribution()[c];
                    }
                }
                model.manifest.limit(total);
                near(total, e.get("Outputs"), FOLD, where);
            }
            for (int many : new int[] {-1, history.size() + 1}) {
                equal(refused(() -> model.fold(history, field, weights, many)), "InputError", where);
            }
        }
        List<Map<String, Object>> long_ = Collections.nCopies(Overlay.MAX_HISTORY + 1, Map.of());
        if (!list(list).isEmpty()) {
            equal(refused(() -> model.fold(long_)), "InputError", what);
        }
    }
}
