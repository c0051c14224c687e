package sketch

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/refitd/refitd/sketch/internal/audit"
	"github.com/refitd/refitd/sketch/internal/policy"
)

// TestOrderDoesNotMatter: under every policy the state is that of the set of events, however the partitions interleave
// and the parts are cut.
func TestOrderDoesNotMatter(t *testing.T) {
	policies := map[string]Options{
		"uniform":          {},
		"weights":          {Weighted: true},
		"decay":            {HalfLife: 300 * time.Millisecond},
		"identity":         {Identity: "id"},
		"quotas":           {Quotas: []Quota{{Class: "c0", Share: 0.2}, {Class: "c1", Share: 0.5}}},
		"quotas and decay": {Quotas: []Quota{{Class: "c2", Share: 0.9}}, HalfLife: time.Second, Weighted: true},
		"cap":              {CapBy: "user", CapShare: 0.1},
		"cap and decay":    {CapBy: "user", CapShare: 0.03, HalfLife: time.Second},
	}
	names := []string{"uniform", "weights", "decay", "identity", "quotas", "quotas and decay", "cap", "cap and decay"}
	rapid.Check(t, func(t *rapid.T) {
		o := policies[rapid.SampledFrom(names).Draw(t, "policy")]
		o.Size, o.HoldoutSize, o.HoldoutFraction, o.Seed = 30, 8, 0.2, rapid.Uint64().Draw(t, "seed")
		const partitions, n = 3, 120
		records := make([][]Record, partitions)
		for p := range records {
			for i := range n {
				x := (i*7919 + p*104729) % 1000
				r := Record{Offset: int64(i), Fate: Applied, Time: int64(x), Weight: 1, Payload: fmt.Append(nil, p, i)}
				if o.Weighted {
					r.Weight = 1 + float64(x%7)
				}
				if o.Identity != "" {
					r.Identity = strconv.AppendInt(nil, int64(x%40), 10)
				}
				if o.CapBy != "" {
					r.Group = strconv.AppendInt(nil, int64(x%5*(x%2)), 10)
				}
				if o.Quotas != nil {
					r.Group = fmt.Append(nil, "c", x%4)
				}
				records[p] = append(records[p], r)
			}
		}
		apply := func(order []int) (*audit.State, []float64) {
			s, err := NewMemory(o)
			if err != nil {
				t.Fatal(err)
			}
			for p := range partitions {
				if err := s.Begin("a", int32(p), 0); err != nil {
					t.Fatal(err)
				}
			}
			for next := [partitions]int{}; next != [partitions]int{n, n, n}; {
				for _, size := range order {
					p := size % partitions
					to := min(n, next[p]+size)
					if err := s.Apply(&Part{Topic: "a", Partition: int32(p), Base: int64(next[p]), Next: int64(to),
						Records: records[p][next[p]:to]}, nil); err != nil {
						t.Fatal(err)
					}
					next[p] = to
				}
			}
			state, err := s.State()
			if err != nil {
				t.Fatal(err)
			}
			state.Lineage = ""
			sample, err := s.Sample()
			if err != nil {
				t.Fatal(err)
			}
			return state, sample.TrainWeights()
		}
		steps := func(label string) []int {
			return append(rapid.SliceOfN(rapid.IntRange(1, 50), 1, 20).Draw(t, label), 1, 2, 3)
		}
		want, weights := apply(steps("one order"))
		got, others := apply(steps("another"))
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(others, weights) {
			t.Fatalf("state\n%+v, want\n%+v", got, want)
		}
	})
}

