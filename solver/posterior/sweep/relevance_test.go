package sweep

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestInteractionsFindThePlanted pair of fields, whatever else explains the labels, and do not see one where effects
// add up, even of fields that go with each other and of names that come seldom.
func TestInteractionsFindThePlanted(t *testing.T) {
	for seed := range uint64(4) {
		for _, planted := range []float64{0, 0.5} {
			r := rand.New(rand.NewPCG(seed, 21))
			z := Interactions(posterior.Gaussian, effects(r, 6000, planted), []int{0, 1, 2, 3}, r)
			if len(z) != 6 {
				t.Fatalf("%d pairs of four fields", len(z))
			}
			for _, p := range z {
				if is := planted > 0 && p.A < 2 && p.B == 2; is != (p.Z > 4) || p.Z < -4 {
					t.Errorf("seed %d, interactions of size %g: fields %d and %d have Z %.1f", seed, planted, p.A, p.B,
						p.Z)
				}
			}
		}
	}
}

// effects draws rows of four fields, each with separate effects: 40 names, 60 names, 5 names and a rare name for
// every few rows; the second goes with the first, and meets the third.
func effects(r *rand.Rand, n int, planted float64) *solver.Problem {
	sizes := []int{40, 60, 5, n / 3}
	p := &solver.Problem{Outputs: 1, Loss: solver.Squared{}, NumFields: len(sizes)}
	var effect []float64
	start := make([]int, len(sizes))
	for f, size := range sizes {
		start[f] = len(effect)
		for range size {
			effect, p.Field = append(effect, r.NormFloat64()), append(p.Field, int32(f))
		}
	}
	cell := make([]float64, sizes[1]*sizes[2])
	for i := range cell {
		cell[i] = planted * r.NormFloat64()
	}
	p.X = solver.NewRows(len(p.Field), n, 4*n)
	for range n {
		a := r.IntN(sizes[0])
		b := a
		if r.IntN(2) == 0 { // so the interaction of the second with the third is, half of it, one of the first
			b = r.IntN(sizes[1])
		}
		names, index, y := []int{a, b, r.IntN(sizes[2]), r.IntN(sizes[3])}, make([]int32, 4), 0.7*r.NormFloat64()
		for f, name := range names {
			index[f] = int32(start[f] + name)
			y += effect[index[f]]
		}
		y += cell[b*sizes[2]+names[2]]
		p.X.Append(index, []float64{1, 1, 1, 1})
		p.Targets = append(p.Targets, y)
	}
	return p
}

// TestInteractionsOfNothing: Z is a number where there is nothing to test on.
func TestInteractionsOfNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 21))
	for _, n := range []int{1, 2, 3} {
		for _, p := range Interactions(posterior.Gaussian, effects(r, n+2, 1), []int{0, 1, 2, 3}, r) {
			if math.IsNaN(p.Z) || math.IsInf(p.Z, 0) {
				t.Errorf("%d rows: Z %g", n+2, p.Z)
			}
		}
	}
	if z := Interactions(posterior.Gaussian, effects(r, 9, 1), []int{2}, r); len(z) != 0 {
		t.Errorf("one field has %d pairs", len(z))
	}
}

// TestInteractionsOfSingleFeatures: the subspace of two fields of one feature each does not turn any more after the
// first round.
func TestInteractionsOfSingleFeatures(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	p := numbersAndNames(r, 500)
	once := newRelevance(posterior.Logistic, p, 500).half(2, 4, 0).interactions(rand.New(rand.NewPCG(1, 2)))
	again := newRelevance(posterior.Logistic, p, 500).half(2, 4, 0)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range again.basis {
		again.basis[i] = random.NormFloat64()
	}
	again.turn(0)
	again.turn(1)
	first := slices.Clone(again.basis)
	for range testRounds {
		again.turn(0)
		again.turn(1)
	}
	allNearly(t, "coordinate", again.basis, first, 1e-12)
	for a := range testBasis { // the second field's are as the turns left them
		posteriortest.Nearly(t, "coordinate", once.basis[testBasis+a], first[testBasis+a], 1e-12)
	}
}
