package daemon_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/memory"
)

// TestPeakMemory: the peak of a process is at most what was computed for its configuration, whatever producers send: as
// many names as events, lists as long as they may be, names as long as they may be; with refits, after a restart, and
// with two models in one process.
func TestPeakMemory(t *testing.T) {
	if tier.UnderRace() {
		t.Skip("the race detector takes several times the memory of the program")
	}
	many, few, rows := 8000, 80, 2000
	switch {
	case tier.Asked(tier.Long) && tier.Asked(tier.Load):
		many, few, rows = 20_000_000, 10_000, 200_000
	case tier.Asked(tier.Load):
		many, few, rows = 1_000_000, 2000, 100_000
	}
	lists := []string{"categorical: [user, item]", "categorical: [user, item], multi: [tags]"}
	for _, w := range []struct {
		name   string
		events int
		event  func(i int) []byte
		edit   []string
	}{
		{"churn", many, func(i int) []byte {
			return fmt.Appendf(nil, `{"user":"user-%d","item":"item-%d","rating":%d,"ts":%d}`, i, i*7, 1+i%5, 1700000000000+i)
		}, nil},
		{"lists", few, func(i int) []byte {
			var b strings.Builder
			for k := range 900 {
				fmt.Fprintf(&b, `,"t%d"`, (i*31+k*k)%50_000*900+k)
			}
			return fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":%d,"tags":["x"%s]}`, i%5000, i%900, 1+i%5,
				1700000000000+i, b.String())
		}, lists},
		{"names", many / 4, func(i int) []byte {
			long := strings.Repeat("n", 240)
			return fmt.Appendf(nil, `{"user":"%s%d","item":"%s%d","rating":%d,"ts":%d}`, long, i, long, i%70_000, 1+i%5,
				1700000000000+i)
		}, nil},
		{"256 MiB", many, func(i int) []byte { // the smallest row of operations.md
			long := strings.Repeat("n", 50)
			if i%50 == 0 {
				long = strings.Repeat("n", 3000) // is rejected
			}
			return fmt.Appendf(nil, `{"user":"%s%d","item":"%s%d","rating":%d,"ts":%d}`, long, i, long, i*7, 1+i%5,
				1700000000000+i)
		}, []string{"storage:", "memory_budget: 256MiB\nstorage:", "fetch_max_wait: 100ms",
			"fetch_max_wait: 100ms, max_partition_fetch_bytes: 64KiB",
			"start: earliest", "start: earliest, max_event_bytes: 4KiB, max_id_bytes: 64", "size: 20000", "size: 2000",
			"window: 1000", "window: 2000",
			"max_basis: 4, lambda: auto", "max_basis: 6, max_features: 2000, fold_in: {max_rows: 1000}", "update_every: 0s",
			"update_every: 1s"}},
		{"two models", many / 2, func(i int) []byte {
			return fmt.Appendf(nil, `{"user":"user-%d","item":"item-%d","rating":%d,"ts":%d}`, i, i*7, 1+i%5, 1700000000000+i)
		}, []string{"models:\n", `models:
  - name: other
    input: {topics: [ratings]}
    schema: {task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]}
    sample: {size: ROWS}
    train: {every: 0s, every_events: EVERY, max_basis: 3, max_features: FEATURES, lambda: 3}
    publish: {store: other, update_every: 0s, gate: {min_rows: 20}}
`}},
	} {
		t.Run(w.name, func(t *testing.T) {
			b := daemontest.New(t)
			next := 0
			produce := func(n int) {
				var some [][]byte
				for range n {
					some = append(some, w.event(next))
					if next++; len(some) == 400 {
						b.Produce(some...)
						some = some[:0]
					}
				}
				b.Produce(some...)
			}
			edit := append(
				append([]string{}, w.edit...),
				"127.0.0.1:0\"}",
				"127.0.0.1:0\", max_inflight_bytes: 1MiB, max_connections: 100}", // nobody asks
				"lambda: auto",
				"lambda: 3",
				"max_basis: 4",
				"max_basis: 3, max_features: FEATURES",
				"size: 20000",
				fmt.Sprint("size: ", rows),
				"every_events: 0",
				fmt.Sprint("every_events: ", w.events/2),
			)
			for i := range edit {
				edit[i] = strings.NewReplacer("EVERY", fmt.Sprint(w.events/2), "FEATURES", fmt.Sprint(2*rows), "ROWS", fmt.Sprint(
					rows)).
					Replace(edit[i])
			}
			path := b.Configure("peak", edit...)
			conf, err := config.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			computed := memory.Of(conf).TotalBytes
			for _, phase := range []string{"refits", "restart"} {
				produce(map[string]int{"refits": w.events, "restart": w.events / 10}[phase])
				cmd, stderr := daemontest.ChildOf(t, path)
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%s", err, stderr)
				}
				o := daemontest.Parse(t, out, nil)
				peak := daemontest.PeakMemory(t, stderr)
				t.Logf("%s, %s: %d events, %d versions, computed %d MiB, peak %d MiB", w.name, phase, next,
					o.Count("version"), computed>>20, peak>>10)
				if peak<<10 > computed {
					t.Errorf("%s, %s: the peak is %d MiB, computed were %d", w.name, phase, peak>>10, computed>>20)
				}
			}
		})
	}
}
