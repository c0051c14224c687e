package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Conditions of lists on what tables say of names. */
final class Where {
    private static final int MAX_NAMES = 1000; // of a condition

    private Where() {
    }

    /** Reads conditions on columns of tables of a categorical field; known may be null. Throws InputException. */
    static List<Table.Asked> read(Tables known, int field, String over, Map<String, ?> where) {
        List<Table.Asked> found = new ArrayList<>();
        for (Map.Entry<String, ?> e : where == null ? Map.<String, Object>of().entrySet() : where.entrySet()) {
            String column = e.getKey();
            Table.Asked given = condition(column, e.getValue());
            Table.Asked place = known == null ? null : known.column(column);
            if (place == null || place.table().of != field) {
                throw new InputException("where: '" + column + "' is no column of a table of '" + over + "'");
            }
            if (place.kind() == 2 && given.names() != null) {
                throw new InputException("where: '" + column + "' is a number: ask for min and max");
            }
            if (place.kind() != 2 && given.names() == null) {
                throw new InputException("where: '" + column + "' has names: ask for some of them");
            }
            found.add(new Table.Asked(place.table(), place.kind(), place.column(), given.names(), given.least(),
                    given.most()));
        }
        return found;
    }

    /** Returns the names that a condition asks for, or null and bounds. */
    private static Table.Asked condition(String column, Object given) {
        String what = "where: '" + column + "' takes a name, a list of names, or a map with min and max, and of these";
        if (given instanceof Map<?, ?> bounds) {
            boolean missing = bounds.values().stream().anyMatch(Events::isMissing);
            if (bounds.isEmpty() || missing || !Set.of("min", "max").containsAll(bounds.keySet())) {
                throw new InputException(what + " finite numbers");
            }
            double least = Events.number(what, bounds.get("min"));
            double most = Events.number(what, bounds.get("max"));
            return new Table.Asked(null, 2, 0, null, Double.isNaN(least) ? Double.NEGATIVE_INFINITY : least,
                    Double.isNaN(most) ? Double.POSITIVE_INFINITY : most);
        }
        Set<String> names = new HashSet<>();
        if (given instanceof Iterable<?> list) {
            int n = 0;
            for (Object each : list) {
                names.add(name(what, each));
                n++;
            }
            if (n > MAX_NAMES) {
                throw new InputException("where: '" + column + "': want at most " + MAX_NAMES + " names");
            }
        } else {
            names.add(name(what, given));
        }
        return new Table.Asked(null, 0, 0, names, 0, 0);
    }

    /** Is Events.name that also takes true and false, as tables do. */
    private static String name(String what, Object v) {
        return v instanceof Boolean ? v.toString() : Events.name(what, v);
    }

    /** Returns the names for which all conditions hold; at least one condition. */
    static Set<String> passing(List<Table.Asked> where) {
        Set<String> found = null;
        for (Table.Asked a : where) {
            Set<String> passing = new HashSet<>();
            for (String name : found == null ? a.table().entities() : found) {
                Table.Row row = a.table().row(name);
                if (row != null && a.holds(row)) {
                    passing.add(name);
                }
            }
            found = passing;
        }
        return found;
    }
}