// TestHorvitzThompson: 1/π of the kept rows estimates, without bias, how many events were offered and, of quotas, how
// many of each class.
func TestHorvitzThompson(t *testing.T) {
	const seeds, n, size = 300, 400, 60
	varied := func(i int) float64 { return 0.2 + float64(i%10) }
	quotas := []Quota{{Class: "rare", Share: 0.5}, {Class: "usual", Share: 0.3}}
	for _, c := range []struct {
		name   string
		o      Options
		weight func(int) float64
	}{
		{"uniform", Options{}, one},
		{"decay", Options{HalfLife: 100 * time.Millisecond}, one},
		{"weights", Options{Weighted: true}, varied},
		{"both", Options{HalfLife: 200 * time.Millisecond, Weighted: true}, varied},
		{"quotas", Options{Quotas: quotas}, one},
		{"quotas and decay", Options{Quotas: quotas, HalfLife: 200 * time.Millisecond}, one},
	} {
		totals := map[string]float64{"": n}
		if c.o.Quotas != nil {
			for i := range n {
				totals[classOf(i)]++
			}
		}
		sums, squares := map[string]float64{}, map[string]float64{}
		for seed := range uint64(seeds) {
			c.o.Size, c.o.Seed = size, seed
			sample := fill(t, c.o, n, c.weight)
			estimates := map[string]float64{}
			for _, r := range sample.Train {
				p, ok := sample.Inclusion(&r)
				if !ok || p <= 0 || p > 1 {
					t.Fatalf("%s: row %+v is included with probability %g", c.name, r, p)
				}
				estimates[""] += 1 / p
				if c.o.Quotas != nil {
					estimates[classOf(int(r.Offset))] += 1 / p
				}
			}
			for class := range totals {
				sums[class] += estimates[class]
				squares[class] += estimates[class] * estimates[class]
			}
		}
		for class, want := range totals {
			mean := sums[class] / seeds
			se := math.Sqrt(max(0, squares[class]/seeds-mean*mean) / seeds)
			t.Logf("%s %s: %.1f ± %.1f, want %g", c.name, class, mean, se, want)
			if math.Abs(mean-want) > 4*se+1e-6*want { // 1 in 16,000
				t.Errorf("%s %s: estimated %g ± %g events, want %g", c.name, class, mean, se, want)
			}
		}
	}
}

// classOf gives one event in twenty a rare class, and has some of none that a quota names.
func classOf(i int) string {
	switch {
	case i%20 == 7:
		return "rare"
	case i%3 == 0:
		return "other"
	}
	return "usual"
}

// TestQuotaWeights: rows of a quota's class count so much less that the classes count together as often as they came.
func TestQuotaWeights(t *testing.T) {
	const n, seeds = 2000, 60
	var rare, all float64
	for seed := range uint64(seeds) {
		sample := fill(t, Options{Size: 200, Seed: seed, Quotas: []Quota{{Class: "rare", Share: 0.5}}}, n, one)
		weights, rows := sample.TrainWeights(), 0
		for i, r := range sample.Train {
			all += weights[i]
			if classOf(int(r.Offset)) == "rare" {
				rare += weights[i]
				rows++
			}
		}
		if rows != 100 || len(sample.Train) != 200 {
			t.Fatalf("%d rows of the rare class among %d, want 100 of 200", rows, len(sample.Train))
		}
	}
	if share := rare / all; math.Abs(share-0.05) > 0.003 {
		t.Errorf("the rare class counts %g of the whole, want 0.05", share)
	}
}

// TestCapHoldsAFlood: one user with nine events in ten has its share of each sample and no more.
func TestCapHoldsAFlood(t *testing.T) {
	o := Options{Size: 1000, HoldoutSize: 200, HoldoutFraction: 0.1, Seed: 4, CapBy: "user", CapShare: 0.01}
	user := func(offset int64) string {
		if offset%10 != 0 {
			return "flood"
		}
		return strconv.FormatInt(offset%3000, 10)
	}
	s, err := NewMemory(o)
	must(t, err, s.Begin("a", 0, 0))
	for low := int64(0); low < 60_000; low += 1000 {
		p := &Part{Topic: "a", Base: low, Next: low + 1000}
		for i := low; i < p.Next; i++ {
			p.Records = append(p.Records, Record{Offset: i, Fate: Applied, Weight: 1, Group: []byte(user(i))})
		}
		must(t, s.Apply(p, nil))
	}
	must(t, s.Check())
	sample, err := s.Sample()
	must(t, err)
	for role, rows := range map[Role][]Row{Train: sample.Train, Select: sample.Select, Gate: sample.Gate} {
		most := 1
		if role == Train {
			most = 10
		}
		counts := map[string]int{}
		for _, r := range rows {
			counts[user(r.Offset)]++
		}
		for name, n := range counts {
			if n > most {
				t.Errorf("%s: %d rows of %s, at most %d are allowed", role, n, name, most)
			}
		}
		if counts["flood"] != most {
			t.Errorf("%s: %d rows of the flood, want %d", role, counts["flood"], most)
		}
	}
	if len(sample.Train) != 1000 {
		t.Errorf("%d rows, want a full sample", len(sample.Train))
	}
	if _, ok := sample.Inclusion(&sample.Train[0]); ok {
		t.Error("a capped sample gives inclusion probabilities")
	}
}

