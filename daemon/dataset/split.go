package dataset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Fractions are the shares of the training, validation and test parts. They add up to 1.
type Fractions struct{ Train, Valid, Test float64 }

// UnmarshalText parses three numbers such as 0.5,0.25,0.25.
func (f *Fractions) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ",")
	var v [3]float64
	ok := len(parts) == len(v)
	for i := 0; ok && i < len(v); i++ {
		x, err := strconv.ParseFloat(strings.TrimSpace(parts[i]), 64)
		v[i] = x
		ok = err == nil && x >= 0 && x <= 1
	}
	if !ok || math.Abs(v[0]+v[1]+v[2]-1) > 1e-9 || v[0] == 0 {
		return fmt.Errorf("split %q is not three shares that add up to 1, such as 0.5,0.25,0.25", text)
	}
	*f = Fractions{v[0], v[1], v[2]}
	return nil
}

// MarshalText writes the form that UnmarshalText reads.
func (f Fractions) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%g,%g,%g", f.Train, f.Valid, f.Test), nil
}

// String returns the form that UnmarshalText reads.
func (f Fractions) String() string { return fmt.Sprintf("%g,%g,%g", f.Train, f.Valid, f.Test) }

// Parts holds the indices of the examples of each part.
type Parts struct{ Train, Valid, Test []int }

// SplitRandom cuts a random permutation of 0..n-1 into ⌊test·n⌋ test examples, then ⌊valid·n⌋ validation examples; the
// rest is for training. It depends on its arguments alone.
func SplitRandom(n int, f Fractions, seed uint64) Parts {
	order := newRand(seed).Perm(n)
	test, valid := share(n, f.Test), share(n, f.Valid)
	return Parts{Test: order[:test:test], Valid: order[test : test+valid : test+valid], Train: order[test+valid:]}
}

// SplitTime puts the latest ⌊test·n⌋ examples into the test part, the ⌊valid·n⌋ before them into the validation part
// and the rest into the training part. Equal times stay in the order of the slice.
func SplitTime(times []int64, f Fractions) Parts {
	n := len(times)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(times[a], times[b]) })
	test, valid := share(n, f.Test), share(n, f.Valid)
	train := n - valid - test
	return Parts{Train: order[:train:train], Valid: order[train : train+valid : train+valid], Test: order[train+valid:]}
}

// share returns ⌊f·n⌋, where a product that misses a whole number by rounding alone counts as it.
func share(n int, f float64) int { return int(math.Floor(f*float64(n) + 1e-9)) }
