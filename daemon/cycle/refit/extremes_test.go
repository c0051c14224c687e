package refit_test

import (
	"errors"
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestAcceptedLabelsNeverStopARefit: labels, numbers and weights at the ends of what the decoder takes, some or all of
// them, are trained on; a label beyond is rejected as label_range.
func TestAcceptedLabelsNeverStopARefit(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	n := tier.Size(160, 300)
	models := map[string]*config.Model{
		"variational": amountsModel(nil),
		"convex":      amountsModel(func(m *config.Model) { m.Train.Refit, m.Train.MaxBasis = "output", 2 }),
		"numbers": amountsModel(func(m *config.Model) {
			m.Schema.Categorical, m.Train.MaxBasis, m.Evaluate.BaselineBy, m.Train.FoldIn.By = nil, 2, "", nil
		}),
	}
	for name, m := range models {
		schema := m.Schema.Event()
		for _, c := range []struct {
			field, text string
			want        event.Reason
		}{
			{"amount", "1e9", ""}, {"amount", "-1e9", ""}, {"amount", "1000000001", event.LabelRange}, {"amount", "-1e12",
				event.LabelRange},
			{"amount", "2.2250738585072014e-308", ""}, {"amount", "0", ""},
			{"a", "1e15", ""}, {"b", "-1e15", ""}, {"a", "2.2250738585072014e-308", ""}, {"w", "1e6", ""}, {"w",
				"2.2250738585072014e-308", ""},
		} {
			for _, times := range tier.Size([]int{1, n}, []int{1, 100, n}) {
				decoder, rejected := event.NewJSON(schema, event.DefaultLimits()), 0
				var events []event.Event
				for _, line := range amounts(4, n, c.field, c.text, times) {
					var ev event.Event
					if r := decoder.Decode(&ev, []byte(line), 1); r == nil {
						events = append(events, ev)
					} else if rejected++; r.Reason != c.want {
						t.Fatalf("%s: rejected as %s: %s", name, r, line)
					}
				}
				if want := map[bool]int{true: times}[c.want != ""]; rejected != want {
					t.Errorf("%s: %d events with %s %s rejected, want %d", name, rejected, c.field, c.text, want)
				}
				if len(events) == 0 {
					continue
				}
				learning := newCycle(t, m)
				observeAll(learning, events)
				ch, err := learning.Refit(t.Context(), sampleOf(events))
				if err != nil || !ch.Model.IsFinite() {
					t.Errorf("%s: %d times %s %s: %v", name, times, c.field, c.text, err)
				}
				if _, err := learning.Sums(); err != nil {
					t.Errorf("%s: %d times %s %s: %v", name, times, c.field, c.text, err)
				}
			}
		}
	}
}

// TestRefitLeavesOldLabelsOut: what an earlier build took into the sample and no decoder takes now does not stop a
// refit.
func TestRefitLeavesOldLabelsOut(t *testing.T) {
	m := amountsModel(nil)
	decoder := event.NewJSON(m.Schema.Event(), event.DefaultLimits())
	lines := amounts(5, 300, "a", "0", 1)
	events := make([]event.Event, len(lines))
	for i, line := range lines {
		if r := decoder.Decode(&events[i], []byte(line), 1); r != nil {
			t.Fatal(r)
		}
	}
	for i, label := range []float64{1e12, -1e300, math.Inf(1), math.NaN()} {
		events[20*i+5].Label = label
	}
	c := newCycle(t, m)
	s := sampleOf(events)
	s.Weights = make([]float64, len(s.Train))
	for i := range s.Weights {
		s.Weights[i] = 1
	}
	observeAll(c, events)
	rows := int64(len(s.Train))
	if ch, err := c.Refit(t.Context(), s); err != nil || !ch.Model.IsFinite() || ch.Version.Rows != rows-4 {
		t.Fatalf("%+v, error %v", ch, err)
	}
	for i := range events {
		events[i].Label = 1e12
	}
	if _, err := newCycle(t, m).Refit(t.Context(), sampleOf(events)); !errors.Is(err, encode.ErrNoRows) {
		t.Errorf("error %v", err)
	}
}
