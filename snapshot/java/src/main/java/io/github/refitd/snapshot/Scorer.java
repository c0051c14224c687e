package io.github.refitd.snapshot;

import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/**
 * What models and overlays have in common: they score events, which are maps of the schema's fields to values. An
 * event that lacks a field which is not optional, or has one of another kind, is an InputException. It never changes,
 * and any number of threads may use it.
 */
public abstract class Scorer {
    final Manifest manifest;
    final Contents contents;
    final Columns columns;
    final CoChoices coChoices; // null for none

    Scorer(Manifest manifest, Contents contents, Columns columns, CoChoices coChoices) {
        this.manifest = manifest;
        this.contents = contents;
        this.columns = columns;
        this.coChoices = coChoices;
    }

    /** Returns the row that replaces the column of the event's entity, null for none. */
    EntityRow own(Input x) {
        return null;
    }

    /** Returns the places of the names that an entity has chosen last by a history, oldest first. */
    int[] chosen(String entity) {
        return new int[0];
    }

    /** Returns the field over which names cannot be ranked, since events of theirs are folded in; -1 for none. */
    int rankedField() {
        return -1;
    }

    public Schema schema() {
        return manifest.schema;
    }

    public int numOutputs() {
        return manifest.numOutputs;
    }

    /** Returns the prediction for an event. */
    public Prediction predict(Map<String, ?> event) {
        return predict(input(event));
    }

    /** Returns the prediction for an event of input. */
    public Prediction predict(Input in) {
        Input x = joined(in);
        double[] o = new double[manifest.numOutputs];
        finite(o, x, new Scratch());
        manifest.limit(o);
        EntityRow own = own(x);
        return Prediction.of(manifest, o, columns.unseen(x, own == null ? -1 : own.field), x.absent(manifest.schema));
    }

    /** Returns the outputs of an event before the link, clipped to output_limit of the manifest. */
    public double[] score(Map<String, ?> event) {
        double[] o = new double[manifest.numOutputs];
        score(o, input(event), new Scratch());
        return o;
    }

    /**
     * Writes the outputs of an event, of which there are numOutputs, before the link. It makes no garbage unless the
     * version has crosses or tables, or weights of lists and the event a list of more than 32 names.
     */
    public void score(double[] dst, Input in, Scratch s) {
        finite(dst, joined(in), s);
        manifest.limit(dst);
    }

    /** Reads an event. */
    public Input input(Map<String, ?> event) {
        return Events.read(manifest.schema, event, "");
    }

    /** Returns an event without any value, to be written into. */
    public Input newInput() {
        return Events.parse(manifest.schema, Map.of(), "");
    }

    /** Is topK of at most k names without conditions. */
    public List<Item> topK(Map<String, ?> event, String over, int k) {
        return topK(event, over, k, List.of(), "", null);
    }

    /**
     * Returns the k names of a categorical field with the largest values given the rest of an event, largest first;
     * names of equal value are in the order of the vocabulary. exclude are names to leave out, className is the class
     * to rank by of a multiclass or multilabel model, else "". where has conditions on what tables say of names, all
     * of which have to hold: by column a name, a list of names, or a map with min and max; null is none.
     */
    public List<Item> topK(Map<String, ?> event, String over, int k, Collection<?> exclude, String className,
            Map<String, ?> where) {
        return new TopK(this, event, over, k, exclude, className, where).items();
    }

    /**
     * Takes the prediction for an event apart: the exact share of every bias, linear term and pair of features, of
     * every triple where the kernel is of degree 3. Throws InputException also for an event with too many features.
     */
    public Explanation explain(Map<String, ?> event) {
        return Explanation.of(this, event);
    }

    final Input joined(Input x) {
        return contents.known == null ? x : contents.known.join(x);
    }

    /** Writes the outputs of a joined event before output_limit. */
    final void finite(double[] o, Input x, Scratch s) {
        outputs(o, x, s);
        for (double v : o) {
            if (!Double.isFinite(v)) {
                throw new InputException("an output is not finite: a numeric field is too far from its center");
            }
        }
    }

