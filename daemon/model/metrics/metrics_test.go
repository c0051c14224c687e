package metrics

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/modeltest"
	"github.com/refitd/refitd/daemon/report"
)

func TestMetricsCountWhatHappened(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m, model := New(r), modeltest.Ratings()
	m.Add(model)
	m.Applied("ratings", ingest.Counts{Topic: "r", Applied: 7, Control: 1, Aborted: 2, Holes: 3,
		Rejected:  map[event.Cause]int64{{Reason: event.NotJSON}: 4, {Reason: event.IDEmpty, Field: "user"}: 2},
		Watermark: 1_700_000_000_500})
	m.Applied("ratings", ingest.Counts{Topic: "r", Applied: 1, Formats: map[string]int64{"avro": 1}})
	m.Trained(
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
	m.Judged(&fitted.Fitted{Cause: "worse", Version: report.Version{Model: "ratings", Decision: "kept"}})
	modeltest.Gathers(t, r, `
# HELP refitd_events_total Events applied to the state.
# TYPE refitd_events_total counter
refitd_events_total{model="ratings",topic="r"} 8
# HELP refitd_events_by_format_total Events applied to the state, by the format of their values.
# TYPE refitd_events_by_format_total counter
refitd_events_by_format_total{format="avro",model="ratings"} 1
refitd_events_by_format_total{format="json",model="ratings"} 0
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
	m.Trained(&report.Version{Model: "ratings", Status: "converged", Form: "variational", Sweeps: 2,
		Evidence: report.Some(-77)}, 1500*time.Millisecond, "")
	for what, of := range map[string]*prometheus.GaugeVec{"gap": m.trainGap, "gap within the basis": m.trainBasisGap,
		"held-out loss": m.trainHeldOut} {
		if got := testutil.ToFloat64(of.WithLabelValues("ratings")); !math.IsNaN(got) {
			t.Errorf("%s %g of the refit before is still shown", what, got)
		}
	}
	steps := &report.Version{Model: "ratings", Form: "convex", Solver: report.LineSearchSolver,
		GapRelative: report.Some(0.25), BasisGapRelative: report.Some(0.125)}
	m.Trained(steps, time.Second, "")
	basis, all := testutil.ToFloat64(m.trainBasisGap.WithLabelValues("ratings")),
		testutil.ToFloat64(m.trainGap.WithLabelValues("ratings"))
	if !math.IsNaN(basis) || all != 0.25 {
		t.Errorf("by line search: gap %g, within the basis %g, of which no refit takes anything", all, basis)
	}
	m.Trained(&report.Version{Model: "ratings", Status: "converged", Form: "variational", Sweeps: 2,
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
	m := New(r)
	for n := range int64(3) {
		ch := &fitted.Fitted{Vocabulary: &encode.Vocabulary{}, Watermark: 5000, Version: report.Version{Version: n + 1}}
		m.Live("ratings", ch, time.Unix(100+n, 0), time.Unix(200*(n%2), 0))
	}
	modeltest.Gathers(t, r, `
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
# HELP refitd_vocabulary_features Features in the vocabulary of the version that consumers have.
# TYPE refitd_vocabulary_features gauge
refitd_vocabulary_features{model="ratings"} 0
# HELP refitd_dictionary_features Former name of refitd_vocabulary_features.
# TYPE refitd_dictionary_features gauge
refitd_dictionary_features{model="ratings"} 0
`)
}
