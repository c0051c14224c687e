package io.github.refitd.snapshot;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToIntFunction;

/** What a version knows of entities: rows of tables, which are joined to events. It never changes. */
final class Tables {
    static final String FILE = "tables";
    private static final int VERSION = 1; // of the file's form
    private static final int MAX_TABLES = 64;
    private static final int MOST_CHANGED = 4096; // rows apart from a table, in addition to an eighth of its own
    private static final long NAN = 0x7FF8000000000001L; // as Go writes it

    final List<Table> tables;

    Tables(List<Table> tables) {
        this.tables = tables;
    }

    /** A change of a row by a delta: the place of the table, a name, and null for a row that is gone. */
    record Change(int table, String name, Table.Row row) {
    }

    boolean has(int field) {
        return tables.stream().anyMatch(t -> t.of == field);
    }

    /** Returns the place of a column as a condition without names and bounds, null where there is none. */
    Table.Asked column(String name) {
        for (Table t : tables) {
            for (int i = 0; i < t.categorical.size(); i++) {
                if (t.categorical.get(i).name().equals(name)) {
                    return new Table.Asked(t, 0, i, Set.of(), 0, 0);
                }
            }
            for (int i = 0; i < t.multi.size(); i++) {
                if (t.multi.get(i).name().equals(name)) {
                    return new Table.Asked(t, 1, i, Set.of(), 0, 0);
                }
            }
            for (int i = 0; i < t.numeric.size(); i++) {
                if (t.numeric.get(i).name().equals(name)) {
                    return new Table.Asked(t, 2, i, Set.of(), 0, 0);
                }
            }
        }
        return null;
    }

    /** Returns an event with what tables know of its entities in the columns that it lacks, table by table in order. */
    Input join(Input event) {
        Input x = event.copy();
        for (Table t : tables) {
            String name = x.categorical[t.of];
            Table.Row row = name.isEmpty() ? null : t.row(name);
            if (row == null) {
                continue;
            }
            for (int i = 0; i < t.categorical.size(); i++) {
                int f = t.categorical.get(i).field();
                x.categorical[f] = x.categorical[f].isEmpty() ? row.categorical()[i] : x.categorical[f];
            }
            for (int i = 0; i < t.numeric.size(); i++) {
                int f = t.numeric.get(i).field();
                x.numeric[f] = Double.isNaN(x.numeric[f]) ? row.numeric()[i] : x.numeric[f];
            }
            for (int i = 0; i < t.multi.size(); i++) {
                int f = t.multi.get(i).field();
                x.multi[f] = x.multi[f].length == 0 ? row.multi()[i] : x.multi[f];
            }
        }
        return x;
    }

    /** Returns an event that lacks what tables say of a field. */
    Input without(int field, Input event) {
        Input x = event.copy();
        for (Table t : tables) {
            if (t.of == field) {
                t.categorical.forEach(c -> x.categorical[c.field()] = "");
                t.numeric.forEach(c -> x.numeric[c.field()] = Double.NaN);
                t.multi.forEach(c -> x.multi[c.field()] = Input.NO_NAMES);
            }
        }
        return x;
    }

    /** Returns the tables after changes; of one name the last counts. */
    Tables changed(List<Change> changes) {
        Map<Integer, Map<String, Table.Row>> byTable = new LinkedHashMap<>();
        for (Change c : changes) {
            byTable.computeIfAbsent(c.table, t -> new HashMap<>()).put(c.name, c.row);
        }
        List<Table> changed = new ArrayList<>(tables);
        byTable.forEach((at, rows) -> changed.set(at, changed.get(at).with(rows, MOST_CHANGED)));
        return new Tables(changed);
    }

    /** Returns the file that the Go library writes of the tables with all changes. */
    byte[] encode() {
        List<Object> heads = new ArrayList<>();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (Table table : tables) {
            Table t = table.current();
            heads.add(t.head());
            texts(out, t.names);
            for (Table.Names c : t.categorical) {
                texts(out, c.values());
                for (int v : c.at()) {
                    put(out, v + 1);
                }
            }
            for (Table.Lists c : t.multi) {
                texts(out, c.values());
                for (int i = 1; i < c.starts().length; i++) {
                    put(out, c.starts()[i] - c.starts()[i - 1]);
                }
                for (int v : c.at()) {
                    put(out, v);
                }
            }
            for (Table.Numbers c : t.numeric) {
                for (double v : c.values()) {
                    long bits = Double.isNaN(v) ? NAN : Double.doubleToRawLongBits(v);
                    put(out, (int) bits);
                    put(out, (int) (bits >> 32));
                }
            }
        }
        Map<String, Object> head = new LinkedHashMap<>();
        head.put("version", (long) VERSION);
        head.put("tables", heads.isEmpty() ? null : heads);
        byte[] first = Json.bytes(Json.write(head) + "\n");
        return ByteBuffer.allocate(first.length + out.size()).put(first).put(out.toByteArray()).array();
    }

