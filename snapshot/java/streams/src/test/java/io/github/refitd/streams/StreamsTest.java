package io.github.refitd.streams;

import io.github.refitd.snapshot.Json;
import io.github.refitd.snapshot.Keys;
import io.github.refitd.snapshot.Options;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Events are scored while versions are announced, rolled back and changed by deltas: each answer names its version and
 * says what the Go library says. TestJavaStreams of snapshot/kafkasource writes the expectations and runs this.
 */
public final class StreamsTest {
    private static final double SCORE = 1e-12;

    private final Map<String, Object> want;
    private final Map<String, List<Map<String, Object>>> answers;
    private final List<byte[]> events;
    private int sent;
    private String at = "";

    private StreamsTest(Map<String, Object> want) {
        this.want = want;
        answers = cast(want.get("answers"));
        events = StreamsTest.<List<String>>cast(want.get("events")).stream().map(StreamsTest::utf8).toList();
    }

    public static void main(String[] args) throws Exception {
        Object read = Json.parse("expectations", Files.readAllBytes(Path.of(System.getenv("REFITD_EXPECTATIONS"))));
        new StreamsTest(cast(read)).run();
    }

    private void run() throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "test");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.STATE_DIR_CONFIG, want.get("dir"));
        Options options = new Options().keys(Keys.load(Path.of((String) want.get("key"))));
        Instant begin = Instant.now();
        try (ModelTable table = new ModelTable("m", (String) want.get("store"), options)) {
            table.follow(builder, "champions").followDeltas(builder, "deltas");
            builder.stream("events", Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                    .processValues(table.<byte[]>answers()).to("scores", Produced.valueSerde(Serdes.ByteArray()));
            try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), config)) {
                for (Map<String, Object> step : StreamsTest.<List<Map<String, Object>>>cast(want.get("steps"))) {
                    step(driver, table, step);
                }
            }
            check(table.ignored() == (long) want.get("ignored"), table.ignored() + " records were ignored");
        }
        double seconds = Duration.between(begin, Instant.now()).toMillis() / 1e3;
        System.out.printf("ok: %d events, %.1f s, %.1f µs each with the driver%n", sent, seconds, seconds / sent * 1e6);
    }

    /** Announces, and scores events before and after the version is served. */
    private void step(TopologyTestDriver driver, ModelTable table, Map<String, Object> step) throws Exception {
        ByteArraySerializer bytes = new ByteArraySerializer();
        for (Map<String, String> r : StreamsTest.<List<Map<String, String>>>cast(step.get("records"))) {
            RecordHeaders headers = new RecordHeaders();
            headers.add("refitd-format", utf8(r.get("format")));
            byte[] value = r.get("value") == null ? null : Base64.getDecoder().decode(r.get("value"));
            driver.createInputTopic(r.get("topic"), bytes, bytes)
                    .pipeInput(new TestRecord<>(utf8(r.get("key")), value, headers));
        }
        TestInputTopic<byte[], byte[]> in = driver.createInputTopic("events", bytes, bytes);
        ByteArrayDeserializer read = new ByteArrayDeserializer();
        TestOutputTopic<byte[], byte[]> out = driver.createOutputTopic("scores", read, read);
        List<String> states = cast(step.get("states"));
        String last = states.get(states.size() - 1);
        long each = (long) want.get("each");
        for (int i = 0; i < each; i++) {
            if (i == each / 2) { // loaded on other threads
                Instant end = Instant.now().plusSeconds(20);
                while (!last.equals(table.model().version() + "." + table.model().position().sequence())) {
                    check(Instant.now().isBefore(end), step.get("name") + ": " + table.status());
                    Thread.sleep(1);
                }
            }
            int event = sent++ % events.size();
            in.pipeInput(null, events.get(event));
            answer(Json.parse("answer", out.readValue()), event, states);
        }
        check(at.equals(last) && out.isEmpty(), step.get("name") + ": at " + at + " in the end");
    }

    private void answer(Object parsed, int event, List<String> states) {
        Map<String, Object> got = cast(parsed);
        String state = got.get("version") + "." + got.get("delta");
        check(state.equals(at) || states.indexOf(state) > states.indexOf(at), state + " after " + at);
        at = state;
        Map<String, Object> said = answers.get(state).get(event);
        check(got.containsKey("error") == said.containsKey("error"), said + ", got " + got);
        for (String key : List.of("prediction", "outputs", "probabilities", "unseen", "absent", "digest", "delta_digest")) {
            check(near(got.get(key), said.get(key)), key + " of event " + event + ": " + said + ", got " + got);
        }
    }

    private static boolean near(Object got, Object want) {
        if (got instanceof List<?> a && want instanceof List<?> b && a.size() == b.size()) {
            for (int i = 0; i < a.size(); i++) {
                if (!near(a.get(i), b.get(i))) {
                    return false;
                }
            }
            return true;
        }
        if (got instanceof Number a && want instanceof Number b) {
            double v = b.doubleValue();
            return Math.abs(a.doubleValue() - v) <= SCORE * (1 + Math.abs(v));
        }
        return Objects.equals(got, want);
    }

    private static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object value) {
        return (T) value;
    }
}
