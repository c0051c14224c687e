package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * How a row of linear weights and coordinates becomes one of the model, and by which likelihood it is learned from the
 * events of its entity. The arrays are never written to.
 */
record FoldIn(String likelihood, boolean shared, double[] noise, double[] labelRange, int[] coordinates, double[] scale,
        List<Field> fields) {
    private static final Map<String, List<String>> LINKS = Map.of("gaussian", List.of("identity"), "logistic",
            List.of("logistic", "ordinal"), "multinomial", List.of("softmax"));
    private static final int MAX_RATES = 8;
    private static final double CANCELS = 1e-5; // what the sum of squares of a row may leave: rounding to F32 does

    /**
     * What the fold-in says of the names of one field: the precisions of the prior, the sign that a row has in each
     * basis vector, the shares of its evidence that a row keeps at each of its events, and what each rate has lost.
     */
    record Field(String name, double[] precision, int[] signs, double[] rates, double[] losses) {
    }

    int linear(int outputs) {
        return shared ? 1 : outputs;
    }

    /** Reads the fold-in of a manifest, null where it has none. */
    static FoldIn read(Fields f) {
        if (!f.has("fold_in")) {
            return null;
        }
        Fields g = new Fields("fold_in", f.value.get("fold_in"));
        List<Field> fields = new ArrayList<>();
        for (Fields d : g.objects("fields")) {
            fields.add(new Field(d.text("name"), d.numbers("precision"), d.wholes("signs"), d.numbers("rates"),
                    d.numbers("losses")));
        }
        return new FoldIn(g.text("likelihood"), g.flag("shared"), g.numbers("noise"), g.numbers("label_range"),
                g.wholes("coordinates"), g.numbers("scale"), fields);
    }

    /** Returns it with other losses of the fields' rates. */
    FoldIn with(double[][] losses) {
        List<Field> changed = new ArrayList<>();
        for (int i = 0; i < losses.length; i++) {
            Field d = fields.get(i);
            changed.add(new Field(d.name, d.precision, d.signs, d.rates, losses[i]));
        }
        return new FoldIn(likelihood, shared, noise, labelRange, coordinates, scale, changed);
    }

    private static FormatException bad(String why) {
        return new FormatException("fold_in: " + why);
    }

    /** Throws FormatException unless it belongs to a model with these weights, vectors × outputs. */
    void check(Manifest m, double[] weights) {
        int vectors = m.numBasis;
        int linear = linear(m.numOutputs);
        if (m.degree != 2 && vectors > 0) {
            throw bad("a kernel of degree " + m.degree + ", rows are made for degree 2 alone");
        }
        if (!LINKS.getOrDefault(likelihood, List.of()).contains(m.link)) {
            throw bad("likelihood '" + likelihood + "' does not go with link '" + m.link + "'");
        }
        if (likelihood.equals("multinomial") && shared) {
            throw bad("outputs of a multinomial likelihood cannot be shared");
        }
        if (likelihood.equals("gaussian") && !(noise.length == linear && positive(noise))) {
            throw bad("noise of " + noise.length + " outputs, want " + linear + " positive precisions");
        }
        if (labelRange.length > 0 && !(labelRange.length == 2 && labelRange[0] <= labelRange[1])) {
            throw bad("label_range is no range");
        }
        if (coordinates.length != vectors || scale.length != vectors || !positive(scale)) {
            throw bad(coordinates.length + " coordinates and " + scale.length + " scales for " + vectors
                    + " basis vectors");
        }
        if (fields.isEmpty()) {
            throw bad("no fields");
        }
        for (int i = 0; shared && i < weights.length; i++) {
            if (weights[i] != weights[i - i % m.numOutputs]) {
                throw bad("outputs are said to be shared, and weights differ");
            }
        }
        for (Field d : fields) {
            check(d, m, weights, linear);
        }
        Schema.distinct("fold_in fields", fields.stream().map(Field::name).toList());
    }

    private void check(Field d, Manifest m, double[] weights, int linear) {
        int count = d.precision.length - linear;
        String where = "field '" + d.name + "' ";
        if (!m.schema.categorical.contains(d.name)) {
            throw bad(where + "is not a categorical field of the schema");
        }
        if (count < 0 || !positive(d.precision)) {
            throw bad(where + "has " + d.precision.length + " precisions, want at least " + linear + ", all positive");
        }
        if (d.signs.length != m.numBasis) {
            throw bad(where + "has " + d.signs.length + " signs for " + m.numBasis + " basis vectors");
        }
        boolean rates = d.rates.length >= 1 && d.rates.length <= MAX_RATES && d.losses.length == d.rates.length;
        for (double rate : d.rates) {
            rates &= rate > 0 && rate <= 1;
        }
        if (!rates) {
            throw bad(where + "wants 1 to " + MAX_RATES + " rates in (0, 1] and a loss for each");
        }
        for (int v = 0; v < m.numBasis; v++) {
            int r = coordinates[v];
            if (Math.abs((long) d.signs[v]) > 1 || d.signs[v] != 0 && (r < 0 || r >= count)) {
                throw bad(where + "has the sign " + d.signs[v] + " in basis vector " + v + ", of coordinate " + r);
            }
        }
        if (m.kernel.equals("homogeneous")) {
            checkCancels(d, m, weights, count, where);
        }
    }

    private void checkCancels(Field d, Manifest m, double[] weights, int count, String where) {
        double[] total = new double[count * m.numOutputs];
        double[] size = new double[count * m.numOutputs];
        for (int v = 0; v < m.numBasis; v++) {
            for (int c = 0; d.signs[v] != 0 && c < m.numOutputs; c++) {
                double w = weights[v * m.numOutputs + c] * scale[v] * scale[v];
                total[coordinates[v] * m.numOutputs + c] += w;
                size[coordinates[v] * m.numOutputs + c] += Math.abs(w);
            }
        }
        for (int i = 0; i < total.length; i++) {
            if (Math.abs(total[i]) > CANCELS * size[i]) {
                throw bad(where + "outputs are not linear in its rows: the squares of a coordinate do not cancel");
            }
        }
    }

    private static boolean positive(double[] values) {
        for (double v : values) {
            if (!(v > 0)) {
                return false;
            }
        }
        return true;
    }
}
