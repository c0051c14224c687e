package refit_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/cycletest/refits"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
)

// What tests of refits and of the cycle have in common.
var (
	amounts         = cycletest.Amounts
	amountsModel    = cycletest.AmountsModel
	chess           = cycletest.Chess
	chessModel      = cycletest.ChessModel
	chosen          = refits.Chosen
	payloadOf       = refits.PayloadOf
	regressionModel = cycletest.RegressionModel
	repeated        = refits.Repeated
	sampleOf        = refits.SampleOf
	setAges         = refits.SetAges
	sideModel       = cycletest.SideModel
	switchModel     = cycletest.SwitchModel
	withSides       = cycletest.WithSides
)

func newCycle(t testing.TB, m *config.Model) *cycle.Cycle {
	t.Helper()
	c, err := cycle.New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func observeAll(c *cycle.Cycle, events []event.Event) {
	for i := range events {
		c.Observe(&events[i], true, rows.Position{Topic: "t", Offset: int64(i)}, rows.AppendEvent(nil, &events[i]), nil)
	}
}

func mustRefit(t testing.TB, c *cycle.Cycle, s *encode.Sample) *fitted.Fitted {
	t.Helper()
	ch, err := c.Refit(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// TestRefitDoesNotDependOnProcessors: nor, in the long form, does one by another algorithm. In the plain form
// isRepeated compares those by one worker and by as many as there are processors.
func TestRefitDoesNotDependOnProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	stages := []stage{
		{
			"default",
			func() *config.Model { return cycletest.RatingsModel(nil) },
			func(n int) []event.Event { return cycletest.Stream(5, n) },
		},
	}
	if tier.Asked(tier.Long) {
		stages = append(stages, others...)
	}
	for _, s := range stages {
		digest := ""
		for _, procs := range []int{1, 2} {
			runtime.GOMAXPROCS(procs)
			m := s.model()
			c := newCycle(t, m)
			events := s.events(1500)
			observeAll(c, events)
			got, err := format.PayloadDigest(mustRefit(t, c, sampleOf(events)).Contents(m))
			if err != nil {
				t.Fatal(err)
			}
			if digest == "" {
				digest = got
			} else if got != digest {
				t.Errorf("%s: GOMAXPROCS %d gives payload %s, 1 gives %s", s.name, procs, got, digest)
			}
		}
	}
}
