package io.github.refitd.snapshot;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * JSON as the format has it: read strictly, and written to the bytes that the Go library writes, over which digests
 * are taken. Values are maps, lists, texts, Long, BigInteger, Double, Boolean and null.
 */
public final class Json {
    private static final int MAX_DEPTH = 1000;
    private static final Pattern TIME =
            Pattern.compile("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,9})?(Z|[+-]\\d\\d:\\d\\d)");

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Is parse of a part. */
    static Object parse(String what, byte[] content, int begin, int end) {
        try {
            Json json = new Json(utf8(content, begin, end));
            Object value = json.value(0);
            json.space();
            if (json.at != json.text.length()) {
                throw json.bad("more than one value");
            }
            return value;
        } catch (CharacterCodingException error) {
            throw new FormatException(what + ": not UTF-8");
        } catch (IllegalArgumentException error) {
            throw new FormatException(what + ": " + error.getMessage());
        }
    }

    /** Returns the value of a JSON text in UTF-8. FormatException names what. */
    public static Object parse(String what, byte[] content) {
        return parse(what, content, 0, content.length);
    }

    static String utf8(byte[] content, int begin, int end) throws CharacterCodingException {
        return StandardCharsets.UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT)
                .onUnmappableCharacter(CodingErrorAction.REPORT)
                .decode(ByteBuffer.wrap(content, begin, end - begin)).toString();
    }

    private IllegalArgumentException bad(String why) {
        return new IllegalArgumentException(why + " at character " + at);
    }

    private void space() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean take(char c) {
        space();
        if (at < text.length() && text.charAt(at) == c) {
            at++;
            return true;
        }
        return false;
    }

    private Object value(int depth) {
        if (depth > MAX_DEPTH) {
            throw bad("too deep");
        }
        if (take('{')) {
            return object(depth);
        }
        if (take('[')) {
            List<Object> list = new ArrayList<>();
            if (take(']')) {
                return list;
            }
            do {
                list.add(value(depth + 1));
            } while (take(','));
            if (!take(']')) {
                throw bad("a list without its end");
            }
            return list;
        }
        if (take('"')) {
            return string();
        }
        for (Map.Entry<String, Object> word : WORDS) {
            if (text.startsWith(word.getKey(), at)) {
                at += word.getKey().length();
                return word.getValue();
            }
        }
        return number();
    }

    private static final List<Map.Entry<String, Object>> WORDS = List.of(
            new java.util.AbstractMap.SimpleEntry<>("null", null), Map.entry("true", true), Map.entry("false", false));

    private Map<String, Object> object(int depth) {
        Map<String, Object> map = new LinkedHashMap<>();
        if (take('}')) {
            return map;
        }
        do {
            if (!take('"')) {
                throw bad("a member without a name");
            }
            String name = string();
            if (!take(':')) {
                throw bad("a member without a value");
            }
            map.put(name, value(depth + 1));
        } while (take(','));
        if (!take('}')) {
            throw bad("an object without its end");
        }
        return map;
    }

    private String string() {
        StringBuilder out = null;
        int begin = at;
        while (at < text.length()) {
            char c = text.charAt(at++);
            if (c == '"') {
                String rest = text.substring(begin, at - 1);
                return out == null ? rest : out.append(rest).toString();
            }
            if (c < ' ') {
                throw bad("a control character in a text");
            }
            if (c == '\\') {
                out = out == null ? new StringBuilder() : out;
                out.append(text, begin, at - 1).append(escaped());
                begin = at;
            }
        }
        throw bad("a text without its end");
    }

    private char escaped() {
        char c = at < text.length() ? text.charAt(at++) : ' ';
        int plain = "\"\\/bfnrt".indexOf(c);
        if (plain >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(plain);
        }
        if (c != 'u' || at + 4 > text.length()) {
            throw bad("an escape that is none");
        }
        int code = 0;
        for (int i = 0; i < 4; i++) {
            char digit = text.charAt(at++);
            int v = digit < 128 ? Character.digit(digit, 16) : -1;
            if (v < 0) {
                throw bad("an escape that is none");
            }
            code = code << 4 | v;
        }
        return (char) code;
    }

    private int digits() {
        int begin = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == begin) {
            throw bad("no value");
        }
        return at - begin;
    }

    private Object number() {
        int begin = at;
        if (at < text.length() && text.charAt(at) == '-') {
            at++;
        }
        int first = at;
        if (digits() > 1 && text.charAt(first) == '0') {
            throw bad("a number that begins with 0");
        }
        boolean whole = true;
        if (at < text.length() && text.charAt(at) == '.') {
            at++;
            digits();
            whole = false;
        }
        if (at < text.length() && (text.charAt(at) | 32) == 'e') {
            at++;
            if (at < text.length() && (text.charAt(at) == '+' || text.charAt(at) == '-')) {
                at++;
            }
            digits();
            whole = false;
        }
        String number = text.substring(begin, at);
        if (whole && !number.equals("-0")) {
            return number.length() < 19 ? (Object) Long.valueOf(number) : shrunk(new BigInteger(number));
        }
        double value = Double.parseDouble(number);
        if (Double.isInfinite(value)) {
            throw bad(number + " is out of the range of numbers");
        }
        return value;
    }

    private static Object shrunk(BigInteger value) {
        return value.bitLength() < 64 ? (Object) value.longValue() : value;
    }

    /** Returns the JSON text of a value as Go's encoding/json writes it. */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map<?, ?> map) {
            String comma = "{";
            for (Map.Entry<?, ?> e : map.entrySet()) {
                out.append(comma);
                writeText(out, (String) e.getKey(), true);
                write(out.append(':'), e.getValue());
                comma = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> list) {
            String comma = "[";
            for (Object v : list) {
                write(out.append(comma), v);
                comma = ",";
            }
            out.append(list.isEmpty() ? "[]" : "]");
        } else if (value instanceof String text) {
            writeText(out, text, true);
        } else if (value instanceof Double number) {
            out.append(writeNumber(number));
        } else {
            out.append(value);
        }
    }

    /** Returns the JSON of a text as the vocabulary has it, where &lt;, &gt; and &amp; are not escaped. */
    static String writeName(String text) {
        StringBuilder out = new StringBuilder();
        writeText(out, text, false);
        return out.toString();
    }

    private static void writeText(StringBuilder out, String text, boolean html) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            int plain = "\"\\\b\f\n\r\t".indexOf(c);
            if (plain >= 0) {
                out.append('\\').append("\"\\bfnrt".charAt(plain));
            } else if (c < ' ' || c == '\u2028' || c == '\u2029' || html && (c == '<' || c == '>' || c == '&')) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /** Writes the shortest decimal that reads back the same, with an exponent below 1e-6 and from 1e21 on. */
    private static String writeNumber(double value) {
        if (value == 0) {
            return 1 / value < 0 ? "-0" : "0";
        }
        BigDecimal shortest = shortest(value).stripTrailingZeros();
        double size = Math.abs(value);
        if (size >= 1e-6 && size < 1e21) {
            return shortest.toPlainString();
        }
        String digits = shortest.unscaledValue().abs().toString();
        int exponent = digits.length() - 1 - shortest.scale();
        return (value < 0 ? "-" : "") + digits.charAt(0) + (digits.length() > 1 ? "." + digits.substring(1) : "") + "e"
                + (exponent < 0 ? "-" : "+") + Math.abs(exponent);
    }

    private static BigDecimal shortest(double value) {
        BigDecimal exact = new BigDecimal(value);
        for (int n = 1; n <= 17; n++) {
            for (RoundingMode mode : List.of(RoundingMode.HALF_EVEN, RoundingMode.UP, RoundingMode.DOWN)) {
                BigDecimal rounded = exact.round(new MathContext(n, mode));
                if (rounded.doubleValue() == value) {
                    return rounded;
                }
            }
        }
        return exact;
    }

    /** Reads a time of RFC 3339; the year 1 means no time and is null. */
    static Instant parseTime(String what, String text) {
        try {
            if (!TIME.matcher(text).matches()) {
                throw new DateTimeException("want a time of RFC 3339");
            }
            Instant at = OffsetDateTime.parse(text).toInstant();
            return at.atOffset(ZoneOffset.UTC).getYear() <= 1 ? null : at;
        } catch (DateTimeException error) {
            throw new FormatException(what + ": '" + text + "': " + error.getMessage());
        }
    }

    /** Writes a time in UTC without trailing zeros; null is the year 1. */
    static String writeTime(Instant at) {
        if (at == null) {
            return "0001-01-01T00:00:00Z";
        }
        OffsetDateTime t = at.atOffset(ZoneOffset.UTC);
        String part = t.getNano() == 0 ? "" : String.format(Locale.ROOT, ".%09d", t.getNano()).replaceFirst("0+$", "");
        return String.format(Locale.ROOT, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", t.getYear(), t.getMonthValue(),
                t.getDayOfMonth(), t.getHour(), t.getMinute(), t.getSecond(), part);
    }

    /** Returns the SHA-256 in hex. */
    static String sha256(byte[] content) {
        return sha256(content, 0, content.length);
    }

    static String sha256(byte[] content, int begin, int end) {
        MessageDigest digest = newSha256();
        digest.update(content, begin, end - begin);
        return HexFormat.of().formatHex(digest.digest());
    }

    static MessageDigest newSha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error); // every Java platform has it
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
