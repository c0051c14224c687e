package io.github.refitd.snapshot;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The frames in which deltas are stored and sent. */
final class Frames {
    // The last byte is the form: TREES of a delta with trees.
    static final byte[] MAGIC = Json.bytes("RFDELTA1");
    private static final byte TREES = '2';
    static final byte[] SIGNED = Json.bytes("refitd delta 1\n"); // before a header where it is signed
    static final int FIXED = MAGIC.length + 4 + 32;
    private static final int SIGNATURE_BYTES = 64;
    private static final int MAX_HEADER_BYTES = 1 << 20;
    private static final int MAX_PAYLOAD_BYTES = 64 << 20;

    private Frames() {
    }

    /** Returns where the frame at a place ends, -1 if it is cut off. Throws FormatException or DigestException. */
    static int end(byte[] content, int at) {
        int n = Math.min(MAGIC.length - 1, content.length - at);
        if (!Arrays.equals(content, at, at + n, MAGIC, 0, n)) {
            throw new FormatException("not a delta: it does not begin as one");
        }
        if (content.length - at < FIXED) {
            return -1;
        }
        byte form = content[at + MAGIC.length - 1];
        if (form != MAGIC[MAGIC.length - 1] && form != TREES) {
            throw new FormatException("a delta of form " + (char) form
                    + ": it is of a newer format: use a newer build of this package");
        }
        int length = headerBytes(content, at);
        if (length < 0 || length > MAX_HEADER_BYTES) {
            throw new FormatException("delta: header of " + length + " bytes, the limit is " + MAX_HEADER_BYTES);
        }
        long end = (long) at + FIXED + length;
        if (content.length < end) {
            return -1;
        }
        Fields f = header(content, at, (int) end);
        end += f.whole("payload_bytes") + (f.text("key_id").isEmpty() ? 0 : SIGNATURE_BYTES);
        return end <= content.length ? (int) end : -1;
    }

    static int headerBytes(byte[] content, int at) {
        return ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN).getInt(at + MAGIC.length);
    }

    /** Reads the header of a frame, its digest first. */
    static Fields header(byte[] content, int at, int end) {
        byte[] digest = Arrays.copyOfRange(content, at + FIXED - 32, at + FIXED);
        if (!Json.sha256(content, at + FIXED, end).equals(java.util.HexFormat.of().formatHex(digest))) {
            throw new DigestException("delta: the header was altered: take it from the publisher again");
        }
        Fields f = new Fields("delta", Json.parse("delta", content, at + FIXED, end));
        long size = f.whole("payload_bytes");
        long rows = f.whole("rows");
        long added = f.whole("added");
        long tableRows = f.whole("table_rows");
        boolean inRange = size >= 0 && size <= MAX_PAYLOAD_BYTES && added >= 0 && added <= rows
                && rows <= MAX_PAYLOAD_BYTES && tableRows >= 0 && tableRows <= MAX_PAYLOAD_BYTES;
        if (!inRange) {
            throw new FormatException("delta: " + added + " names, " + rows + " rows, " + size
                    + " bytes: out of range (at most " + MAX_PAYLOAD_BYTES + " bytes)");
        }
        long trees = f.whole("trees_bytes");
        if (trees < 0 || trees > size || (content[at + MAGIC.length - 1] == TREES) != trees > 0) {
            throw new FormatException("delta: " + trees + " bytes of trees of " + size + ", in a frame of form "
                    + (char) content[at + MAGIC.length - 1]);
        }
        return f;
    }

    /** Returns the whole frames of some bytes; what is cut off at their end is left out. */
    static List<byte[]> split(byte[] content) {
        List<byte[]> frames = new ArrayList<>();
        for (int at = 0; at < content.length;) {
            int end = end(content, at);
            if (end < 0) {
                break;
            }
            frames.add(Arrays.copyOfRange(content, at, end));
            at = end;
        }
        return frames;
    }
}
