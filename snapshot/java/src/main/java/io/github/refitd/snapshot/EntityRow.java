package io.github.refitd.snapshot;

import java.util.Arrays;

/**
 * The posterior of one entity: for each rate what its events say, without the prior, and its mean; and the mean of
 * these as a row of the model, linear and basis. Sizes: rates × linear, coordinates, or both.
 */
final class EntityRow {
    private static final int BLOCK = 3; // rates that are solved together, and whose diagonals are raised together

    final int field; // of Schema.categorical
    final int numLinear;
    final int coordinates;
    final double[] center;
    final double[][] means;
    final double[] loss;
    final double[][] diagonal;
    final double[][][] cross;
    final double[][][] square;
    final double[][] right;
    double[] linear;
    double[] basis;

    /** What solve returns of a block of rates, with the Cholesky factors of coordinates; null factors are none. */
    record Solved(double[][] means, double[][] precision, double[][][] factors) {
    }

    EntityRow(int rates, int numLinear, int field, double[] center) {
        this.field = field;
        this.numLinear = numLinear;
        this.center = center;
        coordinates = center.length - numLinear;
        means = new double[rates][];
        Arrays.setAll(means, g -> center.clone());
        loss = new double[rates];
        diagonal = new double[rates][numLinear];
        cross = new double[rates][numLinear][coordinates];
        square = new double[rates][coordinates][coordinates];
        right = new double[rates][center.length];
    }

    /** Returns a row that can be learned on. */
    EntityRow copy() {
        EntityRow r = new EntityRow(loss.length, numLinear, field, center);
        System.arraycopy(loss, 0, r.loss, 0, loss.length);
        for (int g = 0; g < loss.length; g++) {
            r.means[g] = means[g].clone();
            r.diagonal[g] = diagonal[g].clone();
            r.right[g] = right[g].clone();
            for (int c = 0; c < numLinear; c++) {
                r.cross[g][c] = cross[g][c].clone();
            }
            for (int i = 0; i < coordinates; i++) {
                r.square[g][i] = square[g][i].clone();
            }
        }
        return r;
    }

    /** Adds an event: omega and slope of each linear weight, gradient linear × coordinates; keep by rate. */
    void add(double[] keep, double[] omega, double[] slope, double[][] gradient) {
        for (int g = 0; g < keep.length; g++) {
            for (int i = 0; i < right[g].length; i++) {
                right[g][i] *= keep[g];
            }
            for (int r = 0; r < coordinates; r++) {
                for (int q = 0; q < coordinates; q++) {
                    square[g][r][q] *= keep[g];
                }
            }
            for (int c = 0; c < numLinear; c++) {
                diagonal[g][c] = keep[g] * diagonal[g][c] + omega[c];
                right[g][c] += slope[c];
                for (int r = 0; r < coordinates; r++) {
                    double w = omega[c] * gradient[c][r];
                    cross[g][c][r] = keep[g] * cross[g][c][r] + w;
                    right[g][numLinear + r] += gradient[c][r] * slope[c];
                    for (int q = 0; q < coordinates; q++) {
                        square[g][r][q] += w * gradient[c][q];
                    }
                }
            }
        }
    }

    /** Solves all rates, given the precisions of the prior. */
    void solve(double[] prior) {
        for (int begin = 0; begin < loss.length; begin += BLOCK) {
            double[][] solved = solve(prior, begin).means;
            System.arraycopy(solved, 0, means, begin, solved.length);
        }
    }

    /** Returns where the block of a rate begins. */
    static int block(int rate) {
        return rate / BLOCK * BLOCK;
    }

