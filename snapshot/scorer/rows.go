package scorer

import (
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/pages"
)

// linearWidth returns how many linear weights a row has: m or none.
func (m *Model) linearWidth() int {
	if m.contents.Linear == nil {
		return 0
	}
	return m.contents.NumOutputs
}

// Shape returns what a delta has to know of the model.
func (m *Model) Shape() *format.Shape {
	c := &m.contents
	return &format.Shape{
		Schema:     &c.Schema,
		FoldIn:     c.FoldIn,
		NumOutputs: c.NumOutputs,
		NumBasis:   c.NumBasis,
		HasLinear:  c.Linear != nil,
		Tensors:    c.Tensors,
		Tables:     c.Tables,
		HasTrees:   c.Trees != nil,
	}
}

// rowWidth returns how many numbers a row has.
func (m *Model) rowWidth() int { return m.contents.NumBasis + m.linearWidth() }

// row returns the coordinates of column j in the basis, and its linear weights if the model has some.
func (m *Model) row(j int) (basis, linear []float64) {
	c := &m.contents
	k, numOut := c.NumBasis, c.NumOutputs
	if m.rows != nil {
		if row := m.rows.Row(j); row != nil {
			return row[:k], row[k:]
		}
	}
	if c.Linear != nil {
		linear = c.Linear[j*numOut : (j+1)*numOut]
	}
	return c.Basis[j*k : (j+1)*k], linear
}

// Row returns the coordinates of a column in the basis, and its linear weights if the model has some. They are not to
// be changed.
func (m *Model) Row(column int32) (basis, linear []float64) { return m.row(int(column)) }

// basisRow returns the coordinates of column j in the basis.
func (m *Model) basisRow(j int) []float64 {
	k := m.contents.NumBasis
	if m.rows != nil {
		if row := m.rows.Row(j); row != nil {
			return row[:k]
		}
	}
	return m.contents.Basis[j*k : (j+1)*k]
}

// linearRow returns the linear weights of column j in a model that has some.
func (m *Model) linearRow(j int) []float64 {
	numOut := m.contents.NumOutputs
	if m.rows != nil {
		if row := m.rows.Row(j); row != nil {
			return row[m.contents.NumBasis:]
		}
	}
	return m.contents.Linear[j*numOut : (j+1)*numOut]
}

// isChanged reports whether deltas have changed pages that have rows of n columns from j on.
func (m *Model) isChanged(j, n int) bool {
	if m.rows == nil {
		return false
	}
	for p := j >> pages.PageShift; p <= (j+n-1)>>pages.PageShift; p++ {
		if m.rows.Place(p).Slab > 0 {
			return true
		}
	}
	return false
}

// runOf returns the rows of at most n columns from j on that stand in one place, how many they are, and how many
// numbers after one another the rows and their linear weights begin. Of a model with pages.
func (m *Model) runOf(j, n int) (rows, linear []float64, stride, linearStride, count int) {
	k, width, c := m.contents.NumBasis, m.linearWidth(), m.rows
	first, last := j>>pages.PageShift, (j+n-1)>>pages.PageShift
	place, p := c.Place(first), first
	for next := place; p < last; p++ {
		if next.Slab > 0 {
			next.Page++
		}
		if c.Place(p+1) != next {
			break
		}
	}
	count = min(n, (p+1)<<pages.PageShift-j)
	if place.Slab == 0 {
		return m.contents.Basis[j*k:], m.contents.Linear[j*width:], k, width, count
	}
	rows = c.Page(first)[j&(pages.PageRows-1)*c.Width:]
	return rows, rows[k:], c.Width, c.Width, count
}