    /** Is finite of outputs that may not be finite. s.total then has the sums over the columns. */
    final void outputs(double[] o, Input x, Scratch s) {
        EntityRow own = own(x);
        row(x, own, s);
        outputs(o, x, own, s);
    }

    /** Writes the columns of an event into s, without the one that a row replaces; own may be null. */
    final void row(Input x, EntityRow own, Scratch s) {
        rowWithout(x, own == null ? -1 : columns.column(own.field, x.categorical[own.field]), s);
    }

    final void rowWithout(Input x, int column, Scratch s) {
        Schema.FeatureMap map = manifest.schema.featureMap;
        s.size(manifest.numBasis, x.numeric.length, map == null ? 0 : map.columns());
        columns.row(x, column, s);
    }

    /** Writes the outputs of the columns in s: Σ_{i<j} a_i a_j = ½((Σa)² − Σa²) (Rendle 2010). */
    final void outputs(double[] o, Input x, EntityRow own, Scratch s) {
        Contents c = contents;
        int m = manifest.numOutputs;
        System.arraycopy(c.bias, 0, o, 0, m);
        s.touched = touch(c.basis, s);
        if (c.linear != null) {
            for (int i = 0; i < s.count; i++) {
                add(o, s.value[i], c.linear, s.index[i] * m, m);
            }
        }
        if (own != null) {
            add(o, 1, own.linear, 0, m);
        }
        if (s.hasMapped && c.mapWeights != null) {
            for (int j = 0; j < s.mapped.length; j++) {
                add(o, s.mapped[j], c.mapWeights, j * m, m);
            }
        }
        if (c.trees != null) {
            c.trees.add(x, o, m);
        }
        kernels(own, s);
        for (int v = 0; v < manifest.numBasis; v++) {
            add(o, s.triples[v], c.weights, v * m, m);
        }
    }

    /** Reads each cache line of the rows in s, so that all come from memory at the same time, and not one by one. */
    private double touch(double[] basis, Scratch s) {
        double sum = 0;
        int k = manifest.numBasis;
        for (int i = 0; i < s.count; i++) {
            for (int v = 0; v < k; v += 8) {
                sum += basis[s.index[i] * k + v];
            }
        }
        return sum;
    }

    private static void add(double[] o, double factor, double[] from, int at, int m) {
        for (int j = 0; j < m; j++) {
            o[j] += factor * from[at + j];
        }
    }

    /** Writes the kernel with each basis vector into s.triples, and the sums over columns into s.total. */
    private void kernels(EntityRow own, Scratch s) {
        int k = manifest.numBasis;
        boolean anova = manifest.kernel.equals("anova");
        boolean triple = anova && manifest.degree == 3;
        Arrays.fill(s.total, 0);
        Arrays.fill(s.squares, 0);
        Arrays.fill(s.triples, 0);
        for (int i = 0; i < s.count; i++) {
            if (triple) {
                triple(contents.basis, s.index[i] * k, s.value[i], k, s);
            } else {
                sum(contents.basis, s.index[i] * k, s.value[i], k, s.total, s.squares);
            }
        }
        if (own != null && triple) {
            triple(own.basis, 0, 1, k, s);
        } else if (own != null) {
            sum(own.basis, 0, 1, k, s.total, s.squares);
        }
        if (triple) { // of other names, the kernel of degree 2
            System.arraycopy(s.squares, 0, s.total, 0, k);
            return;
        }
        for (int v = 0; v < k; v++) {
            double t = s.total[v];
            s.triples[v] = anova ? (t * t - s.squares[v]) / 2 : manifest.degree == 3 ? t * t * t : t * t;
        }
    }

    private static void sum(double[] basis, int at, double value, int k, double[] total, double[] squares) {
        for (int v = 0; v < k; v++) {
            double a = basis[at + v] * value;
            total[v] += a;
            squares[v] += a * a;
        }
    }

    /** Adds a column to the sums of one, two and three: power sums would cancel (Blondel et al. 2016). */
    private static void triple(double[] basis, int at, double value, int k, Scratch s) {
        for (int v = 0; v < k; v++) {
            double a = basis[at + v] * value;
            s.triples[v] += a * s.squares[v];
            s.squares[v] += a * s.total[v];
            s.total[v] += a;
        }
    }
}
