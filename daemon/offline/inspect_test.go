package offline

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

func TestInspectState(t *testing.T) {
	m := offlinetest.Configured(t)
	dir := t.TempDir()
	inspect := func(model string) ([]offlinetest.Line, error) {
		return offlinetest.Collect(t, func(out *report.Emitter) error {
			return InspectState(t.Context(), dir, model, slog.New(slog.DiscardHandler), out)
		})
	}
	_, err := inspect("toy")
	offlinetest.WantExit(t, err, report.ExitModel, "--storage.path", "--model")

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
	offlinetest.WantExit(t, err, report.ExitState, "stop the daemon")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	lines, err := inspect("toy")
	if err != nil || len(lines) != 2 || lines[0]["type"] != "state" || len(lines[1]) != 1 ||
		lines[1]["type"] != "summary" {
		t.Fatalf("%v, %v", lines, err)
	}
	s := lines[0]
	if got := offlinetest.Number(t, s, "rows.train") + offlinetest.Number(t, s, "rows.holdout"); got != 2 ||
		offlinetest.Get(s, "rejected_by_reason.label_range") != 1.0 {
		t.Errorf("state %v", s)
	}
	p := s["partitions"].([]any)[0].(offlinetest.Line)
	for name, want := range map[string]float64{"partition": 2, "start": 5, "next": 10, "applied": 2, "rejected": 1,
		"control": 1, "holes": 1, "gap": 0,
		"rows": 2} {
		if got := offlinetest.Number(t, p, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	if p["halted"] != nil || s["config_hash"] != m.SampleHash() {
		t.Errorf("state %v", s)
	}
}
