package io.github.refitd.snapshot;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Rules of if and else on numbers and names, which are added to the outputs. They never change. */
final class Trees {
    static final String FILE = "trees";
    static final int MAX_BYTES = 16 << 20;
    private static final int VERSION = 1; // of the file's form
    private static final int MAX_TREES = 1 << 12;
    private static final int MAX_DEPTH = 10;

    final List<Tree> trees = new ArrayList<>();
    final Map<Integer, Set<String>> asked = new HashMap<>(); // by categorical field: the names that are asked for

    /**
     * Asks whether a number is at least an edge, or whether a categorical field has a name. What an event lacks is
     * answered with no. The field is numeric, or -1 - categorical.
     */
    record Split(int field, double edge, String name) {
    }

    /** The answers to its splits are the bits of the leaf, that of the first split the lowest; leaves 2^splits × m. */
    record Tree(Split[] splits, double[] leaves) {
        /** Returns where the leaf of an event begins. */
        int leaf(Input x, int outputs) {
            int at = 0;
            for (int d = 0; d < splits.length; d++) {
                Split s = splits[d];
                boolean yes = s.field >= 0 ? x.numeric[s.field] >= s.edge : x.categorical[-1 - s.field].equals(s.name);
                at |= yes ? 1 << d : 0;
            }
            return at * outputs;
        }
    }

    /** Adds the leaves of an event to its outputs. */
    void add(Input x, double[] o, int outputs) {
        for (int t = 0; t < trees.size(); t++) {
            Tree tree = trees.get(t);
            int at = tree.leaf(x, outputs);
            for (int c = 0; c < outputs; c++) {
                o[c] += tree.leaves[at + c];
            }
        }
    }

    /** Throws FormatException for what is no such file of a version with the schema and so many outputs. */
    static Trees decode(byte[] content, Schema schema, int outputs) {
        List<int[]> lines = Contents.lines(content);
        int[] first = lines.isEmpty() ? new int[] {0, content.length} : lines.get(0);
        Fields f = new Fields(FILE, Json.parse(FILE, content, first[0], first[1]));
        if (f.whole("version") != VERSION) {
            throw new FormatException(FILE + ": version " + f.whole("version") + ", this build reads " + VERSION
                    + ": the version is of a newer format: use a newer build of this package");
        }
        long count = f.whole("trees");
        if (count < 1 || count > MAX_TREES || lines.size() != count + 1 || content[content.length - 1] != '\n') {
            throw new FormatException(
                    FILE + ": " + count + " trees on " + (lines.size() - 1) + " lines, want 1 to " + MAX_TREES);
        }
        Trees found = new Trees();
        for (int n = 1; n < lines.size(); n++) {
            String what = FILE + ", line " + (n + 1);
            found.add(tree(new Fields(what, Json.parse(what, content, lines.get(n)[0], lines.get(n)[1])), schema,
                    outputs));
        }
        return found;
    }

    private void add(Tree tree) {
        trees.add(tree);
        for (Split s : tree.splits) {
            if (s.field < 0) {
                asked.computeIfAbsent(-1 - s.field, f -> new HashSet<>()).add(s.name);
            }
        }
    }

    private static Tree tree(Fields f, Schema schema, int outputs) {
        Split[] splits = f.objects("splits").stream().map(x -> split(x, schema)).toArray(Split[]::new);
        double[] leaves = f.numbers("leaves");
        if (!f.unknown().isEmpty()) {
            throw new FormatException(f.what + ": this build does not know " + String.join(", ", f.unknown()));
        }
        if (splits.length < 1 || splits.length > MAX_DEPTH || leaves.length != (long) outputs << splits.length) {
            throw new FormatException(f.what + ": " + splits.length + " splits with " + leaves.length
                    + " numbers in the leaves, want 1 to " + MAX_DEPTH + " with 2^splits for each output");
        }
        return new Tree(splits, leaves);
    }

    private static Split split(Fields f, Schema schema) {
        String field = f.text("field");
        String is = f.text("is");
        double edge = f.number("at_least");
        boolean number = f.has("at_least") && !f.has("is");
        boolean name = f.has("is") && !f.has("at_least");
        if (schema.numericIndex(field) >= 0 && number) {
            return new Split(schema.numericIndex(field), edge, "");
        }
        if (schema.categorical.contains(field) && name && !is.isEmpty()) {
            return new Split(-1 - schema.categorical.indexOf(field), 0, is);
        }
        throw new FormatException(f.what + " of '" + field
                + "': want a numeric field and at_least, or a categorical one and is");
    }
}
