package io.github.refitd.snapshot;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Reads events, which are maps of the schema's fields to values: a text or a whole number for a name, a number, a list
 * or an array of names. null and NaN are missing, other members are passed over.
 */
final class Events {
    private Events() {
    }

    /** The label of an event: a number, or the names of classes. */
    record Label(double value, List<String> classes) {
    }

    /** Is parse, and throws InputException for a missing field that is neither optional nor but. */
    static Input read(Schema s, Map<String, ?> event, String but) {
        Input x = parse(s, event, but);
        if (s.optional == null) {
            return x;
        }
        List<String> missing = new ArrayList<>();
        for (int f = 0; f < x.categorical.length; f++) {
            if (x.categorical[f].isEmpty()) {
                missing.add(s.categorical.get(f));
            }
        }
        for (int f = 0; f < x.numeric.length; f++) {
            if (Double.isNaN(x.numeric[f])) {
                missing.add(s.numeric.get(f).name());
            }
        }
        for (String name : s.multi) {
            if (isMissing(event.get(name))) {
                missing.add(name);
            }
        }
        for (String name : missing) {
            if (!name.equals(but) && !s.optional.contains(name)) {
                throw new InputException("missing_field: the event has no field '" + name + "'");
            }
        }
        return x;
    }

    /** Reads an event without field but. Throws InputException with the name of a field of another kind. */
    static Input parse(Schema s, Map<String, ?> event, String but) {
        if (event == null) {
            throw new InputException("the event is null: want a map of names and values");
        }
        Input x = new Input(new String[s.categorical.size()], new double[s.numeric.size()],
                new String[s.multi.size()][]);
        for (int f = 0; f < x.categorical.length; f++) {
            String field = s.categorical.get(f);
            Object v = field.equals(but) ? null : event.get(field);
            x.categorical[f] = isMissing(v) ? "" : name("field '" + field + "' is categorical and takes", v);
        }
        for (int f = 0; f < x.numeric.length; f++) {
            String field = s.numeric.get(f).name();
            x.numeric[f] = number("field '" + field + "' is numeric and takes", event.get(field));
        }
        for (int f = 0; f < x.multi.length; f++) {
            Object v = event.get(s.multi.get(f));
            x.multi[f] = isMissing(v) ? Input.NO_NAMES : names("field '" + s.multi.get(f) + "' takes", v);
        }
        return x;
    }

    static boolean isMissing(Object v) {
        return v == null || v instanceof Double d && d.isNaN() || v instanceof Float f && f.isNaN();
    }

    static boolean isWhole(Object v) {
        return v instanceof Long || v instanceof Integer || v instanceof Short || v instanceof Byte
                || v instanceof BigInteger;
    }

    /** Returns the name that a value is: a text, or a whole number, which means its decimal text. */
    static String name(String what, Object v) {
        if (v instanceof String text) {
            return paired(text);
        }
        if (isWhole(v)) {
            return v.toString();
        }
        throw new InputException(what + " a text or a whole number, not " + described(v));
    }

    /** Returns a text in which half a surrogate pair is U+FFFD, as in events of a topic. */
    private static String paired(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (Character.isSurrogate(text.charAt(i))) {
                StringBuilder out = new StringBuilder();
                text.codePoints().forEach(c -> out.appendCodePoint(c >= 0xd800 && c <= 0xdfff ? 0xfffd : c));
                return out.toString();
            }
        }
        return text;
    }

    /** Returns the names in a list or an array. Throws InputException, also for one text, which is none. */
    static String[] names(String what, Object v) {
        List<String> found = new ArrayList<>();
        if (v instanceof Object[] array) {
            v = Arrays.asList(array);
        }
        if (!(v instanceof Iterable<?> list)) {
            throw new InputException(what + " a list of texts or whole numbers, not " + described(v));
        }
        for (Object each : list) {
            found.add(name(what + " a list whose elements are each", each));
        }
        return found.toArray(Input.NO_NAMES);
    }

    /** Returns the number in a field, NaN for none. */
    static double number(String what, Object v) {
        if (isMissing(v)) {
            return Double.NaN;
        }
        if (!(v instanceof Number n)) {
            throw new InputException(what + " a number, not " + described(v));
        }
        if (!Double.isFinite(n.doubleValue())) {
            throw new InputException(what + " a finite number, not " + n);
        }
        return n.doubleValue();
    }

    private static String described(Object v) {
        if (v instanceof Boolean) {
            return v + ": write it as a text, or as 0 or 1";
        }
        return v == null ? "null" : v.getClass().getSimpleName() + (v instanceof Number ? " " + v : "");
    }

    /** Reads the label from the schema's field. Throws InputException if it is missing or of another kind. */
    static Label label(Schema s, Map<String, ?> event) {
        Object v = event.get(s.label);
        if (isMissing(v)) {
            throw new InputException("missing_label: the event has no '" + s.label + "'");
        }
        boolean isName = v instanceof String || isWhole(v);
        if (s.labelNames() != null && isName) {
            String name = name("a label is", v);
            boolean isText = v instanceof String;
            if (name.equals(s.positive) || name.equals(s.negative) || isText && s.negative.isEmpty()) {
                return new Label(name.equals(s.positive) ? 1 : 0, List.of());
            }
            if (isText) {
                throw new InputException("label '" + s.label + "' is '" + name + "', want one of " + s.labelNames());
            }
        }
        String what = "label '" + s.label + "' takes";
        if (!s.task.equals("multiclass") && !s.task.equals("multilabel")) {
            return new Label(number(what, v), List.of());
        }
        List<String> classes = isName ? List.of(name(what, v)) : List.of(names(what, v));
        if (s.task.equals("multiclass") && classes.size() != 1) {
            throw new InputException(
                    "missing_label: the event has " + classes.size() + " classes '" + s.label + "', want one");
        }
        return new Label(Double.NaN, classes);
    }

    /** Returns the targets of a label, one for each output. */
    static double[] targets(Manifest m, double[] range, Label label) {
        Schema s = m.schema;
        double value = label.value;
        String what = "label '" + s.label + "' ";
        if (s.task.equals("multiclass") || s.task.equals("multilabel")) {
            double[] targets = new double[m.numOutputs];
            Arrays.fill(targets, m.link.equals("logistic") ? -1 : 0);
            for (String name : label.classes) {
                if (!s.classes.contains(name)) {
                    throw new InputException(what + "has '" + name + "', which is no class of the model");
                }
                targets[s.classes.indexOf(name)] = 1;
            }
            return targets;
        }
        if (s.task.equals("ordinal") && !(value == Math.rint(value) && value >= 1 && value <= s.levels)) {
            throw new InputException(what + "is " + value + ", want a level from 1 to " + s.levels);
        }
        if (s.task.equals("binary") && value != 0 && value != 1) {
            throw new InputException(what + "is " + value + ", want 0 or 1");
        }
        if (m.link.equals("ordinal")) {
            double[] targets = new double[m.numOutputs];
            for (int c = 0; c < targets.length; c++) {
                targets[c] = value <= c + 1 ? 1 : -1;
            }
            return targets;
        }
        if (m.link.equals("logistic")) {
            return new double[] {2 * value - 1};
        }
        return new double[] {range.length == 0 ? value : Math.min(Math.max(value, range[0]), range[1])};
    }
}
