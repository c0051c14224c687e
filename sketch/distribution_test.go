package sketch

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// fill applies events 0..n-1, 1 ms apart, of weight weight(i), in parts of 500, and returns the sample.
func fill(t testing.TB, o Options, n int, weight func(i int) float64) *Sample {
	t.Helper()
	s, err := NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Begin("ratings", 0, 0); err != nil {
		t.Fatal(err)
	}
	for low := 0; low < n; low += 500 {
		p := &Part{Topic: "ratings", Base: int64(low), Next: int64(min(low+500, n))}
		for i := low; i < int(p.Next); i++ {
			r := Record{Offset: int64(i), Fate: Applied, Time: int64(i), Weight: weight(i), Payload: fmt.Append(nil, i)}
			if o.Quotas != nil {
				r.Group = []byte(classOf(i))
			}
			p.Records = append(p.Records, r)
		}
		if err := s.Apply(p, nil); err != nil {
			t.Fatal(err)
		}
	}
	sample, err := s.Sample()
	if err != nil {
		t.Fatal(err)
	}
	return sample
}

func one(int) float64 { return 1 }

// TestExactRows: the rows for a fixed seed never change, or every state and every verification of it would.
func TestExactRows(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"uniform", Options{Size: 8, HoldoutSize: 4, HoldoutFraction: 0.1, Seed: 42},
			"830 408 187 576 234 190 76 404 | 243 155 | 880 295 | sha256:bb7b4ae3"},
		{"decay", Options{Size: 8, HoldoutSize: 4, HoldoutFraction: 0.1, Seed: 42, HalfLife: 100 * time.Millisecond},
			"830 576 807 833 921 860 995 991 | 966 943 | 880 904 | sha256:6603c645"},
	} {
		sample := fill(t, c.o, 1000, one)
		var got string
		for _, rows := range [][]Row{sample.Train, sample.Select, sample.Gate} {
			for _, r := range rows {
				got += fmt.Sprint(r.Offset, " ")
			}
			got += "| "
		}
		got += sample.Digest.String()[:15]
		if got != c.want {
			t.Errorf("%s: rows %q, want %q", c.name, got, c.want)
		}
	}
}

// TestUniform: over many seeds each tenth of the log is in the sample equally often.
func TestUniform(t *testing.T) {
	const seeds, n, size = 200, 1000, 50
	var deciles [10]float64
	for seed := range uint64(seeds) {
		for _, r := range fill(t, Options{Size: size, Seed: seed}, n, one).Train {
			deciles[r.Offset*10/n]++
		}
	}
	var chi2 float64
	const want = seeds * size / 10
	for _, d := range deciles {
		// Without replacement the variance is smaller by (n-size)/(n-1) than a multinomial's.
		chi2 += (d - want) * (d - want) / want * (n - 1) / (n - size)
	}
	if chi2 > 27.88 { // 9 degrees of freedom, 0.1 %
		t.Errorf("chi-square %g over deciles %v", chi2, deciles)
	}
	t.Logf("chi-square %.2f, 9 degrees of freedom", chi2)
}

// TestTrainWeights: the weighted mean of a trend is that of all events under the decay, before the sample is full and
// after.
func TestTrainWeights(t *testing.T) {
	const seeds, n = 120, 400
	halfLife := 80.0
	weight := func(i int) float64 { return 0.5 + float64(i%3) }
	for _, size := range []int{n, 80} {
		var wantSum, want float64
		for i := range n {
			w := weight(i) * math.Exp2(-float64(n-1-i)/halfLife)
			want += w * float64(i)
			wantSum += w
		}
		want /= wantSum
		var sum, squares float64
		for seed := range uint64(seeds) {
			o := Options{Size: size, Seed: seed, HalfLife: time.Duration(halfLife) * time.Millisecond, Weighted: true}
			sample := fill(t, o, n, weight)
			weights := sample.TrainWeights()
			var mean, total float64
			for i, w := range weights {
				mean += w * float64(sample.Train[i].Offset)
				total += w
			}
			if math.Abs(total/float64(len(weights))-1) > 1e-12 {
				t.Fatalf("mean weight is %g", total/float64(len(weights)))
			}
			mean /= total
			sum += mean
			squares += mean * mean
		}
		mean := sum / seeds
		se := math.Sqrt(max(0, squares/seeds-mean*mean)/seeds) + 1e-9
		t.Logf("size %d: %.2f ± %.2f, want %.2f", size, mean, se, want)
		// A ratio of two unbiased sums is off by O(1/size).
		if math.Abs(mean-want) > 4*se+0.5 {
			t.Errorf("size %d: weighted mean %g ± %g, want %g", size, mean, se, want)
		}
	}
	if w := fill(t, Options{Size: 10}, 100, one).TrainWeights(); w != nil {
		t.Errorf("a uniform sample has weights %v", w)
	}
}
