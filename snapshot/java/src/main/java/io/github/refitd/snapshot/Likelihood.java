package io.github.refitd.snapshot;

import java.util.Arrays;

/**
 * The quadratic that approximates the log-likelihood of an event: −½ ω z² + right z for what a row adds to each output,
 * summed where outputs share a row.
 */
final class Likelihood {
    private static final double LOGIT_SCALE = 4; // of the mean loss of outputs, to a squared error by its variance
    private static final double LEAST_PROBABILITY = 1e-6;

    double[] omega; // of each linear weight
    double[] right;
    private final FoldIn f;
    private final EntityRow row;
    private final FoldIn.Field by;
    private final double[] targets;
    private final double[] rest; // outputs without the row
    private final double[][] gradient; // linear × coordinates

    Likelihood(FoldIn f, EntityRow row, FoldIn.Field by, double[] targets, double[] rest, double[][] gradient) {
        this.f = f;
        this.row = row;
        this.by = by;
        this.targets = targets;
        this.rest = rest;
        this.gradient = gradient;
    }

    /** Returns what a row of a mean adds to the output of a linear weight. */
    double ownPart(double[] mean, int c) {
        double sum = mean[c];
        for (int r = 0; r < row.coordinates; r++) {
            sum += gradient[c][r] * mean[row.numLinear + r];
        }
        return sum;
    }

    private int at(int output) {
        return row.numLinear == 1 ? 0 : output;
    }

    private double[] outputs(double[] mean) {
        double[] o = rest.clone();
        for (int c = 0; c < o.length; c++) {
            o[c] += ownPart(mean, at(c));
        }
        return o;
    }

    /** Returns the mean of the rates' means by recent loss. */
    static double[] mixed(EntityRow row, FoldIn.Field by) {
        double least = Double.POSITIVE_INFINITY;
        for (int g = 0; g < row.loss.length; g++) {
            least = Math.min(least, by.losses()[g] + row.loss[g]);
        }
        double[] mixed = new double[row.center.length];
        double sum = 0;
        for (int g = 0; g < row.loss.length; g++) {
            double share = Math.exp(-0.5 * (by.losses()[g] + row.loss[g] - least));
            sum += share;
            for (int i = 0; i < mixed.length; i++) {
                mixed[i] += share * row.means[g][i];
            }
        }
        for (int i = 0; i < mixed.length; i++) {
            mixed[i] /= sum;
        }
        return mixed;
    }

    /** Writes omega and right of an event with a weight. The bound of a logistic likelihood is taken at the row. */
    void observe(double weight) {
        double[] o = outputs(mixed(row, by));
        double[] w = new double[o.length];
        double[] r = new double[o.length];
        switch (f.likelihood()) {
            case "gaussian" -> {
                for (int c = 0; c < o.length; c++) {
                    w[c] = f.noise()[at(c)];
                    r[c] = w[c] * (targets[c] - rest[c]);
                }
            }
            case "logistic" -> {
                double[] variance = variance();
                for (int c = 0; c < o.length; c++) {
                    logistic(c, o[c], variance[at(c)], o.length == 1, w, r);
                    r[c] += w[c] * (o[c] - rest[c]);
                }
            }
            default -> {
                double all = logSumExp(o);
                for (int c = 0; c < o.length; c++) {
                    double p = Math.exp(o[c] - all);
                    w[c] = softmaxWeight(p, targets[c]);
                    r[c] = targets[c] - p + w[c] * (o[c] - rest[c]);
                }
            }
        }
        omega = new double[row.numLinear];
        right = new double[row.numLinear];
        for (int c = 0; c < o.length; c++) {
            omega[at(c)] += weight * w[c];
            right[at(c)] += weight * r[c];
        }
    }

    /** Returns the variances of the outputs by the posterior of the middle rate. */
    private double[] variance() {
        int middle = by.rates().length / 2;
        int begin = EntityRow.block(middle);
        EntityRow.Solved solved = row.solve(by.precision(), begin);
        double[] precision = solved.precision()[middle - begin];
        double[] found = new double[row.numLinear];
        for (int c = 0; c < found.length; c++) {
            double[] slope = new double[row.coordinates];
            for (int r = 0; r < slope.length; r++) {
                slope[r] = gradient[c][r] - row.cross[middle][c][r] / precision[c];
            }
            double[] explained = slope.clone();
            if (solved.factors() == null) {
                Arrays.fill(explained, Double.NaN); // an InputException follows
            } else {
                EntityRow.substitute(solved.factors()[middle - begin], explained);
            }
            found[c] = 1 / precision[c];
            for (int r = 0; r < slope.length; r++) {
                found[c] += slope[r] * explained[r];
            }
        }
        return found;
    }

    /**
     * Writes the curvature of the quadratic for a label of ±1, and its slope at the output: those of the bound, and, of
     * an output that is alone, from there to those of the loss itself as the output is from two to four standard
     * deviations on the side of its label.
     */
    private void logistic(int c, double o, double variance, boolean alone, double[] w, double[] slope) {
        double y = targets[c];
        w[c] = jaakkola(Math.sqrt(o * o + variance));
        slope[c] = 0.5 * y - w[c] * o;
        if (!alone) {
            return;
        }
        double signed = Math.max(y * o, 0);
        double sure = signed / Math.max(2 * Math.sqrt(variance), 1e-300) - 1;
        sure = Math.min(Math.max(sure, 0), 1);
        double e = Math.exp(-signed);
        double p = e / (1 + e);
        w[c] += sure * (p / (1 + e) - w[c]);
        slope[c] += sure * (y * p - slope[c]);
    }

    /** Returns tanh(ξ/2)/(2ξ), the curvature of the bound on the logistic loss (Jaakkola and Jordan 2000, eq. 12). */
    private static double jaakkola(double xi) {
        double e = Math.exp(-xi);
        return xi < 1e-4 ? 0.25 - xi * xi / 48 : (1 - e) / ((1 + e) * 2 * xi);
    }

    /** Returns the curvature for classes: p, for one that did occur at least that of the bound at its log odds. */
    private static double softmaxWeight(double probability, double target) {
        double p = Math.min(Math.max(probability, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY);
        return target == 0 ? p : Math.max(p, jaakkola(Math.abs(Math.log(p / (1 - p)))));
    }

    /** Returns the loss of a mean that decides between rates, on the scale of −2 log-likelihood. */
    double loss(double[] mean) {
        double[] o = outputs(mean);
        double sum = 0;
        if (f.likelihood().equals("multinomial")) {
            double target = 0;
            for (int c = 0; c < o.length; c++) {
                target += targets[c] * o[c];
            }
            return LOGIT_SCALE * (logSumExp(o) - target);
        }
        boolean gaussian = f.likelihood().equals("gaussian");
        for (int c = 0; c < o.length; c++) {
            double d = targets[c] - o[c];
            double z = -targets[c] * o[c];
            sum += gaussian ? f.noise()[at(c)] * d * d
                    : LOGIT_SCALE * (Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z))));
        }
        return sum / o.length;
    }

    private static double logSumExp(double[] o) {
        double most = Arrays.stream(o).max().orElse(0);
        double sum = 0;
        for (double v : o) {
            sum += Math.exp(v - most);
        }
        return most + Math.log(sum);
    }
}
