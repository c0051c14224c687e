package pages

import "slices"

// ChangedRows are the rows that deltas have changed: those of the model are its version's tensors until then. Rows
// are changed by pages, the places of pages stand in chunks, and the pages that one delta writes are one piece of
// memory, a slab. Nothing is changed once a model has it: Apply copies the list of chunks, and of chunks and pages
// those that it writes to, so that a delta costs what it changes and a few bytes per thousand rows. When there are
// too many slabs, or too much in them that no page is any more, they become one. When a share of all pages has
// changed, all rows are copied to one place in the background: the first delta after that has them there.
type ChangedRows struct {
	Chunks  []*PageChunk // nil where no page of it has changed
	Slabs   [][]float64
	Width   int // numbers of a row: first the coordinates of the basis, then the linear weights
	Changed int // pages
	Written int // pages of all slabs
	Merge   *Merge
}

// Merge is the rows of a model being copied to one place.
type Merge struct {
	Slabs         int // of the model: later ones are of deltas since
	Columns       int // of the model
	Basis, Linear []float64
	Done          chan struct{} // closed once these are there
}

// PageChunk has the places of consecutive pages.
type PageChunk [ChunkPages]PagePlace

// PagePlace is where a page is stored; slab counts from 1, 0 is of a page that has not changed.
type PagePlace struct{ Slab, Page uint32 }

const (
	PageShift  = 2
	PageRows   = 1 << PageShift // as many as leadingOf takes at a time: a page is copied for one row of it
	ChunkShift = 7
	ChunkPages = 1 << ChunkShift
	MostSlabs  = 64 // of a model, before they are gathered into one

	// MergeShare is the share of the pages that may be changed, one in so many. A row of a page is found by a look at
	// its place first: with cold caches Score takes a quarter longer where all of its rows are in pages.
	MergeShare = 8
)

func NumPages(columns int) int { return (columns + PageRows - 1) >> PageShift }

// Place returns where page n is stored.
func (c *ChangedRows) Place(n int) (at PagePlace) {
	if chunk := c.Chunks[n>>ChunkShift]; chunk != nil {
		at = chunk[n&(ChunkPages-1)]
	}
	return at
}

// Page returns page n, its rows one after the other; nil if it has not changed.
func (c *ChangedRows) Page(n int) []float64 {
	at := c.Place(n)
	if at.Slab == 0 {
		return nil
	}
	return c.Slabs[at.Slab-1][int(at.Page)*PageRows*c.Width:]
}

// Row returns row j, basis and linear weights, nil if its page has not changed.
func (c *ChangedRows) Row(j int) []float64 {
	p := c.Page(j >> PageShift)
	if p == nil {
		return nil
	}
	at := j & (PageRows - 1) * c.Width
	return p[at : at+c.Width]
}

// Gather puts the pages of all slabs into one, those that follow each other one after the other.
func (c *ChangedRows) Gather() {
	size := PageRows * c.Width
	slab, n := make([]float64, c.Changed*size), 0
	chunks := slices.Clone(c.Chunks)
	for i, old := range c.Chunks {
		if old == nil {
			continue
		}
		chunks[i] = new(PageChunk)
		for p, at := range old {
			if at.Slab > 0 {
				copy(slab[n*size:(n+1)*size], c.Slabs[at.Slab-1][int(at.Page)*size:])
				chunks[i][p] = PagePlace{1, uint32(n)}
				n++
			}
		}
	}
	c.Chunks, c.Slabs, c.Written = chunks, [][]float64{slab}, n
}
