package drift

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
	"gonum.org/v1/gonum/stat"
)

// stationary are values whose mean, given all before, is not above the margin of their scale: alike, heavy at both
// ends, in blocks of one user, skewed as the gradients of rare labels and counts are, without a bound, and in a rhythm.
var stationary = map[string]func(r *rand.Rand, n int) (value, deviation float64){
	"uniform": func(r *rand.Rand, _ int) (float64, float64) { return 2*r.Float64() - 1, 0 },
	"signs":   func(r *rand.Rand, _ int) (float64, float64) { return float64(2*r.IntN(2) - 1), 0 },
	"at the margin": func(r *rand.Rand, _ int) (float64, float64) {
		if r.Float64() < (1+driftMargin)/2 {
			return 1, 0
		}
		return -1, 0
	},
	"blocks": func(r *rand.Rand, n int) (float64, float64) { // each block of one width
		return (0.1 + 0.9*math.Abs(math.Sin(float64(n/100)))) * (2*r.Float64() - 1), 0
	},
	"labels of one in 5,000": func(r *rand.Rand, _ int) (float64, float64) { return rareLabel(r, 0.0002) },
	"labels of one in 500":   func(r *rand.Rand, _ int) (float64, float64) { return rareLabel(r, 0.002) },
	"labels of one in 500, trend of positives": func(r *rand.Rand, _ int) (float64, float64) {
		v, deviation := rareLabel(r, 0.002)
		return -v, deviation
	},
	"labels of one in a hundred": func(r *rand.Rand, _ int) (float64, float64) { return rareLabel(r, 0.01) },
	"chances of all sizes": func(r *rand.Rand, _ int) (float64, float64) { // each event with its own
		return rareLabel(r, 1/(1+math.Exp(5-2*r.NormFloat64())))
	},
	"exponential": func(r *rand.Rand, _ int) (float64, float64) { return 1 - r.ExpFloat64(), 0 },
	"tails of the fourth power": func(r *rand.Rand, _ int) (float64, float64) {
		return math.Pow(r.Float64(), -0.25) - 4.0/3, 0
	},
	"tails without a variance": func(r *rand.Rand, _ int) (float64, float64) {
		return r.NormFloat64() / r.NormFloat64(),
			0
	},
	"a daily rhythm": func(r *rand.Rand, n int) (float64, float64) {
		return (1 + 0.8*math.Sin(2*math.Pi*float64(n)/50_000)) * r.NormFloat64(), 0
	},
	"weights of all sizes": func(r *rand.Rand, _ int) (float64, float64) {
		return math.Exp(
			r.NormFloat64()) * r.NormFloat64(), 0
	},
}

// rareLabel returns the gradient of the logistic loss by the output of a right model, the chance minus the label, and
// its deviation.
func rareLabel(r *rand.Rand, chance float64) (value, deviation float64) {
	value, deviation = chance, math.Sqrt(chance*(1-chance))
	if r.Float64() < chance {
		value--
	}
	return value, deviation
}

// TestNoFalseAlarms: 10^6 values of each kind without a change raise no alarm, 10^7 if long tests are asked for.
func TestNoFalseAlarms(t *testing.T) {
	n := 1_000_000
	if tier.Asked(tier.Long) {
		n = 10_000_000
	}
	for name, value := range stationary {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(15, 1))
			var d GradientTest
			most := 0.0
			for i := range n {
				if d.add(value(r, i)) {
					t.Fatalf("a false alarm after %d values", i+1)
				}
				most = max(most, stat.Mean(d.Wealth[:], nil))
			}
			t.Logf("mean wealth %.3g at most", most)
		})
	}
}

// TestNoFalseAlarmsOfYoungTests: where the scale is of few values, of which rare ones are few or none, no alarm comes
// either.
func TestNoFalseAlarmsOfYoungTests(t *testing.T) {
	for name, value := range stationary {
		for seed := range uint64(200) {
			r := rand.New(rand.NewPCG(17, seed))
			var d GradientTest
			for i := range 5000 {
				if d.add(value(r, i)) {
					t.Fatalf("%s, stream %d: a false alarm after %d values", name, seed, i+1)
				}
			}
		}
	}
}

