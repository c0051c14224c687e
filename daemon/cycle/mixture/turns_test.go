package mixture_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/cycletest/refits"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// targetOf is the target of a small model of the task.
var targetOf = refits.TargetOf

// scripted is a baseline that predicts what the test has set.
type scripted struct {
	title string
	says  []float64 // nil: nothing
}

func (s *scripted) Name() string { return s.title }

func (s *scripted) Learn(*event.Event, []float64, *rows.Counted) {}

func (s *scripted) Correct(*admission.Correction) {}

func (s *scripted) Predict(dst []float64, _ *event.Event) bool { return copy(dst, s.says) > 0 }

// TestMixtureIsNotFarBehind: the parts take turns in being right, and some are silent now and then. Over any 20,000
// events, those with a change in them included, the mixture's loss is at most 1 % and .001 above that of the best
// single part over the same events.
func TestMixtureIsNotFarBehind(t *testing.T) {
	for _, task := range []string{"ordinal", "binary", "multiclass"} {
		t.Run(task, func(t *testing.T) {
			target := targetOf(t, task)
			parts := make([]*scripted, 4)
			var baselines []baselines.Baseline
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
				m.Combine(ev, nil, nil, nil, nil)
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
