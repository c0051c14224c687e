package snapshot

import "slices"

// changedRows are the rows that deltas have changed: those of the model are its version's tensors until then. Rows
// are changed by pages, the places of pages stand in chunks, and the pages that one delta writes are one piece of
// memory, a slab. Nothing is changed once a model has it: Apply copies the list of chunks, and of chunks and pages
// those that it writes to, so that a delta costs what it changes and a few bytes per thousand rows. When there are
// too many slabs, or too much in them that no page is any more, they become one. When a share of all pages has
// changed, all rows are copied to one place in the background: the first delta after that has them there.
type changedRows struct {
	chunks  []*pageChunk // nil where no page of it has changed
	slabs   [][]float64
	width   int // numbers of a row: first the coordinates of the basis, then the linear weights
	changed int // pages
	written int // pages of all slabs
	merge   *merge
}

// merge is the rows of a model being copied to one place.
type merge struct {
	slabs         int // of the model: later ones are of deltas since
	columns       int // of the model
	basis, linear []float64
	done          chan struct{} // closed once these are there
}

// pageChunk has the places of consecutive pages.
type pageChunk [chunkPages]pagePlace

// pagePlace is where a page is stored; slab counts from 1, 0 is of a page that has not changed.
type pagePlace struct{ slab, page uint32 }

const (
	pageShift  = 2
	pageRows   = 1 << pageShift // as many as leadingOf takes at a time: a page is copied for one row of it
	chunkShift = 7
	chunkPages = 1 << chunkShift
	mostSlabs  = 64 // of a model, before they are gathered into one

	// mergeShare is the share of the pages that may be changed, one in so many. A row of a page is found by a look at
	// its place first: with cold caches Score takes a quarter longer where all of its rows are in pages.
	mergeShare = 8
)

func numPages(columns int) int { return (columns + pageRows - 1) >> pageShift }

// place returns where page n is stored.
func (c *changedRows) place(n int) (at pagePlace) {
	if chunk := c.chunks[n>>chunkShift]; chunk != nil {
		at = chunk[n&(chunkPages-1)]
	}
	return at
}

// page returns page n, its rows one after the other; nil if it has not changed.
func (c *changedRows) page(n int) []float64 {
	at := c.place(n)
	if at.slab == 0 {
		return nil
	}
	return c.slabs[at.slab-1][int(at.page)*pageRows*c.width:]
}

// row returns row j, basis and linear weights, nil if its page has not changed.
func (c *changedRows) row(j int) []float64 {
	p := c.page(j >> pageShift)
	if p == nil {
		return nil
	}
	at := j & (pageRows - 1) * c.width
	return p[at : at+c.width]
}

// linearWidth returns how many linear weights a row has: m or none.
func (m *Model) linearWidth() int {
	if m.contents.Linear == nil {
		return 0
	}
	return m.contents.NumOutputs
}

// Shape returns what a delta has to know of the model.
func (m *Model) Shape() *Shape {
	c := &m.contents
	return &Shape{
		Schema:     &c.Schema,
		FoldIn:     c.FoldIn,
		NumOutputs: c.NumOutputs,
		NumBasis:   c.NumBasis,
		HasLinear:  c.Linear != nil,
		Tensors:    c.Tensors,
	}
}

// rowWidth returns how many numbers a row has.
func (m *Model) rowWidth() int { return m.contents.NumBasis + m.linearWidth() }

