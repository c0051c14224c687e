package cycle

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/solver/posterior"
)

// TestOverlayIsTheDaemonsFoldIn: what a version says lets a consumer fold a new user's events in as the daemon's own
// fold-in does where nothing else moves: at every event the same outputs, whatever the likelihood, with fields that are
// functions of the user or without.
func TestOverlayIsTheDaemonsFoldIn(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	for name, m := range map[string]*config.Model{
		"ordinal":    cycletest.RatingsModel(func(m *config.Model) { m.Train.FoldIn.By = []string{"user"} }),
		"regression": regressionModel(),
		"binary":     binaryModel(),
		"groups": cycletest.RatingsModel(func(m *config.Model) {
			m.Schema.Categorical, m.Train.FoldIn.By = []string{"user", "item", "age", "year"}, []string{"user"}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCycle(t, m)
			events := cycletest.Stream(3, 3000)
			for i := range events {
				e := &events[i]
				if m.Schema.Task == "binary" {
					e.Label = math.Round((e.Label - 1) / 4)
				}
				if len(m.Schema.Categorical) > 2 {
					e.Categorical = append(e.Categorical, "a"+e.Categorical[0][len(e.Categorical[0])-1:],
						"y"+e.Categorical[1][len(e.Categorical[1])-1:])
				}
			}
			observeAll(c, events)
			ch := mustRefit(t, c, sampleOf(events))
			compareWithDaemon(t, c, ch, events)
			c.Install(ch)
			compareWithDaemon(t, c, c.Update(), events)
		})
	}
}

func binaryModel() *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels = "binary", 0
		m.Train.Loss, m.Train.FoldIn.By = "binary_logistic", []string{"user"}
	})
}

// certain returns a state in which all rows but those of the first field are known: their fold-in moves nothing.
func certain(s *posterior.State) *posterior.State {
	const known = 1e13 // precision
	s = s.Clone()
	q := len(s.Mean) / len(s.Field)
	for i := q; i < len(s.Precision); i++ {
		s.Precision[i] = known
	}
	for j, f := range s.Field {
		if f == 0 {
			continue
		}
		_, covariance := s.Row(j)
		clear(covariance)
		for a, at := 0, 0; a < q; a, at = a+1, at+a+2 {
			covariance[at] = 1 / known
		}
	}
	return s
}

// compareWithDaemon gives a new user the labels of some events, both ways.
func compareWithDaemon(t *testing.T, c *Cycle, version *fitted.Fitted, events []event.Event) {
	t.Helper()
	model, err := scorer.NewModel(version.Contents(c.config))
	if err != nil {
		t.Fatal(err)
	}
	if model.Contents().FoldIn == nil {
		if version.Folded != nil || version.Version.Sweeps > 0 {
			t.Errorf("%s: no fold-in: %s", version.Version.Kind, model.Manifest().NoFoldIn)
		}
		return // the convex stage was better
	}
	state := version.Folded
	if state == nil {
		state = version.Posterior
	} else { // which has no covariances
		state = c.ensemble.learner.(*experts.FoldIn).State(version.Vocabulary, foldInVariant.nonForgetting(c.common))
	}
	live := experts.NewFoldIn(c.config, &c.schema, c.target,
		&fitted.Fitted{Vocabulary: version.Vocabulary, Posterior: certain(state)})
	over, err := model.Fold(nil)
	if err != nil {
		t.Fatal(err)
	}
	losses := c.ensemble.learner.(*experts.FoldIn).FoldIn
	live.FoldIn.InheritLosses(losses)
	m := c.target.Outputs()
	daemon, consumer, targets := make([]float64, m), make([]float64, m), make([]float64, m)
	var scratch snapshot.Scratch
	for i := range 40 {
		ev := events[i*7]
		ev.Categorical = slices.Clone(ev.Categorical)
		ev.Categorical[0] = "nobody"
		if i%5 == 4 {
			ev.Categorical[1] = "nothing"
		}
		in := fitted.InputOf(&c.schema, &ev)
		live.Outputs(daemon, &ev)
		over.Score(consumer, &in, &scratch)
		for o := range daemon {
			if math.Abs(daemon[o]-consumer[o]) > 1e-5*(1+math.Abs(daemon[o])) {
				t.Fatalf("%s, event %d: the daemon's fold-in has outputs %v, the consumer's %v", version.Version.Kind,
					i, daemon, consumer)
			}
		}
		if !c.target.Encode(targets, &ev) {
			t.Fatal("no label")
		}
		live.Learn(&ev, targets, ev.Weight)
		live.FoldIn.InheritLosses(losses) // those of the field stand still at the consumer
		if over, err = over.Learn(&snapshot.LabelledEvent{Input: in, Label: ev.Label, Weight: ev.Weight}); err != nil {
			t.Fatal(err)
		}
	}
}
