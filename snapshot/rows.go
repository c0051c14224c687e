package snapshot

import "slices"

// Rows of the model are those of the version's tensors until a delta changes them; from then on the page that a row is in has its own. Pages are never
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

// withRows returns the pages of a model in which the rows of a delta are changed, given its columns after that.
func (m *Model) withRows(d *Delta, columns int) [][]float64 {
	if len(d.Columns) == 0 || m.rowWidth() == 0 {
		return m.pages
	}
	k, numOut, width := m.contents.NumBasis, m.linearWidth(), m.rowWidth()
	pages := make([][]float64, (columns+pageRows-1)/pageRows)
	copy(pages, m.pages)
	written := -1
	for i, j := range d.Columns {
		n := int(j) >> pageShift
		if n != written {
			pages[n], written = m.copyPage(n), n
		}
		row := pages[n][int(j)&(pageRows-1)*width:]
		copy(row[:k], d.Basis[i*k:(i+1)*k])
		copy(row[k:k+numOut], d.Linear[i*numOut:(i+1)*numOut])
	}
	return pages
}

// copyPage returns page n of the model to write to; rows that it does not have are 0.
func (m *Model) copyPage(n int) []float64 {
	k, numOut, width := m.contents.NumBasis, m.linearWidth(), m.rowWidth()
	if n < len(m.pages) && m.pages[n] != nil {
		return slices.Clone(m.pages[n])
	}
	page := make([]float64, pageRows*width)
	first := n << pageShift
	for j := first; j < min(first+pageRows, m.contents.NumFeatures); j++ {
		row := page[(j-first)*width:]
		copy(row[:k], m.contents.Basis[j*k:(j+1)*k])
		if numOut > 0 {
			copy(row[k:k+numOut], m.contents.Linear[j*numOut:(j+1)*numOut])
		}
	}
	return page
}
