package scorer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/pages"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// TestChangedRows applies deltas of few and of many rows, alone and one after the other, of known columns and new ones,
// and compares each row, and each run of rows, with plain lists; models before stay as they are. Slabs stay few, and
// are of pages for the most part.
func TestChangedRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, shape := range []snapshottest.Shape{snapshottest.Shapes[0], snapshottest.Shapes[2], snapshottest.Shapes[5]} {
		c := snapshottest.TestContents(shape)
		snapshottest.Widen(c, 3000)
		m, err := NewModel(c)
		snapshottest.Must(t, err)
		type state struct {
			model         *Model
			columns       int
			basis, linear []float64
		}
		k, width := m.contents.NumBasis, m.linearWidth()
		now := state{m, c.NumFeatures, slices.Clone(m.contents.Basis), slices.Clone(m.contents.Linear)}
		before, merged, gathered := []state(nil), 0, 0
		for n := range 400 {
			old := now
			now.basis, now.linear = slices.Clone(old.basis), slices.Clone(old.linear)
			d := new(format.Delta)
			begin, most := rng.IntN(300), 1+rng.IntN(60)
			for j := range now.columns {
				if j >= begin && j < begin+most && n%3 > 0 || n%40 == 0 && rng.IntN(100) == 0 {
					d.Columns = append(d.Columns, int32(j))
				}
			}
			for range rng.IntN(3) {
				d.Columns = append(d.Columns, int32(now.columns))
				now.columns++
				now.basis, now.linear = append(
					now.basis,
					make([]float64, k)...), append(
					now.linear,
					make([]float64, width)...)
			}
			for _, j := range d.Columns {
				row, weights := now.basis[int(j)*k:int(j+1)*k], now.linear[int(j)*width:int(j+1)*width]
				for i := range row {
					row[i] = rng.NormFloat64()
				}
				for i := range weights {
					weights[i] = rng.NormFloat64()
				}
				d.Basis, d.Linear = append(d.Basis, row...), append(d.Linear, weights...)
			}
			next := *old.model
			next.withRows(d, now.columns)
			r := next.rows
			switch {
			case next.numRows != old.model.numRows:
				merged++
				if r.Changed > pages.NumPages(now.columns)/pages.MergeShare {
					t.Fatalf("delta %d: %d pages have changed since all rows were copied to one place", n, r.Changed)
				}
			case r.Merge != nil:
				if r.Changed < pages.NumPages(now.columns)/pages.MergeShare {
					t.Fatalf("delta %d: all rows are copied to one place with %d pages that have changed", n, r.Changed)
				}
			case len(r.Slabs) > pages.MostSlabs || r.Written > 2*r.Changed:
				t.Fatalf("delta %d: %d slabs with %d pages, of which %d have changed", n, len(r.Slabs), r.Written,
					r.Changed)
			case old.model.rows != nil && len(r.Slabs) == 1:
				gathered++
			}
			if r.Merge != nil && rng.IntN(3) == 0 {
				<-r.Merge.Done
			}
			now.model = &next
			if n%50 == 0 {
				before = append(before, old)
			}
			for _, s := range append(before[:len(before):len(before)], now) {
				for j := range s.columns {
					row, weights := s.basis[j*k:(j+1)*k], s.linear[j*width:(j+1)*width]
					basis, linear := s.model.row(j)
					if !slices.Equal(basis, row) || !slices.Equal(linear, weights) ||
						!slices.Equal(s.model.basisRow(j), row) {
						t.Fatalf("delta %d: row %d of %d is %v and %v, want %v and %v", n, j, s.columns, basis, linear,
							row, weights)
					}
				}
			}
			for j := 0; j < now.columns; {
				rows, weights, stride, linearStride, length := now.model.runOf(j, min(now.columns-j, 1+rng.IntN(200)))
				for i := range length {
					if !slices.Equal(rows[i*stride:i*stride+k], now.basis[(j+i)*k:(j+i+1)*k]) ||
						!slices.Equal(weights[i*linearStride:i*linearStride+width],
							now.linear[(j+i)*width:(j+i+1)*width]) {
						t.Fatalf("delta %d: row %d is not in its run from %d on", n, j+i, j)
					}
				}
				j += length
			}
		}
		if merged < 2 || gathered < 2 { // how often depends on when copies are done
			t.Errorf("rows were copied to one place %d times, slabs %d times", merged, gathered)
		}
	}
}
