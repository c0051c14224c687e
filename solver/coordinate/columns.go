package coordinate

import "github.com/refitd/refitd/solver"

// columns is a sparse n×d matrix in compressed sparse column form: the entries of column j are start[j] to start[j+1], their rows ascending.
type columns struct {
	start []int
	row   []int32
	value []float64
	// Where every row has two entries, mate is the column of the other entry of the row and product that of both values; nil elsewhere.
	mate    []int32
	product []float64
	pairs   int // Σ over the rows of the squared number of entries
}

// newColumns sorts the entries of x by columns, in O(nnz + d).
func newColumns(x *solver.Rows) *columns {
	n, d, size := x.NumRows(), x.NumColumns, len(x.Index)
	c := &columns{start: make([]int, d+1), row: make([]int32, size), value: make([]float64, size)}
	for _, j := range x.Index {
		c.start[j+1]++
	}
	for j := range d {
		c.start[j+1] += c.start[j]
	}
	two := true
	for i := range n {
		entries := x.Start[i+1] - x.Start[i]
		c.pairs += entries * entries
		two = two && entries == 2
	}
	if two {
		c.mate, c.product = make([]int32, size), make([]float64, size)
	}
	next := append([]int(nil), c.start[:d]...)
	for i := range n {
		index, value := x.Row(i)
		for e, j := range index {
			at := next[j]
			next[j]++
			c.row[at], c.value[at] = int32(i), value[e]
			if two {
				c.mate[at], c.product[at] = index[1-e], value[0]*value[1]
			}
		}
	}
	return c
}

// column returns rows and values of column j. The slices alias the matrix.
func (c *columns) column(j int) ([]int32, []float64) {
	a, b := c.start[j], c.start[j+1]
	return c.row[a:b], c.value[a:b]
}

// shortRows is the most entries that rows have, on average over the entries, for the sums over the rest of a row to be taken anew for each entry.
const shortRows = 4

// short reports whether rows are short enough for that.
func (c *columns) short() bool { return c.pairs <= shortRows*len(c.row) }
