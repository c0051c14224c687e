package problem

import "fmt"

// Rows is a sparse n×d matrix in compressed sparse row form: the entries of row i are Index[Start[i]:Start[i+1]]
// (columns, strictly increasing) and Value at the same places. It is read-only once built and then safe for concurrent
// use.
type Rows struct {
	NumColumns int
	Start      []int
	Index      []int32
	Value      []float64

	checked int // leading entries of which Append knows that their columns are as said
}

// NewRows returns an empty matrix with numColumns columns and room for the given numbers of rows and entries.
func NewRows(numColumns, numRows, numEntries int) *Rows {
	start := make([]int, 1, numRows+1)
	return &Rows{
		NumColumns: numColumns,
		Start:      start,
		Index:      make([]int32, 0, numEntries),
		Value:      make([]float64, 0, numEntries),
	}
}

// NumRows returns n.
func (x *Rows) NumRows() int { return len(x.Start) - 1 }

// Row returns the columns and values of row i. The slices alias the matrix.
func (x *Rows) Row(i int) ([]int32, []float64) {
	a, b := x.Start[i], x.Start[i+1]
	return x.Index[a:b], x.Value[a:b]
}

// Append adds a row. It panics if the columns are not strictly increasing or outside [0, d): rows come from our own
// encoders.
func (x *Rows) Append(index []int32, value []float64) {
	if len(index) != len(value) {
		panic(fmt.Sprintf("solver: row with %d columns and %d values", len(index), len(value)))
	}
	last := int32(-1)
	for _, j := range index {
		if j <= last || int(j) >= x.NumColumns {
			panic(fmt.Sprintf("solver: column %d after %d in a matrix of %d columns", j, last, x.NumColumns))
		}
		last = j
	}
	if x.checked == len(x.Index) {
		x.checked += len(index)
	}
	x.Index = append(x.Index, index...)
	x.Value = append(x.Value, value...)
	x.Start = append(x.Start, len(x.Index))
}

// validate returns an error that wraps ErrProblem unless the parts fit together as described. Columns that Append has
// looked at are not looked at again.
func (x *Rows) validate() error {
	if len(x.Start) == 0 || x.Start[0] != 0 || x.Start[len(x.Start)-1] != len(x.Index) || len(x.Index) != len(x.Value) {
		return fmt.Errorf("%w: rows of %d columns and %d values do not fit their %d starts", ErrProblem, len(x.Index),
			len(x.Value), len(x.Start))
	}
	for i := range x.NumRows() {
		if x.Start[i] > x.Start[i+1] || x.Start[i+1] > len(x.Index) {
			return fmt.Errorf("%w: row %d starts after it ends", ErrProblem, i)
		}
		if x.Start[i+1] <= x.checked {
			continue
		}
		last := int32(-1)
		for _, j := range x.Index[x.Start[i]:x.Start[i+1]] {
			if j <= last {
				return fmt.Errorf("%w: row %d has column %d after %d", ErrProblem, i, j, last)
			}
			last = j
		}
		if int(last) >= x.NumColumns {
			return fmt.Errorf("%w: row %d has column %d of %d", ErrProblem, i, last, x.NumColumns)
		}
	}
	return nil
}

// Select returns a new matrix of the given rows, in that order.
func (x *Rows) Select(rows []int) *Rows {
	entries := 0
	for _, i := range rows {
		entries += x.Start[i+1] - x.Start[i]
	}
	out := NewRows(x.NumColumns, len(rows), entries)
	for _, i := range rows {
		index, value := x.Row(i)
		out.Index = append(out.Index, index...)
		out.Value = append(out.Value, value...)
		out.Start = append(out.Start, len(out.Index))
	}
	if x.checked == len(x.Index) {
		out.checked = len(out.Index)
	}
	return out
}

// Columns returns all columns in full, n numbers each.
func (r *Rows) Columns() [][]float64 {
	n := r.NumRows()
	columns := make([][]float64, r.NumColumns)
	for j := range columns {
		columns[j] = make([]float64, n)
	}
	for i := range n {
		index, value := r.Row(i)
		for e, j := range index {
			columns[j][i] += value[e]
		}
	}
	return columns
}

// Split returns the first column of the second field if all rows have one column of a first and one of a second field,
// and 0 else.
func (r *Rows) Split() int {
	split := 0
	for i := range r.NumRows() {
		if index, _ := r.Row(i); len(index) == 2 {
			split = max(split, int(index[0])+1)
		} else {
			return 0
		}
	}
	for i := range r.NumRows() {
		if int(r.Index[r.Start[i]+1]) < split {
			return 0
		}
	}
	return split
}
