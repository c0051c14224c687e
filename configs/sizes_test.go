package configs_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/memory"
)

// TestSizes: the table of what fits a container says what this build computes, and its peaks are below that, and fit.
func TestSizes(t *testing.T) {
	row := regexp.MustCompile(
		`(?m)^\| (\d+) (MiB|GiB) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\w+) \| (\d+) \| (\w+) \| (\d+) \| (\d+) MiB \|.*\| (\d+) MiB \|$`,
	)
	rows := row.FindAllStringSubmatch(string(mustRead(t, "docs/operations.md")), -1)
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	team := regexp.MustCompile(`With four shards that is\s(\d+) MiB, (\d+) MiB and (\d+) MiB more`)
	waiting := team.FindStringSubmatch(string(mustRead(t, "docs/operations.md")))
	if waiting == nil {
		t.Fatal("nothing is said of a team")
	}
	for i, r := range rows {
		text := fmt.Sprintf(`
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g, max_partition_fetch_bytes: %s}
storage: {path: state}
web: {listen_address: "127.0.0.1:0", max_inflight_bytes: %s, max_connections: %s}
models:
  - name: m
    input: {topics: [t], max_event_bytes: 4KiB, max_id_bytes: 64}
    schema: {task: ordinal, label: rating, levels: 5, time: ts, categorical: [user, item]}
    sample: {size: %s}
    train: {max_basis: %s, max_features: %s, fold_in: {max_rows: %s}}
    evaluate: {window: %s}
    publish: {store: snapshots}
`, r[9], r[7], r[8], r[3], r[6], r[4], r[5], r[10])
		conf, err := config.Parse(filepath.Join(t.TempDir(), "refitd.yaml"), []byte(text),
			func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		limit, computed, peak := number(r[1]), memory.Of(conf).TotalBytes>>20, number(r[12])
		alone := memory.Of(conf).TotalBytes
		conf.Models[0].Shard = config.Shard{Role: config.RoleTrainer, Count: 4}
		if more := (memory.Of(conf).TotalBytes - alone) >> 20; more != number(waiting[i+1]) {
			t.Errorf("%s %s: as the trainer of four shards %d MiB more, the document says %s", r[1], r[2], more,
				waiting[i+1])
		}
		if r[2] == "GiB" {
			limit *= 1024
		}
		if computed != number(r[11]) {
			t.Errorf("%s %s: %d MiB are computed, the table says %s", r[1], r[2], computed, r[11])
		}
		if peak > computed || peak > limit*9/10 || computed > limit || limit > 256 && computed > limit*9/10 {
			t.Errorf("%s %s: computed %d MiB, peak %d MiB", r[1], r[2], computed, peak)
		}
	}
}
