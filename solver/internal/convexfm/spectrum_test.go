package convexfm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// TestEntering: what enters together with the selected vector violates optimality, is unlike the others and fits the
// room; vectors of two fields all want a positive weight.
func TestEntering(t *testing.T) {
	s := &Spectrum{Split: 2}
	half := math.Sqrt2 / 2
	found := gamma.Found{Basis: []float64{half, 0, half, 0}, Gradient: []float64{5}}
	found.Eigen.Further = [][]float64{{half, 0, -half, 0}, {0, half, 0, half}, {0, 1, 0, 0}}
	found.Eigen.FurtherValues = []float64{-5, -3, 1}
	for room, want := range [][][]float64{1: {{half, 0, -half, 0}}, 2: {{half, 0, -half, 0}, {0, half, 0, half}},
		3: {{half, 0, -half, 0}, {0, half, 0, half}}} {
		if room == 0 {
			continue
		}
		if got := s.Entering(found, 2, room); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("room for %d: %v", room, got)
		}
	}
	if got := (*Spectrum)(nil).Entering(found, 2, 3); len(got) != 1 || !slices.Equal(got[0], found.Basis) {
		t.Errorf("without a spectrum: %v", got)
	}
}

// TestFold compares predictions of rows of two fields and norms before and after.
func TestFold(t *testing.T) {
	rng := rand.New(rand.NewPCG(75, 76))
	const split, d = 5, 12
	s := &Spectrum{Split: split}
	between := func(vectors [][]float64, values []float64, j, l int) (sum float64) {
		for r, h := range vectors {
			sum += values[r] * h[j] * h[l]
		}
		return sum
	}
	for k := range 5 {
		var vectors [][]float64
		var values []float64
		for r := range k {
			h := gamma.RandomUnit(d, rng.Uint64())
			vectors, values = append(vectors, h), append(values, rng.NormFloat64())
			if r%2 == 1 { // the same matrix between the fields twice, with both signs
				mirrored := append([]float64(nil), vectors[r-1]...)
				floats.Scale(-1, mirrored[split:])
				vectors[r], values[r] = mirrored, -values[r-1]
			}
		}
		folded, weights := s.Fold(vectors, values)
		axes, sum := eigen.MatrixOver(vectors, values)
		_, before, _ := eigen.EigenvectorsOf(sum, axes)
		if len(folded) != (k+1)/2 || floats.Norm(weights, 1) > floats.Norm(before, 1)*(1+1e-12)+1e-12 {
			t.Errorf("%d vectors become %d, norm %v from %v", k, len(folded), floats.Norm(weights, 1),
				floats.Norm(before, 1))
		}
		for j := range split {
			for l := split; l < d; l++ {
				if got, want := between(folded, weights, j, l), between(vectors, values, j, l); !solvertest.Near(got,
					want, 0, 1e-12) {
					t.Errorf("%d vectors: %v between %d and %d, was %v", k, got, j, l, want)
				}
			}
		}
		for r, w := range weights {
			if !(w > 0) || !solvertest.Near(floats.Norm(folded[r], 2), 1, 1e-12, 0) {
				t.Errorf("weight %v of length %v", w, floats.Norm(folded[r], 2))
			}
		}
	}
}
