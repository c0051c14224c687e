package model

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/space"
	"github.com/refitd/refitd/sketch"
)

func ratings() *config.Model {
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "ratings", []string{"r"}
	m.Schema = config.Schema{
		Task:        "ordinal",
		Label:       "rating",
		Levels:      5,
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	seed := uint64(1)
	m.Sample.Size, m.Sample.Seed, m.Evaluate.Window = 100, &seed, 50
	m.Resolve()
	return &m
}

// gathers compares the named metrics of a registry with their text form.
func gathers(t *testing.T, r prometheus.Gatherer, want string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(want) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "TYPE" {
			names = append(names, f[2])
		}
	}
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestMetricsCountWhatHappened(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m, model := NewMetrics(r), ratings()
	m.add(model)
	m.applied("ratings", ingest.Counts{Topic: "r", Applied: 7, Control: 1, Aborted: 2, Holes: 3,
		Rejected:  map[event.Cause]int64{{Reason: event.NotJSON}: 4, {Reason: event.IDEmpty, Field: "user"}: 2},
		Watermark: 1_700_000_000_500})
	m.applied("ratings", ingest.Counts{Topic: "r", Applied: 1})
	m.trained(
		&report.Version{
			Model:            "ratings",
			Status:           "time_budget",
			StochasticEpochs: 3,
			FISTAIterations:  40,
			Sweeps:           2,
			GapRelative:      report.Some(0.25),
			BasisGapRelative: report.Some(0.125),
			Gate:             &report.Metrics{Loss: report.Some(0.5)},
		},
		1500*time.Millisecond,
		"",
	)
	m.judged(&fitted.Fitted{Cause: "worse", Version: report.Version{Model: "ratings", Decision: "kept"}})
	gathers(t, r, `
# HELP refitd_events_total Events applied to the state.
# TYPE refitd_events_total counter
refitd_events_total{model="ratings",topic="r"} 8
# HELP refitd_records_skipped_total Offsets that hold no event: transaction markers, aborted records, holes of compaction.
# TYPE refitd_records_skipped_total counter
refitd_records_skipped_total{fate="aborted",model="ratings"} 2
refitd_records_skipped_total{fate="control",model="ratings"} 1
refitd_records_skipped_total{fate="hole",model="ratings"} 3
# HELP refitd_event_time_watermark_timestamp_seconds Newest event time applied.
# TYPE refitd_event_time_watermark_timestamp_seconds gauge
refitd_event_time_watermark_timestamp_seconds{model="ratings"} 1.7000000005e+09
# HELP refitd_train_iterations Iterations of the last refit, by stage: stochastic epochs, FISTA iterations, variational sweeps.
# TYPE refitd_train_iterations gauge
refitd_train_iterations{model="ratings",stage="epochs"} 3
refitd_train_iterations{model="ratings",stage="fista"} 40
refitd_train_iterations{model="ratings",stage="sweeps"} 2
# HELP refitd_train_gap_ratio Gap of the last refit to the optimum over all basis vectors, over its objective; NaN where its model is variational.
# TYPE refitd_train_gap_ratio gauge
refitd_train_gap_ratio{model="ratings"} 0.25
# HELP refitd_train_basis_gap_ratio Gap of the last refit to the optimum over its basis vectors, over its objective; NaN where variational or by line search.
# TYPE refitd_train_basis_gap_ratio gauge
refitd_train_basis_gap_ratio{model="ratings"} 0.125
# HELP refitd_train_held_out_loss Loss of the last refit on the held-out rows that judge it; NaN without any.
# TYPE refitd_train_held_out_loss gauge
refitd_train_held_out_loss{model="ratings"} 0.5
# HELP refitd_train_refits_total Refits that ended with a model, by why they ended.
# TYPE refitd_train_refits_total counter
refitd_train_refits_total{model="ratings",status="basis_limit"} 0
refitd_train_refits_total{model="ratings",status="converged"} 0
refitd_train_refits_total{model="ratings",status="interrupted"} 0
refitd_train_refits_total{model="ratings",status="stalled"} 0
refitd_train_refits_total{model="ratings",status="time_budget"} 1
# HELP refitd_train_failures_total Refits that ended without a model.
# TYPE refitd_train_failures_total counter
refitd_train_failures_total{model="ratings"} 0
# HELP refitd_gate_decisions_total Refits by the gate's decision and its reason.
# TYPE refitd_gate_decisions_total counter
refitd_gate_decisions_total{decision="kept",model="ratings",reason="chosen"} 0
refitd_gate_decisions_total{decision="kept",model="ratings",reason="degenerate"} 0
refitd_gate_decisions_total{decision="kept",model="ratings",reason="incomparable"} 0
refitd_gate_decisions_total{decision="kept",model="ratings",reason="not_finite"} 0
refitd_gate_decisions_total{decision="kept",model="ratings",reason="overtaken"} 0
refitd_gate_decisions_total{decision="kept",model="ratings",reason="worse"} 1
refitd_gate_decisions_total{decision="kept",model="ratings",reason="worse_in_window"} 0
refitd_gate_decisions_total{decision="kept",model="ratings",reason="worse_than_baseline"} 0
refitd_gate_decisions_total{decision="promoted",model="ratings",reason="first_version"} 0
refitd_gate_decisions_total{decision="promoted",model="ratings",reason="not_worse"} 0
refitd_gate_decisions_total{decision="promoted",model="ratings",reason="not_worse_in_window"} 0
# HELP refitd_publish_total Versions written to the store, by result: success or failure.
# TYPE refitd_publish_total counter
refitd_publish_total{model="ratings",result="failure"} 0
refitd_publish_total{model="ratings",result="success"} 0
`)
	m.trained(&report.Version{Model: "ratings", Status: "converged", Form: "variational", Sweeps: 2,
		Evidence: report.Some(-77)}, 1500*time.Millisecond, "")
	for what, of := range map[string]*prometheus.GaugeVec{"gap": m.trainGap, "gap within the basis": m.trainBasisGap,
		"held-out loss": m.trainHeldOut} {
		if got := testutil.ToFloat64(of.WithLabelValues("ratings")); !math.IsNaN(got) {
			t.Errorf("%s %g of the refit before is still shown", what, got)
		}
	}
	steps := &report.Version{Model: "ratings", Form: "convex", Solver: report.LineSearchSolver,
		GapRelative: report.Some(0.25), BasisGapRelative: report.Some(0.125)}
	m.trained(steps, time.Second, "")
	basis, all := testutil.ToFloat64(m.trainBasisGap.WithLabelValues("ratings")),
		testutil.ToFloat64(m.trainGap.WithLabelValues("ratings"))
	if !math.IsNaN(basis) || all != 0.25 {
		t.Errorf("by line search: gap %g, within the basis %g, of which no refit takes anything", all, basis)
	}
	m.trained(&report.Version{Model: "ratings", Status: "converged", Form: "variational", Sweeps: 2,
		Evidence: report.Some(-77)}, 1500*time.Millisecond, "")
	if got := testutil.ToFloat64(m.trainEvidence.WithLabelValues("ratings")); got != -77 {
		t.Errorf("evidence %g", got)
	}
	if n := testutil.CollectAndCount(m.trainSeconds); n != 1 {
		t.Errorf("%d series of the refits' duration", n)
	}
	if got := testutil.ToFloat64(m.rejected.WithLabelValues("ratings", "not_json", "")); got != 4 {
		t.Errorf("%g rejected as not_json", got)
	}
	if got := testutil.ToFloat64(m.rejected.WithLabelValues("ratings", "id_empty", "user")); got != 2 {
		t.Errorf("%g rejected for an empty user", got)
	}
	schema := model.Schema.Event()
	if got, want := testutil.CollectAndCount(m.rejected), len(schema.Causes()); got != want {
		t.Errorf("%d series of rejected events, want one for each of %d causes", got, want)
	}
}

func TestOneVersionIsLive(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m := NewMetrics(r)
	for n := range int64(3) {
		ch := &fitted.Fitted{Vocabulary: &encode.Vocabulary{}, Watermark: 5000, Version: report.Version{Version: n + 1}}
		m.live("ratings", ch, time.Unix(100+n, 0), time.Unix(200*(n%2), 0))
	}
	gathers(t, r, `
# HELP refitd_snapshot_info The version that consumers have, and no other: always 1.
# TYPE refitd_snapshot_info gauge
refitd_snapshot_info{model="ratings",version="3"} 1
# HELP refitd_snapshot_version The number of the version that consumers have.
# TYPE refitd_snapshot_version gauge
refitd_snapshot_version{model="ratings"} 3
# HELP refitd_snapshot_published_timestamp_seconds When the version that consumers have was published.
# TYPE refitd_snapshot_published_timestamp_seconds gauge
refitd_snapshot_published_timestamp_seconds{model="ratings"} 102
# HELP refitd_snapshot_expires_timestamp_seconds When consumers refuse the version they have (publish.expires_after).
# TYPE refitd_snapshot_expires_timestamp_seconds gauge
refitd_snapshot_expires_timestamp_seconds{model="ratings"} 0
# HELP refitd_snapshot_data_watermark_timestamp_seconds Newest event time behind the version that consumers have.
# TYPE refitd_snapshot_data_watermark_timestamp_seconds gauge
refitd_snapshot_data_watermark_timestamp_seconds{model="ratings"} 5
# HELP refitd_dictionary_features Features in the vocabulary of the version that consumers have.
# TYPE refitd_dictionary_features gauge
refitd_dictionary_features{model="ratings"} 0
`)
}

// What is read off a model at the scrape: sample, ledger, losses, limits.
func TestCollectorShowsTheLedger(t *testing.T) {
	model := ratings()
	store, err := sketch.NewMemory(ingest.StoreOptions(model))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	learning, err := cycle.New(model, nil)
	if err != nil {
		t.Fatal(err)
	}
	conf := config.Default()
	conf.Storage.Path, conf.Storage.MinFreeBytes = t.TempDir(), 4096
	guard := space.New(conf.Storage.Path, 1, slog.New(slog.DiscardHandler))
	guard.Look()
	u := &Model{
		state:   &State{settings: model, store: store, guard: guard},
		reader:  &reader{consumer: new(consumer.Consumer)},
		trainer: &Trainer{cycle: learning, pause: &pause{}, versions: &Versions{settings: model}},
	}
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
	gathers(t, r, `
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
# HELP refitd_events_held_total Events that the live model did not learn in full: the entity had its share of all or of a name's, or the identity came before.
# TYPE refitd_events_held_total counter
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
			case "refitd_reservoir_items":
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
			case "refitd_storage_free_bytes", "refitd_reservoir_bytes":
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
