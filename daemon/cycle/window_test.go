package cycle

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/report"
)

// TestWindowForgetsOutliers: once a value of 1e6 and one of 1e9 have left the window, its losses are those of the
// events in it, to rounding, for every predictor; and a live model that is worse than the published one shows it.
func TestWindowForgetsOutliers(t *testing.T) {
	for _, window := range []int{1, 7, evaluate.WindowBlock - 1, evaluate.WindowBlock, evaluate.WindowBlock + 1,
		2*evaluate.WindowBlock + 300} {
		m := cycletest.RatingsModel(nil)
		m.Evaluate.Window = window
		c := newCycle(t, m)
		r := rand.New(rand.NewPCG(2, 2))
		var all [][evaluate.NumRoles]evaluate.EventOutcome
		for n := range 3*window + 50 {
			var o [evaluate.NumRoles]evaluate.EventOutcome
			for i := range o {
				o[i].Number(0.3 * r.NormFloat64())
				o[i].Loss, o[i].Lossy = o[i].Square/2, true
			}
			o[evaluate.FoldIn].Number(1.52 * r.NormFloat64())
			if n == 10 || n == window+5 {
				for i := range o {
					o[i].Number(1e9 / float64(1+n))
					o[i].Loss, o[i].Lossy = o[i].Square/2, true
				}
			}
			all = append(all, o)
			c.progress.progressive.Add(&o, evaluate.Compared{})
			if n%(1+window/40) > 0 && n < 3*window {
				continue
			}
			want := [evaluate.NumRoles]evaluate.Tally{}
			for i := max(0, len(all)-window); i < len(all); i++ {
				for role := range want {
					want[role].Add(&all[i][role], evaluate.Compared{})
				}
			}
			got := c.progress.progressive.Window()
			for role := range want {
				g, w := got[role], want[role]
				if g.N != w.N || !closeTo(g.Square, w.Square) || !closeTo(g.Loss, w.Loss) || !closeTo(g.Abs, w.Abs) {
					t.Fatalf("window %d, event %d, predictor %d: %+v, by definition %+v", window, n, role, g, w)
				}
			}
		}
	}
}

func closeTo(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }

// TestErrorsStayFinite: outputs that are not numbers, or overflow, count as errors that are very large; all sums stay
// numbers, which the state can hold, and the mixture of the live model continues.
func TestErrorsStayFinite(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e200, -1e308} {
		var o [evaluate.NumRoles]evaluate.EventOutcome
		for i := range o {
			o[i].Number(v)
			o[i].Loss = evaluate.BoundedError(v * v)
		}
		c.progress.progressive.Add(&o, evaluate.Compared{})
		o[evaluate.Live] = evaluate.Outcome(c.target, &event.Event{Label: 3}, []float64{v, v, v, v},
			[]float64{1, 1, -1, -1})
		c.progress.progressive.Add(&o, evaluate.Compared{})
	}
	if _, err := c.progress.Sums(); err != nil {
		t.Error(err)
	}
	p := c.Progressive()
	for _, m := range []*report.Metrics{p.All.Live, p.Window.Live, p.Window.Published, p.Baselines.GlobalMean} {
		if v := float64(*m.RMSE); math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("an RMSE of %g", v)
		}
	}
	m := switchModel()
	schema := m.Schema.Event()
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := experts.NewGradient(m, &schema, target, nil, nil)
	ev := &event.Event{Weight: 1, Numeric: []float64{1, 2}}
	g.Gather(ev)
	g.OutputsOf[0][0] = math.NaN()
	g.Learn(ev, []float64{1}, 1)
	g.Predict()
	for e, w := range g.Weights {
		if math.IsNaN(w) || math.IsNaN(g.Losses[e]) {
			t.Fatalf("expert %d: weight %g, loss %g", e, w, g.Losses[e])
		}
	}
}
