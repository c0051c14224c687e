package io.github.refitd.bench;

import io.github.refitd.snapshot.Input;
import io.github.refitd.snapshot.Model;
import io.github.refitd.snapshot.Options;
import io.github.refitd.snapshot.Scratch;
import io.github.refitd.snapshot.Snapshots;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** Scores pairs of random names; also while versions are loaded and swapped one after the other. */
@State(Scope.Benchmark)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 2, time = 1)
@Measurement(iterations = 3, time = 1)
@Fork(1)
public class Pair {
    private static final int PAIRS = 1 << 16;

    @Param({""})
    public String store;

    /** How many names each of the two fields has; so the model is called. */
    @Param({"100", "100000"})
    public int names;

    private volatile Model model;
    private String[] users;
    private String[] items;
    private Input in;
    private Scratch scratch;
    private double[] dst;
    private int at;

    @Setup
    public void open() {
        model = Snapshots.open(store, "n" + names, new Options());
        in = model.newInput();
        scratch = new Scratch();
        dst = new double[model.numOutputs()];
        SplittableRandom random = new SplittableRandom(1);
        users = new String[PAIRS];
        items = new String[PAIRS];
        for (int i = 0; i < PAIRS; i++) {
            users[i] = "u" + random.nextInt(names);
            items[i] = "i" + random.nextInt(names);
        }
    }

    @Benchmark
    @BenchmarkMode({Mode.AverageTime, Mode.SampleTime})
    public double[] pair() {
        int i = at++ & PAIRS - 1;
        in.categorical[0] = users[i];
        in.categorical[1] = items[i];
        model.score(dst, in, scratch);
        return dst;
    }

    /** Loads the version again and again on another thread, at most fifty times a second. */
    @State(Scope.Benchmark)
    public static class Swapped {
        private Thread thread;

        @Setup(Level.Iteration)
        public void start(Pair pair) {
            thread = new Thread(() -> {
                try {
                    while (!Thread.interrupted()) {
                        pair.model = Snapshots.open(pair.store, "n" + pair.names, new Options());
                        Thread.sleep(20);
                    }
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                }
            });
            thread.start();
        }

        @TearDown(Level.Iteration)
        public void stop() throws InterruptedException {
            thread.interrupt();
            thread.join();
        }
    }

    @Benchmark
    @BenchmarkMode(Mode.SampleTime)
    public double[] pairWhileSwapped(Swapped swapped) {
        return pair();
    }
}
