package experts

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/rows"
)

// TestCellsAgainstMap: what a table with room holds is what a map holds, while it grows and after a term is removed.
func TestCellsAgainstMap(t *testing.T) {
	table, want := newCells(1<<20), make(map[uint64]uint32)
	r := rand.New(rand.NewPCG(3, 1))
	for range 50_000 {
		a, b, term := r.Uint64N(300), r.Uint64N(50), int(r.Uint64N(3))
		key := rows.MixHash(a, b, uint64(term))
		c := table.find(key)
		if (c != nil) != (want[key] > 0) {
			t.Fatalf("key %x: found %v, %d times before", key, c, want[key])
		}
		if c == nil {
			c = table.insert(key, uint16(term))
		}
		c.count++
		if want[key]++; c.count != want[key] {
			t.Fatalf("key %x: %d, want %d", key, c.count, want[key])
		}
	}
	if len(want) != 3*300*50 && len(want) < 30_000 {
		t.Fatalf("%d keys: too few for a test", len(want))
	}
	table.remove(1)
	left := 0
	for i := range table.List {
		if c := &table.List[i]; c.key != noKey {
			if left++; c.term == 1 || want[c.key] != c.count {
				t.Fatalf("%+v is left of %d", c, want[c.key])
			}
		}
	}
	if left == 0 || left >= len(want) {
		t.Errorf("%d of %d left", left, len(want))
	}
}

// TestCellsKeepWhatComesOften: a full table has the keys that come again and again among many that come once.
func TestCellsKeepWhatComesOften(t *testing.T) {
	table := newCells(1024)
	once := uint64(1 << 40)
	for range 200 {
		for often := range uint64(200) {
			for _, key := range []uint64{often, once, once + 1, once + 2} {
				key = rows.MixHash(key, 0, 0)
				c := table.find(key)
				if c == nil {
					c = table.insert(key, 0)
				}
				if c != nil {
					c.credit++
				}
			}
			once += 3
		}
	}
	if len(table.List) != 1024 {
		t.Errorf("%d cells", len(table.List))
	}
	kept := 0
	for often := range uint64(200) {
		if table.find(rows.MixHash(often, 0, 0)) != nil {
			kept++
		}
	}
	if kept < 180 {
		t.Errorf("%d of 200 frequent keys kept", kept)
	}
}

// TestNamesWeight: a weight learns what Bayes' rule says of a Gaussian, with others' variance added to the noise.
func TestNamesWeight(t *testing.T) {
	w := weight{mean: .3, variance: .5, prior: .5}
	const value, miss, precision, others = 2.0, .7, 3.0, .4
	noise := 1/precision + others
	w.learn(value, miss, precision, others)
	variance := 1 / (1/.5 + value*value/noise)
	mean := variance * (.3/.5 + value*(value*.3+miss)/noise)
	if math.Abs(w.mean-mean) > 1e-12 || math.Abs(w.variance-variance-namesWalk) > 1e-12 {
		t.Errorf("%+v, want mean %g and variance %g", w, mean, variance)
	}
}
