package io.github.refitd.snapshot;

import static io.github.refitd.snapshot.Comparison.SCORE;
import static io.github.refitd.snapshot.Comparison.check;
import static io.github.refitd.snapshot.Comparison.equal;
import static io.github.refitd.snapshot.Comparison.list;
import static io.github.refitd.snapshot.Comparison.map;
import static io.github.refitd.snapshot.Comparison.maps;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/**
 * The package says what the Go library says. The Go test TestJavaIsTheLibrary writes the expectations and runs this;
 * the first failure ends it with status 1.
 */
public final class LibraryTest {
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private LibraryTest() {
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> want = map(read("REFITD_EXPECTATIONS"));
        List<Map<String, Object>> chains = maps(read("REFITD_CHAINS"));
        models(maps(want.get("models")));
        refusals(maps(want.get("refusals")));
        chains(chains);
        watchedChain(chains);
        update(map(read("REFITD_UPDATE")));
        moves(map(want.get("watch")));
        daemon(System.getenv("REFITD_URL"), Path.of(System.getenv("REFITD_KEY")));
        fast(maps(want.get("models")));
        System.out.println("ok: " + Comparison.compared + " comparisons");
    }

    private static Object read(String variable) throws IOException {
        return Json.parse(variable, Files.readAllBytes(Path.of(System.getenv(variable))));
    }

    private static Keys keys(Object files) {
        return files == null ? null
                : Keys.load(list(files).stream().map(f -> Path.of((String) f)).toArray(Path[]::new));
    }

    private static Model open(Map<String, Object> want) {
        return Snapshots.open((String) want.get("store"), (String) want.get("model"), new Options().version(1));
    }

    private static void models(List<Map<String, Object>> models) {
        int folds = 0;
        for (Map<String, Object> want : models) {
            String name = (String) want.get("model");
            Model model = open(want);
            Comparison.scores(model, want.get("events"), SCORE, name);
            Comparison.tops(model, want.get("tops"), SCORE, name);
            Comparison.explained(model, want.get("explained"), name);
            Comparison.folds(model, want.get("folds"), name);
            folds += list(want.get("folds")).size();
            if (!want.get("unfolded").equals("")) {
                equal(Comparison.refused(() -> model.fold(maps(want.get("example")))), want.get("unfolded"), name);
            }
            Map<String, Object> said = model.manifest();
            List<Object> gaps = new ArrayList<>();
            List.of("gap", "gap_relative", "basis_gap", "basis_gap_relative").forEach(key -> gaps.add(said.get(key)));
            equal(gaps, want.get("gaps"), name);
            for (String key : List.of("form", "gap_kind", "gap_limit")) {
                equal(said.getOrDefault(key, ""), want.get(key), name);
            }
            equal(model.payloadDigest(), model.digest(), name);
        }
        check(models.size() > 40 && folds > 20, "models", models.size(), "folds", folds);
    }

    private static void refusals(List<Map<String, Object>> refusals) {
        Set<String> seen = new HashSet<>();
        for (Map<String, Object> want : refusals) {
            Keys keys = keys(want.get("keys"));
            Options options = new Options().alias((String) want.get("alias")).version((Long) want.get("version"))
                    .keys(keys).now(() -> Instant.parse((String) want.get("now")));
            String found = "";
            try {
                Model model = Snapshots.open((String) want.get("store"), (String) want.get("model"), options);
                equal(!model.signedBy().isEmpty(), keys != null, want.get("name"));
            } catch (SnapshotException error) {
                found = Comparison.nameOf(error);
                check(error.getMessage().contains((String) want.get("says")), want, error);
            }
            equal(found, want.get("error"), want);
            seen.add(found);
        }
        check(seen.size() >= 7, seen);
    }

    private static void chains(List<Map<String, Object>> chains) {
        Set<String> seen = new HashSet<>();
        for (Map<String, Object> want : chains) {
            String name = (String) want.get("name");
            Options options = new Options().version(1).keys(keys(want.get("keys"))).deltas(true);
            Model model;
            try {
                model = Snapshots.open((String) want.get("store"), (String) want.get("model"), options);
            } catch (SnapshotException error) {
                equal(Comparison.nameOf(error), want.get("error"), List.of(name, error));
                seen.add(Comparison.nameOf(error));
                continue;
            }
            equal("", want.get("error"), name);
            chain(model, want);
            equal(open(want).payloadDigest(), open(want).digest(), name);
        }
        check(seen.size() >= 4, seen);
    }

    private static void chain(Model model, Map<String, Object> want) {
        String name = (String) want.get("name");
        equal(List.of(model.position().sequence(), model.position().digest()),
                List.of(want.get("sequence"), want.get("digest")), name);
        equal(model.payloadDigest(), want.get("payload"), name);
        Comparison.scores(model, want.get("events"), SCORE, name);
        Comparison.tops(model, want.get("tops"), SCORE, name);
        Comparison.folds(model, want.get("folds"), name);
    }

