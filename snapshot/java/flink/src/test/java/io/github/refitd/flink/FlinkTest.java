package io.github.refitd.flink;

import io.github.refitd.snapshot.Json;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * ML_PREDICT scores a stream in a MiniCluster while the alias moves: each row names its version and has what the Go
 * library says. TestJavaFlink of package snapshot writes the expectations and runs this.
 */
public final class FlinkTest {
    private static final double SCORE = 1e-12;

    private FlinkTest() {
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> want = cast(Json.parse("expectations",
                Files.readAllBytes(Path.of(System.getenv("REFITD_EXPECTATIONS")))));
        List<Map<String, Object>> moves = cast(want.get("moves"));
        Map<String, List<List<Object>>> answers = cast(want.get("answers"));
        long events = (long) want.get("events");
        Path alias = Path.of((String) want.get("store"), "m", "aliases", "champion");
        move(alias, moves.get(0));
        TableEnvironment flink = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        flink.getConfig().set("parallelism.default", "1");
        flink.executeSql("CREATE TABLE ids (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '" + events / 10
                + "', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '" + (events - 1) + "')");
        flink.executeSql("CREATE VIEW events AS SELECT id, 'u' || CAST(1 + MOD(id, 4) AS STRING) AS `user`,"
                + " 'i' || CAST(1 + MOD(id, 3) AS STRING) AS item, CAST(MOD(id, 7) AS DOUBLE) AS age,"
                + " ARRAY['a', 'zzz'] AS tags FROM ids");
        flink.executeSql("CREATE MODEL m INPUT (`user` STRING, item STRING, age DOUBLE, tags ARRAY<STRING>)"
                + " OUTPUT (version BIGINT, prediction DOUBLE, outputs ARRAY<DOUBLE>) WITH ('provider' = 'refitd',"
                + " 'store' = '" + want.get("store") + "', 'model' = 'm', 'trusted-keys' = '" + want.get("key") + "')");
        int at = 0;
        long rows = 0;
        try (CloseableIterator<Row> found = flink.executeSql("SELECT id, version, prediction, outputs FROM ML_PREDICT("
                + "TABLE events, MODEL m, DESCRIPTOR(`user`, item, age, tags))").collect()) {
            for (; found.hasNext(); rows++) {
                Row row = found.next();
                if (rows > 0 && rows % (events / moves.size()) == 0) {
                    move(alias, moves.get((int) (rows * moves.size() / events)));
                }
                long version = (long) row.getField(1);
                if (version != (long) moves.get(at).get("version")) {
                    check(++at < moves.size() && version == (long) moves.get(at).get("version"), row + " after move " + at);
                }
                List<Object> said = answers.get(Long.toString(version)).get((int) ((long) row.getField(0) % 84));
                Double[] outputs = (Double[]) row.getField(3);
                check(outputs.length == said.size() - 1 && near((double) row.getField(2), said.get(0)), row + ", " + said);
                for (int i = 0; i < outputs.length; i++) {
                    check(near(outputs[i], said.get(i + 1)), row + ", " + said);
                }
            }
        }
        check(rows == events && at == moves.size() - 1, rows + " rows, the last of move " + at);
        System.out.println("ok: " + rows + " rows");
        System.exit(0);
    }

    private static void move(Path alias, Map<String, Object> to) throws Exception {
        Path written = Files.writeString(alias.resolveSibling("next"), (String) to.get("alias"));
        Files.move(written, alias, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    private static boolean near(double got, Object want) {
        double v = ((Number) want).doubleValue();
        return Math.abs(got - v) <= SCORE * (1 + Math.abs(v));
    }

    private static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object value) {
        return (T) value;
    }
}
