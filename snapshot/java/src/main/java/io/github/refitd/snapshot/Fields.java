package io.github.refitd.snapshot;

import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A JSON object whose members are read by type; null and absent are the zero of the type. A member of another type is
 * a FormatException. It remembers which members were read.
 */
final class Fields {
    final String what;
    final Map<String, Object> value;
    private final Set<String> read = new HashSet<>();
    private final Map<String, List<Fields>> within = new LinkedHashMap<>();
    private final Set<String> single = new HashSet<>();

    @SuppressWarnings("unchecked")
    Fields(String what, Object value) {
        if (!(value instanceof Map)) {
            throw new FormatException(what + ": not an object");
        }
        this.what = what;
        this.value = (Map<String, Object>) value;
    }

    private Object get(String name) {
        read.add(name);
        return value.get(name);
    }

    boolean has(String name) {
        return value.get(name) != null;
    }

    /** Returns the members that were read, as in the text and in its order; of objects in them what was read there. */
    Map<String, Object> known() {
        Map<String, Object> found = new LinkedHashMap<>();
        for (Map.Entry<String, Object> e : value.entrySet()) {
            String name = e.getKey();
            if (!read.contains(name)) {
                continue;
            }
            List<Fields> inner = within.get(name);
            if (inner == null) {
                found.put(name, e.getValue());
            } else if (single.contains(name)) {
                found.put(name, inner.get(0).known());
            } else {
                List<Object> list = new ArrayList<>();
                inner.forEach(f -> list.add(f.known()));
                found.put(name, list);
            }
        }
        return found;
    }

    /** Returns where the members are that nothing has read. */
    List<String> unknown() {
        List<String> found = new ArrayList<>();
        for (String name : value.keySet()) {
            if (!read.contains(name)) {
                found.add(what + "." + name);
            }
        }
        within.values().forEach(list -> list.forEach(f -> found.addAll(f.unknown())));
        return found;
    }

    private FormatException bad(String name, String want) {
        return new FormatException(what + ": " + name + " is not " + want);
    }

    String text(String name) {
        Object v = get(name);
        if (v == null) {
            return "";
        }
        if (v instanceof String text) {
            return text;
        }
        throw bad(name, "a text");
    }

    long whole(String name) {
        return whole(name, get(name));
    }

    private long whole(String name, Object v) {
        if (v == null) {
            return 0;
        }
        if (v instanceof Long whole) {
            return whole;
        }
        throw bad(name, "a whole number");
    }

    /** Returns a whole number of 31 bits; one beyond is a FormatException. */
    int size(String name) {
        long v = whole(name);
        if (v != (int) v) {
            throw bad(name, "in range: " + v);
        }
        return (int) v;
    }

    double number(String name) {
        return number(name, get(name));
    }

    private double number(String name, Object v) {
        if (v == null) {
            return 0;
        }
        if (!(v instanceof Number number)) {
            throw bad(name, "a number");
        }
        double x = number.doubleValue();
        if (Double.isInfinite(x)) {
            throw bad(name, "in the range of numbers");
        }
        return x;
    }

    boolean flag(String name) {
        Object v = get(name);
        if (v == null) {
            return false;
        }
        if (v instanceof Boolean flag) {
            return flag;
        }
        throw bad(name, "true or false");
    }

    @SuppressWarnings("unchecked")
    List<Object> items(String name) {
        Object v = get(name);
        if (v == null) {
            return List.of();
        }
        if (v instanceof List) {
            return (List<Object>) v;
        }
        throw bad(name, "a list");
    }

    List<String> texts(String name) {
        return textsOf(name, items(name));
    }

    List<String> textsOf(String name, List<?> items) {
        List<String> found = new ArrayList<>();
        for (Object v : items) {
            if (!(v instanceof String text)) {
                throw bad(name, "a list of texts");
            }
            found.add(text);
        }
        return found;
    }

    double[] numbers(String name) {
        return items(name).stream().mapToDouble(v -> number(name, v)).toArray();
    }

    int[] wholes(String name) {
        List<Object> items = items(name);
        int[] found = new int[items.size()];
        for (int i = 0; i < found.length; i++) {
            if (!(items.get(i) instanceof Long v) || v != (int) (long) v) {
                throw bad(name, "a list of whole numbers");
            }
            found[i] = (int) (long) v;
        }
        return found;
    }

    List<Fields> objects(String name) {
        List<Object> items = items(name);
        List<Fields> found = new ArrayList<>();
        for (int i = 0; i < items.size(); i++) {
            found.add(new Fields(what + "." + name + "[" + i + "]", items.get(i)));
        }
        if (!items.isEmpty()) {
            within.put(name, found);
        }
        return found;
    }

    /** Returns the object in a member, null where there is no such member. */
    Fields object(String name) {
        Object v = get(name);
        if (v == null) {
            return null;
        }
        Fields found = new Fields(what + "." + name, v);
        within.put(name, List.of(found));
        single.add(name);
        return found;
    }

    /** Returns a time, null where the member is missing or empty. */
    Instant time(String name) {
        String text = text(name);
        return text.isEmpty() ? null : Json.parseTime(what + ": " + name, text);
    }
}
