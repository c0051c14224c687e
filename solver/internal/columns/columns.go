// Package columns holds sparse matrices by columns, for descents over one feature after the other.
package columns

// Matrix is a sparse n×d matrix in compressed sparse column form: the entries of column j are Start[j] to Start[j+1], their rows ascending.
type Matrix struct {
	Start []int
	Rows  []int32
	Value []float64
	// Where every row has two entries, Mate is the column of the other entry of the row and Product that of both values; nil elsewhere.
	Mate    []int32
	Product []float64
	pairs   int // Σ over the rows of the squared number of entries
}

// New sorts by columns, in O(nnz + d), the entries of a matrix of d columns whose row i has the columns index[start[i]:start[i+1]] with the values at the same
// places.
func New(d int, start []int, index []int32, value []float64) *Matrix {
	size := len(index)
	c := &Matrix{Start: make([]int, d+1), Rows: make([]int32, size), Value: make([]float64, size)}
	for _, j := range index {
		c.Start[j+1]++
	}
	for j := range d {
		c.Start[j+1] += c.Start[j]
	}
	two := true
	for i := range len(start) - 1 {
		entries := start[i+1] - start[i]
		c.pairs += entries * entries
		two = two && entries == 2
	}
	if two {
		c.Mate, c.Product = make([]int32, size), make([]float64, size)
	}
	next := append([]int(nil), c.Start[:d]...)
	for i := range len(start) - 1 {
		lo, hi := start[i], start[i+1]
		for e := lo; e < hi; e++ {
			at := next[index[e]]
			next[index[e]]++
			c.Rows[at], c.Value[at] = int32(i), value[e]
			if two {
				c.Mate[at], c.Product[at] = index[lo+hi-1-e], value[lo]*value[lo+1]
			}
		}
	}
	return c
}

// Column returns rows and values of column j. The slices alias the matrix.
func (c *Matrix) Column(j int) ([]int32, []float64) {
	a, b := c.Start[j], c.Start[j+1]
	return c.Rows[a:b], c.Value[a:b]
}

// shortRows is the most entries that rows have, on average over the entries, for the sums over the rest of a row to be taken anew for each entry.
const shortRows = 4

// Short reports whether rows are short enough for that.
func (c *Matrix) Short() bool { return c.pairs <= shortRows*len(c.Rows) }
