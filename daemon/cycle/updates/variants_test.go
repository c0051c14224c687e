package updates

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// TestFormRace: the form that is chosen stays until another has lost less by a standard error, by the lags of each
// pair; then the best counts, if there is such a form.
func TestFormRace(t *testing.T) {
	r, rng := NewVariantSelector(), rand.New(rand.NewPCG(16, 1))
	all, two := func(mixture.Variant) bool { return true }, func(
		f mixture.Variant) bool {
		return f <= mixture.FormNumbers
	}
	run := func(n int, means [mixture.NumForms]float64) {
		slow := r.Pairs[mixture.FormBefore][mixture.FormNumbers]
		for range n {
			var losses [mixture.NumForms]float64
			common := rng.NormFloat64()
			for f, mean := range means {
				losses[f] = mean + math.Abs(common) + 0.01*math.Abs(rng.NormFloat64())
			}
			r.Add(&losses, 0)
			if !math.IsNaN(means[mixture.FormBefore]) {
				slow.Add(losses[mixture.FormBefore], losses[mixture.FormNumbers], 0)
			}
		}
		if got := r.Pairs[mixture.FormBefore][mixture.FormNumbers]; got != slow {
			t.Errorf("compared %+v, want %+v", got, slow)
		}
	}
	choice := func(want mixture.Variant, there func(mixture.Variant) bool, why string) {
		t.Helper()
		if r.Choose(there); r.Chosen != want {
			t.Errorf("%s: variant %d is chosen, want %d", why, r.Chosen, want)
		}
	}
	only := func(means ...float64) (all [mixture.NumForms]float64) { // the first variants
		for f := range all {
			all[f] = math.NaN()
		}
		copy(all[:], means)
		return all
	}
	run(UpdateEvents-1, only(1, 0.5, 0.2))
	choice(mixture.FormFoldIn, all, "too few events")
	run(10, only(1, 0.5, 0.2))
	choice(mixture.FormBefore, all, "the best of two that are better")
	choice(mixture.FormNumbers, two, "the best of those that there are")
	run(40_000, only(1, 1))
	r.Chosen = mixture.FormNumbers
	l := &r.Pairs[mixture.FormNumbers][mixture.FormFoldIn]
	mean := l.Sum / l.N
	l.Sum += (0.5*l.deviation() - mean) * l.N
	choice(mixture.FormNumbers, two, "another that is better by chance")
	r.Chosen = mixture.FormFoldIn
	l.Sum = -l.Sum
	choice(mixture.FormFoldIn, two, "another that is better by chance, the other way round")
	r.Chosen = mixture.FormNumbers
	r.CarryOver(mixture.FormNumbers)
	choice(mixture.FormBefore, all, "the chosen form was carried over to FormBefore")
	if r.Pairs[mixture.FormBefore][mixture.FormFoldIn].N != 0 ||
		r.Pairs[mixture.FormNames][mixture.FormBefore].N != 0 ||
		l.N == 0 {
		t.Error("losses of another learner count")
	}
	r.Chosen = mixture.FormFoldIn
	r.CarryOver(mixture.FormNumbers)
	choice(mixture.FormFoldIn, all, "a form that was not chosen was carried over")
}
