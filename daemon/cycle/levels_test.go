package cycle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// leveled draws n numbers with the levels that a link gives them, as targets.
func leveled(seed uint64, n int, l *encode.LevelLink) (numbers, targets []float64) {
	r := rand.New(rand.NewPCG(seed, 9))
	for range n {
		x, u := 3+1.2*r.NormFloat64(), r.Float64()
		numbers = append(numbers, x)
		for _, t := range l.Threshold {
			target := -1.0
			if u < 1/(1+math.Exp(l.Slope*x-t)) {
				target = 1
			}
			targets = append(targets, target)
		}
	}
	return numbers, targets
}

// TestLevelLinkIsFound: the link that made the levels is found to the error of so many rows; without rows, or where the
// data say nothing, it is that of the Gaussian error it starts from.
func TestLevelLinkIsFound(t *testing.T) {
	truth := &encode.LevelLink{Threshold: []float64{2.1, 4, 6.5, 9.2}, Slope: 2}
	start := encode.NewLevelLink(4, 1)
	numbers, targets := leveled(1, 40_000, truth)
	got := start.Fit(numbers, targets, nil)
	for c, want := range truth.Threshold {
		if math.Abs(got.Threshold[c]-want) > 0.15 {
			t.Errorf("threshold %d is %.3f, want %.3f", c, got.Threshold[c], want)
		}
	}
	if math.Abs(got.Slope-truth.Slope) > 0.05 {
		t.Errorf("slope %.3f, want %.3f", got.Slope, truth.Slope)
	}
	held := start.Fit(nil, nil, nil)
	for c := range held.Threshold {
		if math.Abs(held.Threshold[c]-start.Threshold[c]) > 1e-9 {
			t.Errorf("without rows threshold %d moved from %g to %g", c, start.Threshold[c], held.Threshold[c])
		}
	}
	for i := range targets {
		targets[i] = -targets[i]
	}
	if backwards := start.Fit(numbers, targets, nil); backwards.Slope != start.Slope {
		t.Errorf("a slope of %g", backwards.Slope)
	}
	if nan := start.Fit([]float64{math.NaN()}, []float64{1, 1, 1, 1}, nil); nan.Slope != start.Slope {
		t.Errorf("a number that is none gives a slope of %g", nan.Slope)
	}
}

// TestLinkCurve: gradient and curvature are the differences of the loss.
func TestLinkCurve(t *testing.T) {
	numbers, targets := leveled(2, 50, encode.NewLevelLink(3, 0.8))
	start := []float64{-2, 0, 2, 1.5}
	w := []float64{-1.5, 0.4, 1.8, 1.1}
	normal, gradient := make([]float64, 16), make([]float64, 4)
	encode.LinkCurve(normal, gradient, w, start, numbers, targets, nil, 2.5)
	const h = 1e-5
	at := func(a int, by float64) []float64 {
		v := append([]float64(nil), w...)
		v[a] += by
		return v
	}
	for a := range w {
		want := (encode.LinkLoss(at(a, h), start, numbers, targets, nil, 2.5) - encode.LinkLoss(at(a, -h), start, numbers,
			targets, nil, 2.5)) / (2 * h)
		if math.Abs(gradient[a]-want) > 1e-5*(1+math.Abs(want)) {
			t.Errorf("gradient %d is %g, differences give %g", a, gradient[a], want)
		}
		up, down, scratch := make([]float64, 4), make([]float64, 4), make([]float64, 16)
		encode.LinkCurve(scratch, up, at(a, h), start, numbers, targets, nil, 2.5)
		encode.LinkCurve(scratch, down, at(a, -h), start, numbers, targets, nil, 2.5)
		for b := a; b < 4; b++ {
			if want := (up[b] - down[b]) / (2 * h); math.Abs(normal[b*4+a]-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("curvature %d, %d is %g, differences give %g", b, a, normal[b*4+a], want)
			}
		}
	}
}

