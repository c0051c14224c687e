package drift

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"gonum.org/v1/gonum/stat"
)

// steady are losses of streams that stay as they are: of light and heavy tails, with ties, of a model that still
// learns, in waves and correlated over tens and hundreds of events.
var steady = map[string]func(r *rand.Rand) func(n int) float64{
	"exponential": func(r *rand.Rand) func(int) float64 { return func(int) float64 { return r.ExpFloat64() } },
	"without a mean": func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return math.Pow(r.NormFloat64()/r.NormFloat64(), 2) }
	},
	"right or wrong": func(r *rand.Rand) func(int) float64 {
		return func(int) float64 {
			return float64(r.IntN(
				20) / 19)
		}
	},
	"rare outliers": func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return r.ExpFloat64() * math.Pow(1e12, float64(r.IntN(500)/499)) }
	},
	"nothing": func(*rand.Rand) func(int) float64 { return func(int) float64 { return 0 } },
	"learning": func(r *rand.Rand) func(int) float64 {
		return func(n int) float64 { return r.ExpFloat64() * (1 + 1e4/float64(n+1)) }
	},
	"waves": func(r *rand.Rand) func(int) float64 {
		return func(n int) float64 { return r.ExpFloat64() * (1 + 0.2*math.Sin(2*math.Pi*float64(n)/5000)) }
	},
	"correlated over 100 events":   correlated(0.99),
	"correlated over 1,000 events": correlated(0.999),
}

// correlated returns losses whose size is a stationary process with the given correlation of neighbours.
func correlated(rho float64) func(r *rand.Rand) func(n int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		z := r.NormFloat64()
		return func(int) float64 {
			z = rho*z + math.Sqrt(1-rho*rho)*r.NormFloat64()
			return math.Exp(z/2) * r.ExpFloat64()
		}
	}
}

// TestNoFalseAlarmsOfLosses: 10⁷ losses of each kind raise no alarm, 10⁶ unless long tests are asked for.
func TestNoFalseAlarmsOfLosses(t *testing.T) {
	t.Parallel()
	n := 1_000_000
	if tier.Asked(tier.Long) {
		n = 10_000_000
	}
	for name, kind := range steady {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := kind(rand.New(rand.NewPCG(16, 1)))
			var l lossTest
			most := 0.0
			for i := range n {
				if l.add(next(i)) {
					t.Fatalf("a false alarm after %d losses", i+1)
				}
				most = max(most, stat.Mean(l.wealth[:], nil))
			}
			t.Logf("blocks of %d events at the end, mean wealth %.3g at most", LossBlock*max(l.length, 1), most)
		})
	}
}

// TestAlarmOfRisingLosses: losses that rise by a half raise an alarm soon, after light tails, heavy ones and correlated
// ones, however old the stream is; losses that fall, and values that are no numbers, raise none.
func TestAlarmOfRisingLosses(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]int{"exponential": 2500, "without a mean": 40_000, "rare outliers": 2500,
		"right or wrong":             8000,
		"correlated over 100 events": 25_000} {
		for _, before := range []int{30_000, 1_000_000} {
			next := steady[name](rand.New(rand.NewPCG(16, 2)))
			var l lossTest
			for i := range before {
				if l.add(next(i)) || l.add(math.NaN()) {
					t.Fatalf("%s: an alarm after %d losses without a change", name, i)
				}
			}
			for i := range 20_000 {
				if l.add(next(i) / 2) {
					t.Fatalf("%s: an alarm after %d losses that have fallen", name, i)
				}
			}
			factor := 1.5
			if name == "right or wrong" {
				factor = 3
			}
			for i := 1; ; i++ {
				if l.add(min(next(before+i)*factor, math.MaxFloat64)) {
					t.Logf("%s, %d events: an alarm %d losses after the rise", name, before, i)
					break
				}
				if i == within {
					t.Fatalf("%s, %d events: no alarm %d losses after the rise", name, before, i)
				}
			}
		}
	}
}
