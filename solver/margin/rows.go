package margin

import (
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/dense"
)

// rows returns what the weights are over.
func (f *fit) rows() *solver.Rows {
	bias := 0
	if f.s.BiasRidge > 0 {
		bias = 1
	}
	if f.basis == nil && bias == 0 {
		return f.p.X
	}
	k, own := 0, f.p.X.NumColumns
	var phi, work []float64
	if f.basis != nil {
		if k = f.basis.NumBasis; f.s.LinearRidge == 0 {
			own = 0
		}
		phi, work = make([]float64, k), make([]float64, k)
	}
	x := solver.NewRows(k+own+bias, f.n, len(f.p.X.Value)+(k+bias)*f.n)
	var columns []int32
	var values []float64
	for i := range f.n {
		index, value := f.p.X.Row(i)
		columns, values = columns[:0], values[:0]
		if k > 0 {
			f.basis.Activations(phi, work, index, value)
			for r, v := range phi {
				columns, values = append(columns, int32(r)), append(values, v)
			}
		}
		if own > 0 {
			for e, j := range index {
				columns, values = append(columns, int32(k)+j), append(values, value[e])
			}
		}
		if bias > 0 {
			columns, values = append(columns, int32(k+own)), append(values, 1)
		}
		x.Append(columns, values)
	}
	return x
}

// fillShare is the part of the entries of rows that are not 0 from which on all are stored.
const fillShare = 0.75

// filled returns x by row with its zeros, which may be its memory, or nil where they are many.
func filled(x *solver.Rows) []float64 {
	n, d := x.NumRows(), x.NumColumns
	switch {
	case len(x.Value) == n*d:
		return x.Value
	case float64(len(x.Value)) < fillShare*float64(n)*float64(d):
		return nil
	}
	full := make([]float64, n*d)
	for i := range n {
		row := full[i*d : (i+1)*d]
		index, value := x.Row(i)
		for e, j := range index {
			row[j] = value[e]
		}
	}
	return full
}

// scores stores W'x_i in dst.
func (f *fit) scores(dst []float64, i int, s *scratch) {
	s.visits++
	clear(dst)
	if d := f.x.NumColumns; f.full != nil {
		dense.MulAdd(dst, f.m, f.parts, 0, f.m, f.full[i*d:(i+1)*d], 1)
		return
	}
	index, value := f.x.Row(i)
	s.parts = s.parts[:0]
	for _, j := range index {
		s.parts = append(s.parts, f.parts[j])
	}
	dense.MulAdd(dst, f.m, s.parts, 0, f.m, value, 1)
}

// scoreBatch is the number of full rows that scoresOf multiplies at once.
const scoreBatch = 8

// scoresOf stores W'x_i of the rows from lo to hi − 1, at most scoreBatch, in s.batch, n×m. They are those of scores to the bit.
func (f *fit) scoresOf(lo, hi int, s *scratch) {
	m, d, n := f.m, f.x.NumColumns, hi-lo
	if f.full == nil {
		for i := lo; i < hi; i++ {
			f.scores(s.batch[(i-lo)*m:(i-lo+1)*m], i, s)
		}
		return
	}
	s.visits += n
	clear(s.batch)
	if len(s.turned) < d*n {
		s.turned = make([]float64, d*scoreBatch)
	}
	for i := range n {
		for j, x := range f.full[(lo+i)*d : (lo+i+1)*d] {
			s.turned[j*n+i] = x
		}
	}
	dense.MulAdd(s.batch, m, f.parts, 0, m, s.turned, n)
}

// shift adds x_i v' to W.
func (f *fit) shift(i int, v []float64, s *scratch) {
	if m, d := f.m, f.x.NumColumns; f.full != nil {
		s.parts = append(s.parts[:0], v)
		dense.MulAdd(f.w, m, s.parts, 0, m, f.full[i*d:(i+1)*d], d)
		return
	}
	index, value := f.x.Row(i)
	for e, j := range index {
		dense.AddScaled(f.parts[j], value[e], v)
	}
}

// sum makes W from α.
func (f *fit) sum() { f.sumTo(f.w, f.alpha) }

// sumTo stores (1/Λ) Σ_i w_i x_i a_i' in dst.
func (f *fit) sumTo(dst, a []float64) {
	m := f.m
	if f.full != nil {
		f.sumFull(dst, a)
		return
	}
	f.workers.Blocks(f.x.NumColumns, max(1, rowBlock*len(dst)/m/max(1, len(f.x.Value))), func(_, _, lo, hi int) {
		clear(dst[lo*m : hi*m])
		for j := lo; j < hi; j++ {
			to := dst[j*m : (j+1)*m]
			rows, values := f.columns.column(j)
			for e, i := range rows {
				dense.AddScaled(to, values[e]*f.p.Weight(int(i))/f.s.Lambda, a[int(i)*m:(int(i)+1)*m])
			}
		}
	})
}

// sumFull is sumTo of full rows: products of blocks of rows, for some classes at a time.
func (f *fit) sumFull(dst, a []float64) {
	m, d := f.m, f.x.NumColumns
	clear(dst)
	f.workers.Blocks(m, scoreBatch, func(_, _, lo, hi int) {
		var parts [][]float64
		scaled := make([]float64, rowBlock*(hi-lo))
		for first := 0; first < f.n; first += rowBlock {
			end := min(first+rowBlock, f.n)
			parts = parts[:0]
			for i := first; i < end; i++ {
				part := scaled[(i-first)*(hi-lo) : (i-first+1)*(hi-lo)]
				for c := range part {
					part[c] = a[i*m+lo+c] * (f.p.Weight(i) / f.s.Lambda)
				}
				parts = append(parts, part)
			}
			dense.MulAdd(dst[lo:], m, parts, 0, hi-lo, f.full[first*d:end*d], d)
		}
	})
}

// columns are the entries of rows by column.
type columns struct {
	start []int
	row   []int32
	value []float64
}

func columnsOf(x *solver.Rows) columns {
	c := columns{make([]int, x.NumColumns+2), make([]int32, len(x.Index)), make([]float64, len(x.Index))}
	for _, j := range x.Index {
		c.start[j+2]++
	}
	for j := range x.NumColumns {
		c.start[j+2] += c.start[j+1]
	}
	for i := range x.NumRows() {
		index, value := x.Row(i)
		for e, j := range index {
			at := c.start[j+1]
			c.row[at], c.value[at] = int32(i), value[e]
			c.start[j+1]++
		}
	}
	return c
}

func (c *columns) column(j int) (rows []int32, values []float64) {
	return c.row[c.start[j]:c.start[j+1]], c.value[c.start[j]:c.start[j+1]]
}
