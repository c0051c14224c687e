package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// scripted is a baseline that predicts what the test has set.
type scripted struct {
	title string
	says  []float64 // nil: nothing
}

func (s *scripted) Name() string { return s.title }

func (s *scripted) Learn(*event.Event, []float64, *rows.Counted) {}

func (s *scripted) Correct(*experts.Correction) {}

func (s *scripted) Predict(dst []float64, _ *event.Event) bool { return copy(dst, s.says) > 0 }

func targetOf(t *testing.T, task string) *encode.Target {
	t.Helper()
	m := cycletest.RatingsModel(nil)
	switch task {
	case "multiclass":
		m = cycletest.ClassesModel(event.Multiclass, nil)
	case "binary":
		m = switchModel()
	}
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestMixtureIsNotFarBehind: the parts take turns in being right, and some are silent now and then. Over any 20,000
// events, those with a change in them included, the mixture's loss is at most 1 % and .001 above that of the best
// single part over the same events.
func TestMixtureIsNotFarBehind(t *testing.T) {
	for _, task := range []string{"ordinal", "binary", "multiclass"} {
		t.Run(task, func(t *testing.T) {
			target := targetOf(t, task)
			parts := make([]*scripted, 4)
			var baselines []experts.Baseline
			for i := range parts {
				parts[i] = &scripted{title: fmt.Sprint("part", i)}
				baselines = append(baselines, parts[i])
			}
			m := mixture.MixtureOf(target, nil, baselines, -1, 100)
			m.Stack, m.Pool = nil, nil
			m.Parts = m.Parts[:mixture.NumLearned+len(parts)]
			r := rand.New(rand.NewPCG(11, 1))
			const n, interval = 100_000, 20_000
			mixed, each := make([]float64, n), make([][]float64, len(parts))
			targets, outputs := make([]float64, target.Outputs()), make([]float64, target.Outputs())
			for i := range n {
				ev := label(r, target)
				target.Encode(targets, ev)
				for p, s := range parts {
					noise := 1.0
					if (i/7_000+i/30_000)%len(parts) == p {
						noise = 0.5
					}
					s.says = says(r, target, ev, targets, noise)
				}
				if i%5 == 4 {
					parts[3].says = nil
				}
				m.Predict(ev, nil, nil, nil)
				if target.IsNumeric() {
					mixed[i] = cycletest.Squared(m.Value() - ev.Label)
				} else {
					m.Outputs(outputs)
					mixed[i] = target.Loss.Eval(nil, outputs, targets)
				}
				for p := range parts {
					loss := math.NaN()
					if m.Parts[mixture.NumLearned+p].Present {
						loss = m.Loss(&m.Parts[mixture.NumLearned+p], ev, targets)
					}
					each[p] = append(each[p], loss)
				}
				m.Learn(ev, targets, nil)
			}
			for from := 0; from+interval <= n; from += 1000 {
				for p := range parts[:3] {
					total, best := 0.0, 0.0
					for i := from; i < from+interval; i++ {
						total, best = total+mixed[i], best+each[p][i]
					}
					if total/interval > 1.01*best/interval+0.001 {
						t.Fatalf("events %d to %d: loss %.4f, part %d alone %.4f", from, from+interval, total/interval,
							p, best/interval)
					}
				}
			}
		})
	}
}

// label draws an event without fields.
func label(r *rand.Rand, target *encode.Target) *event.Event {
	ev := &event.Event{Label: float64(1 + r.IntN(5)), Weight: 1}
	switch target.Task {
	case event.Binary:
		ev.Label = float64(r.IntN(2))
	case event.Multiclass:
		ev.Classes = []string{target.Classes[r.IntN(len(target.Classes))]}
	}
	return ev
}

// says returns a prediction that is the worse the larger the noise.
func says(r *rand.Rand, target *encode.Target, ev *event.Event, targets []float64, noise float64) []float64 {
	if target.IsNumeric() {
		return []float64{target.Clip(ev.Label + noise*r.NormFloat64())}
	}
	out, sum := make([]float64, len(targets)), 0.0
	for c, t := range targets {
		out[c] = math.Exp(noise * r.NormFloat64())
		if t > 0 {
			out[c] *= 4
		}
		sum += out[c]
	}
	if len(out) == 1 {
		return []float64{1 / (1 + math.Exp(noise*r.NormFloat64()-1.4*targets[0]))}
	}
	for c := range out {
		out[c] /= sum
	}
	return out
}

// TestMixtureGivesProbabilities: they are between 0 and 1 and those of exclusive classes add up to 1; outputs lead back
// to them.
func TestMixtureGivesProbabilities(t *testing.T) {
	c := newCycle(t, cycletest.ClassesModel(event.Multiclass, nil))
	for _, ev := range cycletest.ClassStream(event.Multiclass, 500) {
		c.Observe(&ev, true, rows.Position{}, nil, nil)
		sum := 0.0
		for _, p := range c.ensemble.mixture.Mixed {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("probability %g", p)
			}
			sum += p
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("probabilities add up to %g", sum)
		}
		outputs, back := make([]float64, len(c.ensemble.mixture.Mixed)), make([]float64, len(c.ensemble.mixture.Mixed))
		c.ensemble.mixture.Outputs(outputs)
		evaluate.SoftmaxTo(back, outputs)
		for i, p := range c.ensemble.mixture.Mixed {
			if math.Abs(back[i]-p) > 1e-6 {
				t.Fatalf("probability %g comes back from its output as %g", p, back[i])
			}
		}
	}
}

