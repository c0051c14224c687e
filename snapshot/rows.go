package snapshot

import "slices"

// Rows of the model are those of the version's tensors until a delta changes them; from then on the page that a row is in has its own, until there are so many
// pages that all rows are copied to one place. Pages are never
// changed once a model has them: Apply copies the list of pages and those that it writes to. A page has its rows one after the other, of each first the
// coordinates of the basis, then the linear weights.
const (
	pageShift = 3
	pageRows  = 1 << pageShift // of 20 numbers: copying a page for one row takes as long as copying the list of pages of some 50 rows
)

// linearWidth returns how many linear weights a row has: m or none.
func (m *Model) linearWidth() int {
	if m.contents.Linear == nil {
		return 0
	}
	return m.contents.NumOutputs
}

// rowWidth returns how many numbers a row has.
func (m *Model) rowWidth() int { return m.contents.NumBasis + m.linearWidth() }

// row returns the coordinates of column j in the basis, and its linear weights if the model has some.
func (m *Model) row(j int) (basis, linear []float64) {
	c := &m.contents
	k, numOut := c.NumBasis, c.NumOutputs
	if m.pages != nil {
		if p := m.pages[j>>pageShift]; p != nil {
			p = p[j&(pageRows-1)*m.width:]
			return p[:k], p[k:m.width]
		}
	}
	if c.Linear != nil {
		linear = c.Linear[j*numOut : (j+1)*numOut]
	}
	return c.Basis[j*k : (j+1)*k], linear
}

// basisRow returns the coordinates of column j in the basis.
func (m *Model) basisRow(j int) []float64 {
	k := m.contents.NumBasis
	if m.pages != nil {
		if p := m.pages[j>>pageShift]; p != nil {
			at := j & (pageRows - 1) * m.width
			return p[at : at+k]
		}
	}
	return m.contents.Basis[j*k : (j+1)*k]
}

// linearRow returns the linear weights of column j in a model that has some.
func (m *Model) linearRow(j int) []float64 {
	numOut := m.contents.NumOutputs
	if m.pages != nil {
		if p := m.pages[j>>pageShift]; p != nil {
			at := j&(pageRows-1)*m.width + m.contents.NumBasis
			return p[at : at+numOut]
		}
	}
	return m.contents.Linear[j*numOut : (j+1)*numOut]
}

// isChanged reports whether deltas have changed pages that have rows of n columns from j on.
func (m *Model) isChanged(j, n int) bool {
	if m.pages == nil {
		return false
	}
	for _, p := range m.pages[j>>pageShift : (j+n-1)>>pageShift+1] {
		if p != nil {
			return true
		}
	}
	return false
}

// runOf returns the rows of at most n columns from j on that stand in one place, how many they are, and how many numbers after one another the rows and
// their linear weights begin. Of a model with pages.
func (m *Model) runOf(j, n int) (rows, linear []float64, stride, linearStride, count int) {
	k, width, p := m.contents.NumBasis, m.linearWidth(), j>>pageShift
	if page := m.pages[p]; page != nil {
		at := j & (pageRows - 1)
		rows = page[at*m.width:]
		return rows, rows[k:], m.width, m.width, min(n, pageRows-at)
	}
	for p++; p < len(m.pages) && m.pages[p] == nil && p<<pageShift < j+n; p++ {
	}
	return m.contents.Basis[j*k:], m.contents.Linear[j*width:], k, width, min(n, p<<pageShift-j)
}

// withRows gives the model, a copy of the one before a delta, the pages in which the rows of the delta are changed, given its columns after that.
func (m *Model) withRows(d *Delta, columns int) {
	if m.width = m.rowWidth(); len(d.Columns) == 0 || m.width == 0 {
		return
	}
	k, numOut, width := m.contents.NumBasis, m.linearWidth(), m.width
	pages := make([][]float64, (columns+pageRows-1)/pageRows)
	copy(pages, m.pages)
	written := -1
	for i, j := range d.Columns {
		n := int(j) >> pageShift
		if n != written {
			if pages[n] == nil {
				m.numPages++
			}
			pages[n], written = m.copyPage(n), n
		}
		row := pages[n][int(j)&(pageRows-1)*width:]
		copy(row[:k], d.Basis[i*k:(i+1)*k])
		copy(row[k:k+numOut], d.Linear[i*numOut:(i+1)*numOut])
	}
	if m.pages = pages; m.numPages > len(pages)/mergeShare {
		m.merge(columns)
	}
}

// mergeShare is the share of the pages that may be changed, one in so many. A row of a page is found by a look at the list of pages first: with cold caches
// Score takes a quarter longer where all of its rows are in pages. Copying all rows for a fifth of them takes less than copying that fifth page by page did.
const mergeShare = 5

// merge puts all rows into one place again, those of names that were added, too.
func (m *Model) merge(columns int) {
	c, k, numOut := &m.contents, m.contents.NumBasis, m.linearWidth()
	basis, linear := make([]float64, columns*k), []float64(nil)
	if numOut > 0 {
		linear = make([]float64, columns*numOut)
	}
	for n, page := range m.pages {
		first, last := n<<pageShift, min((n+1)<<pageShift, columns)
		if page == nil {
			copy(basis[first*k:last*k], c.Basis[first*k:])
			copy(linear[first*numOut:last*numOut], c.Linear[first*numOut:])
			continue
		}
		for j := first; j < last; j, page = j+1, page[m.width:] {
			copy(basis[j*k:(j+1)*k], page)
			copy(linear[j*numOut:(j+1)*numOut], page[k:])
		}
	}
	c.Basis, c.Linear, m.numRows, m.pages, m.numPages = basis, linear, columns, nil, 0
	m.screens = newScreens(len(m.screens))
}

// copyPage returns page n of the model to write to; rows that it does not have are 0.
func (m *Model) copyPage(n int) []float64 {
	k, numOut, width := m.contents.NumBasis, m.linearWidth(), m.rowWidth()
	if n < len(m.pages) && m.pages[n] != nil {
		return slices.Clone(m.pages[n])
	}
	page := make([]float64, pageRows*width)
	first := n << pageShift
	for j := first; j < min(first+pageRows, max(m.numRows, m.contents.NumFeatures)); j++ {
		row := page[(j-first)*width:]
		copy(row[:k], m.contents.Basis[j*k:(j+1)*k])
		if numOut > 0 {
			copy(row[k:k+numOut], m.contents.Linear[j*numOut:(j+1)*numOut])
		}
	}
	return page
}
