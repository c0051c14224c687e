package refit_test

import (
	"context"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestVariationalStageBeginsAnew: where everything has changed, sweeps that continue from the last ones may not adapt.
// If the convex stage is better than they are, sweeps from nothing are tried, too, and the better of the two counts.
// The refit is repeated to the same bytes, also if the clock ended it there. So is a record of a build that did not try
// that.
func TestVariationalStageBeginsAnew(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	m := cycletest.RatingsModel(nil)
	m.Publish.KeepSample = true
	c := newCycle(t, m)
	events := append(cycletest.Stream(5, 1000), cycletest.Stream(77, 3000)...)
	sample := func(to int) *encode.Sample {
		s := sampleOf(events[:to])
		setAges(s, to, 20)
		return s
	}
	for to := 1000; to < len(events); to += 1000 {
		observeAll(c, events[to-1000:to])
		ch := mustRefit(t, c, sample(to))
		ch.Version.Version = variational.ConvexAgain // the convex stage is not left out after it
		c.Install(ch)
	}
	yields := 0
	refitted := func(until int) *fitted.Fitted {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		yields = 0
		c.Workers = 1
		c.Throttle = func(context.Context, time.Duration) func() {
			return func() {
				if yields++; yields == until {
					cancel()
				}
			}
		}
		ch, err := c.Refit(ctx, sample(len(events)))
		if err != nil {
			t.Fatalf("ended in block %d: %v", until, err)
		}
		return ch
	}
	ch := refitted(-1)
	repeated(t, ch, m, 2)

	record, err := task.ReadRecord(ch.Kept)
	if err != nil {
		t.Fatal(err)
	}
	record.Start.Anew = false
	warm, err := refit.Repeat(record, t.Context(), nil, chosen(ch), 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, without := *ch.Version.Select.Loss, *warm.Version.Select.Loss; got >= without {
		t.Fatalf("loss %g on select events, %g without sweeps from nothing", got, without)
	}

	ended := 0 // in sweeps: the last ones come first
	for last := yields; ended < 2 && last > 0; last -= 20 {
		cut := refitted(last)
		if cut.CutShort != nil && cut.CutShort.Sweeps != nil {
			ended++
			repeated(t, cut, m, 2)
		}
	}
	if ended < 2 {
		t.Errorf("%d refits ended in sweeps from nothing", ended)
	}
}
