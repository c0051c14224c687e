package problem

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A model with products predicts what the sum over all pairs says, with no more vectors than the forms need.
func TestAddProducts(t *testing.T) {
	for _, test := range []struct {
		d, m, rank int // rank 0: of all pairs
		want       int
	}{{1, 1, 0, 1}, {5, 1, 0, 5}, {5, 1, 2, 2}, {5, 7, 0, 15}, {6, 2, 0, 12}, {6, 2, 1, 2}, {17, 26, 0, 153}, {4, 3, -1,
		0}} {
		t.Run(fmt.Sprintf("d=%d m=%d rank=%d", test.d, test.m, test.rank), func(t *testing.T) {
			d, m := test.d, test.m
			random := rand.New(rand.NewPCG(uint64(d), uint64(m)))
			q := make([]float64, d*(d+1)/2*m)
			for c := range m {
				for range max(test.rank, 0) {
					h, sign := make([]float64, d), random.NormFloat64()
					for j := range h {
						h[j] = random.NormFloat64()
					}
					at := c
					for j := range d {
						for l := j; l < d; l++ {
							w := sign * h[j] * h[l]
							if l > j {
								w *= 2
							}
							q[at] += w
							at += m
						}
					}
				}
			}
			if test.rank == 0 {
				for i := range q {
					q[i] = random.NormFloat64() * math.Pow(10, 3*random.Float64())
				}
			}
			model := NewModel(Homogeneous, d, m, true)
			model.NumBasis, model.Basis, model.Weights = 1, make([]float64, d), make([]float64, m)
			model.Basis[0] = 1
			for c := range m {
				model.Weights[c], model.Bias[c] = random.NormFloat64(), random.NormFloat64()
			}
			before := model.Clone()
			if !model.AddProducts(q) {
				t.Fatal("no model")
			}
			if got := model.NumBasis - 1; got != test.want {
				t.Errorf("%d vectors, want %d", got, test.want)
			}
			index := make([]int32, d)
			for j := range index {
				index[j] = int32(j)
			}
			for range 20 {
				x := make([]float64, d)
				for j := range x {
					x[j] = random.NormFloat64()
				}
				got, want, size := make([]float64, m), make([]float64, m), make([]float64, m)
				model.Predict(got, make([]float64, 2*model.NumBasis), index, x)
				before.Predict(want, make([]float64, 2), index, x)
				at := 0
				for j := range d {
					for l := j; l < d; l++ {
						for c := range m {
							want[c] += q[at] * x[j] * x[l]
							size[c] += math.Abs(q[at] * x[j] * x[l])
							at++
						}
					}
				}
				for c := range got {
					if math.Abs(got[c]-want[c]) > 1e-12*(1+size[c]) {
						t.Errorf("output %d is %g, its products say %g", c, got[c], want[c])
					}
				}
			}
			for r := range model.NumBasis {
				norm := 0.0
				for j := range d {
					norm += model.Basis[j*model.NumBasis+r] * model.Basis[j*model.NumBasis+r]
				}
				if math.Abs(norm-1) > 1e-12 {
					t.Errorf("vector %d has length² %g", r, norm)
				}
			}
		})
	}
}

// Products that are not finite leave a model as it was.
func TestAddProductsNotFinite(t *testing.T) {
	model := NewModel(Homogeneous, 2, 1, false)
	if model.AddProducts([]float64{1, math.NaN(), 2}) || model.AddProducts([]float64{1, 0, math.Inf(1)}) ||
		model.NumBasis != 0 {
		t.Errorf("a model with %d vectors", model.NumBasis)
	}
}