// TestDuplicateFlood: an event sent 50,000 times is one row where events have an identity.
func TestDuplicateFlood(t *testing.T) {
	s, err := NewMemory(Options{Size: 100, Identity: "id", Seed: 1})
	must(t, err, s.Begin("a", 0, 0))
	for low := int64(0); low < 50_000; low += 5000 {
		p := &Part{Topic: "a", Base: low, Next: low + 5000}
		for i := low; i < p.Next; i++ {
			id := "again"
			if i%1000 == 0 {
				id = strconv.FormatInt(i, 10)
			}
			p.Records = append(p.Records,
				Record{Offset: i, Fate: Applied, Time: i % 77, Weight: 1, Identity: []byte(id)})
		}
		must(t, s.Apply(p, nil))
	}
	must(t, s.Check())
	if rows, _ := s.Size(); rows[Train] != 51 {
		t.Errorf("%d rows of 51 events", rows[Train])
	}
}

// TestGrindingDoesNotPay: a producer that chooses offsets, with every public fact and a guessed seed, gets the share
// of the sample that its share of the events gives it: chi-square at the 1 percent level over 200 secret seeds.
func TestGrindingDoesNotPay(t *testing.T) {
	const seeds, n, size = 200, 1000, 50
	draw := policy.NewDrawer(12345, 0)
	chosen := make([]bool, n)
	for i, left := 0, n/10; i < n && left > 0; i++ {
		sum := draw.ByOffset("ratings", 0, 0, int64(i))
		if policy.Identity(sum[:16]).H() < math.MaxUint64/8 { // would be kept under the seed that it guesses
			chosen[i] = true
			left--
		}
	}
	var got, want float64
	for seed := range uint64(seeds) {
		for _, r := range fill(t, Options{Size: size, Seed: seed + 1e9}, n, one).Train {
			if chosen[r.Offset] {
				got++
			}
		}
	}
	for _, c := range chosen {
		if c {
			want += seeds * size / float64(n)
		}
	}
	rest := seeds*size - want
	chi2 := ((got-want)*(got-want)/want + (got-want)*(got-want)/rest) * (n - 1) / (n - size)
	t.Logf("chi-square %.2f with 1 degree of freedom: %.0f rows, want %.0f", chi2, got, want)
	if chi2 > 6.63 {
		t.Errorf("chi-square %g: %g rows, want %g", chi2, got, want)
	}
}

// TestPoliciesRefused: combinations that are no function of the set of events in bounded memory are refused with their
// reason.
func TestPoliciesRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"quotas and cap":          {Quotas: []Quota{{Class: "a", Share: 0.5}}, CapBy: "user", CapShare: 0.1},
		"quotas and identity":     {Quotas: []Quota{{Class: "a", Share: 0.5}}, Identity: "id"},
		"cap and identity":        {CapBy: "user", CapShare: 0.1, Identity: "id"},
		"shares above 1":          {Quotas: []Quota{{Class: "a", Share: 0.6}, {Class: "b", Share: 0.6}}},
		"class twice":             {Quotas: []Quota{{Class: "a", Share: 0.1}, {Class: "a", Share: 0.1}}},
		"share of nothing":        {Quotas: []Quota{{Class: "a", Share: 0}}},
		"share that is no number": {Quotas: []Quota{{Class: "a", Share: math.NaN()}}},
		"cap without a field":     {CapShare: 0.1},
		"cap without a share":     {CapBy: "user"},
	} {
		o.Size = 10
		if err := o.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
