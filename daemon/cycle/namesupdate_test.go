package cycle

import (
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
)

// observeWithUpdates observes events and publishes the update that is due each so many of them.
func observeWithUpdates(c *Cycle, events []event.Event, every int) {
	for i := 0; i < len(events); i += every {
		if u, _ := c.NextUpdate(); u != nil {
			c.PublishUpdate(u)
		}
		observeAll(c, events[i:min(i+every, len(events))])
	}
}

// TestUpdateFromNames: where the learner on names, without its pairs, predicts better at the lag of consumers than the fold-in updates are made of it,
// which score as it does, in the trainer and as published. Without crosses the fold-in, which knows interactions, is better.
func TestUpdateFromNames(t *testing.T) {
	tier.NotUnderRace(t)
	for _, crossed := range []bool{true, false} {
		m := clicksModel(0)
		if crossed {
			m.Schema.Cross = [][]string{{"user", "item"}, {"item", "hour"}}
			m.Train.Loss = config.Auto
			m.Resolve()
		}
		schema := m.Schema.Event()
		events := clicked(20_000, 0, 1, 4)
		for i := range events {
			schema.Complete(&events[i])
		}
		c := newCycle(t, m)
		observeAll(c, events[:10_000])
		ch := refit(t, c, sampleOf(events[:10_000]))
		ch.Version.Version = 1
		c.Install(ch)
		observeWithUpdates(c, events[10_000:], 500)
		u := c.Update()
		if (c.race.chosen == formNames) != crossed || (u.Model.NumBasis == 0) != crossed {
			t.Fatalf("crosses %t: of %s, %d basis vectors", crossed, formParts[c.race.chosen], u.Model.NumBasis)
		}
		if !crossed {
			continue
		}
		var l *namesLearner
		for _, beside := range c.companions {
			if beside.name == partNames {
				l = beside.learner.(*namesLearner)
			}
		}
		published, err := snapshot.NewModel(u.Contents(m))
		if err != nil {
			t.Fatal(err)
		}
		scorer := newScorer(u.Model, u.Vocabulary)
		var s snapshot.Scratch
		got, read := make([]float64, 1), make([]float64, 1)
		for i := range events[19_000:] {
			ev := &events[19_000+i]
			scorer.outputs(got, ev)
			in := InputOf(&schema, ev)
			published.Score(read, &in, &s)
			l.gather(ev)
			if math.Abs(got[0]-l.held) > 1e-9*(1+math.Abs(l.held)) || math.Abs(read[0]-l.held) > 1e-6*(1+math.Abs(l.held)) {
				t.Fatalf("event %d: the update says %g, published %g, the learner %g", i, got, read, l.held)
			}
		}
	}
}
