package cycle

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// TestPrecisionsThatPredictBetter: a stage begins with what the last refit chose, unless the other way predicts the select rows better by more than
// chance; one that the clock cut short does not count, and where they are not compared there is one stage.
func TestPrecisionsThatPredictBetter(t *testing.T) {
	t.Parallel()
	models := map[precisionStart]*solver.Model{precisionsAnew: {}, precisionsCarried: {}}
	prior := posterior.Prior{Linear: 2, Basis: 3, Cap: 5, Noise: 1}
	run := func(last precisionStart, both, cut bool, anew, carried []float64) (fit *variationalFit, began precisionStart, compared bool, stages int) {
		state := posterior.New(posterior.Gaussian, 1, 1, []int32{0}, 1, prior)
		state.Precision[1] = 0.25 // learned by the last stage
		c := &continuation{state: state, prior: prior, last: last, both: both, budget: &budget{}}
		c.sweep = func(s *posterior.State, b *budget) (*variationalFit, error) {
			stages++
			at := precisionsCarried
			if s.Precision[1] == prior.Cap {
				at = precisionsAnew
			} else if s.Precision[1] != 0.25 {
				t.Errorf("sweeps begin with a precision of %g", s.Precision[1])
			}
			if cut && stages == 2 {
				b.cut = &snapshot.CutShort{}
			}
			return &variationalFit{model: models[at]}, nil
		}
		c.losses = func(m *solver.Model) []float64 {
			if m == models[precisionsAnew] {
				return anew
			}
			return carried
		}
		fit, began, compared, err := c.run()
		if err != nil {
			t.Fatal(err)
		}
		if fit.model != models[began] {
			t.Errorf("%s is said to have begun, the stage is of the other", began)
		}
		return fit, began, compared, stages
	}
	low, high, equal := []float64{1, 1.1, 1, 1.1}, []float64{2, 2, 2.1, 2.1}, []float64{.5, 1.6, .5, 1.5}
	for _, test := range []struct {
		last          precisionStart
		both, cut     bool
		anew, carried []float64
		want          precisionStart
	}{
		{"", true, false, low, high, precisionsAnew},
		{"", true, false, high, low, precisionsCarried},
		{precisionsCarried, true, false, low, high, precisionsAnew},
		{precisionsCarried, true, false, low, equal, precisionsCarried}, // it may be chance
		{precisionsAnew, true, false, equal, low, precisionsAnew},
		{precisionsAnew, true, true, high, low, precisionsAnew},
		{precisionsAnew, false, false, high, low, precisionsAnew},
		{precisionsCarried, false, false, low, high, precisionsCarried},
		{precisionsCarried, true, false, nil, nil, precisionsCarried},
	} {
		_, began, compared, stages := run(test.last, test.both, test.cut, test.anew, test.carried)
		want := 1
		if test.both {
			want = 2
		}
		if began != test.want || compared != (test.both && !test.cut) || stages != want {
			t.Errorf("%+v: %s in %d stages, compared %t", test, began, stages, compared)
		}
	}
}

// TestWhenPrecisionsAreCompared: at the first refit that can carry any, at every fourth after one that compared them, at one after another was kept back,
// and after an alarm since the champion's cut, unless the convex stage was better than what there is to carry.
func TestWhenPrecisionsAreCompared(t *testing.T) {
	t.Parallel()
	at := func(last precisionChoice, rejections int, alarmAge float64, sweeps int) (precisionChoice, bool) {
		j := &refitJob{rejections: rejections, alarmAge: alarmAge, sample: &Sample{Events: snapshot.Counts{Applied: 5000}},
			champion: &Champion{Events: &snapshot.Counts{Applied: 1000}, Version: report.Version{Sweeps: sweeps}, precisions: last}}
		return j.lastPrecisions()
	}
	never := math.Inf(1)
	for _, test := range []struct {
		last       precisionChoice
		rejections int
		alarmAge   float64
		want       bool
	}{
		{precisionChoice{}, 0, never, true},
		{precisionChoice{Stage: precisionsAnew}, 0, never, false},
		{precisionChoice{Stage: precisionsCarried, Refits: precisionRefits - 2}, 0, never, false},
		{precisionChoice{Stage: precisionsCarried, Refits: precisionRefits - 1}, 0, never, true},
		{precisionChoice{Stage: precisionsAnew}, 1, never, true},
		{precisionChoice{Stage: precisionsAnew}, 0, 3999, true},
		{precisionChoice{Stage: precisionsAnew}, 0, 4001, false},
	} {
		if got, both := at(test.last, test.rejections, test.alarmAge, 2); got != test.last || both != test.want {
			t.Errorf("%+v: %+v, compared %t", test, got, both)
		}
		got, both := at(test.last, test.rejections, test.alarmAge, 0)
		if _, next := at(got, 0, never, 2); both || got.Stage != "" || got.Gaussian != "" || !next {
			t.Errorf("%+v: %+v after a stage that was not published, compared %t and next time %t", test, got, both, next)
		}
	}
}

// TestPrecisionsAreRepeated: as a sample grows precisions that were learned are carried on, for they predict better; the version says so, and its refit is
// repeated to the same bytes with what it says alone, also where the clock ended it while the two were compared.
func TestPrecisionsAreRepeated(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	m := ratingsModel(nil)
	m.Publish.KeepSample = true
	c := newCycle(t, m)
	c.Workers = 1
	events := stream(5, 6000)
	began := make(map[string]int)
	var last *Champion
	for to := 1000; to <= len(events); to += 1000 {
		observeAll(c, events[to-1000:to])
		ch := refit(t, c, sampleOf(events[:to]))
		began[ch.Version.Precisions]++
		if to > 2000 && ch.precisions.Refits != (last.precisions.Refits+1)%precisionRefits {
			t.Errorf("%d refits after %d since both were compared", ch.precisions.Refits, last.precisions.Refits)
		}
		repeated(t, ch, m, 2)
		ch.Version.Version, last = int64(to), ch
		c.Install(ch)
	}
	if began[""] != 1 || began[string(precisionsCarried)] < 3 {
		t.Fatalf("precisions began %v", began)
	}

	record, err := ReadRecord(last.Kept)
	if err != nil {
		t.Fatal(err)
	}
	other := chosen(last)
	other.Precisions = string(precisionStart(other.Precisions).other())
	again, err := record.Repeat(t.Context(), nil, other, 1)
	if err != nil {
		t.Fatal(err)
	}
	if payloadOf(t, again, m) == payloadOf(t, last, m) {
		t.Error("the same payload with precisions that began otherwise")
	}
	other.Precisions = "held"
	if _, err := record.Repeat(t.Context(), nil, other, 1); err == nil || !strings.Contains(err.Error(), `"held"`) {
		t.Errorf("precisions that began in an unknown way: %v", err)
	}

	c.mu.Lock()
	c.champion.precisions.Refits = precisionRefits
	c.mu.Unlock()
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
		if IsInterrupted(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if ch.precisions.Refits == 0 {
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
