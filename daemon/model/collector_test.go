package model

import (
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/modeltest"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// What is read off a model at the scrape: sample, ledger, losses, limits.
func TestCollectorShowsTheLedger(t *testing.T) {
	model := modeltest.Ratings()
	conf := config.Default()
	conf.Storage.Path, conf.Storage.MinFreeBytes = t.TempDir(), 4096
	conf.Kafka.BootstrapServers = []string{"localhost:1"} // nothing is read
	u, err := New(t.Context(), part.Options{Config: conf, Settings: model, Crashes: new(sync.Mutex),
		Metrics: metrics.New(prometheus.NewRegistry()), Registerer: prometheus.NewRegistry(),
		Out: report.NewEmitter(io.Discard, true), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	store, learning := u.state.Store, u.cycle
	for p := range int32(2) {
		if err := store.Begin("r", p, 10); err != nil {
			t.Fatal(err)
		}
	}
	sink := ingest.New(model, store, learning)
	for i := range int64(60) {
		ev := event.Event{Label: float64(1 + i%5), Weight: 1, Time: i, Categorical: []string{"u", "i"}}
		if err := sink.Feed("r", int32(i%2), 10+i/2, &ev); err != nil {
			t.Fatal(err)
		}
	}
	part := sketch.Part{
		Topic:     "r",
		Partition: 0,
		Base:      40,
		Next:      50,
		Records: []sketch.Record{{Offset: 41, Fate: sketch.Control},
			{Offset: 42, Fate: sketch.Aborted}, {Offset: 43, Fate: sketch.Rejected, Reason: "not_json"}},
	}
	store.Classify(&part)
	if err := store.Apply(&part, nil); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(&collector{models: []*Model{u}, least: 4096, memory: config.Memory{BudgetBytes: 5, TotalBytes: 4}})
	modeltest.Gathers(t, r, `
# HELP refitd_ledger_offsets Offsets that the ledger accounts for, by account: applied, rejected, control, aborted, holes and gap.
# TYPE refitd_ledger_offsets gauge
refitd_ledger_offsets{account="aborted",model="ratings",topic="r"} 1
refitd_ledger_offsets{account="applied",model="ratings",topic="r"} 60
refitd_ledger_offsets{account="control",model="ratings",topic="r"} 1
refitd_ledger_offsets{account="gap",model="ratings",topic="r"} 0
refitd_ledger_offsets{account="holes",model="ratings",topic="r"} 7
refitd_ledger_offsets{account="rejected",model="ratings",topic="r"} 1
# HELP refitd_memory_budget_bytes Largest memory allowed (memory_budget); 0 without one.
# TYPE refitd_memory_budget_bytes gauge
refitd_memory_budget_bytes 5
# HELP refitd_memory_computed_bytes Memory that the configuration may use, as check config prints it.
# TYPE refitd_memory_computed_bytes gauge
refitd_memory_computed_bytes 4
# HELP refitd_storage_min_free_bytes Free space below which nothing is read or published (storage.min_free_bytes).
# TYPE refitd_storage_min_free_bytes gauge
refitd_storage_min_free_bytes 4096
# HELP refitd_catching_up 1 while the model is so far behind that it learns live from a share of the events (train.catch_up), else 0.
# TYPE refitd_catching_up gauge
refitd_catching_up{model="ratings"} 0
# HELP refitd_events_held_total Events that the live model did not learn in full: the entity had its share of all or of a name's, the identity came before, or a flood of copies came.
# TYPE refitd_events_held_total counter
refitd_events_held_total{model="ratings",reason="copy"} 0
refitd_events_held_total{model="ratings",reason="entity"} 0
refitd_events_held_total{model="ratings",reason="identity"} 0
refitd_events_held_total{model="ratings",reason="name"} 0
# HELP refitd_features_total Names in events that were scored with the version that consumers have.
# TYPE refitd_features_total counter
refitd_features_total{model="ratings"} 0
# HELP refitd_fold_in_evicted_total Names that the fold-in gave up for more recent ones (train.fold_in.max_rows).
# TYPE refitd_fold_in_evicted_total counter
refitd_fold_in_evicted_total{model="ratings"} 0
# HELP refitd_fold_in_resets_total Times the fold-in started again because it had become worse than the champion alone.
# TYPE refitd_fold_in_resets_total counter
refitd_fold_in_resets_total{model="ratings"} 0
# HELP refitd_gate_rejections_in_a_row Refits that the gate has kept back, as worse or unfit, since the last champion or the start.
# TYPE refitd_gate_rejections_in_a_row gauge
refitd_gate_rejections_in_a_row{model="ratings"} 0
# HELP refitd_progressive_invalid_total Losses below 0, which none can be: each is a bug. They count as 0.
# TYPE refitd_progressive_invalid_total counter
refitd_progressive_invalid_total{model="ratings"} 0
`)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	rows, roles, byName := 0.0, map[string]float64{}, map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "refitd_sample_rows":
				rows += m.GetGauge().GetValue()
			case "refitd_progressive_loss":
				for _, l := range m.GetLabel() {
					if l.GetName() == "role" {
						roles[l.GetValue()] = m.GetGauge().GetValue()
					}
				}
			case "refitd_progressive_metric":
				text := ""
				for _, l := range m.GetLabel() { // metric, model, role, window
					text += l.GetValue() + " "
				}
				byName[text] = m.GetGauge().GetValue()
			case "refitd_storage_free_bytes", "refitd_sample_bytes":
				if m.GetGauge().GetValue() <= 0 {
					t.Errorf("%s is %g", f.GetName(), m.GetGauge().GetValue())
				}
			}
		}
	}
	if rows != 60 {
		t.Errorf("%g rows", rows)
	}
	want := learning.Progressive()
	if got := roles["live"]; got != float64(*want.Window.Live.RMSE) ||
		roles["sgd_bias"] != float64(*want.Baselines.SGDBias.RMSE) {
		t.Errorf("losses %v, want those of %+v", roles, want)
	}
	for name, value := range map[string]*report.Number{"rmse ratings live window ": want.Window.Live.RMSE,
		"mae ratings live all ":     want.All.Live.MAE,
		"loss ratings live window ": want.Window.Live.Loss, "mae ratings sgd_bias window ": want.Baselines.SGDBias.MAE} {
		if got, ok := byName[name]; !ok || got != float64(*value) {
			t.Errorf("%s: %g, want %g of %v", name, got, float64(*value), byName)
		}
	}
}
