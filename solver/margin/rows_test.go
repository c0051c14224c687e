package margin

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/dense"
)

// thinned returns n rows of d features, of whose entries a share is there, in m classes with weights.
func thinned(share float64, n, d, m int) *solver.Problem {
	random := rand.New(rand.NewPCG(21, uint64(100*share)))
	p := &solver.Problem{
		X:       solver.NewRows(d, n, n*d),
		Outputs: m,
		Loss:    Loss{Kind: MaxHinge},
		Targets: make([]float64, n*m),
		Weights: make([]float64, n),
	}
	for i := range n {
		var index []int32
		var value []float64
		for j := range d {
			if random.Float64() < share {
				index, value = append(index, int32(j)), append(value, random.NormFloat64())
			}
		}
		p.X.Append(index, value)
		p.Targets[i*m+random.IntN(m)], p.Weights[i] = 1, random.Float64()
	}
	return p
}

// TestFullRows compares products over many rows at once with those of one row, and W with the sum row by row, for rows
// with all their entries, with most of them, which are filled with zeros, and with few.
func TestFullRows(t *testing.T) {
	const n, d, m = 3*rowBlock + 5, 9, 11
	for _, share := range []float64{1, 0.9, 0.3} {
		p := thinned(share, n, d, m)
		setting := settings(2)
		setting.BiasRidge = 0
		f := newFit(t, SVM{}, p, setting)
		if whole := len(f.whole) > 0; whole != (share > 0.5) {
			t.Errorf("of %g of the entries: rows are whole: %v", share, whole)
		}
		random := rand.New(rand.NewPCG(22, 1))
		for i := range f.alpha {
			f.alpha[i] = random.NormFloat64()
		}
		f.sum()
		want := make([]float64, d*m)
		for i := range n {
			index, value := p.X.Row(i)
			for e, j := range index {
				dense.AddScaled(want[int(j)*m:(int(j)+1)*m], value[e]*p.Weights[i]/2, f.alpha[i*m:(i+1)*m])
			}
		}
		for k, x := range f.w {
			if !near(x, want[k], 1e-12, 1e-12) {
				t.Fatalf("of %g of the entries: W[%d] is %v, row by row %v", share, k, x, want[k])
			}
		}
		for i := range n {
			if _, value := p.X.Row(i); !near(f.squareOf(i), dot(value, value), 1e-12, 0) {
				t.Fatalf("squared length of row %d is %g, want %g", i, f.squareOf(i), dot(value, value))
			}
		}
		f.turn()
		s, one := f.scratch[0], make([]float64, m)
		for lo := 0; lo < n; lo += scoreBatch {
			hi := min(lo+scoreBatch, n)
			rows := make([]int32, hi-lo)
			for k := range rows {
				rows[k] = int32(hi - 1 - k)
			}
			block := f.scoresOf(rows, s)
			for i := lo; i < hi; i++ {
				f.scores(one, i, s)
				for c, o := range one {
					if got := block[(hi-1-i)*m+c]; !near(got, o, 1e-12, 1e-12) {
						t.Fatalf("of %g of the entries: score of class %d of row %d is %v, of the row alone %v", share,
							c, i, got, o)
					}
				}
			}
		}
	}
}

// TestAllows compares what is taken over as it is with the projection: it leaves what it allows where it is, and moves
// what lies beyond.
func TestAllows(t *testing.T) {
	const y = 2
	random := rand.New(rand.NewPCG(23, 1))
	for k, loss := range []Loss{{Kind: MaxHinge}, {Kind: MaxHinge}, {Kind: TopK, K: 2}, {Kind: Usunier, K: 3},
		{Kind: WeightedUsunier}, {Kind: WeightedTopK}} {
		m := 5 + k%2
		r, s := loss.rule(m), newScratch(m)
		if !r.allows(make([]float64, m), y, s) {
			t.Errorf("%s does not allow 0", loss.Name())
		}
		taken, beyond := 0, 0
		for range 2000 {
			given, alpha := make([]float64, m), make([]float64, m)
			for c := range given {
				if c != y && random.IntN(2) == 0 {
					given[c] = -random.Float64() * random.Float64()
					given[y] -= given[c]
				}
			}
			if random.IntN(10) == 0 {
				given[(y+1)%m] += 1e-9
			}
			if random.IntN(10) == 0 { // in balance, with a sign that none has
				given[(y+1)%m], given[y] = given[(y+1)%m]+0.2, given[y]-0.2
			}
			r.project(alpha, given, y, s)
			moved := 0.0
			for c, x := range alpha {
				moved = math.Max(moved, math.Abs(x-given[c]))
			}
			before := slices.Clone(given)
			allowed := r.allows(given, y, s)
			if !slices.Equal(given, before) {
				t.Fatalf("%s: %v after a look at %v", loss.Name(), given, before)
			}
			switch {
			case allowed && moved > 1e-12:
				t.Fatalf("%s allows %v, whose projection is %v", loss.Name(), given, alpha)
			case allowed:
				taken++
			case moved > 1e-12:
				beyond++
			case r.each:
				t.Fatalf("%s does not allow %v, which is its own projection", loss.Name(), given)
			}
		}
		if beyond == 0 || r.each && taken == 0 {
			t.Errorf("%s: %d taken over, %d not allowed", loss.Name(), taken, beyond)
		}
	}
}
