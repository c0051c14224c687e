package cycle

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// bought returns events of crowd with a price.
func bought(seed uint64, n int) []event.Event {
	r, events := rand.New(rand.NewPCG(seed, 8)), crowd(seed, n)
	for i := range events {
		events[i].Numeric = []float64{1 + r.Float64()}
	}
	return events
}

// TestHonestBursts: a device that sends a reading sixty times is honest, and so is who buys the same thirty times. Of
// such bursts sixteen events are learned, and what is learned is as good as where all are: on clean events the loss is
// within 2 % of that. Those of the bursts of which all are learned have numbers that differ by a hundredth.
func TestHonestBursts(t *testing.T) {
	for _, test := range []struct {
		name   string
		model  *config.Model
		events func(seed uint64, n int) []event.Event
		again  int
	}{
		{"numbers", productsModel(), products, 60},
		{"names", cycletest.RatingsModel(func(m *config.Model) {
			m.Schema.Task, m.Schema.Levels, m.Schema.Numeric = "regression", 0, []string{"price"}
		}), bought, 30},
	} {
		t.Run(test.name, func(t *testing.T) {
			events := test.events(51, 5000)
			live, refit, held := playBursts(t, test.model, events, test.again, 0)
			liveAll, refitAll, none := playBursts(t, test.model, events, test.again, 0.02)
			t.Logf("live %.4f, of all %.4f; refit %.4f, of all %.4f; %d were left out, %d of all", live, liveAll, refit,
				refitAll, held, none)
			if held < 300 || none > 0 || live > 1.02*liveAll || refit > 1.02*refitAll {
				t.Error("what is left out of bursts costs more than 2 %")
			}
		})
	}
}

// playBursts learns 4,000 events, of which thirty come so many times again, with numbers that differ by a share. It
// returns the losses on those after them, live and of the last refit, and how many copies were left out.
func playBursts(t *testing.T, m *config.Model, events []event.Event, times int, apart float64) (live, refit float64,
	held int64) {
	r, c := rand.New(rand.NewPCG(51, 7)), newCycle(t, m)
	log := make([]event.Event, 0, 8000)
	send := func(ev event.Event) {
		ev.Time = int64(len(log))
		log = append(log, ev)
		i := len(log)
		c.Observe(&log[i-1], true, rows.Position{Topic: "t", Offset: int64(i)}, rows.AppendEvent(nil, &log[i-1]), nil)
		if i%2000 == 0 {
			if ch := mustRefit(t, c, sampleOf(log)); c.Champion() == nil || ch.Version.Decision == "promoted" {
				c.Install(ch)
			}
		}
	}
	for i, ev := range events[:4000] {
		for again := 0; i > 1000 && i%100 == 0 && again < times; again++ {
			copied := ev
			copied.Numeric = slices.Clone(ev.Numeric)
			for k := range copied.Numeric {
				copied.Numeric[k] *= 1 + apart*(2*r.Float64()-1)
			}
			send(copied)
		}
		send(ev)
	}
	publishNext(c)
	live, _, _ = liveLoss(t, c, events[4000:])
	refit, _ = c.lossOf(&c.publisher.published.Load().Refit, events[4000:])
	return live, refit, c.ensemble.Held(admission.HeldCopy)
}
