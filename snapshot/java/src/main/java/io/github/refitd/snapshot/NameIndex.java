package io.github.refitd.snapshot;

import java.util.List;

/**
 * The columns of the names of a field, by open addressing. A name of at most 16 characters below 256 is in its slot: to
 * find it takes one cache line, where a HashMap takes five. It never changes.
 */
final class NameIndex {
    private static final int WORDS = 3; // of a slot: the name in two, and its column with its length
    private static final int SHORT = 16;
    private static final int LONG = 255; // in place of the length: the first word is a hash of a name in names

    private final List<String> names;
    private final int first; // the column of the first name
    private final long[] slots;
    private final int mask;

    NameIndex(List<String> names, int first) {
        this.names = names;
        this.first = first;
        int capacity = Math.max(Integer.highestOneBit(names.size()) * 4, 4); // a quarter to a half is used
        mask = capacity - 1;
        slots = new long[capacity * WORDS];
        for (int i = 0; i < names.size(); i++) {
            String name = names.get(i);
            boolean isShort = isShort(name);
            long one = isShort ? word(name, 0) : hash(name);
            long two = isShort ? word(name, 8) : 0;
            int at = slot(one, two);
            while (slots[at * WORDS + 2] != 0) {
                at = at + 1 & mask;
            }
            slots[at * WORDS] = one;
            slots[at * WORDS + 1] = two;
            slots[at * WORDS + 2] = i + 1L << 8 | (isShort ? name.length() : LONG);
        }
    }

    /** Returns the column of a name, or -1. */
    int column(String name) {
        boolean isShort = isShort(name);
        long one = isShort ? word(name, 0) : hash(name);
        long two = isShort ? word(name, 8) : 0;
        int length = isShort ? name.length() : LONG;
        for (int at = slot(one, two);; at = at + 1 & mask) {
            long last = slots[at * WORDS + 2];
            if (last == 0) {
                return -1;
            }
            int i = (int) (last >>> 8) - 1;
            if (slots[at * WORDS] == one && slots[at * WORDS + 1] == two && (last & 0xff) == length
                    && (isShort || names.get(i).equals(name))) {
                return first + i;
            }
        }
    }

    private int slot(long one, long two) {
        long h = (one ^ Long.rotateLeft(two * 0x9E3779B97F4A7C15L, 32)) * 0xD6E8FEB86659FD93L;
        return (int) (h >>> 32) & mask;
    }

    private static boolean isShort(String name) {
        int bits = 0;
        for (int i = 0; i < name.length() && i <= SHORT; i++) {
            bits |= name.charAt(i);
        }
        return name.length() <= SHORT && bits < 256;
    }

    /** Returns up to eight characters from a place on, one a byte. */
    private static long word(String name, int begin) {
        long word = 0;
        for (int i = Math.min(name.length(), begin + 8) - 1; i >= begin; i--) {
            word = word << 8 | name.charAt(i);
        }
        return word;
    }

    private static long hash(String name) {
        long h = name.length();
        for (int i = 0; i < name.length(); i++) {
            h = h * 0x100000001B3L + name.charAt(i);
        }
        return h;
    }
}
