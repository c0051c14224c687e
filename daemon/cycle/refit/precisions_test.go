package refit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestPrecisionsAreRepeated: as a sample grows precisions that were learned are carried on, for they predict better;
// the version says so, and its refit is repeated to the same bytes with what it says alone, also where the clock ended
// it while the two were compared.
func TestPrecisionsAreRepeated(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	m := cycletest.RatingsModel(nil)
	m.Publish.KeepSample = true
	c := newCycle(t, m)
	c.Workers = 1
	events := cycletest.Stream(5, 6000)
	began := make(map[string]int)
	var last *fitted.Fitted
	for to := 1000; to <= len(events); to += 1000 {
		observeAll(c, events[to-1000:to])
		ch := mustRefit(t, c, sampleOf(events[:to]))
		began[ch.Version.Precisions]++
		if to > 2000 && ch.Precisions.Refits != (last.Precisions.Refits+1)%variational.PrecisionRefits {
			t.Errorf("%d refits after %d since both were compared", ch.Precisions.Refits, last.Precisions.Refits)
		}
		repeated(t, ch, m, 2)
		ch.Version.Version, last = int64(to), ch
		c.Install(ch)
	}
	if began[""] != 1 || began[string(variational.PrecisionsCarried)] < 3 {
		t.Fatalf("precisions began %v", began)
	}

	record, err := task.ReadRecord(last.Kept)
	if err != nil {
		t.Fatal(err)
	}
	other := chosen(last)
	other.Precisions = string(variational.Other(fitted.PrecisionStart(other.Precisions)))
	again, err := refit.Repeat(record, t.Context(), nil, other, 1)
	if err != nil {
		t.Fatal(err)
	}
	if payloadOf(t, again, m) == payloadOf(t, last, m) {
		t.Error("the same payload with precisions that began otherwise")
	}
	other.Precisions = "held"
	if _, err := refit.Repeat(record, t.Context(), nil, other, 1); err == nil ||
		!strings.Contains(err.Error(), `"held"`) {
		t.Errorf("precisions that began in an unknown way: %v", err)
	}

	c.Champion().Precisions.Refits = variational.PrecisionRefits
	compared, alone := 0, 0
	for until := 1; ; until += 7 {
		ctx, cancel := context.WithCancel(t.Context())
		yields := 0
		c.Throttle = func(context.Context, time.Duration) func() {
			return func() {
				if yields++; yields == until {
					cancel()
				}
			}
		}
		ch, err := c.Refit(ctx, sampleOf(events))
		cancel()
		if task.IsInterrupted(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if ch.Precisions.Refits == 0 {
			compared++
		} else {
			alone++
		}
		if ch.Version.Precisions != "" {
			repeated(t, ch, m, 1)
		}
		if yields < until {
			break
		}
	}
	if compared < 2 || alone < 2 {
		t.Errorf("%d refits ended after both were compared, %d before", compared, alone)
	}
}
