package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.List;

/**
 * An event in the order of the schema's fields: "" is a missing name, NaN a missing number, an empty array a missing
 * list. A program that scores without garbage writes into one of Scorer.newInput; elements are never null.
 */
public final class Input {
    static final String[] NO_NAMES = {};

    public final String[] categorical;
    public final double[] numeric;
    public final String[][] multi;

    Input(String[] categorical, double[] numeric, String[][] multi) {
        this.categorical = categorical;
        this.numeric = numeric;
        this.multi = multi;
    }

    Input copy() {
        return new Input(categorical.clone(), numeric.clone(), multi.clone());
    }

    /** Returns an event with a name in a field. */
    Input with(int field, String name) {
        Input x = copy();
        x.categorical[field] = name;
        return x;
    }

    /** Returns the fields that the event lacks, in the order of the schema. */
    List<String> absent(Schema s) {
        List<String> found = new ArrayList<>();
        for (int f = 0; f < categorical.length; f++) {
            if (categorical[f].isEmpty()) {
                found.add(s.categorical.get(f));
            }
        }
        for (int f = 0; f < numeric.length; f++) {
            if (Double.isNaN(numeric[f])) {
                found.add(s.numeric.get(f).name());
            }
        }
        for (int f = 0; f < multi.length; f++) {
            if (multi[f].length == 0 && s.optional != null && s.optional.contains(s.multi.get(f))) {
                found.add(s.multi.get(f));
            }
        }
        return found;
    }
}
