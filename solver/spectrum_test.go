package solver

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// TestSettleWeights: a linear term that is all but free ends with its part of the gap below what was asked, at the minimum that a solve of the linear term
// alone reaches, and what it says about predictions and gradients is true.
func TestSettleWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	for _, loss := range []Loss{Squared{}, BinaryLogistic{}, BinarySquaredHinge{}} {
		p := interactions(5, loss, 700, 6)
		for _, ridges := range [][2]float64{{1e-9, 0}, {0.5, 1e-6}, {0, 1e-6}, {1e-6, 1e-9}} {
			f := newLinearFit(p, ridges[0], ridges[1], testWorkers(2))
			pred, grad, offset := make([]float64, 700), make([]float64, 700), make([]float64, 700)
			for i := range offset {
				offset[i] = rng.NormFloat64()
			}
			copy(pred, offset)
			start := rowLosses(f.workers, p, pred, grad)
			const tolerance = 1e-7
			value := f.settleWeights(pred, grad, start, tolerance)
			f.predictTo(offset, f.theta) // offset is now what the linear term adds
			again, gradient := make([]float64, 700), make([]float64, len(f.theta))
			if want := rowLosses(f.workers, p, pred, again); !near(value, want, 1e-12, 0) || !floats.EqualApprox(again, grad, 1e-12) {
				t.Errorf("%s %v: loss %v of predictions of loss %v", loss.Name(), ridges, value, want)
			}
			f.gradientTo(gradient, grad)
			if part := f.ridgePart(gradient); part > settleShare*tolerance*value || !(value < start) {
				t.Errorf("%s %v: %v of the gap is left of a loss of %v, %v at the start", loss.Name(), ridges, part, value, start)
			}
			for j, x := range f.theta {
				if (ridges[0] == 0 && j < 6 || ridges[1] == 0 && j == 6) != (x == 0) {
					t.Errorf("%s %v: weight %d is %v", loss.Name(), ridges, j, x)
				}
			}
		}
	}
}

// TestOutermost compares with a sort by size.
func TestOutermost(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 74))
	for n := range 9 {
		e := eigenSym{values: make([]float64, n)}
		for i := range e.values {
			e.values[i] = rng.NormFloat64()
		}
		slices.Sort(e.values)
		want := make([]int, n)
		for i := range want {
			want[i] = i
		}
		slices.SortFunc(want, func(a, b int) int {
			return int(math.Copysign(1, math.Abs(e.values[b])-math.Abs(e.values[a])))
		})
		for count := range 5 {
			if got := e.outermost(count); !slices.Equal(got, want[min(1, n):min(n, count+1)]) {
				t.Errorf("%v: %v after the largest, want %v of %v", e.values, got, count, want)
			}
		}
	}
}

// TestEntering: what enters together with the selected vector violates optimality, is unlike the others and fits the
// room; vectors of two fields all want a positive weight.
func TestEntering(t *testing.T) {
	s := &spectrum{split: 2}
	half := math.Sqrt2 / 2
	found := selection{basis: []float64{half, 0, half, 0}, gradient: []float64{5}}
	found.eigen.further = [][]float64{{half, 0, -half, 0}, {0, half, 0, half}, {0, 1, 0, 0}}
	found.eigen.furtherValues = []float64{-5, -3, 1}
	for room, want := range [][][]float64{1: {{half, 0, -half, 0}}, 2: {{half, 0, -half, 0}, {0, half, 0, half}}, 3: {{half, 0, -half, 0}, {0, half, 0, half}}} {
		if room == 0 {
			continue
		}
		if got := s.entering(found, 2, room); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("room for %d: %v", room, got)
		}
	}
	if got := (*spectrum)(nil).entering(found, 2, 3); len(got) != 1 || !slices.Equal(got[0], found.basis) {
		t.Errorf("without a spectrum: %v", got)
	}
}

// TestFold compares predictions of rows of two fields and norms before and after.
func TestFold(t *testing.T) {
	rng := rand.New(rand.NewPCG(75, 76))
	const split, d = 5, 12
	s := &spectrum{split: split}
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
			h := randomUnit(d, rng.Uint64())
			vectors, values = append(vectors, h), append(values, rng.NormFloat64())
			if r%2 == 1 { // the same matrix between the fields twice, with both signs
				mirrored := append([]float64(nil), vectors[r-1]...)
				floats.Scale(-1, mirrored[split:])
				vectors[r], values[r] = mirrored, -values[r-1]
			}
		}
		folded, weights := s.fold(vectors, values)
		axes, sum := matrixOver(vectors, values)
		_, before, _ := eigenvectorsOf(sum, axes)
		if len(folded) != (k+1)/2 || floats.Norm(weights, 1) > floats.Norm(before, 1)*(1+1e-12)+1e-12 {
			t.Errorf("%d vectors become %d, norm %v from %v", k, len(folded), floats.Norm(weights, 1), floats.Norm(before, 1))
		}
		for j := range split {
			for l := split; l < d; l++ {
				if got, want := between(folded, weights, j, l), between(vectors, values, j, l); !near(got, want, 0, 1e-12) {
					t.Errorf("%d vectors: %v between %d and %d, was %v", k, got, j, l, want)
				}
			}
		}
		for r, w := range weights {
			if !(w > 0) || !near(floats.Norm(folded[r], 2), 1, 1e-12, 0) {
				t.Errorf("weight %v of length %v", w, floats.Norm(folded[r], 2))
			}
		}
	}
}
