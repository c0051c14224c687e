package experiment

import (
	"slices"
	"testing"
)

// TestPermutation compares with numpy 1.24.2, RandomState(seed).permutation(n): the whole of short permutations, both
// ends of long ones.
func TestPermutation(t *testing.T) {
	for seed, want := range [][]int{{2, 8, 4, 9, 1, 6, 7, 3, 0, 5}, {2, 9, 6, 4, 0, 3, 1, 7, 8, 5}, {4, 1, 5, 0, 7, 2, 3,
		6, 9, 8}} {
		if got := permutation(10, uint32(seed)); !slices.Equal(got, want) {
			t.Errorf("seed %d: %v, numpy %v", seed, got, want)
		}
	}
	for _, c := range []struct {
		seed        uint32
		n           int
		first, last []int
	}{
		{0, 462, []int{113, 21, 78, 118, 225, 423, 375, 71}, []int{192, 117, 47, 172}},
		{3, 1000, []int{642, 762, 909, 199, 586, 797, 652, 755}, []int{643, 249, 664, 874}},
		{0, 100000, []int{3582, 60498, 53227, 21333, 3885, 51521, 84261, 10685}, []int{45891, 42613, 43567, 68268}},
		{0, 1000209, []int{324271, 818637, 148677, 778790, 525489, 847334, 107058, 653807}, []int{117952, 435829, 305711,
			985772}},
	} {
		p := permutation(c.n, c.seed)
		if got := p[:8]; !slices.Equal(got, c.first) {
			t.Errorf("seed %d, n %d begins %v, numpy %v", c.seed, c.n, got, c.first)
		}
		if got := p[c.n-4:]; !slices.Equal(got, c.last) {
			t.Errorf("seed %d, n %d ends %v, numpy %v", c.seed, c.n, got, c.last)
		}
		slices.Sort(p)
		if p[0] != 0 || p[c.n-1] != c.n-1 || len(slices.Compact(p)) != c.n {
			t.Errorf("seed %d, n %d is no permutation", c.seed, c.n)
		}
	}
}

func TestSplit(t *testing.T) {
	p := split(462, 0)
	if len(p.test) != 115 || len(p.valid) != 115 || len(p.train) != 232 {
		t.Fatalf("%d, %d and %d rows", len(p.test), len(p.valid), len(p.train))
	}
	if p.test[0] != 113 || p.train[231] != 172 {
		t.Error("the test rows are not the first of the permutation, or the training rows not the last")
	}
	all := slices.Concat(p.test, p.valid, p.train)
	slices.Sort(all)
	if len(slices.Compact(all)) != 462 {
		t.Error("the parts overlap")
	}
}
