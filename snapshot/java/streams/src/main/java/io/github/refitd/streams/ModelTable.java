package io.github.refitd.streams;

import io.github.refitd.snapshot.Model;
import io.github.refitd.snapshot.Options;
import io.github.refitd.snapshot.Snapshots;
import io.github.refitd.snapshot.Status;
import io.github.refitd.snapshot.TopicSource;
import io.github.refitd.snapshot.Watcher;
import java.time.Duration;
import java.util.concurrent.TimeoutException;
import java.util.function.BiFunction;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;

/**
 * Follows publish.topic as a global table, and scores the records of a topology with the newest version. Kafka Streams
 * reads the table whole before the first record. Versions are loaded on threads of their own: records are
 * scored with the last good one until then. One table is of one topology; close it after KafkaStreams.
 */
public final class ModelTable implements AutoCloseable {
    private final TopicSource source;
    private final Watcher watcher;
    private final Duration patience;

    /** How a record of a topic is taken. */
    private interface Taken {
        void take(byte[] key, byte[] value, byte[] format);
    }

    /**
     * Makes the table of a model. files has what does not travel in topics: a directory or a URL, null if all does.
     * Options are those of a watcher: with keys, nothing is taken that they did not sign.
     */
    public ModelTable(String model, String files, Options options) {
        this(model, files, options, Duration.ofSeconds(30));
    }

    /** patience is how long the first record waits for a version; then its task fails with StreamsException. */
    public ModelTable(String model, String files, Options options, Duration patience) {
        source = new TopicSource(files, options);
        watcher = Snapshots.watch(source, model, options);
        this.patience = patience;
    }

    /** Follows the announcements of publish.topic. */
    public ModelTable follow(StreamsBuilder builder, String topic) {
        return add(builder, topic, source::announce);
    }

    /** Follows the deltas of publish.deltas.topic. */
    public ModelTable followDeltas(StreamsBuilder builder, String topic) {
        source.followDeltas();
        return add(builder, topic, (key, value, format) -> source.delta(key, value));
    }

    /** The store remains empty: in memory, so that its topic is read anew by each process that starts. */
    private ModelTable add(StreamsBuilder builder, String topic, Taken taken) {
        builder.addGlobalStore(
                Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("refitd-" + topic), Serdes.ByteArray(),
                        Serdes.ByteArray()).withLoggingDisabled(),
                topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()),
                () -> new Processor<byte[], byte[], Void, Void>() {
                    @Override
                    public void process(Record<byte[], byte[]> record) {
                        Header format = record.headers().lastHeader("refitd-format");
                        taken.take(record.key(), record.value(), format == null ? null : format.value());
                    }
                });
        return this;
    }

    /** Returns what answers events in JSON in JSON: see Answers. */
    public <K> FixedKeyProcessorSupplier<K, byte[], byte[]> answers() {
        return values(Answers::of);
    }

    /** Returns what makes of each value an answer, with the model that is the newest at that moment. */
    public <K, V, R> FixedKeyProcessorSupplier<K, V, R> values(BiFunction<Model, V, R> answer) {
        return () -> new ContextualFixedKeyProcessor<K, V, R>() {
            @Override
            public void init(FixedKeyProcessorContext<K, R> context) {
                super.init(context);
                source.caughtUp(); // tasks begin when global tables were read
            }

            @Override
            public void process(FixedKeyRecord<K, V> record) {
                context().forward(record.withValue(answer.apply(model(), record.value())));
            }
        };
    }

    /** Returns the newest model; it waits for the first. Throws StreamsException if there is none, or an expired one. */
    public Model model() {
        Model model = watcher.model();
        try {
            if (model == null) {
                watcher.await(patience);
                model = watcher.model();
            }
        } catch (TimeoutException error) {
            throw new StreamsException("no version to score with", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new StreamsException("interrupted", error);
        }
        if (model == null) {
            throw new StreamsException("version " + watcher.status().version() + " has expired: publish a new one");
        }
        return model;
    }

    /** Returns the state of the watcher. */
    public Status status() {
        return watcher.status();
    }

    /** Returns how many records of the topics were ignored: no trusted key signed them, or they are damaged. */
    public long ignored() {
        return source.ignored();
    }

    @Override
    public void close() {
        watcher.close();
    }
}
