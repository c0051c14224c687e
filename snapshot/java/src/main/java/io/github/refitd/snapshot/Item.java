package io.github.refitd.snapshot;

/**
 * A name of a ranking, with what is ranked by: the prediction of a regression or an ordinal label, the probability of
 * 1 of a binary one, that of the class otherwise; the output where the link has no probabilities.
 */
public record Item(String name, double value) {
}
