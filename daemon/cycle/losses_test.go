package cycle

import (
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
)

// TestTakeLosses: over any intervals, each predictor that has a window loss lost as much as that says, and the
// mixture's parts are there under their names.
func TestTakeLosses(t *testing.T) {
	for name, test := range map[string]struct {
		model    *config.Model
		events   []event.Event
		wants    []string
		baseline string
	}{
		"numbers": {cycletest.RatingsModel(nil), cycletest.Stream(5, 1400),
			[]string{"live", "published", "fold_in", "fold_in_gaussian", "stack", "global_mean", "item_mean"}, "sgd_bias"},
		"classes": {switchModel(), cycletest.Numbers(5, 1400),
			[]string{"live", "published", "fold_in", "mean", "last_label", "linear"}, "majority"},
	} {
		test.model.Evaluate.Window = 2000
		c := newCycle(t, test.model)
		if c.TakeLosses() != nil {
			t.Errorf("%s: losses that nobody watches", name)
		}
		c.progress.WatchLosses()
		n, sums, right := map[string]int64{}, map[string]float64{}, map[string]float64{}
		baseline := map[string]bool{}
		take := func() {
			for _, l := range c.TakeLosses() {
				n[l.Name], baseline[l.Name] = n[l.Name]+l.N, l.Baseline
				if l.N > 0 {
					sums[l.Name], right[l.Name] = sums[l.Name]+l.Loss*float64(
						l.N), right[l.Name]+l.Accuracy*float64(l.N)
				}
			}
		}
		observeAll(c, test.events[:1000])
		take()
		c.Install(mustRefit(t, c, sampleOf(test.events[:1000])))
		observeAll(c, test.events[1000:1234])
		take()
		observeAll(c, test.events[1234:])
		take()
		w, numeric := c.progress.progressive.Window(), c.target.IsNumeric()
		for role, name := range map[int]string{evaluate.Live: "live", evaluate.Published: "published",
			evaluate.FoldIn: "fold_in"} {
			got := sums[name] / float64(n[name])
			if want := w[role].Judged(numeric); n[name] != w[role].N ||
				math.Abs(got-want) > 1e-9*want && (numeric || role == evaluate.Live || math.Abs(got-want) > 1e-3) {
				t.Errorf("%s: %s lost %g over %d events, in the window %g over %d", name, name, got, n[name], want,
					w[role].N)
			}
			if want := float64(w[role].Correct); !numeric && right[name] != want && math.Abs(right[name]-want) > 1e-6 {
				t.Errorf("%s: %s right %g times, in the window %g", name, name, right[name], want)
			}
		}
		for _, want := range test.wants {
			if n[want] == 0 {
				t.Errorf("%s: no losses of %s: %v", name, want, n)
			}
		}
		if baseline["live"] || baseline["fold_in"] || !baseline["mean"] || !baseline[test.baseline] ||
			baseline["stack"] {
			t.Errorf("%s: baselines %v", name, baseline)
		}
	}
}
