package margin

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// TestMemoryIsReused: a fit in the memory of another one, of more or fewer rows with and without zeros, has the same
// bits as one in fresh memory, and what earlier ones returned stays as it was.
func TestMemoryIsReused(t *testing.T) {
	s := settings(2)
	s.BiasRidge = 0
	problems := []*solver.Problem{
		thinned(0.9, 700, 9, 5),
		thinned(1, 300, 20, 4),
		thinned(0.8, 500, 12, 6),
		thinned(0.3, 900, 9, 5),
	}
	fit := func(p *solver.Problem, memories ...memory) *solver.Result {
		for unused.Get() != nil {
		}
		for _, y := range memories {
			unused.Put(&y)
		}
		return fitted(t, SVM{}, p, nil, s)
	}
	var alone []*solver.Result
	for _, p := range problems {
		alone = append(alone, fit(p))
	}
	for i, p := range problems {
		var first memory
		kept := slices.Clone(alone[i].Dual)
		for k, q := range problems {
			f := newFit(t, SVM{}, q, s)
			for j := range f.all {
				f.squareOf(j)
				f.gap[j] = float64(j)
			}
			f.keep(f.all)
			if first = f.memory; len(first.whole) > 0 != (k < 3) {
				t.Fatalf("problem %d: %d rows with their zeros", k, len(first.whole))
			}
			clear(first.whole)
			got := fit(p, first)
			if !slices.Equal(got.Dual, alone[i].Dual) || !slices.Equal(got.Model.Linear, alone[i].Model.Linear) ||
				got.Gap != alone[i].Gap {
				t.Errorf("problem %d in the memory of %d: another result", i, k)
			}
		}
		if !slices.Equal(kept, alone[i].Dual) {
			t.Errorf("problem %d: later fits wrote to its dual variables", i)
		}
	}
}

// TestLargeMemoryIsFreed: what a small fit took is handed on, and what a large one took is not.
func TestLargeMemoryIsFreed(t *testing.T) {
	tier.NotUnderRace(t) // where a pool drops some of what it is given
	for _, c := range []struct {
		rows   int
		reused bool
	}{{100, true}, {maxReused / 8 / 5, false}} {
		p := thinned(1, 100, 5, 3)
		s := settings(1)
		s.BiasRidge = 0
		f := newFit(t, SVM{}, p, s)
		f.kept.dual = make([]float64, 5*c.rows)
		for unused.Get() != nil {
		}
		f.release()
		if got := unused.Get() != nil; got != c.reused {
			t.Errorf("%d bytes handed on: %t", f.size(), got)
		}
	}
}
