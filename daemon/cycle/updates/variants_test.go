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
		slow := r.Pairs[mixture.FormNewton][mixture.FormNumbers]
		for range n {
			var losses [mixture.NumForms]float64
			common := rng.NormFloat64()
			for f, mean := range means {
				losses[f] = mean + math.Abs(common) + 0.01*math.Abs(rng.NormFloat64())
			}
			r.Add(&losses, 1, 0)
			if !math.IsNaN(means[mixture.FormNewton]) {
				slow.Add(losses[mixture.FormNewton], losses[mixture.FormNumbers], 0)
			}
		}
		if got := r.Pairs[mixture.FormNewton][mixture.FormNumbers]; got != slow {
			t.Errorf("compared %+v, want %+v", got, slow)
		}
	}
	choice := func(want mixture.Variant, there func(mixture.Variant) bool, why string) {
		t.Helper()
		if r.Chosen = r.Best(there); r.Chosen != want {
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
	choice(mixture.FormNewton, all, "the best of two that are better")
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
}