    private static void put(ByteArrayOutputStream out, int v) {
        for (int shift = 0; shift < 32; shift += 8) {
            out.write(v >> shift);
        }
    }

    private static void texts(ByteArrayOutputStream out, List<String> names) {
        names.forEach(name -> put(out, Json.bytes(name).length));
        names.forEach(name -> out.writeBytes(Json.bytes(name)));
    }

    private static FormatException bad(String why) {
        return new FormatException(FILE + ": " + why);
    }

    /** Reads what follows the first line. Memory is taken once the file is long enough. */
    private record Reader(byte[] content, ByteBuffer in) {
        void need(long count, int size) {
            if (count < 0 || count > in.remaining() / size) {
                throw bad("it is shorter than its first line says");
            }
        }

        int[] wholes(long count) {
            need(count, 4);
            int[] found = new int[(int) count];
            for (int i = 0; i < found.length; i++) {
                found[i] = in.getInt();
            }
            return found;
        }

        /** Returns places, which lie below a limit, each less one. */
        int[] places(String column, long count, int less, int limit) {
            int[] found = wholes(count);
            for (int i = 0; i < found.length; i++) {
                long v = (found[i] & 0xffffffffL) - less;
                if (v >= limit) {
                    throw bad("column '" + column + "' has a place outside of its " + limit + " values");
                }
                found[i] = (int) v;
            }
            return found;
        }

        /** Reads names, which ascend. */
        List<String> texts(String what, long count) {
            List<String> names = new ArrayList<>();
            String last = "";
            for (int length : wholes(count)) {
                need(length & 0xffffffffL, 1);
                try {
                    String name = Json.utf8(content, in.position(), in.position() + length);
                    if (Table.BY_CODE_POINT.compare(last, name) >= 0) {
                        throw bad(what + ": an empty name, or names that do not ascend");
                    }
                    names.add(name);
                    last = name;
                } catch (CharacterCodingException error) {
                    throw bad(what + ": a name is not UTF-8");
                }
                in.position(in.position() + length);
            }
            return names;
        }
    }

