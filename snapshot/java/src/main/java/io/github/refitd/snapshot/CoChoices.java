package io.github.refitd.snapshot;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;

/** Names that are chosen by the same entities, which lists take into account. It never changes. */
final class CoChoices {
    static final String FILE = "cochoices";
    static final int MAX_BYTES = 256 << 20;
    private static final int VERSION = 1; // of the file's form
    private static final int MAX_RECENT = 64;

    final int over; // field of the schema whose names are chosen
    final int by; // field of who chooses
    final int[][] recent; // by name of by: places of the names chosen last, oldest first; -1 is not known
    private final double halfLife;
    private final double weight;
    private final double scale;
    private final int[][] places; // by name of over
    private final float[][] lifts;

    /** Throws FormatException for what is no such file of a version with the schema and the vocabulary. */
    CoChoices(byte[] content, Schema schema, List<List<String>> vocabulary) {
        int end = Contents.find(content, (byte) '\n', 0);
        end = end < 0 ? content.length : end;
        Fields f = new Fields(FILE, Json.parse(FILE, content, 0, end));
        if (f.whole("version") != VERSION) {
            throw new FormatException(FILE + ": version " + f.whole("version") + ", this build reads " + VERSION
                    + ": use a newer build of this package");
        }
        over = schema.categorical.indexOf(f.text("over"));
        by = schema.categorical.indexOf(f.text("by"));
        if (over < 0 || by < 0 || over == by) {
            throw new FormatException(FILE + ": want over and by to be two categorical fields");
        }
        long names = f.whole("names");
        long entities = f.whole("entities");
        int known = vocabulary.get(over).size();
        halfLife = f.number("half_life");
        weight = f.number("weight");
        scale = f.number("scale");
        boolean sizes = names >= 0 && names <= known && entities >= 0 && entities <= vocabulary.get(by).size();
        if (!(halfLife > 0 && weight > 0 && scale > 0) || !sizes) {
            throw new FormatException(FILE + ": " + names + " names and " + entities + " entities, half-life "
                    + halfLife + ", weight " + weight + ", scale " + scale);
        }
        places = new int[(int) names][];
        lifts = new float[(int) names][];
        recent = new int[(int) entities][];
        int from = Math.min(end + 1, content.length);
        ByteBuffer rest = ByteBuffer.wrap(content, from, content.length - from).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < names + entities; i++) {
            read(rest, i, known);
        }
        if (rest.hasRemaining()) {
            throw new FormatException(FILE + ": " + rest.remaining() + " bytes follow its lists");
        }
    }

    private void read(ByteBuffer rest, int i, int known) {
        boolean neighbours = i < places.length;
        int n = rest.remaining() < 2 ? -1 : rest.getShort() & 0xffff;
        if (n < 0 || rest.remaining() < n * (neighbours ? 8 : 4)) {
            throw new FormatException(FILE + ": it ends before its lists do");
        }
        int[] list = new int[n];
        float[] lift = new float[neighbours ? n : 0];
        for (int j = 0; j < n; j++) {
            list[j] = rest.getInt();
            if (list[j] < (neighbours ? 0 : -1) || list[j] >= known) {
                throw new FormatException(FILE + ": list " + i + " has a name that is not there");
            }
            if (neighbours) {
                lift[j] = rest.getFloat();
                if (!(lift[j] > 0 && lift[j] < Float.POSITIVE_INFINITY)) {
                    throw new FormatException(FILE + ": list " + i + " has a lift that is not positive");
                }
            }
        }
        if (neighbours) {
            places[i] = list;
            lifts[i] = lift;
        } else {
            recent[i - places.length] = list;
        }
    }

    /** Writes what is added to each name of over, given the places of what was chosen last, oldest first. */
    void added(int[] chosen, double[] sums) {
        for (int age = 0; age < Math.min(MAX_RECENT, chosen.length); age++) {
            int place = chosen[chosen.length - 1 - age];
            if (place < 0 || place >= places.length) {
                continue;
            }
            double share = Math.pow(2, -age / halfLife);
            for (int j = 0; j < places[place].length; j++) {
                sums[places[place][j]] += share * lifts[place][j];
            }
        }
        for (int i = 0; i < sums.length; i++) {
            sums[i] = scale * Math.log1p(weight * sums[i]);
        }
    }
}