// TestBaselinesByDefinition compares the conditional means and frequencies with counts.
func TestBaselinesByDefinition(t *testing.T) {
	target := targetOf(t, "ordinal")
	mean := &experts.Conditional{
		Title:  "x",
		Target: target,
		Field:  0,
		Fade:   1,
		Width:  1,
		Slots:  rows.NewSlots(100),
		Before: rows.NewSlots(100),
	}
	after := &experts.Conditional{
		Title:  "y",
		Target: target,
		Field:  0,
		Fade:   1,
		Last:   true,
		Width:  1,
		Slots:  rows.NewSlots(100),
		Before: rows.NewSlots(100),
	}
	events := cycletest.Stream(3, 400)
	got := make([]float64, 1)
	lastOf := func(i int) (float64, bool) {
		for j := i - 1; j >= 0; j-- {
			if events[j].Categorical[0] == events[i].Categorical[0] {
				return events[j].Label, true
			}
		}
		return 0, false
	}
	for i := range events {
		all, sum, n, sumAfter, nAfter := 0.0, 0.0, 0.0, 0.0, 0.0
		label, known := lastOf(i)
		for j := range i {
			all += events[j].Label / float64(i)
			if events[j].Categorical[0] == events[i].Categorical[0] {
				sum, n = sum+events[j].Label, n+1
			}
			if l, ok := lastOf(j); ok && l == label {
				sumAfter, nAfter = sumAfter+events[j].Label, nAfter+1
			}
		}
		if ok := mean.Predict(got, &events[i]); ok != (i > 0) ||
			ok && math.Abs(got[0]-(experts.BaselinePrior*all+sum)/(experts.BaselinePrior+n)) > 1e-9 {
			t.Fatalf("event %d: mean of the name %g (%v), by definition %g", i, got[0], ok,
				(experts.BaselinePrior*all+sum)/(experts.BaselinePrior+n))
		}
		if ok := after.Predict(got, &events[i]); ok != known ||
			ok && math.Abs(got[0]-(experts.BaselinePrior*all+sumAfter)/(experts.BaselinePrior+nAfter)) > 1e-9 {
			t.Fatalf("event %d: mean after the entity's last label %g (%v), by definition %g", i, got[0], ok,
				(experts.BaselinePrior*all+sumAfter)/(experts.BaselinePrior+nAfter))
		}
		mean.Learn(&events[i], nil, nil)
		after.Learn(&events[i], nil, nil)
	}
}

// TestLossOfLiveNumbers: the reported squared loss of live predictions of numbers is that of the mixture, half of its
// mean square.
func TestLossOfLiveNumbers(t *testing.T) {
	c := newCycle(t, regressionModel())
	observeAll(c, cycletest.Stream(5, 1500))
	live := c.Progressive().All.Live
	if got, want := float64(*live.Loss), float64(*live.RMSE)*float64(*live.RMSE)/2; math.Abs(got-want) > 1e-12 {
		t.Errorf("loss %g with RMSE %g, want %g", got, float64(*live.RMSE), want)
	}
}
