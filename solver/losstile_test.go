package solver

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/solvertest"
	"pgregory.net/rapid"
)

// validTargets returns n×m targets that the loss takes.
func validTargets(lossFn Loss, n, m int, rng *rand.Rand) []float64 {
	target := make([]float64, n*m)
	for i := range n {
		for c := range m {
			switch lossFn.(type) {
			case BinaryLogistic, BinarySquaredHinge:
				target[i*m+c] = float64(2*rng.IntN(2) - 1)
			case Squared:
				target[i*m+c] = 5 * rng.NormFloat64()
			}
		}
		switch lossFn.(type) {
		case MultinomialLogistic, SmoothedHinge, SquaredHinge:
			target[i*m+rng.IntN(m)] = 1
		}
	}
	return target
}

// TestLossTile compares the evaluation of a tile with that of one row after the other.
func TestLossTile(t *testing.T) {
	for _, lossFn := range allLosses {
		t.Run(lossFn.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n, m := rapid.IntRange(1, loss.FitTile).Draw(t, "n"), rapid.IntRange(1, 27).Draw(t, "m")
				size := rapid.SampledFrom([]float64{0.01, 1, 30, 299, 301, 700}).Draw(t, "size")
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
				pred, target := make([]float64, n*m), validTargets(lossFn, n, m, rng)
				for i := range pred {
					pred[i] = size * (2*rng.Float64() - 1)
				}
				pred[rng.IntN(n*m)] = math.Copysign(size, pred[0])
				var weight []float64
				if rapid.Bool().Draw(t, "weighted") {
					weight = make([]float64, n)
					for i := range weight {
						weight[i] = float64(i%3) * rng.Float64()
					}
				}
				want, wantGrad := 0.0, make([]float64, n*m)
				for i := range n {
					scale := 1.0
					if weight != nil {
						scale = weight[i]
					}
					want += scale * lossFn.Eval(wantGrad[i*m:i*m+m], pred[i*m:i*m+m], target[i*m:i*m+m])
					for c := range m {
						wantGrad[i*m+c] *= scale
					}
				}
				tile, tileTarget, back := make([]float64, n*m), make([]float64, n*m), make([]float64, n*m)
				loss.ToTiles(tile, pred, m, 0, n)
				loss.ToTiles(tileTarget, target, m, 0, n)
				if loss.FromTile(back, tile, m, n); !sameBits(back, pred) {
					t.Fatal("a tile turned back is not what it was made from")
				}
				l := loss.NewLossTile(lossFn, m)
				// Sums over n·m outputs: the roundings add up.
				atol := 1e-15 * (1 + size) * float64(n*m)
				if got := l.Eval(nil, tile, tileTarget, weight, n); !solvertest.Near(got, want, 1e-12, atol) {
					t.Fatalf("value %v, want %v", got, want)
				}
				if got := l.Eval(tile, tile, tileTarget, weight, n); !solvertest.Near(got, want, 1e-12, atol) {
					t.Fatalf("value in place %v, want %v", got, want)
				}
				loss.FromTile(back, tile, m, n)
				for i, g := range wantGrad {
					// exp(o) has a relative error of |o| roundings.
					if !solvertest.Near(back[i], g, 1e-13, 1e-15*(1+size)) {
						t.Fatalf("gradient %d,%d is %v, want %v", i/m, i%m, back[i], g)
					}
				}
			})
		})
	}
}

func sameBits(a, b []float64) bool {
	for i, x := range a {
		if math.Float64bits(x) != math.Float64bits(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// TestLossTileNaN checks that a prediction that is not a number shows in the value, and one of +∞ too.
func TestLossTileNaN(t *testing.T) {
	for _, lossFn := range allLosses {
		target := make([]float64, 6)
		loss.ToTiles(target, validTargets(lossFn, 3, 2, rand.New(rand.NewPCG(1, 1))), 2, 0, 3)
		for bad := range target {
			pred := make([]float64, 6)
			pred[bad] = math.NaN()
			if value := loss.NewLossTile(lossFn, 2).Eval(nil, pred, target, nil, 3); !math.IsNaN(value) {
				t.Errorf("%s: value %v with output %d not a number", lossFn.Name(), value, bad)
			}
		}
	}
}

// TestLossTileCurvature compares second derivatives with differences of the gradients.
func TestLossTileCurvature(t *testing.T) {
	const n, h = 60, 1e-4
	for _, lossFn := range allLosses {
		for _, m := range []int{1, 4} {
			rng := rand.New(rand.NewPCG(3, 4))
			pred, target, weight := make([]float64, n*m), make([]float64, n*m), make([]float64, n)
			loss.ToTiles(target, validTargets(lossFn, n, m, rng), m, 0, n)
			for i := range pred {
				pred[i] = 2 * rng.NormFloat64()
			}
			for i := range weight {
				weight[i] = 0.5 + rng.Float64()
			}
			l := loss.NewLossTile(lossFn, m)
			curve := make([]float64, n*m)
			l.Curvature(curve, pred, target, weight, n)
			for c := range m {
				up, down := append([]float64(nil), pred...), append([]float64(nil), pred...)
				for i := range n {
					up[c*n+i] += h
					down[c*n+i] -= h
				}
				l.Eval(up, up, target, weight, n)
				l.Eval(down, down, target, weight, n)
				for i := range n {
					want := (up[c*n+i] - down[c*n+i]) / (2 * h)
					if got := curve[c*n+i]; !solvertest.Near(got, want, 1e-5, 2*loss.CurveFloor) {
						t.Errorf("%s: second derivative %d,%d is %v, want %v", lossFn.Name(), i, c, got, want)
					}
				}
			}
		}
	}
}

func BenchmarkLossTile(b *testing.B) {
	for _, c := range []struct {
		loss Loss
		m    int
	}{{BinaryLogistic{}, 4}, {MultinomialLogistic{}, 26}} {
		rng := rand.New(rand.NewPCG(5, 6))
		pred, target, grad := make([]float64, loss.FitTile*c.m), make([]float64,
			loss.FitTile*c.m), make([]float64, loss.FitTile*c.m)
		loss.ToTiles(target, validTargets(c.loss, loss.FitTile, c.m, rng), c.m, 0, loss.FitTile)
		for i := range pred {
			pred[i] = 3 * rng.NormFloat64()
		}
		for name, g := range map[string][]float64{"value": nil, "gradient": grad} {
			b.Run(c.loss.Name()+"/"+name, func(b *testing.B) {
				l := loss.NewLossTile(c.loss, c.m)
				b.ReportAllocs()
				b.SetBytes(int64(8 * len(pred)))
				for b.Loop() {
					l.Eval(g, pred, target, nil, loss.FitTile)
				}
			})
		}
	}
}
