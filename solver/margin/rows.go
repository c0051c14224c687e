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

// fillShare is the part of the entries of rows that are not 0 from which on rows are multiplied with their zeros.
const fillShare = 0.75

// fill makes whole of x if few of its entries are 0.
func (f *fit) fill() {
	d := f.x.NumColumns
	if d == 0 || float64(len(f.x.Value)) < fillShare*float64(f.n)*float64(d) {
		return
	}
	lacking := 0
	for i := range f.n {
		lacking += (f.x.Start[i+1] - f.x.Start[i] - d) >> 63 // −1 for each
	}
	f.whole, f.room = sized(f.whole, f.n), sized(f.room, -lacking*d)
	room := f.room
	for i := range f.whole {
		index, value := f.x.Row(i)
		if len(value) < d {
			row := room[:d]
			room = room[d:]
			clear(row)
			value = value[:len(index)]
			for e, j := range index {
				row[j] = value[e]
			}
			value = row
		}
		f.whole[i] = value
	}
}

// squareOf returns ‖x_i‖². It is for one goroutine.
func (f *fit) squareOf(i int) float64 {
	if f.square[i] == 0 {
		_, value := f.x.Row(i)
		f.square[i] = dense.Dot(value, value)
	}
	return f.square[i]
}

// scores stores W'x_i in dst.
func (f *fit) scores(dst []float64, i int, s *scratch) {
	s.visits++
	clear(dst)
	if len(f.whole) > 0 {
		dense.MulAdd(dst, f.m, f.parts, 0, f.m, f.whole[i], 1)
		return
	}
	index, value := f.x.Row(i)
	s.parts = s.parts[:0]
	for _, j := range index {
		s.parts = append(s.parts, f.parts[j])
	}
	dense.MulAdd(dst, f.m, s.parts, 0, f.m, value, 1)
}

// scoreBatch is the number of rows that are multiplied at once: whole vectors, of which some twenty classes fit in the
// nearest cache, and no power of two, with which columns would share few of its lines.
const scoreBatch = 56

// scoresOf returns W'x_i of some rows, at most scoreBatch, row by row, in memory of s. Where rows are full, W is that
// of the last turn.
func (f *fit) scoresOf(rows []int32, s *scratch) []float64 {
	m, d := f.m, f.x.NumColumns
	block := s.block[:len(rows)*m]
	if len(f.whole) == 0 {
		for k, i := range rows {
			f.scores(block[k*m:(k+1)*m], int(i), s)
		}
		return block
	}
	s.visits += len(rows)
	parts := s.parts[:0]
	for _, i := range rows {
		parts = append(parts, f.whole[i])
	}
	s.parts = parts
	clear(block)
	dense.DotAdd(block, parts, 0, d, f.turned, d, m)
	return block
}

// turn makes turned of W, which scoresOf multiplies full rows with.
func (f *fit) turn() {
	if len(f.whole) == 0 {
		return
	}
	d := f.x.NumColumns
	if f.turned == nil {
		f.turned = make([]float64, len(f.w))
	}
	for j, part := range f.parts {
		for c, w := range part {
			f.turned[c*d+j] = w
		}
	}
}

// shift adds x_i v' to W.
func (f *fit) shift(i int, v []float64, s *scratch) {
	if len(f.whole) > 0 {
		s.parts = append(s.parts[:0], v)
		dense.MulAdd(f.w, f.m, s.parts, 0, f.m, f.whole[i], f.x.NumColumns)
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
	if len(f.whole) > 0 {
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

// minColumns is the least number of columns that a worker takes: two vectors of AVX-512.
const minColumns = 16

// sumFull is sumTo of full rows: products of blocks of rows, for the columns of each worker. Every sum is over the rows
// in order. It is cut short once the fit is called off.
func (f *fit) sumFull(dst, a []float64) {
	m, d := f.m, f.x.NumColumns
	turned := make([]float64, m*d)
	f.workers.Blocks(d, max(minColumns, (d+f.workers.Size-1)/f.workers.Size), func(worker, _, lo, hi int) {
		s := f.scratch[worker]
		for first := 0; first < f.n && (first == 0 || f.workers.Yield()); first += scoreBatch {
			end := min(first+scoreBatch, f.n)
			part := a[first*m : end*m]
			if f.p.Weights != nil {
				s.batch = append(s.batch[:0], part...)
				part = s.batch
				for k := range part {
					part[k] *= f.p.Weights[first+k/m]
				}
			}
			dense.MulAdd(turned[lo:], d, f.whole[first:end], lo, hi-lo, part, m)
		}
	})
	for c := range m {
		for j, x := range turned[c*d : (c+1)*d] {
			dst[j*m+c] = x / f.s.Lambda
		}
	}
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
