package offline

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

func TestInspectState(t *testing.T) {
	m := configured(t)
	dir := t.TempDir()
	inspect := func(model string) ([]line, error) {
		return collect(t, func(out *report.Emitter) error {
			return InspectState(t.Context(), dir, model, slog.New(slog.DiscardHandler), out)
		})
	}
	_, err := inspect("toy")
	wantExit(t, err, report.ExitModel, "--storage.path", "--model")

	options := ingest.StoreOptions(m)
	options.Dir = filepath.Join(dir, m.Name)
	store, err := sketch.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	batch := &consumer.Batch{Topic: "toy", Partition: 2, Base: 5, Next: 10, Records: []consumer.Record{
		{Offset: 5, Value: []byte(`{"user":"u1","item":"i1","rating":4,"ts":1000}`), Timestamp: 1000},
		{Offset: 6, Value: []byte(`{"user":"u1","item":"i1","rating":6,"ts":1000}`), Timestamp: 1000},
		{Offset: 7, Fate: consumer.Control},
		{Offset: 9, Value: []byte(`{"user":"u2","item":"i1","rating":1,"ts":1000}`), Timestamp: 1000},
	}}
	if err := store.Begin("toy", 2, 5); err != nil {
		t.Fatal(err)
	}
	if err := ingest.New(m, store, nil).Apply(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	_, err = inspect("toy")
	wantExit(t, err, report.ExitState, "stop the daemon")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	lines, err := inspect("toy")
	if err != nil || len(lines) != 2 || lines[0]["type"] != "state" || len(lines[1]) != 1 || lines[1]["type"] != "summary" {
		t.Fatalf("%v, %v", lines, err)
	}
	s := lines[0]
	if got := number(t, s, "rows.train") + number(t, s, "rows.holdout"); got != 2 || get(s, "rejected_by_reason.label_range") != 1.0 {
		t.Errorf("state %v", s)
	}
	p := s["partitions"].([]any)[0].(line)
	for name, want := range map[string]float64{"partition": 2, "start": 5, "next": 10, "applied": 2, "rejected": 1, "control": 1, "holes": 1, "gap": 0,
		"rows": 2} {
		if got := number(t, p, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	if p["halted"] != nil || s["config_hash"] != m.SampleHash() {
		t.Errorf("state %v", s)
	}
}

func TestInspectSnapshot(t *testing.T) {
	ref, summary, _ := published(t)
	inspect := func() ([]line, error) {
		return collect(t, func(out *report.Emitter) error { return InspectSnapshot(ref, out) })
	}
	lines, err := inspect()
	if err != nil || len(lines) != 2 || len(lines[1]) != 1 {
		t.Fatalf("%v, %v", lines, err)
	}
	l := lines[0]
	if l["type"] != "snapshot" || l["files_ok"] != true || l["golden_ok"] != true || number(t, l, "aliases.champion") != 1 ||
		get(l, "manifest.payload_digest") != get(summary, "snapshot.payload_digest") {
		t.Errorf("line %v", l)
	}

	path := filepath.Join(ref.Store, ref.Model, "1", "vocabulary")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(strings.Replace(string(whole), "u1", "u!", 1))
	lines, err = inspect()
	wantExit(t, err, report.ExitState, "vocabulary")
	if len(lines) != 1 || lines[0]["files_ok"] != false || lines[0]["golden_ok"] != false {
		t.Errorf("lines %v", lines)
	}
	_, err = scored(t, ref, strings.NewReader(""))
	wantExit(t, err, report.ExitState, "vocabulary")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = scored(t, ref, strings.NewReader(""))
	wantExit(t, err, report.ExitState, "vocabulary")

	replace(string(whole))
	manifest := filepath.Join(ref.Store, ref.Model, "1", "manifest.json")
	if err := os.Truncate(manifest, 100); err != nil {
		t.Fatal(err)
	}
	lines, err = inspect()
	wantExit(t, err, report.ExitState, "manifest.json")
	if len(lines) != 0 {
		t.Errorf("lines %v", lines)
	}
}