// row returns the coordinates of column j in the basis, and its linear weights if the model has some.
func (m *Model) row(j int) (basis, linear []float64) {
	c := &m.contents
	k, numOut := c.NumBasis, c.NumOutputs
	if m.rows != nil {
		if row := m.rows.row(j); row != nil {
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
		if row := m.rows.row(j); row != nil {
			return row[:k]
		}
	}
	return m.contents.Basis[j*k : (j+1)*k]
}

// linearRow returns the linear weights of column j in a model that has some.
func (m *Model) linearRow(j int) []float64 {
	numOut := m.contents.NumOutputs
	if m.rows != nil {
		if row := m.rows.row(j); row != nil {
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
	for p := j >> pageShift; p <= (j+n-1)>>pageShift; p++ {
		if m.rows.place(p).slab > 0 {
			return true
		}
	}
	return false
}

// runOf returns the rows of at most n columns from j on that stand in one place, how many they are, and how many
// numbers after one another the rows and their linear weights begin. Of a model with pages.
func (m *Model) runOf(j, n int) (rows, linear []float64, stride, linearStride, count int) {
	k, width, c := m.contents.NumBasis, m.linearWidth(), m.rows
	first, last := j>>pageShift, (j+n-1)>>pageShift
	place, p := c.place(first), first
	for next := place; p < last; p++ {
		if next.slab > 0 {
			next.page++
		}
		if c.place(p+1) != next {
			break
		}
	}
	count = min(n, (p+1)<<pageShift-j)
	if place.slab == 0 {
		return m.contents.Basis[j*k:], m.contents.Linear[j*width:], k, width, count
	}
	rows = c.page(first)[j&(pageRows-1)*c.width:]
	return rows, rows[k:], c.width, c.width, count
}

// withRows gives the model, a copy of the one before a delta, the pages in which the rows of the delta are changed,
// given its columns after that. It costs the pages written to.
func (m *Model) withRows(d *Delta, columns int) {
	width := m.rowWidth()
	if len(d.Columns) == 0 || width == 0 {
		return
	}
	k, numOut, written := m.contents.NumBasis, m.linearWidth(), 0
	for i, j := range d.Columns {
		if i == 0 || j>>pageShift != d.Columns[i-1]>>pageShift {
			written++
		}
	}
	m.takeMerged()
	before := m.rows
	if before == nil {
		before = &changedRows{width: width}
	}
	slab := make([]float64, written*pageRows*width)
	after := &changedRows{
		slabs:   append(before.slabs[:len(before.slabs):len(before.slabs)], slab),
		width:   width,
		changed: before.changed,
		written: before.written + written,
		merge:   before.merge,
		chunks:  make([]*pageChunk, (numPages(columns)+chunkPages-1)>>chunkShift),
	}
	copy(after.chunks, before.chunks)
	place := pagePlace{slab: uint32(len(after.slabs))}
	for i, own, next := 0, -1, []float64(nil); i < len(d.Columns); place.page++ {
		n := int(d.Columns[i]) >> pageShift
		at := n >> chunkShift
		if at != own {
			chunk := new(pageChunk)
			if old := after.chunks[at]; old != nil {
				*chunk = *old
			}
			after.chunks[at], own = chunk, at
		}
		next, slab = slab[:pageRows*width], slab[pageRows*width:]
		m.copyPage(next, n, after)
		to := &after.chunks[at][n&(chunkPages-1)]
		if to.slab == 0 {
			after.changed++
		}
		*to = place
		for ; i < len(d.Columns) && int(d.Columns[i])>>pageShift == n; i++ {
			row := next[int(d.Columns[i])&(pageRows-1)*width:]
			copy(row[:k], d.Basis[i*k:(i+1)*k])
			copy(row[k:k+numOut], d.Linear[i*numOut:(i+1)*numOut])
		}
	}
	switch m.rows = after; {
	case after.merge != nil:
	case after.changed > numPages(columns)/mergeShare:
		after.merge = &merge{slabs: len(after.slabs), columns: columns, done: make(chan struct{})}
		go after.merge.run(*m)
	case len(after.slabs) > mostSlabs || after.written > 2*after.changed:
		after.gather()
	}
}

// gather puts the pages of all slabs into one, those that follow each other one after the other.
func (c *changedRows) gather() {
	size := pageRows * c.width
	slab, n := make([]float64, c.changed*size), 0
	chunks := slices.Clone(c.chunks)
	for i, old := range c.chunks {
		if old == nil {
			continue
		}
		chunks[i] = new(pageChunk)
		for p, at := range old {
			if at.slab > 0 {
				copy(slab[n*size:(n+1)*size], c.slabs[at.slab-1][int(at.page)*size:])
				chunks[i][p] = pagePlace{1, uint32(n)}
				n++
			}
		}
	}
	c.chunks, c.slabs, c.written = chunks, [][]float64{slab}, n
}

// run copies the rows of a model to one place, those of names that were added, too.
func (x *merge) run(m Model) {
	defer close(x.done)
	k, numOut := m.contents.NumBasis, m.linearWidth()
	x.basis = make([]float64, x.columns*k)
	if numOut > 0 {
		x.linear = make([]float64, x.columns*numOut)
	}
	for j := 0; j < x.columns; {
		rows, weights, stride, linearStride, n := m.runOf(j, x.columns-j)
		if stride == k {
			copy(x.basis[j*k:(j+n)*k], rows)
			copy(x.linear[j*numOut:(j+n)*numOut], weights)
			j += n
			continue
		}
		for end := j + n; j < end; j++ {
			copy(x.basis[j*k:(j+1)*k], rows)
			copy(x.linear[j*numOut:(j+1)*numOut], weights)
			rows, weights = rows[min(stride, len(rows)):], weights[min(linearStride, len(weights)):]
		}
	}
}

// takeMerged lets the model, a copy that nobody else has, have its rows where they were copied to, if they were by now,
// and pages of those that have changed since.
func (m *Model) takeMerged() {
	if m.rows == nil || m.rows.merge == nil {
		return
	}
	x, before := m.rows.merge, m.rows
	select {
	case <-x.done:
	default:
		return
	}
	after := &changedRows{
		width:  before.width,
		slabs:  before.slabs[x.slabs:],
		chunks: make([]*pageChunk, len(before.chunks)),
	}
	for _, slab := range after.slabs {
		after.written += len(slab) / (pageRows * after.width)
	}
	for i, old := range before.chunks {
		if old == nil {
			continue
		}
		chunk, changed := new(pageChunk), after.changed
		for p, at := range old {
			if int(at.slab) > x.slabs {
				chunk[p] = pagePlace{at.slab - uint32(x.slabs), at.page}
				after.changed++
			}
		}
		if after.changed > changed {
			after.chunks[i] = chunk
		}
	}
	c := &m.contents
	c.Basis, c.Linear, m.numRows, m.rows = x.basis, x.linear, x.columns, after
	m.screens = newScreens(len(m.screens))
}

// copyPage stores page n of the model before a delta; rows that it does not have are 0.
func (m *Model) copyPage(dst []float64, n int, rows *changedRows) {
	if page := rows.page(n); page != nil {
		copy(dst, page)
		return
	}
	k, numOut, first := m.contents.NumBasis, m.linearWidth(), n<<pageShift
	for j := first; j < min(first+pageRows, max(m.numRows, m.contents.NumFeatures)); j++ {
		row := dst[(j-first)*rows.width:]
		copy(row[:k], m.contents.Basis[j*k:(j+1)*k])
		if numOut > 0 {
			copy(row[k:k+numOut], m.contents.Linear[j*numOut:(j+1)*numOut])
		}
	}
}
