package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** The rows of one table. It never changes. */
final class Table {
    /** The order of names in files, which is that of their bytes in UTF-8. */
    static final Comparator<String> BY_CODE_POINT = Table::compare;

    final String name;
    final int of; // categorical field whose names are the entities
    final String ofName;
    final List<String> names; // of the entities that have a row, ascending
    final List<Names> categorical;
    final List<Lists> multi;
    final List<Numbers> numeric;
    private final Map<String, Integer> rows; // by name
    private final Map<String, Row> changed; // by deltas; null is a row that is gone

    /** What a table says of an entity, in the order of its columns: "" is no name, NaN no number. */
    record Row(String[] categorical, String[][] multi, double[] numeric) {
    }

    /** At most one name of each row: places in values, which ascend; -1 is none. field is of Schema.categorical. */
    record Names(String name, int field, List<String> values, int[] at) {
    }

    /** A list of names of each row: places in values from starts[row] on. field is of Schema.multi. */
    record Lists(String name, int field, List<String> values, int[] starts, int[] at) {
    }

    /** A number of each row, NaN for none. field is of Schema.numeric. */
    record Numbers(String name, int field, double[] values) {
    }

    Table(String name, int of, String ofName, List<String> names, List<Names> categorical, List<Lists> multi,
            List<Numbers> numeric) {
        this.name = name;
        this.of = of;
        this.ofName = ofName;
        this.names = names;
        this.categorical = categorical;
        this.multi = multi;
        this.numeric = numeric;
        rows = index(names);
        changed = Map.of();
    }

    private Table(Table t, Map<String, Row> changed) {
        name = t.name;
        of = t.of;
        ofName = t.ofName;
        names = t.names;
        categorical = t.categorical;
        multi = t.multi;
        numeric = t.numeric;
        rows = t.rows;
        this.changed = changed;
    }

    private static int compare(String a, String b) {
        int n = Math.min(a.length(), b.length());
        for (int i = 0; i < n; i++) {
            char x = a.charAt(i);
            char y = b.charAt(i);
            if (x != y) {
                boolean surrogate = Character.isSurrogate(x);
                return surrogate != Character.isSurrogate(y) ? surrogate ? 1 : -1 : x - y;
            }
        }
        return a.length() - b.length();
    }

    static Map<String, Integer> index(List<String> names) {
        Map<String, Integer> found = new HashMap<>(names.size() * 2);
        for (int i = 0; i < names.size(); i++) {
            found.put(names.get(i), i);
        }
        return found;
    }

    /** Returns what the table says of an entity, null for nothing. */
    Row row(String entity) {
        if (changed.containsKey(entity)) {
            return changed.get(entity);
        }
        Integer at = rows.get(entity);
        return at == null ? null : row(at);
    }

    private Row row(int at) {
        String[] name = new String[categorical.size()];
        for (int i = 0; i < name.length; i++) {
            int v = categorical.get(i).at[at];
            name[i] = v < 0 ? "" : categorical.get(i).values.get(v);
        }
        String[][] lists = new String[multi.size()][];
        for (int i = 0; i < lists.length; i++) {
            Lists c = multi.get(i);
            lists[i] = Arrays.stream(c.at, c.starts[at], c.starts[at + 1]).mapToObj(c.values::get)
                    .toArray(String[]::new);
        }
        return new Row(name, lists, numeric.stream().mapToDouble(c -> c.values[at]).toArray());
    }

    /** Returns the names that have a row, in no order. */
    List<String> entities() {
        List<String> found = new ArrayList<>();
        for (String entity : names) {
            if (!changed.containsKey(entity)) {
                found.add(entity);
            }
        }
        changed.forEach((entity, row) -> {
            if (row != null) {
                found.add(entity);
            }
        });
        return found;
    }