    /**
     * Returns the posterior means of a block of rates, the precisions of their linear weights, and the factors of
     * those of their coordinates with the linear weights eliminated. If rounding defeats that the diagonal is raised.
     */
    Solved solve(double[] prior, int begin) {
        int n = Math.min(BLOCK, loss.length - begin);
        double[][] precision = new double[n][numLinear];
        double[][][] rest = new double[n][coordinates][];
        for (int i = 0; i < n; i++) {
            int g = begin + i;
            for (int c = 0; c < numLinear; c++) {
                precision[i][c] = diagonal[g][c] + prior[c];
            }
            for (int r = 0; r < coordinates; r++) {
                rest[i][r] = square[g][r].clone();
                for (int q = 0; q < coordinates; q++) {
                    double sum = 0;
                    for (int c = 0; c < numLinear; c++) {
                        sum += cross[g][c][r] / precision[i][c] * cross[g][c][q];
                    }
                    rest[i][r][q] -= sum;
                }
            }
        }
        double[][] found = new double[n][];
        double[][][] factors = factors(prior, begin, rest);
        for (int i = 0; i < n; i++) { // without factors: numbers beyond rounding, the events say nothing
            found[i] = factors == null ? center.clone() : mean(prior, begin + i, precision[i], factors[i]);
        }
        return new Solved(found, precision, factors);
    }

    private double[][][] factors(double[] prior, int begin, double[][][] rest) {
        for (double lift = 0; lift <= 1; lift = Math.max(1e-12, 100 * lift)) {
            double[][][] factors = new double[rest.length][][];
            boolean all = true;
            for (int i = 0; i < rest.length && all; i++) {
                double[][] trial = new double[coordinates][];
                for (int r = 0; r < coordinates; r++) {
                    trial[r] = rest[i][r].clone();
                    double p = prior[numLinear + r];
                    trial[r][r] += p + lift * (1 + p + square[begin + i][r][r]);
                }
                factors[i] = trial;
                all = cholesky(trial);
            }
            if (all) {
                return factors;
            }
        }
        return null;
    }

    private double[] mean(double[] prior, int g, double[] precision, double[][] factor) {
        double[] b = new double[center.length];
        for (int i = 0; i < b.length; i++) {
            b[i] = right[g][i] + prior[i] * center[i];
        }
        double[] u = new double[coordinates];
        for (int r = 0; r < coordinates; r++) {
            u[r] = b[numLinear + r];
            for (int c = 0; c < numLinear; c++) {
                u[r] -= cross[g][c][r] * (b[c] / precision[c]);
            }
        }
        substitute(factor, u);
        System.arraycopy(u, 0, b, numLinear, coordinates);
        for (int c = 0; c < numLinear; c++) {
            for (int r = 0; r < coordinates; r++) {
                b[c] -= cross[g][c][r] * u[r];
            }
            b[c] /= precision[c];
        }
        return b;
    }

    /** Factors a matrix in place, its lower triangle; false if it is not positive definite. */
    private static boolean cholesky(double[][] a) {
        for (int j = 0; j < a.length; j++) {
            for (int i = j; i < a.length; i++) {
                double sum = a[i][j];
                for (int q = 0; q < j; q++) {
                    sum -= a[i][q] * a[j][q];
                }
                if (i == j) {
                    if (!(sum > 0 && sum < Double.POSITIVE_INFINITY)) {
                        return false;
                    }
                    a[j][j] = Math.sqrt(sum);
                } else {
                    a[i][j] = sum / a[j][j];
                }
            }
        }
        return true;
    }

    /** Solves for a vector in place by a Cholesky factor. */
    static void substitute(double[][] factor, double[] u) {
        for (int i = 0; i < u.length; i++) {
            for (int q = 0; q < i; q++) {
                u[i] -= factor[i][q] * u[q];
            }
            u[i] /= factor[i][i];
        }
        for (int i = u.length - 1; i >= 0; i--) {
            for (int q = i + 1; q < u.length; q++) {
                u[i] -= factor[q][i] * u[q];
            }
            u[i] /= factor[i][i];
        }
    }

    /** Reports whether all numbers are finite. */
    boolean isFinite() {
        boolean all = finite(linear, basis, loss) && finite(means) && finite(diagonal) && finite(right);
        for (int g = 0; g < loss.length; g++) {
            all &= finite(cross[g]) && finite(square[g]);
        }
        return all;
    }

    private static boolean finite(double[]... rows) {
        return Arrays.stream(rows).allMatch(row -> Arrays.stream(row).allMatch(Double::isFinite));
    }
}
