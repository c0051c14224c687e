package io.github.refitd.snapshot;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/** The digest of the version that a model is: names added are behind the others of their field. */
final class Payload {
    private final MessageDigest digest = Json.newSha256();
    private final boolean single;

    private Payload(boolean single) {
        this.single = single;
    }

    static String digest(Model model) {
        Manifest m = model.manifest;
        Contents c = model.contents;
        Schema schema = m.schema;
        List<Integer> order = new ArrayList<>();
        MessageDigest names = Json.newSha256();
        for (int f = 0; f < schema.named.size(); f++) {
            for (String name : model.columns.candidates(f)) {
                order.add(model.columns.column(f, name));
                String field = Json.writeName(schema.named.get(f));
                names.update(Json.bytes("[" + field + "," + Json.writeName(name) + "]\n"));
            }
        }
        for (int i = m.numFeatures - schema.numExtra(); i < m.numFeatures; i++) {
            order.add(i);
        }
        Payload tensors = new Payload(c.single);
        tensors.digest.update(Contents.header(Contents.tensorsOf(m, order.size(), c.linear != null), c.single));
        order.forEach(column -> tensors.add(c.basis, column * m.numBasis, m.numBasis));
        tensors.add(c.weights);
        if (c.linear != null) {
            order.forEach(column -> tensors.add(c.linear, column * m.numOutputs, m.numOutputs));
        }
        tensors.add(c.bias);
        if (c.mapWeights != null) {
            tensors.add(c.mapWeights);
            c.tensors.values().forEach(tensors::add);
        }
        HexFormat hex = HexFormat.of();
        return m.payloadDigestOf(order.size(), hex.formatHex(tensors.digest.digest()),
                hex.formatHex(names.digest()), c.known == null ? null : Json.sha256(c.known.encode()));
    }

    private void add(double[] values) {
        add(values, 0, values.length);
    }

    private void add(double[] values, int at, int count) {
        ByteBuffer out = ByteBuffer.allocate(count * (single ? 4 : 8)).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = at; i < at + count; i++) {
            if (single) {
                out.putFloat((float) values[i]);
            } else {
                out.putDouble(values[i]);
            }
        }
        digest.update(out.array());
    }
}
