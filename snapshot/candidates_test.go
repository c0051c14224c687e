package snapshot

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDotsAgainstOneByOne: rows four at a time and alone are what they are by the definition, the same to the bit
// wherever they stand.
func TestDotsAgainstOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	normal := func(n int) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = rng.NormFloat64()
		}
		return values
	}
	for k := range 12 {
		for n := range 14 {
			stride := k + rng.IntN(3)
			rows, w, v := normal(n*stride+k), normal(k), normal(k)
			got, squares, alone := make([]float64, n), make([]float64, n), make([]float64, 1)
			dots(got, rows, stride, w)
			squareDots(squares, rows, stride, w, v)
			for i := range n {
				row, want, wantSquares := rows[i*stride:], 0.0, 0.0
				for r := range k {
					want += row[r] * w[r]
					wantSquares += row[r] * (w[r] + row[r]*v[r])
				}
				if math.Abs(got[i]-want) > 1e-14*(1+math.Abs(want)) ||
					math.Abs(squares[i]-wantSquares) > 1e-13*(1+math.Abs(wantSquares)) {
					t.Fatalf(
						"k = %d, row %d of %d: %g and %g, want %g and %g",
						k,
						i,
						n,
						got[i],
						squares[i],
						want,
						wantSquares,
					)
				}
				if dots(alone, row, stride, w); alone[0] != got[i] {
					t.Fatalf("k = %d, row %d of %d: %g, alone %g", k, i, n, got[i], alone[0])
				}
				if squareDots(alone, row, stride, w, v); alone[0] != squares[i] {
					t.Fatalf("k = %d, row %d of %d: %g with squares, alone %g", k, i, n, squares[i], alone[0])
				}
			}
		}
	}
}

// changedPages returns a model in which rows of some pages are others, as deltas leave it, and the same model without
// pages.
func changedPages(t *testing.T, c *Contents, rng *rand.Rand) (paged, flat *Model) {
	base, err := NewModel(c)
	must(t, err)
	changed := *c
	changed.Basis, changed.Linear = slices.Clone(c.Basis), slices.Clone(c.Linear)
	m, d := *base, new(Delta)
	for j := range c.NumFeatures {
		if rng.IntN(80) == 0 || j%100 < 5 { // single ones, and some that follow each other
			d.Columns = append(d.Columns, int32(j))
			row := changed.Basis[j*c.NumBasis : (j+1)*c.NumBasis]
			for i := range row {
				row[i] += rng.NormFloat64()
			}
			d.Basis = append(d.Basis, row...)
			if c.Linear != nil {
				changed.Linear[j*c.NumOutputs]--
				d.Linear = append(d.Linear, changed.Linear[j*c.NumOutputs:(j+1)*c.NumOutputs]...)
			}
		}
	}
	if m.withRows(d, c.NumFeatures); m.rows == nil && m.rowWidth() > 0 {
		t.Fatal("no row has changed")
	}
	flat, err = NewModel(&changed)
	must(t, err)
	return &m, flat
}

// TestTopKOfChangedPages ranks names, some with rows in the version and some in changed pages, by one goroutine and
// by several.
func TestTopKOfChangedPages(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 2))
	var one, many Scratch
	many.Workers = 3
	for _, s := range shapes {
		c := testContents(s)
		widen(c, 2*minNames+77)
		paged, flat := changedPages(t, c, rng)
		for i, in := range testInputs()[:2] {
			q := Query{
				Input:   in,
				Over:    "item",
				K:       1 + rng.IntN(40),
				Class:   "red",
				Exclude: []string{"x3", "x64", fmt.Sprint("x", 2*minNames)},
			}
			want := slowTopK(t, flat, &q)
			for workers, s := range map[string]*Scratch{"one": &one, "several": &many} {
				for form, m := range map[string]*Model{"pages": paged, "the version": flat} {
					got, err := m.TopK(nil, &q, s)
					must(t, err)
					if !sameRanking(got, want) {
						t.Fatalf(
							"event %d, from %s by %s: %.200v, want %.200v",
							i,
							form,
							workers,
							fmt.Sprint(got),
							fmt.Sprint(want),
						)
					}
				}
			}
		}
	}
}

// TestTopKByWorkers: ties come in the order of the vocabulary. An error of any goroutine is returned. Nothing is
// allocated. Small fields take no goroutines.
func TestTopKByWorkers(t *testing.T) {
	c := testContents(shape{Regression, Identity, ANOVA, 0, true, ""})
	widen(c, 8*minNames)
	clear(c.Linear)
	m, err := NewModel(c)
	must(t, err)
	s := Scratch{Workers: 4}
	dst := make([]Item, 0, 2*minNames)
	for _, k := range []int{1, 5, 2 * minNames} {
		items, err := m.TopK(dst[:0], &Query{Over: "item", K: k}, &s)
		must(t, err)
		for i, item := range items {
			if item.Name != c.Vocabulary[1][i] {
				t.Fatalf("%d wanted: place %d has %s, want %s", k, i, item.Name, c.Vocabulary[1][i])
			}
		}
	}
	q := &Query{Over: "item", K: 10}
	if n := testing.AllocsPerRun(100, func() { m.TopK(dst[:0], q, &s) }); n != 0 {
		t.Errorf("TopK by workers allocates %g times", n)
	}
	for i, h := range s.searches {
		if h.model != nil {
			t.Errorf("search %d keeps the model", i)
		}
	}
	bad := &Query{Over: "item", K: 1, Input: Input{Numeric: []float64{1e308}}}
	c = testContents(shape{Regression, Identity, Homogeneous, 2, true, ""})
	widen(c, 8*minNames)
	m, err = NewModel(c)
	must(t, err)
	if items, err := m.TopK(dst[:0], bad, &s); err == nil {
		t.Errorf("outputs that are not finite: %v", items[:1])
	}
}