    /** Throws FormatException for what is no such file of a version with the schema. */
    static Tables decode(byte[] content, Schema schema) {
        int end = Contents.find(content, (byte) '\n', 0);
        Fields f = new Fields(FILE, Json.parse(FILE, content, 0, end < 0 ? content.length : end));
        if (f.whole("version") != VERSION || end < 0) {
            throw bad("version " + f.whole("version") + ", this build reads " + VERSION
                    + ": the version is of a newer format: use a newer build of this package");
        }
        List<Fields> heads = f.objects("tables");
        if (heads.size() > MAX_TABLES) {
            throw bad(heads.size() + " tables, at most " + MAX_TABLES);
        }
        ByteBuffer rest = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN).position(end + 1);
        Reader reader = new Reader(content, rest);
        Set<String> seen = new HashSet<>();
        List<Table> tables = new ArrayList<>();
        heads.forEach(h -> tables.add(table(h, reader, schema, seen)));
        if (rest.hasRemaining()) {
            throw bad("it is longer than its first line says");
        }
        Schema.distinct(FILE, tables.stream().map(t -> t.name).toList());
        return new Tables(tables);
    }

    private static Table table(Fields h, Reader reader, Schema schema, Set<String> seen) {
        String name = h.text("name");
        String of = h.text("of");
        long count = h.whole("rows");
        if (!schema.categorical.contains(of)) {
            throw bad("table '" + name + "' of '" + of + "': want a categorical field");
        }
        List<String> names = reader.texts(name, count);
        List<Table.Names> categorical = new ArrayList<>();
        for (Fields c : h.objects("categorical")) {
            String column = c.text("field");
            List<String> values = reader.texts(column, c.whole("values"));
            int[] at = reader.places(column, count, 1, values.size());
            int field = place(schema, of, column, seen, schema.categorical::indexOf);
            categorical.add(new Table.Names(column, field, values, at));
        }
        List<Table.Lists> multi = new ArrayList<>();
        for (Fields c : h.objects("multi")) {
            multi.add(lists(c, reader, count, column -> place(schema, of, column, seen, schema.multi::indexOf)));
        }
        List<Table.Numbers> numeric = new ArrayList<>();
        for (String column : h.texts("numeric")) {
            int field = place(schema, of, column, seen, schema::numericIndex);
            reader.need(count, 8);
            double[] values = new double[(int) count];
            for (int i = 0; i < values.length; i++) {
                values[i] = reader.in.getDouble();
                if (Double.isInfinite(values[i])) {
                    throw bad("column '" + column + "' has a number that is infinite");
                }
            }
            numeric.add(new Table.Numbers(column, field, values));
        }
        return new Table(name, schema.categorical.indexOf(of), of, names, categorical, multi, numeric);
    }

    private static Table.Lists lists(Fields c, Reader reader, long count, ToIntFunction<String> place) {
        String column = c.text("field");
        List<String> values = reader.texts(column, c.whole("values"));
        int[] lengths = reader.wholes(count);
        int[] at = reader.places(column, c.whole("entries"), 0, values.size());
        long total = 0;
        int[] starts = new int[lengths.length + 1];
        for (int i = 0; i < lengths.length; i++) {
            total += lengths[i] & 0xffffffffL;
            starts[i + 1] = (int) total;
        }
        if (total != at.length) {
            throw bad("column '" + column + "' has lists of other lengths");
        }
        return new Table.Lists(column, place.applyAsInt(column), values, starts, at);
    }

    /** Returns the field of a column, which is optional and no other column's. */
    private static int place(Schema schema, String of, String column, Set<String> seen, ToIntFunction<String> field) {
        int found = field.applyAsInt(column);
        if (found < 0 || column.equals(of) || !schema.isOptional(column) || !seen.add(column)) {
            throw bad("column '" + column + "': want an optional field of the schema that no other column is");
        }
        return found;
    }

    /** Reads a row of a delta: ["items","i1",["drama"],[["a"]],[3.5]], or ["items","i1"] of one that is gone. */
    Change decodeRow(String what, Object value) {
        List<?> parts = value instanceof List<?> list ? list : List.of();
        int at = -1;
        for (int i = 0; i < tables.size() && !parts.isEmpty(); i++) {
            at = tables.get(i).name.equals(parts.get(0)) ? i : at;
        }
        if (parts.size() != 2 && parts.size() != 5 || at < 0 || !isName(parts.get(1)) || parts.get(1).equals("")) {
            throw new FormatException(
                    what + ": want a table of the version, a name, and what each kind of columns has");
        }
        String name = (String) parts.get(1);
        if (parts.size() == 2) {
            return new Change(at, name, null);
        }
        Table t = tables.get(at);
        List<?> categorical = list(what, parts.get(2), t.categorical.size());
        List<?> multi = list(what, parts.get(3), t.multi.size());
        List<?> numeric = list(what, parts.get(4), t.numeric.size());
        String[] names = categorical.stream().map(v -> name(what, v == null ? "" : v)).toArray(String[]::new);
        String[][] lists = multi.stream().map(v -> list(what, v, -1).stream().map(each -> name(what, each))
                .filter(each -> nonEmpty(what, each)).toArray(String[]::new)).toArray(String[][]::new);
        double[] numbers = new double[numeric.size()];
        for (int i = 0; i < numbers.length; i++) {
            Object v = numeric.get(i);
            numbers[i] = v == null ? Double.NaN
                    : new Fields(what, Collections.singletonMap("number", v)).number("number");
        }
        return new Change(at, name, new Table.Row(names, lists, numbers));
    }

    private static List<?> list(String what, Object value, int size) {
        List<?> found = value instanceof List<?> list ? list : List.of();
        if (value != null && !(value instanceof List) || size >= 0 && found.size() != size) {
            throw new FormatException(what + ": no list, or other columns than those of the table");
        }
        return found;
    }

    private static boolean isName(Object v) {
        return v instanceof String s && s.codePoints().noneMatch(c -> c >= 0xd800 && c <= 0xdfff);
    }

    private static String name(String what, Object v) {
        if (!isName(v)) {
            throw new FormatException(what + ": a name is no text");
        }
        return (String) v;
    }

    private static boolean nonEmpty(String what, String name) {
        if (name.isEmpty()) {
            throw new FormatException(what + ": an empty name in a list");
        }
        return true;
    }
}
