package cycle

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// listEvents draws events whose lists have 1, 2 and 200 names, each once as a decoder has them, and some unseen.
func listEvents(n int) []event.Event {
	events := gappy(7, n)
	for i := range events {
		ev := &events[i]
		ev.Categorical[1], ev.Numeric = fmt.Sprint("i", i%15), nil
		ev.Multi[0] = nil
		for j := range []int{1, 2, 2, 200}[i%4] {
			ev.Multi[0] = append(ev.Multi[0], fmt.Sprint("t", (i+j)%250))
		}
		if i%5 == 0 {
			ev.Multi[0][0] = fmt.Sprint("once", i)
		}
	}
	return events
}

// TestListWeights: a name of a list of n counts 1/n or 1/√n wherever something is learned from it, and training, the
// live model, its update, the published version and its fold-in of a history agree.
func TestListWeights(t *testing.T) {
	for name, value := range map[string]func(n float64) float64{"": func(n float64) float64 { return 1 / n },
		format.WeightSqrt: func(n float64) float64 {
			return 1 / math.Sqrt(n)
		}} {
		t.Run(name, func(t *testing.T) {
			m := gappyModel(func(m *config.Model) {
				m.Schema.Numeric, m.Schema.Optional = nil, []string{"item", "tags"}
				if m.Train.Refit = "variational"; name != "" {
					m.Schema.ListWeights = map[string]string{"tags": name}
				}
				m.Train.FoldIn.By = []string{"user"}
			})
			events := listEvents(1200)
			c := newCycle(t, m)
			observeAll(c, events[:600])
			ch := mustRefit(t, c, sampleOf(events[:600]))
			var seen []event.Event // a consumer's fold-in of users learns nothing of other names
			for i := range events[600:] {
				if ev := &events[600+i]; !strings.HasPrefix(ev.Multi[0][0], "once") {
					seen = append(seen, *ev)
				}
			}
			compareWithDaemon(t, c, ch, seen)
			c.Install(ch)
			observeAll(c, events[600:])
			c.ensemble.experts = nil // an update may be made of one
			update := c.Update()
			published, err := scorer.NewModel(update.Contents(m))
			if err != nil {
				t.Fatal(err)
			}
			trainer, library, live := make([]float64, 1), make([]float64, 1), make([]float64, 1)
			for i := range events[:100] {
				ev := &events[i]
				in := fitted.InputOf(&c.schema, ev)
				fitted.NewScorer(update.Model, update.Vocabulary).Outputs(trainer, ev)
				published.Score(library, &in, &snapshot.Scratch{})
				c.ensemble.learner.Outputs(live, ev)
				if within := 1e-8 * (1 + math.Abs(trainer[0])); math.Abs(library[0]-trainer[0]) > within ||
					math.Abs(live[0]-trainer[0]) > within {
					t.Fatalf("event %d: update %g, its version %g, live %g", i, trainer[0], library[0], live[0])
				}
			}

			posterior := experts.NewFoldIn(m, &c.schema, c.target, ch)
			gradient := experts.NewGradient(m, &c.schema, c.target, ch, nil)
			adagrad := experts.NewAdaGrad(encode.NewNumberScale(0, c.target), &c.schema, c.target, 100, false)
			bayes := experts.NewNaiveBayes(&c.schema, c.target, 100)
			names := experts.NewPairwise(&c.schema, c.target, 100)
			for i := range events[:40] {
				ev := &events[i]
				var values []float64
				posterior.Gather(ev)
				for e, feature := range posterior.Features {
					if feature.Field == 2 {
						values = append(values, posterior.Values[e])
					}
				}
				gradient.Gather(ev)
				values = append(values, gradient.RowValue[2:]...)
				adagrad.Gather(ev)
				values = append(values, adagrad.RowValue[2:]...)
				bayes.Gather(ev)
				values = append(values, bayes.RowValue[2:]...)
				names.Gather(ev)
				for _, a := range names.Active {
					if names.Terms[a.Term].Field == 2 {
						values = append(values, a.Value)
					}
				}
				n := len(ev.Multi[0])
				for _, v := range values {
					if want := value(float64(n)); math.Abs(v-want) > 1e-15 {
						t.Fatalf("a name of a list of %d counts %g to a learner, want %g", n, v, want)
					}
				}
				if len(values) != 5*n {
					t.Fatalf("five learners have %d values of a list of %d", len(values), n)
				}
				index, row := ch.Vocabulary.Encode(nil, nil, ev)
				for e, j := range index {
					if want := value(float64(n)); ch.Vocabulary.Field[j] == 2 && math.Abs(row[e]-want) > 1e-15 {
						t.Fatalf("a name of a list of %d counts %g in a refit, want %g", n, row[e], want)
					}
				}
			}
			if contents := ch.Contents(m); name != "" && !slices.Equal(contents.Schema.MultiWeights, []string{name}) {
				t.Errorf("published with weights %q", contents.Schema.MultiWeights)
			}
		})
	}
}
