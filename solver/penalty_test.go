package solver

import (
	"math"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/solvertest"
	"pgregory.net/rapid"
)

var allPenalties = []Penalty{L1, L1L2, L1Linf}

// few returns the first alone in the plain form, that of the race detector too, which has nothing to find in one
// goroutine's arithmetic.
func few[T any](all []T) []T { return tier.Size(all[:1], all) }

// TestProxProperties checks the three-point inequality, which characterises a proximal point, and that prox does not
// expand.
func TestProxProperties(t *testing.T) {
	for _, pen := range allPenalties {
		t.Run(pen.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				k, m := rapid.IntRange(1, 4).Draw(t, "k"), rapid.IntRange(1, 5).Draw(t, "m")
				v, other := solvertest.DrawMatrix(t, k, m, "v"), solvertest.DrawMatrix(t, k, m, "other")
				step := rapid.OneOf(rapid.Float64Range(0, 4), rapid.Just(0.0)).Draw(t, "t")
				z, zo := append([]float64(nil), v...), append([]float64(nil), other...)
				pen.Prox(z, k, m, step)
				pen.Prox(zo, k, m, step)
				square := func(a, b []float64) float64 {
					sum := 0.0
					for i := range a {
						sum += (a[i] - b[i]) * (a[i] - b[i])
					}
					return sum
				}
				left := step*pen.Norm(z, k, m) + 0.5*square(z, v) + 0.5*square(other, z)
				right := step*pen.Norm(other, k, m) + 0.5*square(other, v)
				if left > right+1e-9*(1+right) {
					t.Fatalf("prox %v of %v with t = %g is beaten by %v: %g > %g", z, v, step, other, left, right)
				}
				if a, b := square(z, zo), square(v, other); a > b*(1+1e-12)+1e-15 {
					t.Fatalf("prox expands: %g > %g", a, b)
				}
				for r := range k {
					row := v[r*m : r*m+m]
					if pen.RowDual(row) <= step && dense.NormInf(z[r*m:r*m+m]) != 0 {
						t.Fatalf("row %v of dual norm %g ≤ %g is not removed: %v", row, pen.RowDual(row), step,
							z[r*m:r*m+m])
					}
				}
			})
		})
	}
}

// TestDualNorm checks |⟨V, G⟩| ≤ Ω(V) Ω*(G) and that a row of V attains it.
func TestDualNorm(t *testing.T) {
	for _, pen := range allPenalties {
		t.Run(pen.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				k, m := rapid.IntRange(1, 4).Draw(t, "k"), rapid.IntRange(1, 5).Draw(t, "m")
				v, g := solvertest.DrawMatrix(t, k, m, "v"), solvertest.DrawMatrix(t, k, m, "g")
				inner := 0.0
				for i := range v {
					inner += v[i] * g[i]
				}
				dual := pen.DualNorm(g, k, m)
				if bound := pen.Norm(v, k, m) * dual; math.Abs(inner) > bound*(1+1e-12) {
					t.Fatalf("|⟨V, G⟩| = %g > %g", math.Abs(inner), bound)
				}
				row := g[:m]
				attaining := make([]float64, m)
				switch pen {
				case L1:
					top := 0
					for c := range row {
						if math.Abs(row[c]) > math.Abs(row[top]) {
							top = c
						}
					}
					attaining[top] = math.Copysign(1, row[top])
				case L1L2:
					copy(attaining, row)
				case L1Linf:
					for c := range row {
						attaining[c] = math.Copysign(1, row[c])
					}
				}
				inner = 0
				for c := range row {
					inner += attaining[c] * row[c]
				}
				if want := pen.RowNorm(attaining) * pen.RowDual(row); !solvertest.Near(inner, want, 1e-12, 1e-300) {
					t.Fatalf("row %v attains %g, not %g", row, inner, want)
				}
			})
		})
	}
}

func TestParseNames(t *testing.T) {
	for _, pen := range allPenalties {
		if got, err := ParsePenalty(pen.String()); got != pen || err != nil {
			t.Errorf("ParsePenalty(%q) = %v, %v", pen, got, err)
		}
	}
	for _, method := range []Method{Hybrid, FISTA, Stochastic} {
		if got, err := ParseMethod(method.String()); got != method || err != nil {
			t.Errorf("ParseMethod(%q) = %v, %v", method, got, err)
		}
	}
	if _, err := ParsePenalty("l2"); err == nil {
		t.Error("ParsePenalty takes l2")
	}
	if _, err := ParseMethod("sgd"); err == nil {
		t.Error("ParseMethod takes sgd")
	}
}
