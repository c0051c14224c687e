package ingest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// TestPythonJoinIsDuckDBs: the joined sample is, row for row, the full outer join of both topics by DuckDB, restricted
// to the best keys, where the events cut it and where the outcomes do.
func TestPythonJoinIsDuckDBs(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import duckdb").CombinedOutput(); err != nil {
		t.Skipf("the join is not compared with DuckDB's: python3 lacks duckdb: %s", bytes.TrimSpace(out))
	}
	for name, of := range map[string][2]int{"more events": {9000, 3000}, "more outcomes": {2000, 9000}} {
		t.Run(name, func(t *testing.T) { compareJoin(t, of[0], of[1]) })
	}
}

func compareJoin(t *testing.T, events, outcomes int) {
	m := ingesttest.Clicks(600)
	m.Input.Outcomes.Label, m.Sample.Holdout.Size = "v", 200
	everything := *m
	everything.Sample.Size, everything.Sample.Holdout.Size, everything.Sample.MaxBytes = 100_000, 100_000, 0
	r := rand.New(rand.NewPCG(uint64(events), 7))
	files := map[string]*bytes.Buffer{}
	for _, name := range []string{"events", "outcomes", "keys", "roles"} {
		files[name] = new(bytes.Buffer)
	}
	batches := map[string]*consumer.Batch{"seen": {Topic: "seen"}, "clicked": {Topic: "clicked"}, "all": {Topic: "seen"}}
	add := func(topic, value string) {
		b := batches[topic]
		b.Records = append(b.Records, consumer.Record{Offset: b.Next, Timestamp: 1_700_000_000_000, Value: []byte(value)})
		b.Next++
	}
	ids := map[string]bool{}
	id := func() string {
		id := fmt.Sprint("e", r.IntN(8000))
		if !ids[id] {
			add("all", fmt.Sprintf(`{"id":%q,"user":%q,"item":"x","ts":1}`, id, id))
		}
		ids[id] = true
		return id
	}
	at := func() int { return 1_600_000_000_000 + r.IntN(100_000) }
	for range events {
		value := fmt.Sprintf(`{"id":%q,"user":"u%d","item":"i%d","ts":%d}`, id(), r.IntN(9), r.IntN(9), at())
		fmt.Fprintln(files["events"], value)
		add("seen", value)
	}
	for range outcomes {
		value := fmt.Sprintf(`{"of":%q,"v":%d,"ts":%d}`, id(), r.IntN(5), at())
		fmt.Fprintln(files["outcomes"], value)
		add("clicked", value)
	}
	g, store := joinedStore(t, m)
	all, whole := joinedStore(t, &everything)
	defer store.Close()
	defer whole.Close()
	for to, list := range map[*Ingest][]string{g: {"seen", "clicked"}, all: {"all"}} {
		for _, b := range list {
			if err := to.Apply(t.Context(), batches[b]); err != nil {
				t.Fatal(err)
			}
		}
	}
	hashes := sampleLines(t, whole, func(role int, r *sketch.Row, ev *event.Event) any {
		return map[string]any{"id": ev.Categorical[0], "role": role, "hash": hex.EncodeToString(r.ID[:])}
	})
	files["keys"].WriteString(strings.Join(hashes, "\n"))
	for role, capacity := range []int{600, 100, 100} {
		fmt.Fprintf(files["roles"], "{\"role\":%d,\"capacity\":%d}\n", role, capacity)
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name+".jsonl"), text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "python3", "testdata/join.py", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var want []string
	unmatched := 0
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.Count(line, "\"") == 2 { // no event
			unmatched++
			continue
		}
		want = append(want, line)
	}
	names := map[string]string{}
	for _, line := range hashes {
		var k struct{ ID, Hash string }
		if err := json.Unmarshal([]byte(line), &k); err != nil {
			t.Fatal(err)
		}
		names[k.Hash] = k.ID
	}
	joined := 0
	got := sampleLines(t, store, func(role int, r *sketch.Row, ev *event.Event) any {
		came := [][2]int64{}
		for _, o := range r.Outcomes {
			came = append(came, [2]int64{o.Time, int64(o.Value)})
		}
		joined += min(1, len(came))
		return []any{role, names[hex.EncodeToString(r.ID[:])], ev.Time, ev.Categorical[0], ev.Categorical[1], came}
	})
	s, err := store.Sample()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) || s.Unmatched != unmatched || joined < 30 || len(got) < 100 {
		t.Errorf("%d rows, %d joined, %d keys without an event; DuckDB has %d and %d\n%.300s\n%.300s", len(got), joined,
			s.Unmatched, len(want), unmatched, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	t.Logf("%d rows of %d events and %d outcomes, %d joined, %d keys without an event, as DuckDB has them", len(got),
		events, outcomes, joined, unmatched)
}

// sampleLines returns a line of JSON for each row of a sample, by role and hash.
func sampleLines(t *testing.T, store *sketch.Store,
	of func(role int, r *sketch.Row, ev *event.Event) any) (out []string) {
	t.Helper()
	s, err := store.Sample()
	if err != nil {
		t.Fatal(err)
	}
	var ev event.Event
	for role, list := range [][]sketch.Row{s.Train, s.Select, s.Gate} {
		slices.SortFunc(list, func(a, b sketch.Row) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		for i := range list {
			if err := rows.DecodeEvent(&ev, list[i].Payload, rows.Interner{}); err != nil {
				t.Fatal(err)
			}
			line, err := json.Marshal(of(role, &list[i], &ev))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(line))
		}
	}
	return out
}