// withRows gives the model, a copy of the one before a delta, the pages in which the rows of the delta are changed,
// given its columns after that. It costs the pages written to.
func (m *Model) withRows(d *format.Delta, columns int) {
	width := m.rowWidth()
	if len(d.Columns) == 0 || width == 0 {
		return
	}
	k, numOut, written := m.contents.NumBasis, m.linearWidth(), 0
	for i, j := range d.Columns {
		if i == 0 || j>>pages.PageShift != d.Columns[i-1]>>pages.PageShift {
			written++
		}
	}
	m.takeMerged()
	before := m.rows
	if before == nil {
		before = &pages.ChangedRows{Width: width}
	}
	slab := make([]float64, written*pages.PageRows*width)
	after := &pages.ChangedRows{
		Slabs:   append(before.Slabs[:len(before.Slabs):len(before.Slabs)], slab),
		Width:   width,
		Changed: before.Changed,
		Written: before.Written + written,
		Merge:   before.Merge,
		Chunks:  make([]*pages.PageChunk, (pages.NumPages(columns)+pages.ChunkPages-1)>>pages.ChunkShift),
	}
	copy(after.Chunks, before.Chunks)
	place := pages.PagePlace{Slab: uint32(len(after.Slabs))}
	for i, own, next := 0, -1, []float64(nil); i < len(d.Columns); place.Page++ {
		n := int(d.Columns[i]) >> pages.PageShift
		at := n >> pages.ChunkShift
		if at != own {
			chunk := new(pages.PageChunk)
			if old := after.Chunks[at]; old != nil {
				*chunk = *old
			}
			after.Chunks[at], own = chunk, at
		}
		next, slab = slab[:pages.PageRows*width], slab[pages.PageRows*width:]
		m.copyPage(next, n, after)
		to := &after.Chunks[at][n&(pages.ChunkPages-1)]
		if to.Slab == 0 {
			after.Changed++
		}
		*to = place
		for ; i < len(d.Columns) && int(d.Columns[i])>>pages.PageShift == n; i++ {
			row := next[int(d.Columns[i])&(pages.PageRows-1)*width:]
			copy(row[:k], d.Basis[i*k:(i+1)*k])
			copy(row[k:k+numOut], d.Linear[i*numOut:(i+1)*numOut])
		}
	}
	switch m.rows = after; {
	case after.Merge != nil:
	case after.Changed > pages.NumPages(columns)/pages.MergeShare:
		after.Merge = &pages.Merge{Slabs: len(after.Slabs), Columns: columns, Done: make(chan struct{})}
		go run(after.Merge, *m)
	case len(after.Slabs) > pages.MostSlabs || after.Written > 2*after.Changed:
		after.Gather()
	}
}

// run copies the rows of a model to one place, those of names that were added, too.
func run(x *pages.Merge, m Model) {
	defer close(x.Done)
	k, numOut := m.contents.NumBasis, m.linearWidth()
	x.Basis = make([]float64, x.Columns*k)
	if numOut > 0 {
		x.Linear = make([]float64, x.Columns*numOut)
	}
	for j := 0; j < x.Columns; {
		rows, weights, stride, linearStride, n := m.runOf(j, x.Columns-j)
		if stride == k {
			copy(x.Basis[j*k:(j+n)*k], rows)
			copy(x.Linear[j*numOut:(j+n)*numOut], weights)
			j += n
			continue
		}
		for end := j + n; j < end; j++ {
			copy(x.Basis[j*k:(j+1)*k], rows)
			copy(x.Linear[j*numOut:(j+1)*numOut], weights)
			rows, weights = rows[min(stride, len(rows)):], weights[min(linearStride, len(weights)):]
		}
	}
}

// takeMerged lets the model, a copy that nobody else has, have its rows where they were copied to, if they were by now,
// and pages of those that have changed since.
func (m *Model) takeMerged() {
	if m.rows == nil || m.rows.Merge == nil {
		return
	}
	x, before := m.rows.Merge, m.rows
	select {
	case <-x.Done:
	default:
		return
	}
	after := &pages.ChangedRows{
		Width:  before.Width,
		Slabs:  before.Slabs[x.Slabs:],
		Chunks: make([]*pages.PageChunk, len(before.Chunks)),
	}
	for _, slab := range after.Slabs {
		after.Written += len(slab) / (pages.PageRows * after.Width)
	}
	for i, old := range before.Chunks {
		if old == nil {
			continue
		}
		chunk, changed := new(pages.PageChunk), after.Changed
		for p, at := range old {
			if int(at.Slab) > x.Slabs {
				chunk[p] = pages.PagePlace{Slab: at.Slab - uint32(x.Slabs), Page: at.Page}
				after.Changed++
			}
		}
		if after.Changed > changed {
			after.Chunks[i] = chunk
		}
	}
	c := &m.contents
	c.Basis, c.Linear, m.numRows, m.rows = x.Basis, x.Linear, x.Columns, after
	m.screens = newScreens(len(m.screens))
}

// copyPage stores page n of the model before a delta; rows that it does not have are 0.
func (m *Model) copyPage(dst []float64, n int, rows *pages.ChangedRows) {
	if page := rows.Page(n); page != nil {
		copy(dst, page)
		return
	}
	k, numOut, first := m.contents.NumBasis, m.linearWidth(), n<<pages.PageShift
	for j := first; j < min(first+pages.PageRows, max(m.numRows, m.contents.NumFeatures)); j++ {
		row := dst[(j-first)*rows.Width:]
		copy(row[:k], m.contents.Basis[j*k:(j+1)*k])
		if numOut > 0 {
			copy(row[k:k+numOut], m.contents.Linear[j*numOut:(j+1)*numOut])
		}
	}
}
