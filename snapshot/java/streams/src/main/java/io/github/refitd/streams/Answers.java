package io.github.refitd.streams;

import io.github.refitd.snapshot.InputException;
import io.github.refitd.snapshot.Json;
import io.github.refitd.snapshot.Model;
import io.github.refitd.snapshot.Position;
import io.github.refitd.snapshot.Prediction;
import io.github.refitd.snapshot.SnapshotException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Answers in JSON, of members of the records in score.topic. */
public final class Answers {
    private Answers() {
    }

    /** Returns the answer to an event in JSON; of one that cannot be scored it has error, which says why. */
    @SuppressWarnings("unchecked")
    public static byte[] of(Model model, byte[] event) {
        Position at = model.position();
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("model", model.name());
        out.put("version", at.version());
        out.put("digest", model.manifest().get("payload_digest"));
        out.put("delta", at.sequence());
        if (at.sequence() > 0) {
            out.put("delta_digest", at.digest());
        }
        try {
            Object value = Json.parse("event", event == null ? new byte[0] : event);
            if (!(value instanceof Map<?, ?> map)) {
                throw new InputException("the event is not an object");
            }
            Prediction p = model.predict((Map<String, Object>) map);
            out.put("prediction", p.label() instanceof Double label ? number(label) : p.label());
            out.put("outputs", numbers(p.outputs()));
            out.put("probabilities", p.probabilities() == null ? null : numbers(p.probabilities()));
            out.put("unseen", p.unseen());
            out.put("absent", p.absent());
        } catch (SnapshotException error) {
            out.put("error", error.getMessage());
        }
        return Json.write(out).getBytes(StandardCharsets.UTF_8);
    }

    private static List<BigDecimal> numbers(double[] values) {
        return Arrays.stream(values).mapToObj(Answers::number).toList();
    }

    /** Json.write is for digests: it looks for the shortest text of a double, for microseconds. */
    private static BigDecimal number(double value) {
        return new BigDecimal(Double.toString(value));
    }
}
