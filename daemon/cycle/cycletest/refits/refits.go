// Package refits has targets, samples for refits, and what a test asks of every refit: that it can be repeated from
// its record. No product code imports it. Unlike cycletest it imports rooms of the cycle, so the tests within those
// rooms cannot import it: those of the cycle itself, and external tests such as those of package refit, do. Its
// functions are pure, but for what they report to a test.
package refits

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
)

// SampleOf is a sample of all events: of ten in turn the first is for selection, the second for the gate.
func SampleOf(events []event.Event) *encode.Sample {
	s := &encode.Sample{Digest: "sha256:test", Cut: []report.Cut{{Topic: "t", Next: int64(len(events))}}}
	for i := range events {
		p := rows.AppendEvent(nil, &events[i])
		switch i % 10 {
		case 0:
			s.Select = append(s.Select, p)
		case 1:
			s.Gate = append(s.Gate, p)
		default:
			s.Train = append(s.Train, p)
		}
	}
	return s
}

// SetAges gives the rows of a sample of n events ages as if so many times as many events came.
func SetAges(s *encode.Sample, n int, times float64) {
	for i := range n {
		age := float64(n-i) * times
		switch i % 10 {
		case 0:
			s.SelectAge = append(s.SelectAge, age)
		case 1:
			s.GateAge = append(s.GateAge, age)
		default:
			s.TrainAge = append(s.TrainAge, age)
		}
	}
}

// PayloadOf returns the digest of what would be published.
func PayloadOf(t *testing.T, ch *fitted.Fitted, m *config.Model) string {
	t.Helper()
	digest, err := format.PayloadDigest(ch.Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TargetOf returns the target of a small model of the task.
func TargetOf(t *testing.T, task string) *encode.Target {
	t.Helper()
	m := cycletest.RatingsModel(nil)
	switch task {
	case "multiclass":
		m = cycletest.ClassesModel(event.Multiclass, nil)
	case "binary":
		m = cycletest.SwitchModel()
	}
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// Chosen returns what the manifest of a version says that its refit found out.
func Chosen(ch *fitted.Fitted) task.Chosen {
	v := &ch.Version
	return task.Chosen{HalfLife: v.HorizonEvents, HeldOutSweeps: v.HeldOutSweeps, Precisions: v.Precisions}
}

// Repeated makes a refit again from its record alone and compares the payloads.
func Repeated(t *testing.T, ch *fitted.Fitted, m *config.Model, workers int) {
	t.Helper()
	record, err := task.ReadRecord(ch.Kept)
	if err != nil {
		t.Fatal(err)
	}
	if record.Model.Hash() != m.Hash() {
		t.Fatal("the kept settings are others")
	}
	if held, err := record.HeldOut(); err != nil || len(held) == 0 {
		t.Fatalf("%d held-out events, error %v", len(held), err)
	}
	again, err := refit.Repeat(record, t.Context(), ch.CutShort, Chosen(ch), workers)
	if err != nil {
		t.Fatalf("cut %+v: %v", ch.CutShort, err)
	}
	if got, want := PayloadOf(t, again, m), PayloadOf(t, ch, m); got != want ||
		again.Version.Status != ch.Version.Status {
		t.Errorf("cut %+v, warm %t: %s with status %s, was %s with %s", ch.CutShort, ch.Version.Warm, got,
			again.Version.Status, want, ch.Version.Status)
	}
}
