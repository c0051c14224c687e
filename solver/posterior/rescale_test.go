package posterior

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestRescaleKeepsPredictions: over another scale of numbers a posterior predicts what it did, with and without groups,
// main effects alone and separate outputs.
func TestRescaleKeepsPredictions(t *testing.T) {
	field := []int32{0, 0, 0, 1, 1, 2, 3} // three names, two names, two numbers
	scales := []struct {
		column        int
		factor, shift float64
	}{{5, 1.7, -0.6}, {6, 0.4, 2}, {5, 1, 0.3}, {6, 3, 0}}
	for _, of := range []struct {
		separate bool
		group    []int32
		only     []bool
	}{{}, {group: []int32{0, 1, 1, 3}}, {only: []bool{false, true, false, false}}, {only: []bool{false, false, true,
		false}}, {separate: true}} {
		t.Run(fmt.Sprintf("%+v", of), func(t *testing.T) {
			r := rand.New(rand.NewPCG(4, 9))
			s := New(Logistic, 2, 3, field, 4, PriorFor(Logistic, 1))
			if of.separate {
				s = NewSeparate(Multinomial, 2, field, 4, PriorFor(Multinomial, 1))
				for range 3 {
					s.AddBasis(normals(r, len(field)), normals(r, 2), 1)
				}
			}
			s.Group = of.group
			copy(s.Mean, normals(r, len(s.Mean)))
			copy(s.Bias, normals(r, 2))
			if !of.separate {
				s.Sign[1] = -1
			}
			s.SetMainOnly(of.only)
			before := s.Clone()
			for _, to := range scales {
				s.Rescale(to.column, to.factor, to.shift)
			}
			old, now := before.Model(), s.Model()
			a, b, work := make([]float64, 2), make([]float64, 2), make([]float64, 2*max(old.NumBasis, now.NumBasis))
			for row := range 20 {
				values := []float64{1, 1, r.NormFloat64(), r.NormFloat64()}
				index := []int32{int32(row % 3), int32(3 + row%2), 5, 6}
				now.Predict(b, work, index, values)
				for i := len(scales) - 1; i >= 0; i-- {
					values[scales[i].column-3] = scales[i].factor*values[scales[i].column-3] + scales[i].shift
				}
				old.Predict(a, work, index, values)
				for c := range a {
					if math.Abs(a[c]-b[c]) > 1e-9*(1+math.Abs(a[c])) {
						t.Errorf("row %d: output %d is %.12g, was %.12g", row, c, b[c], a[c])
					}
				}
			}
		})
	}
}

func normals(r *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = r.NormFloat64()
	}
	return out
}

// TestRescaleMovesCovariances: those of the linear weights of names that a number meets are as the map of their rows
// says, T·C·Tᵀ, and the number's own uncertainty of what it adds is the same in the other scale.
func TestRescaleMovesCovariances(t *testing.T) {
	const k, factor, shift = 3, 0.7, -1.3
	r := rand.New(rand.NewPCG(5, 9))
	s := New(Gaussian, 1, k, []int32{0, 1}, 2, PriorFor(Gaussian, 1))
	s.Sign[2] = -1
	copy(s.Mean, normals(r, len(s.Mean)))
	copy(s.Covariance, normals(r, len(s.Covariance)))
	before := s.Clone()
	s.Rescale(1, factor, shift)
	full := func(c []float64, a, b int) float64 { a, b = max(a, b), min(a, b); return c[a*(a+1)/2+b] }
	number, _ := before.Row(1)
	_, old := before.Row(0)
	_, now := s.Row(0)
	transform := func(a, b int) float64 {
		switch {
		case a == b:
			return 1
		case a == 0:
			return shift * number[b] * s.Sign[b-1]
		}
		return 0
	}
	for a := range k + 1 {
		for b := range a + 1 {
			want := 0.0
			for i := range k + 1 {
				for l := range k + 1 {
					want += transform(a, i) * full(old, i, l) * transform(b, l)
				}
			}
			if got := full(now, a, b); math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
				t.Errorf("covariance of %d and %d is %g, want %g", a, b, got, want)
			}
		}
	}
	_, old = before.Row(1)
	_, now = s.Row(1)
	for i := range old {
		if want := factor * factor * old[i]; math.Abs(now[i]-want) > 1e-12*(1+math.Abs(want)) {
			t.Errorf("covariance %d of the number is %g, want %g", i, now[i], want)
		}
	}
	for a, d := range s.PrecisionOf(1) {
		if want := before.PrecisionOf(1)[a] / (factor * factor); math.Abs(d-want) > 1e-12*want {
			t.Errorf("precision %d of the number is %g, want %g", a, d, want)
		}
	}
}