    private static void replace(Path path, byte[] content) throws IOException {
        if (content == null) {
            Files.deleteIfExists(path);
            return;
        }
        Files.createDirectories(path.getParent());
        Path written = Files.write(path.resolveSibling(path.getFileName() + ".tmp"), content);
        Files.move(written, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    private static void until(Watcher watcher, Object what, Supplier<Boolean> reached) throws InterruptedException {
        Instant end = Instant.now().plus(PATIENCE);
        while (!reached.get()) {
            check(Instant.now().isBefore(end), what, watcher.status());
            Thread.sleep(2);
        }
    }

    /** Follows a chain while it is written, and one that is damaged and repaired. */
    private static void watchedChain(List<Map<String, Object>> chains) throws Exception {
        Map<String, Object> want = chains.stream()
                .filter(c -> c.get("name").equals("whole") && c.get("keys") != null).findFirst().orElseThrow();
        Path segment = Path.of((String) want.get("store"), "m", "1", "deltas", "000000000001.seg");
        byte[] whole = Files.readAllBytes(segment);
        replace(segment, new byte[0]);
        Options options = new Options().alias("latest").keys(keys(want.get("keys"))).every(Duration.ofMillis(2));
        try (Watcher watcher = Snapshots.watch((String) want.get("store"), "m", options)) {
            watcher.await(PATIENCE);
            long last = 0;
            for (int end = 0; end < whole.length; end += 37) { // a writer that is seen in the middle of a delta
                replace(segment, Arrays.copyOf(whole, end));
                long at = watcher.model().position().sequence();
                check(at >= last, at, last);
                last = at;
            }
            byte[] broken = whole.clone();
            broken[broken.length - 100] ^= 1; // of the payload, which a signature follows
            replace(segment, broken);
            until(watcher, "broken", () -> watcher.status().deltaError() instanceof DigestException
                    && watcher.status().position().sequence() == 8 && watcher.status().deltasRefused() > 0);
            replace(segment, whole);
            until(watcher, "repaired", () -> watcher.status().deltaError() == null
                    && watcher.status().position().sequence() == 9 && watcher.status().deltasApplied() == 9);
            chain(watcher.model(), want);
        }
        try (Watcher plain = Snapshots.watch((String) want.get("store"), "m", options.deltas(false))) {
            equal(plain.await(PATIENCE).position().sequence(), 0L, "without deltas");
        }
    }

    /** Takes an update with its deltas, although the ask for those of the version before is held to the end. */
    private static void update(Map<String, Object> want) throws Exception {
        Path alias = Path.of((String) want.get("store"), "m", "aliases", "champion");
        List<byte[]> aliases = list(want.get("aliases")).stream().map(a -> Base64.getDecoder().decode((String) a))
                .toList();
        CountDownLatch held = new CountDownLatch(1);
        Source store = new DirSource(Path.of((String) want.get("store")), Duration.ofMillis(2));
        Source holding = new Source() {
            @Override
            public Pointer alias(String model, String alias) throws IOException, InterruptedException {
                return store.alias(model, alias);
            }

            @Override
            public Pointer await(String model, String alias, Pointer last, CountDownLatch stop)
                    throws IOException, InterruptedException {
                return store.await(model, alias, last, stop);
            }

            @Override
            public byte[] read(String model, long version, String name, long most)
                    throws IOException, InterruptedException {
                return store.read(model, version, name, most);
            }

            @Override
            public List<byte[]> deltas(String model, long version, long after, CountDownLatch stop)
                    throws IOException, InterruptedException {
                if (version == 1 && after == 3) {
                    held.countDown();
                    new CountDownLatch(1).await();
                }
                return store.deltas(model, version, after, stop);
            }
        };
        replace(alias, aliases.get(0));
        try (Watcher watcher = new Watcher(holding, "m", new Options())) {
            held.await();
            replace(alias, aliases.get(1));
            until(watcher, "the update", () -> watcher.status().version() == 2);
            Status s = watcher.status();
            equal(List.of(s.position().version(), s.position().sequence(), s.deltasApplied()), List.of(2L, 5L, 8L), s);
        }
    }

    private static void put(Path model, Map<String, Object> stage) throws IOException {
        String renewal = (String) stage.get("renewal");
        replace(model.resolve("renewals/champion"), renewal == null ? null : Base64.getDecoder().decode(renewal));
        replace(model.resolve("aliases/champion"), Base64.getDecoder().decode((String) stage.get("alias")));
    }

    private static void until(Watcher watcher, Map<String, Object> stage) throws InterruptedException {
        List<Object> want = List.of(stage.get("version"), stage.get("error"), stage.get("expires"));
        until(watcher, stage.get("name"), () -> {
            Status s = watcher.status();
            String expires = s.expires() == null ? "" : s.expires().toString();
            return want.equals(List.of(s.version(), Comparison.nameOf(s.error()), expires));
        });
    }

    /** Follows an alias that moves: rollbacks, forgeries, renewals, expiry, a restart, a pin. */
    private static void moves(Map<String, Object> want) throws Exception {
        String store = (String) want.get("store");
        Path model = Path.of(store, "m");
        Instant[] now = {Instant.parse((String) want.get("now"))};
        Options options = new Options().keys(keys(want.get("keys"))).every(Duration.ofMillis(2)).now(() -> now[0])
                .stateFile(Path.of((String) want.get("state_file")));
        List<Map<String, Object>> stages = maps(want.get("stages"));
        replace(model.resolve("aliases/champion"), null);
        replace(model.resolve("renewals/champion"), null);
        try (Watcher watcher = Snapshots.watch(store, "m", options)) {
            check(watcher.model() == null, "a model without an alias");
            try {
                watcher.await(Duration.ofMillis(200));
                throw new AssertionError("a model without an alias");
            } catch (TimeoutException error) {
                check(error.getMessage().contains("no alias"), error);
            }
            for (Map<String, Object> stage : stages) {
                put(model, stage);
                until(watcher, stage);
                equal(watcher.model().version(), stage.get("version"), stage.get("name"));
            }
            equal(watcher.status().loads(), 3L, "loads");
            now[0] = Instant.parse("2100-01-01T00:00:00Z");
            check(watcher.status().expired() && watcher.model() == null, "expired");
        }
        now[0] = Instant.parse((String) want.get("now"));
        replace(model.resolve("renewals/champion"), null);
        replace(model.resolve("aliases/champion"), Base64.getDecoder().decode((String) stages.get(1).get("alias")));
        Map<String, Object> last = stages.get(stages.size() - 1);
        try (Watcher again = Snapshots.watch(store, "m", options)) { // a restart remembers
            until(again, Map.of("name", "after a restart", "version", 0L, "error", "OlderError", "expires", ""));
            put(model, last);
            until(again, last);
        }
        List<Long> refused = new ArrayList<>();
        Options pin = new Options().version(2).every(Duration.ofMillis(2)).onLoad(m -> {
            refused.add(m.version());
            throw new IllegalStateException("not this one");
        });
        try (Watcher pinned = Snapshots.watch(store, "m", pin)) {
            until(pinned, "pinned", () -> pinned.status().error() != null);
            check(pinned.status().error().getMessage().contains("not this one"), pinned.status());
        }
        equal(refused, List.of(2L), "pinned");
    }

    private static void daemon(String url, Path key) throws Exception {
        Map<String, String> headers = Map.of("Authorization", "Bearer secret");
        Supplier<Options> options = () -> new Options().keys(Keys.load(key)).headers(headers);
        Model model = Snapshots.open(url, "m", options.get());
        Model changed = Snapshots.open(url, "m", options.get().deltas(true));
        equal(List.of(model.version(), model.position().sequence(), changed.version(), changed.position().sequence()),
                List.of(1L, 0L, 1L, 9L), "over HTTP");
        check(!model.payloadDigest().equals(changed.payloadDigest()), "deltas changed nothing");
        try {
            Snapshots.open(url, "m", new Options().keys(Keys.load(key)));
            throw new AssertionError("opened without credentials");
        } catch (UncheckedIOException error) {
            check(error.getMessage().contains("status 401: who are you"), error);
        }
        equal(Comparison.refused(() -> Snapshots.open(url, "m", options.get().alias("none"))), "NotFoundError", url);
        equal(Comparison.refused(() -> Snapshots.open(url, "m", options.get().version(7))), "NotFoundError", url);
        try (Watcher watcher = Snapshots.watch(url, "m", options.get())) {
            watcher.await(PATIENCE);
            until(watcher, "deltas over HTTP", () -> watcher.model().position().sequence() == 9);
            Status s = watcher.status();
            equal(Arrays.asList(s.loads(), s.refused(), s.error(), s.deltaError()),
                    Arrays.asList(1L, 0L, null, null), s);
        }
    }

    /** Scores without garbage, and says how long a pair takes. */
    private static void fast(List<Map<String, Object>> models) {
        long seen = 0;
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long id = Thread.currentThread().getId();
        for (Map<String, Object> want : models) {
            Model model = open(want);
            boolean makes = model.contents.known != null || !model.schema().cross.isEmpty();
            Map<String, Object> score = maps(want.get("events")).stream()
                    .filter(e -> e.get("error").equals("") && list(e.get("Unseen")).isEmpty()).findFirst().orElse(null);
            if (makes || score == null) {
                continue;
            }
            Input in = model.input(new LinkedHashMap<>(map(score.get("event"))));
            Scratch s = new Scratch();
            double[] dst = new double[model.numOutputs()];
            model.score(dst, in, s);
            long before = threads.getThreadAllocatedBytes(id);
            for (int i = 0; i < 1000; i++) {
                model.score(dst, in, s);
            }
            long garbage = threads.getThreadAllocatedBytes(id) - before;
            check(garbage < 1000, Objects.toString(want.get("model")), garbage, "bytes of garbage in 1,000 events");
            seen++;
        }
        check(seen > 20, "models without garbage", seen);
    }
}
