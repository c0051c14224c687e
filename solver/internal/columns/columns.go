// Package columns holds sparse matrices by columns, for descents over one feature after the other.
package columns

// Matrix is a sparse n×d matrix in compressed sparse column form: the entries of column j are Start[j] to Start[j+1],
// their rows ascending.
type Matrix struct {
	Start []int
	Rows  []int32
	Value []float64
	// Where every row has two entries, Mate is the column of the other entry of the row and Product that of both
	// values; nil elsewhere.
	Mate    []int32
	Product []float64
	// After KeepRest, where every row has as many entries, the columns and values of the Others other entries of the
	// row of each entry; nil elsewhere.
	Rest      []int32
	RestValue []float64
	Others    int
	pairs     int // Σ over the rows of the squared number of entries
}

// New sorts by columns, in O(nnz + d), the entries of a matrix of d columns whose row i has the columns
// index[start[i]:start[i+1]] with the values at the same places.
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

// KeepRest keeps with each entry the rest of its row, given the entries by row again, if rows have more than two and
// all as many: an entry's row then comes from memory with the entry, and not from where the row is. It takes 12 bytes
// for each of the others.
func (c *Matrix) KeepRest(start []int, index []int32, value []float64) {
	n, size := len(start)-1, len(index)
	if n < 1 || size%n != 0 || size/n < 3 {
		return
	}
	each := size / n
	for i := range n {
		if start[i+1]-start[i] != each {
			return
		}
	}
	c.Others = each - 1
	c.Rest, c.RestValue = make([]int32, size*c.Others), make([]float64, size*c.Others)
	for j := range len(c.Start) - 1 {
		for at := c.Start[j]; at < c.Start[j+1]; at++ {
			to, i := at*c.Others, c.Rows[at]
			for e := start[i]; e < start[i+1]; e++ {
				if int(index[e]) != j {
					c.Rest[to], c.RestValue[to] = index[e], value[e]
					to++
				}
			}
		}
	}
}

// shortRows is the most entries that rows have, on average over the entries, for the sums over the rest of a row to be
// taken anew for each entry.
const shortRows = 4

// Short reports whether rows are short enough for that.
func (c *Matrix) Short() bool { return c.pairs <= shortRows*len(c.Rows) }
