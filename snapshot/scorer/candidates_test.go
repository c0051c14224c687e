package scorer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// changedPages returns a model in which rows of some pages are others, as deltas leave it, and the same model without
// pages.
func changedPages(t *testing.T, c *format.Contents, rng *rand.Rand) (paged, flat *Model) {
	base, err := NewModel(c)
	snapshottest.Must(t, err)
	changed := *c
	changed.Basis, changed.Linear = slices.Clone(c.Basis), slices.Clone(c.Linear)
	m, d := *base, new(format.Delta)
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
	snapshottest.Must(t, err)
	return &m, flat
}

// TestTopKOfChangedPages ranks names, some with rows in the version and some in changed pages, by one goroutine and
// by several.
func TestTopKOfChangedPages(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 2))
	var one, many Scratch
	many.Workers = 3
	for _, s := range snapshottest.Shapes {
		c := snapshottest.TestContents(s)
		snapshottest.Widen(c, 2*minNames+77)
		paged, flat := changedPages(t, c, rng)
		for i, in := range snapshottest.TestInputs()[:2] {
			q := format.Query{
				Input:   in,
				Over:    "item",
				K:       1 + rng.IntN(40),
				Class:   "red",
				Exclude: []string{"x3", "x64", fmt.Sprint("x", 2*minNames)},
			}
			want := snapshottest.SlowTopK(t, flat, &q)
			for workers, s := range map[string]*Scratch{"one": &one, "several": &many} {
				for form, m := range map[string]*Model{"pages": paged, "the version": flat} {
					got, err := m.TopK(nil, &q, s)
					snapshottest.Must(t, err)
					if !snapshottest.SameRanking(got, want) {
						t.Fatalf("event %d, from %s by %s: %.200v, want %.200v", i, form, workers, fmt.Sprint(got),
							fmt.Sprint(want))
					}
				}
			}
		}
	}
}

// TestTopKByWorkers: ties come in the order of the vocabulary. An error of any goroutine is returned. Nothing is
// allocated. Small fields take no goroutines.
func TestTopKByWorkers(t *testing.T) {
	c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA,
		K: 0, Linear: true, Mapped: ""})
	snapshottest.Widen(c, 8*minNames)
	clear(c.Linear)
	m, err := NewModel(c)
	snapshottest.Must(t, err)
	s := Scratch{Workers: 4}
	dst := make([]format.Item, 0, 2*minNames)
	for _, k := range []int{1, 5, 2 * minNames} {
		items, err := m.TopK(dst[:0], &format.Query{Over: "item", K: k}, &s)
		snapshottest.Must(t, err)
		for i, item := range items {
			if item.Name != c.Vocabulary[1][i] {
				t.Fatalf("%d wanted: place %d has %s, want %s", k, i, item.Name, c.Vocabulary[1][i])
			}
		}
	}
	q := &format.Query{Over: "item", K: 10}
	if n := testing.AllocsPerRun(100, func() { m.TopK(dst[:0], q, &s) }); n != 0 {
		t.Errorf("TopK by workers allocates %g times", n)
	}
	for i, h := range s.searches {
		if h.model != nil {
			t.Errorf("search %d keeps the model", i)
		}
	}
	bad := &format.Query{Over: "item", K: 1, Input: format.Input{Numeric: []float64{1e308}}}
	c = snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity,
		Kernel: format.Homogeneous, K: 2, Linear: true, Mapped: ""})
	snapshottest.Widen(c, 8*minNames)
	m, err = NewModel(c)
	snapshottest.Must(t, err)
	if items, err := m.TopK(dst[:0], bad, &s); err == nil {
		t.Errorf("outputs that are not finite: %v", items[:1])
	}
}
