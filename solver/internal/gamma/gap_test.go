package gamma

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/solvertest"
)

// spectrumOf returns eigenvalues of one of several kinds: for Lanczos from a start that is uniform on the sphere, a
// diagonal matrix is as good as any with its eigenvalues.
func spectrumOf(rng *rand.Rand, kind, d int) []float64 {
	values := make([]float64, d)
	for i := range values {
		switch kind {
		case 0: // spread evenly: no gap at the ends
			values[i] = 2*rng.Float64() - 1
		case 1: // symmetric, as on rows of two one-hot features
			values[i] = rng.Float64()
			if i%2 == 1 {
				values[i] = -values[i-1]
			}
		case 2: // nearly equal at the top
			values[i] = 1 - 1e-6*rng.Float64()
			if i > 5 {
				values[i] = 0.9 * rng.Float64()
			}
		case 3: // few large ones of one sign
			values[i] = math.Exp(-float64(i)) * 10
		case 4: // dense at the top, where Lanczos is slow
			values[i] = -math.Cos(math.Pi * float64(i) / float64(d))
		case 5: // a far lower end close to the upper one in size
			values[i] = rng.NormFloat64()
			if i == 0 {
				values[i] = -4.0001
			} else if i == 1 {
				values[i] = 4
			}
		}
	}
	return values
}

func diagonalKrylov(d, columns, steps int, values [][]float64) *krylov {
	return newKrylov(solvertest.TestWorkers(1), d, columns, steps, func(dst, h []float64) {
		for i := range dst {
			dst[i] = values[i%columns][i/columns] * h[i]
		}
	})
}

func TestLanczosBound(t *testing.T) {
	tier.NotUnderRace(t)
	loosest, seeds := 0.0, tier.Size(uint64(100), 1000)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 77))
		d, steps := 20+rng.IntN(200), 8+rng.IntN(30)
		values := [][]float64{spectrumOf(rng, int(seed%6), d), spectrumOf(rng, rng.IntN(6), d)}
		truth := make([]float64, 2)
		for c, column := range values {
			truth[c] = max(slices.Max(column), -slices.Min(column))
		}
		check := func(k *krylov, nonnegative bool, truth []float64) {
			var bounds []float64
			k.bound(rng, BoundFailure, nonnegative, 1e-3, func(v []float64) float64 {
				bounds = append(bounds[:0], v...)
				return dense.NormInf(v)
			}, nil)
			for c := range truth {
				if bounds[c] < truth[c]*(1-1e-12) {
					t.Errorf("seed %d, kind %d, d %d, %d steps: bound %v of %v", seed, seed%6, d, steps, bounds[c],
						truth[c])
				}
				loosest = max(loosest, bounds[c]/truth[c])
			}
		}
		check(diagonalKrylov(d, 2, steps, values), false, truth)
		for i, v := range values[0] {
			values[0][i] = v * v
		}
		check(diagonalKrylov(d, 1, steps, values[:1]), true, []float64{slices.Max(values[0])})
	}
	t.Logf("loosest bound: %.3f of the norm", loosest)
	if loosest > 6 {
		t.Errorf("a bound is %v times the norm", loosest)
	}
}

// TestLanczosBoundIsSharp checks that the probability is not an idle word: with a large one the bound does fail, but
// not more often.
func TestLanczosBoundIsSharp(t *testing.T) {
	const runs, failure, d = 400, 0.5, 100
	failed := 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 78))
		values := make([]float64, d)
		for i := range values {
			values[i] = rng.Float64()
		}
		values[0] = 1.2 // three steps see it or not, by the part it has in the start
		k := diagonalKrylov(d, 1, 3, [][]float64{values})
		if k.bound(rng, failure, true, 1e-9, dense.NormInf, nil) < slices.Max(values) {
			failed++
		}
	}
	t.Logf("%d of %d bounds failed at probability %g", failed, runs, failure)
	if failed == 0 || failed > failure*runs {
		t.Errorf("%d of %d bounds failed at probability %g", failed, runs, failure)
	}
}