// TestRecentLevels: the last events say what numbers mean for levels, those before them nothing, and without any the
// link stays.
func TestRecentLevels(t *testing.T) {
	start, r := encode.NewLevelLink(4, 1), new(encode.RecentLevels)
	if l := r.Link(start); math.Abs(l.Slope-start.Slope) > 1e-9 {
		t.Errorf("without events the slope goes from %g to %g", start.Slope, l.Slope)
	}
	add := func(seed uint64, n int, l *encode.LevelLink) {
		numbers, targets := leveled(seed, n, l)
		e := &encode.Encoded{Targets: targets}
		for i, level := range experts.Levels(e, 4) {
			r.Add(numbers[i], level)
		}
	}
	add(1, encode.RecentEvents, &encode.LevelLink{Threshold: []float64{1.5, 2.5, 3.5, 4.5}, Slope: 1})
	r.Add(math.NaN(), 1)
	if l := r.Link(start); math.Abs(l.Slope-1) > 0.2 {
		t.Errorf("slope %g, want 1", l.Slope)
	}
	before := r.Clone()
	add(2, encode.RecentEvents, &encode.LevelLink{Threshold: []float64{3, 5, 7, 9}, Slope: 2})
	if l := r.Link(start); math.Abs(l.Slope-2) > 0.3 {
		t.Errorf("after a change slope %g, want 2", l.Slope)
	}
	if l := before.Link(start); math.Abs(l.Slope-1) > 0.2 {
		t.Errorf("a copy changed: slope %g", l.Slope)
	}
}

// TestUpdatesSayWhatNumbersMean: updates of a number as levels have the link of the last events, until the next update
// is made of the live model, and so do their deltas. The link is carried from refit to refit, and with the fold-in from
// before a change.
func TestUpdatesSayWhatNumbersMean(t *testing.T) {
	tier.NotUnderRace(t)
	c, events := newCycle(t, cycletest.RatingsModel(nil)), cycletest.Stream(5, 1500)
	observeAll(c, events[:1000])
	c.Install(mustRefit(t, c, sampleOf(events[:1000])))
	c.NextUpdate()
	b := c.ensemble.expertOf(experts.PartGaussian)
	if len(b.Recent.Numbers) != encode.RecentEvents || b.Link == nil {
		t.Fatalf("%d recent numbers, link %v", len(b.Recent.Numbers), b.Link)
	}
	before := *b.Link
	observeAll(c, events[1000:1400])
	if u := c.ensemble.candidates(false)[mixture.FormNumbers]; u.Link != b.Link || math.Abs(
		b.Link.Slope-before.Slope) > 0 {
		t.Error("the link changes between updates")
	}
	if c.NextUpdate(); b.Link.Slope == before.Slope {
		t.Error("an update has the link of the one before")
	}
	u := c.ensemble.candidates(false)[mixture.FormNumbers]
	for o, bias := range u.Model.Bias {
		if want := b.Link.Threshold[o] - b.Link.Slope*b.Learner.(*experts.FoldIn).FoldIn.Base().Bias[0]; math.Abs(
			bias-want) > 1e-9 {
			t.Errorf("bias %d is %g, by the link %g", o, bias, want)
		}
	}
	newest := b.Recent.Clone()
	c.watch.drift.Alarm = c.watch.drift.Events
	c.Install(mustRefit(t, c, sampleOf(events[:1400])))
	next, old := c.ensemble.expertOf(experts.PartGaussian), c.ensemble.expertOf(experts.PartBefore)
	if next == b || !slices.Equal(next.Recent.Numbers, newest.Numbers) || old == nil ||
		!slices.Equal(old.Recent.Numbers, newest.Numbers) ||
		old.Link != b.Link {
		t.Fatal("what the last events said is lost with a refit")
	}
	observeAll(c, events[1400:])
	if slices.Equal(next.Recent.Numbers, old.Recent.Numbers) {
		t.Error("two learners share what they have predicted")
	}
}
