package solver

import (
	"math"
	"testing"

	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// bisectProjection is the slow twin of Project: the projection is the proximal point of the step at which its norm
// meets the radius.
func bisectProjection(p Penalty, v []float64, k, m int, radius float64) []float64 {
	trial := append([]float64(nil), v...)
	if p.Norm(v, k, m) <= radius {
		return trial
	}
	low, high := 0.0, p.DualNorm(v, k, m)
	for range 200 {
		step := 0.5 * (low + high)
		copy(trial, v)
		if p.Prox(trial, k, m, step); p.Norm(trial, k, m) > radius {
			low = step
		} else {
			high = step
		}
	}
	copy(trial, v)
	p.Prox(trial, k, m, high)
	return trial
}

// TestProject checks the projections by the variational inequality that characterises them, by the bisection, and that
// points inside, such as projections, stay.
func TestProject(t *testing.T) {
	for _, pen := range allPenalties {
		t.Run(pen.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				k, m := rapid.IntRange(1, 6).Draw(t, "k"), rapid.IntRange(1, 6).Draw(t, "m")
				v, z := solvertest.DrawMatrix(t, k, m, "v"), solvertest.DrawMatrix(t, k, m, "z")
				scale := math.Pow(10, float64(rapid.IntRange(-100, 100).Draw(t, "scale")))
				radius := scale * rapid.Float64Range(0.01, 20).Draw(t, "radius")
				floats.Scale(scale, v)
				floats.Scale(scale, z)
				got := append([]float64(nil), v...)
				pen.Project(got, k, m, radius)
				if norm := pen.Norm(got, k, m); !(norm <= radius*(1+1e-12)+1e-13*pen.Norm(v, k, m)) {
					t.Fatalf("norm %g of the projection exceeds %g", norm, radius)
				}
				want, size := bisectProjection(pen, v, k, m, radius), pen.Norm(v, k, m)
				for i := range got {
					if math.Abs(got[i]-want[i]) > 1e-11*size {
						t.Fatalf("projection %v of %v, bisection %v", got, v, want)
					}
				}
				if pen.Norm(v, k, m) <= radius && !floats.Same(got, v) {
					t.Fatalf("%v lies inside, but is moved to %v", v, got)
				}
				if norm := pen.Norm(z, k, m); norm > radius {
					floats.Scale(radius/norm, z)
				}
				inner := 0.0
				for i := range v {
					inner += (v[i] - got[i]) / scale * ((z[i] - got[i]) / scale)
				}
				if bound := 1e-12 * (size/scale + 1) * (radius/scale + 1) * float64(k*m); inner > bound {
					t.Fatalf("⟨v − P, z − P⟩ = %g > 0 for the projection %v of %v and %v", inner, got, v, z)
				}
				again := append([]float64(nil), got...)
				pen.Project(again, k, m, radius)
				for i := range got {
					if math.Abs(again[i]-got[i]) > 1e-13*(radius+size) {
						t.Fatalf("projection %v moves to %v when projected again", got, again)
					}
				}
			})
		})
	}
}