    /** Returns the table after changes; of one name the last counts. */
    Table with(Map<String, Row> changes, int most) {
        Map<String, Row> all = new HashMap<>(changed);
        all.putAll(changes);
        Table t = new Table(this, all);
        return all.size() > most + names.size() / 8 ? t.current() : t;
    }

    /** Returns the table with all changes in it. */
    Table current() {
        if (changed.isEmpty()) {
            return this;
        }
        List<String> entities = entities();
        entities.sort(BY_CODE_POINT);
        List<Row> list = entities.stream().map(this::row).toList();
        List<Names> newNames = new ArrayList<>();
        for (int i = 0; i < categorical.size(); i++) {
            int column = i;
            TreeMap<String, Integer> values = new TreeMap<>(BY_CODE_POINT);
            list.forEach(row -> values.put(row.categorical[column], 0));
            values.remove("");
            number(values);
            int[] at = list.stream().mapToInt(row -> values.getOrDefault(row.categorical[column], -1)).toArray();
            Names c = categorical.get(i);
            newNames.add(new Names(c.name, c.field, List.copyOf(values.keySet()), at));
        }
        List<Lists> newLists = new ArrayList<>();
        for (int i = 0; i < multi.size(); i++) {
            int column = i;
            TreeMap<String, Integer> values = new TreeMap<>(BY_CODE_POINT);
            list.forEach(row -> Arrays.stream(row.multi[column]).forEach(v -> values.put(v, 0)));
            number(values);
            int[] starts = new int[list.size() + 1];
            for (int r = 0; r < list.size(); r++) {
                starts[r + 1] = starts[r] + list.get(r).multi[column].length;
            }
            int[] at = list.stream().flatMap(row -> Arrays.stream(row.multi[column])).mapToInt(values::get).toArray();
            newLists.add(new Lists(multi.get(i).name, multi.get(i).field, List.copyOf(values.keySet()), starts, at));
        }
        List<Numbers> newNumbers = new ArrayList<>();
        for (int i = 0; i < numeric.size(); i++) {
            int column = i;
            double[] values = list.stream().mapToDouble(row -> row.numeric[column]).toArray();
            newNumbers.add(new Numbers(numeric.get(i).name, numeric.get(i).field, values));
        }
        return new Table(name, of, ofName, entities, newNames, newLists, newNumbers);
    }

    private static void number(TreeMap<String, Integer> values) {
        int i = 0;
        for (Map.Entry<String, Integer> e : values.entrySet()) {
            e.setValue(i++);
        }
    }

    /** Returns the members of its head in the file. */
    Map<String, Object> head() {
        Map<String, Object> head = new LinkedHashMap<>();
        head.put("name", name);
        head.put("of", ofName);
        head.put("rows", (long) names.size());
        List<Object> list = new ArrayList<>();
        categorical.forEach(c -> list.add(column(c.name, c.values, 0)));
        head.put("categorical", list);
        List<Object> lists = new ArrayList<>();
        multi.forEach(c -> lists.add(column(c.name, c.values, c.at.length)));
        head.put("multi", lists);
        head.put("numeric", numeric.stream().map(Numbers::name).toList());
        return head;
    }

    private static Map<String, Object> column(String field, List<String> values, long entries) {
        Map<String, Object> c = new LinkedHashMap<>();
        c.put("field", field);
        c.put("values", (long) values.size());
        if (entries > 0) {
            c.put("entries", entries);
        }
        return c;
    }

    /** A condition on a column: some names, or a number within bounds. Kind 0 is categorical, 1 multi, 2 numeric. */
    record Asked(Table table, int kind, int column, Set<String> names, double least, double most) {
        boolean holds(Row row) {
            return switch (kind) {
                case 0 -> !row.categorical[column].isEmpty() && names.contains(row.categorical[column]);
                case 1 -> Arrays.stream(row.multi[column]).anyMatch(names::contains);
                default -> row.numeric[column] >= least && row.numeric[column] <= most;
            };
        }
    }
}
