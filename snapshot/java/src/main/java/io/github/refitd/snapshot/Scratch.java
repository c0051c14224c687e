package io.github.refitd.snapshot;

/** The memory of one scoring at a time; of one thread, for any models. A second use makes no garbage. */
public final class Scratch {
    int[] index = new int[64]; // the columns of an event, with their values
    double[] value = new double[64];
    int count;
    double[] total = {}; // of each basis vector: the sum over the columns, of degree 3 anova of products by two
    double[] squares = {};
    double[] triples = {};
    double[] scaled = {}; // the numbers of a feature map
    double[] mapped = {};
    boolean hasMapped;
    double touched; // keeps what only has to be read

    void add(int column, double v) {
        if (count == index.length) {
            index = java.util.Arrays.copyOf(index, 2 * count);
            value = java.util.Arrays.copyOf(value, 2 * count);
        }
        index[count] = column;
        value[count++] = v;
    }

    void size(int vectors, int numbers, int columns) {
        total = total.length == vectors ? total : new double[vectors];
        squares = squares.length == vectors ? squares : new double[vectors];
        triples = triples.length == vectors ? triples : new double[vectors];
        scaled = scaled.length == numbers ? scaled : new double[numbers];
        mapped = mapped.length == columns ? mapped : new double[columns];
    }
}
