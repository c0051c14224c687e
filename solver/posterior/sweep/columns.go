package sweep

import "github.com/refitd/refitd/solver"

// columns is the compressed sparse column view of a sample: for column j the rows that have it and the place of its
// entry in each row, once fill has listed them.
type columns struct {
	start []int
	rows  []int32
	place []int32
}

// newColumns counts the rows of every column; fill lists them.
func newColumns(x *solver.Rows) *columns {
	c := &columns{start: make([]int, x.NumColumns+1)}
	for _, j := range x.Index {
		c.start[j+1]++
	}
	for j := range x.NumColumns {
		c.start[j+1] += c.start[j]
	}
	return c
}

func (c *columns) fill(x *solver.Rows) {
	c.rows, c.place = make([]int32, len(x.Index)), make([]int32, len(x.Index))
	next := append([]int(nil), c.start[:x.NumColumns]...)
	for i := range x.NumRows() {
		index, _ := x.Row(i)
		for e, j := range index {
			c.rows[next[j]], c.place[next[j]] = int32(i), int32(e)
			next[j]++
		}
	}
}

// count returns the number of rows with column j.
func (c *columns) count(j int) int { return c.start[j+1] - c.start[j] }

// column returns the rows with column j and the place of its entry in each.
func (c *columns) column(j int) (rows, place []int32) {
	a, b := c.start[j], c.start[j+1]
	return c.rows[a:b], c.place[a:b]
}

// apart reports for every field whether no row has two of its features.
func (c *columns) apart(x *solver.Rows, field []int32, fields int) []bool {
	apart := make([]bool, fields)
	for f := range apart {
		apart[f] = true
	}
	for i := range x.NumRows() {
		index, _ := x.Row(i)
		for e := 1; e < len(index); e++ { // columns increase, and fields with them
			if f := field[index[e]]; f == field[index[e-1]] {
				apart[f] = false
			}
		}
	}
	return apart
}
