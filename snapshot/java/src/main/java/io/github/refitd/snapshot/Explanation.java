package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/**
 * A prediction taken apart: the contributions of the terms add up to the outputs before output_limit of the manifest,
 * but for rounding. The term with the largest contribution to any output is first.
 */
public record Explanation(Prediction prediction, List<Term> terms) {
    private static final int MAX_EXPLAINED = 512; // columns of an event
    private static final int MAX_TRIPLED = 89; // of a kernel of degree 3

    /**
     * What some features of an event add to the outputs: none for the bias, one for a linear term, two for an
     * interaction, of a kernel of degree 3 three; of trees "(trees)" and the fields that they ask.
     */
    public record Term(List<String> features, double[] contribution) {
        double size() {
            return Arrays.stream(contribution).map(Math::abs).max().orElse(0);
        }
    }

    static Explanation of(Scorer scorer, Map<String, ?> event) {
        Manifest m = scorer.manifest;
        Input read = scorer.input(event);
        Prediction prediction = scorer.predict(read);
        Input x = scorer.joined(read);
        EntityRow own = scorer.own(x);
        Scratch s = new Scratch();
        scorer.row(x, own, s);
        int most = m.degree == 3 && m.numBasis > 0 ? MAX_TRIPLED : MAX_EXPLAINED;
        if (s.count > most) {
            throw new InputException(s.count + " known features, at most " + most + " are explained");
        }
        List<Term> found = new ArrayList<>();
        found.add(new Term(List.of(), scorer.contents.bias.clone()));
        columns(scorer, x, own, s, found);
        if (s.hasMapped && scorer.contents.mapWeights != null) {
            mapped(scorer, s, found);
        }
        if (scorer.contents.trees != null) {
            trees(scorer, x, found);
        }
        found.removeIf(term -> !(term.size() > 0));
        found.sort(Comparator.comparingDouble(term -> -term.size()));
        return new Explanation(prediction, found);
    }

    /** Adds the linear terms and those of the kernel. */
    private static void columns(Scorer scorer, Input x, EntityRow own, Scratch s, List<Term> found) {
        Manifest m = scorer.manifest;
        Contents c = scorer.contents;
        List<String> names = new ArrayList<>();
        List<double[]> rows = new ArrayList<>();
        for (int i = 0; i < s.count; i++) {
            String name = scorer.columns.name(s.index[i]);
            names.add(name);
            rows.add(times(s.value[i], c.basis, s.index[i] * m.numBasis, m.numBasis));
            if (c.linear != null) {
                double[] linear = times(s.value[i], c.linear, s.index[i] * m.numOutputs, m.numOutputs);
                found.add(new Term(List.of(name), linear));
            }
        }
        if (own != null) { // it is explained after the columns
            names.add(m.schema.categorical.get(own.field) + "=" + x.categorical[own.field]);
            rows.add(own.basis);
            found.add(new Term(List.of(names.get(names.size() - 1)), own.linear.clone()));
        }
        if (m.numBasis > 0) {
            choose(scorer, names, rows, new int[m.degree], 0, found);
        }
    }

    private static double[] times(double factor, double[] from, int at, int n) {
        double[] out = Arrays.copyOfRange(from, at, at + n);
        for (int i = 0; i < n; i++) {
            out[i] *= factor;
        }
        return out;
    }

    /** Adds a term for each combination of places, of a homogeneous kernel with repetitions. */
    private static void choose(Scorer scorer, List<String> names, List<double[]> rows, int[] places, int depth,
            List<Term> found) {
        boolean anova = scorer.manifest.kernel.equals("anova");
        if (depth < places.length) {
            int from = depth == 0 ? 0 : places[depth - 1] + (anova ? 1 : 0);
            for (int i = from; i < rows.size(); i++) {
                places[depth] = i;
                choose(scorer, names, rows, places, depth + 1, found);
            }
            return;
        }
        int m = scorer.manifest.numOutputs;
        double[] share = new double[m];
        for (int v = 0; v < scorer.manifest.numBasis; v++) {
            double product = anova ? 1 : orders(places);
            for (int i : places) {
                product *= rows.get(i)[v];
            }
            for (int c = 0; c < m; c++) {
                share[c] += product * scorer.contents.weights[v * m + c];
            }
        }
        found.add(new Term(Arrays.stream(places).mapToObj(names::get).toList(), share));
    }

    /** Returns in how many orders the places can be. */
    private static int orders(int[] places) {
        long different = Arrays.stream(places).distinct().count();
        if (places.length == 2) {
            return different == 2 ? 2 : 1;
        }
        return different == 3 ? 6 : different == 2 ? 3 : 1;
    }

    private static void mapped(Scorer scorer, Scratch s, List<Term> found) {
        Schema schema = scorer.manifest.schema;
        int m = scorer.manifest.numOutputs;
        boolean whole = schema.featureMap.kind().equals("fourier");
        double[] total = new double[m];
        for (int j = 0; j < s.mapped.length; j++) {
            double[] share = times(s.mapped[j], scorer.contents.mapWeights, j * m, m);
            for (int c = 0; c < m; c++) {
                total[c] += share[c];
            }
            if (!whole) {
                found.add(new Term(factors(schema, j), share));
            }
        }
        if (whole) {
            found.add(new Term(List.of("(fourier)"), total));
        }
    }

    /** Names what column j of a map of bins or products is made of. */
    private static List<String> factors(Schema schema, int j) {
        int p = schema.numeric.size();
        int count = schema.featureMap.count();
        if (schema.featureMap.kind().equals("bins")) {
            return List.of(schema.numeric.get(j / count).name() + "=bin" + j % count);
        }
        if (j < p) {
            return List.of(schema.numeric.get(j).name());
        }
        int i = 0;
        int first = p; // the products of field i with those up to it
        while (j > first + i) {
            first += ++i;
        }
        return List.of(schema.numeric.get(i).name(), schema.numeric.get(j - first).name());
    }

    private static void trees(Scorer scorer, Input x, List<Term> found) {
        Schema schema = scorer.manifest.schema;
        int m = scorer.manifest.numOutputs;
        Map<List<String>, double[]> shares = new LinkedHashMap<>();
        for (Trees.Tree tree : scorer.contents.trees.trees) {
            TreeSet<String> fields = new TreeSet<>(Table.BY_CODE_POINT);
            for (Trees.Split s : tree.splits()) {
                fields.add(s.field() < 0 ? schema.categorical.get(-1 - s.field())
                        : schema.numeric.get(s.field()).name());
            }
            List<String> key = new ArrayList<>(List.of("(trees)"));
            key.addAll(fields);
            double[] share = shares.computeIfAbsent(key, k -> new double[m]);
            int at = tree.leaf(x, m);
            for (int c = 0; c < m; c++) {
                share[c] += tree.leaves()[at + c];
            }
        }
        shares.forEach((features, share) -> found.add(new Term(features, share)));
    }
}