// TestAlarmAfterOutliers: values 10⁶ times as large hide a change for some thousand values and no longer.
func TestAlarmAfterOutliers(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 3))
	var d GradientTest
	for i := range 20_000 {
		v := r.NormFloat64()
		if i%1999 == 1000 {
			v *= 1e6
		}
		if d.add(v, 0) {
			t.Fatalf("a false alarm after %d values", i+1)
		}
	}
	for i := 1; !d.add(0.5+r.NormFloat64(), 0); i++ {
		if i == 5000 {
			t.Fatal("no alarm 5,000 values after the mean has risen by half a deviation")
		}
	}
}

// TestAlarmAfterAChange: a mean that rises to what changed names give raises an alarm soon, and values that are no
// numbers do not.
func TestAlarmAfterAChange(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 2))
	var d GradientTest
	for i := range 20_000 {
		if d.add(2*r.Float64()-1, 0) || d.add(math.NaN(), 0) || d.add(math.Inf(-1), 0) {
			t.Fatalf("an alarm after %d values without a change", i)
		}
	}
	for i := 1; ; i++ {
		if d.add(min(1, 0.25+2*r.Float64()-1), 0) {
			t.Logf("an alarm %d values after the change", i)
			return
		}
		if i == 1500 {
			t.Fatal("no alarm 1,500 values after the mean has risen to a quarter")
		}
	}
}

// TestRareLabelsAreNoDrift: a fold-in that knows the chance of 1 in 500 raises no alarm of any field, however nearly
// all gradients point the same way. When the labels of the names of one field change, that field alarms.
func TestRareLabelsAreNoDrift(t *testing.T) {
	const fields, names, chance = 3, 400, 0.002
	field := make([]int32, fields*names)
	for j := range field {
		field[j] = int32(j / names)
	}
	state := posterior.New(posterior.Logistic, 1, 2, field, fields, posterior.PriorFor(posterior.Logistic, 1))
	state.Bias[0] = math.Log(chance / (1 - chance))
	f := online.NewFoldIn(state, [][]float64{online.DefaultRates, online.FurtherRates, online.FurtherRates})
	for j := range field {
		f.Place(int32(j), online.Feature{Field: field[j], Row: -1, Base: int32(j)})
	}
	r := rand.New(rand.NewPCG(18, 1))
	var tests [fields]GradientTest
	// observe has the fold-in learn an event, whose label is positive with the chance of its first name, and returns
	// which fields alarm.
	observe := func(of func(first int32) float64) (alarms []int32) {
		features, values := make([]online.Feature, fields), []float64{1, 1, 1}
		for c := range features {
			j := int32(c*names + r.IntN(names))
			features[c] = online.Feature{Field: int32(c), Row: j, Base: j}
		}
		target := []float64{-1}
		if r.Float64() < of(features[0].Row) {
			target[0] = 1
		}
		f.Learn(features, values, target, 1)
		for _, a := range f.Agreements() {
			if tests[a.Field].add(a.Along, a.Deviation) {
				alarms = append(alarms, a.Field)
			}
		}
		return alarms
	}
	for i := range 60_000 {
		if alarms := observe(func(int32) float64 { return chance }); alarms != nil {
			t.Fatalf("event %d: alarms of the fields %v without a change", i+1, alarms)
		}
	}
	for i := 1; ; i++ {
		if alarms := observe(func(first int32) float64 { return 0.6 * float64(first%2) }); slices.Contains(alarms, 0) {
			t.Logf("an alarm %d events after the change", i)
			return
		}
		if i == 10_000 {
			t.Fatal("no alarm 10,000 events after the names have changed")
		}
	}
}
