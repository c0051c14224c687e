package foldrow

import (
	"math"

	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// How the losses that decide between rates are taken: those of an entity fade at each of its events, and one event
// counts limited. The daemon has the same for what is live.
const (
	EntityLossFade = 0.99
	RateLossMax    = 25
	LogitLossScale = 4 // of the mean loss of outputs, relative to a squared error in units of its variance
)

// FoldedRow is the posterior of one entity: for each rate what its events say, without the prior, and the mean of the
// rates' means as a row of the model.
// Rates stand in blocks of three, the last one filled up with rates that no event reaches.
type FoldedRow struct {
	Numbers []float64           // these, side by side:
	Linear  []float64           // m, of the model
	Basis   []float64           // k, of the model
	Center  []float64           // q = M+K: the mean of the prior
	Loss    []float64           // per rate: what it has lost at the events of the entity
	Packed  []rowmath.RateLanes // these, side by side:
	Mean    []rowmath.RateLanes // blocks × q
	// blocks × (M + M·K + K(K+1)/2 + q): the diagonal of linear weights, what couples them to coordinates, those
	// packed; right side
	Evidence []rowmath.RateLanes
}

// RowShape is the shape of the rows of a field.
type RowShape struct {
	Outputs, Vectors    int // m and k of the model
	Linear, Coordinates int // M and K
	Rates               int
}

func (h *RowShape) Size() int { return h.Linear + h.Coordinates }

func (h *RowShape) Blocks() int { return (h.Rates + rowmath.LaneCount - 1) / rowmath.LaneCount }

func (h *RowShape) EvidenceSize() int {
	return h.Linear + h.Linear*h.Coordinates + h.Coordinates*(h.Coordinates+1)/2 + h.Size()
}

// Middle returns the block and the lane of the rate whose variance counts.
func (h *RowShape) Middle() (block, lane int) {
	return h.Rates / 2 / rowmath.LaneCount, h.Rates / 2 % rowmath.LaneCount
}

// Bytes returns what a row takes.
func (h *RowShape) Bytes() int { return 8 * (h.Numbers() + rowmath.LaneCount*h.Packed()) }

func (h *RowShape) Numbers() int { return h.Outputs + h.Vectors + h.Size() + h.Rates }

func (h *RowShape) Packed() int { return h.Blocks() * (h.Size() + h.EvidenceSize()) }

// Lay lays the row out over memory of the lengths that the shape says.
func (r *FoldedRow) Lay(numbers []float64, packed []rowmath.RateLanes, h *RowShape) {
	r.Numbers, r.Packed = numbers, packed
	for _, part := range []struct {
		to *[]float64
		n  int
	}{{&r.Linear, h.Outputs}, {&r.Basis, h.Vectors}, {&r.Center, h.Size()}, {&r.Loss, h.Rates}} {
		*part.to, numbers = numbers[:part.n:part.n], numbers[part.n:]
	}
	r.Mean, r.Evidence = packed[:h.Blocks()*h.Size()], packed[h.Blocks()*h.Size():]
}

// Block returns the means of a block of rates and their evidence.
func (r *FoldedRow) Block(b int, h *RowShape) (mean []rowmath.RateLanes, e rowEvidence) {
	all := r.Evidence[b*h.EvidenceSize() : (b+1)*h.EvidenceSize()]
	cross, basis := h.Linear, h.Linear+h.Linear*h.Coordinates
	right := basis + h.Coordinates*(h.Coordinates+1)/2
	return r.Mean[b*h.Size() : (b+1)*h.Size()], rowEvidence{all[:cross], all[cross:basis], all[basis:right], all[right:]}
}

// rowEvidence is the evidence of a block of rates, laid out.
type rowEvidence struct {
	linear, cross, basis, right []rowmath.RateLanes
}

// RowSolver holds the working memory of one solution.
type RowSolver struct {
	Shape   RowShape
	factor  []rowmath.RateLanes // packed Cholesky factor of the coordinates' precision, linear weights eliminated
	inverse []rowmath.RateLanes // K: one over its diagonal
	total   []rowmath.RateLanes // M: precisions of the linear weights
	slope   []float64
}

func (s *RowSolver) Reset(h RowShape) {
	s.Shape = h
	k := h.Coordinates
	s.factor, s.inverse = rowmath.Resized(s.factor, k*(k+1)/2), rowmath.Resized(s.inverse, k)
	s.total, s.slope = rowmath.Resized(s.total, h.Linear), rowmath.Resized(s.slope, k)
}

// Solve stores the posterior means of a block, and leaves the factor: linear weights, whose block is diagonal, are
// eliminated first. If rounding defeats the elimination the diagonal is raised.
func (s *RowSolver) Solve(mean []rowmath.RateLanes, e rowEvidence, prior, center []float64) {
	m, k := s.Shape.Linear, s.Shape.Coordinates
	h := mean[m:]
	for r := range h {
		at := prior[m+r] * center[m+r]
		for g, b := range e.right[m+r] {
			h[r][g] = b + at
		}
	}
	for c := range m {
		d, at := prior[c], prior[c]*center[c]
		var scale rowmath.RateLanes
		for g, b := range e.right[c] {
			s.total[c][g] = e.linear[c][g] + d
			mean[c][g] = b + at
			scale[g] = mean[c][g] / s.total[c][g]
		}
		subtractScaled(h, &scale, e.cross[c*k:c*k+k])
	}
	for lift := 0.0; !s.factorise(e, prior, lift); lift = max(1e-12, 100*lift) {
		if lift > 1 { // numbers beyond rounding: the events say nothing
			for a, v := range center {
				mean[a] = rowmath.RateLanes{v, v, v}
			}
			return
		}
	}
	s.substitute(h)
	for c := range m {
		to := &mean[c]
		for r, w := range e.cross[c*k : c*k+k] {
			v := &h[r]
			to[0] -= w[0] * v[0]
			to[1] -= w[1] * v[1]
			to[2] -= w[2] * v[2]
		}
		for g := range to {
			to[g] /= s.total[c][g]
		}
	}
}

// subtractScaled takes scale times row from dst.
func subtractScaled(dst []rowmath.RateLanes, scale *rowmath.RateLanes, row []rowmath.RateLanes) {
	a, b, c := scale[0], scale[1], scale[2]
	row = row[:len(dst)]
	for i := range dst {
		to, v := &dst[i], &row[i]
		to[0] -= a * v[0]
		to[1] -= b * v[1]
		to[2] -= c * v[2]
	}
}

// factorise stores the factor for a diagonal that is raised by a share. It reports false unless the precision is
// positive definite.
func (s *RowSolver) factorise(e rowEvidence, prior []float64, lift float64) bool {
	m, k := s.Shape.Linear, s.Shape.Coordinates
	copy(s.factor, e.basis)
	for r, i := 0, 0; r < k; r, i = r+1, i+r+2 {
		for g, v := range s.factor[i] {
			s.factor[i][g] = v + prior[m+r] + lift*(1+prior[m+r]+v)
		}
	}
	for c := range m {
		cross, total, rest := e.cross[c*k:c*k+k], &s.total[c], s.factor
		inverse := rowmath.RateLanes{1 / total[0], 1 / total[1], 1 / total[2]}
		for r := range cross {
			w := cross[r]
			for g := range w {
				w[g] *= inverse[g]
			}
			subtractScaled(rest[:r+1], &w, cross[:r+1])
			rest = rest[r+1:]
		}
	}
	return s.cholesky()
}

// cholesky overwrites the packed lower triangles in factor with their lower factors, two columns at a time. It reports
// false if a pivot is not positive and finite.
func (s *RowSolver) cholesky() bool {
	a, inverse := s.factor, s.inverse
	for i, row := 0, 0; i < len(inverse); i, row = i+1, row+i+1 {
		line := a[row : row+i+1]
		pivot := line[i]
		j, at := 0, 0
		for ; j+1 < i; j += 2 {
			first := a[at : at+j+1]
			second := a[at+j+1 : at+2*j+3]
			at += 2*j + 3
			x, y := line[j], line[j+1]
			x0, x1, x2, y0, y1, y2 := x[0], x[1], x[2], y[0], y[1], y[2]
			u, v, w := line[:j], first[:j], second[:j]
			v, w = v[:len(u)], w[:len(u)]
			for l := range u {
				p, q, r := &u[l], &v[l], &w[l]
				x0 -= p[0] * q[0]
				x1 -= p[1] * q[1]
				x2 -= p[2] * q[2]
				y0 -= p[0] * r[0]
				y1 -= p[1] * r[1]
				y2 -= p[2] * r[2]
			}
			d, t := &inverse[j], &second[j]
			x0, x1, x2 = x0*d[0], x1*d[1], x2*d[2]
			d = &inverse[j+1]
			y0, y1, y2 = (y0-x0*t[0])*d[0], (y1-x1*t[1])*d[1], (y2-x2*t[2])*d[2]
			line[j], line[j+1] = rowmath.RateLanes{x0, x1, x2}, rowmath.RateLanes{y0, y1, y2}
			pivot[0] -= x0*x0 + y0*y0
			pivot[1] -= x1*x1 + y1*y1
			pivot[2] -= x2*x2 + y2*y2
		}
		if j < i { // one column is left
			x, d := line[j], &inverse[j]
			for l, v := range a[at : at+j] {
				for g, w := range v {
					x[g] -= line[l][g] * w
				}
			}
			for g := range x {
				x[g] *= d[g]
				pivot[g] -= x[g] * x[g]
			}
			line[j] = x
		}
		for g, p := range pivot {
			if !(p > 0) || math.IsInf(p, 1) {
				return false
			}
			line[i][g] = math.Sqrt(p)
			inverse[i][g] = 1 / line[i][g]
		}
	}
	return true
}

// substitute overwrites b with (L Lᵀ)⁻¹ b.
func (s *RowSolver) substitute(b []rowmath.RateLanes) {
	l, row := s.factor, 0
	for i := range b {
		to := b[i]
		for j, v := range l[row : row+i] {
			w := &b[j]
			to[0] -= v[0] * w[0]
			to[1] -= v[1] * w[1]
			to[2] -= v[2] * w[2]
		}
		for g, d := range s.inverse[i] {
			b[i][g] = to[g] * d
		}
		row += i + 1
	}
	for i := len(b) - 1; i >= 0; i-- {
		row -= i + 1
		for g, d := range s.inverse[i] {
			b[i][g] *= d
		}
		t := b[i]
		subtractScaled(b[:i], &t, l[row:row+i])
	}
}

// Variance returns that of an output whose gradient is 1 by linear weight c and slope by the coordinates, in a lane,
// after solve.
func (s *RowSolver) Variance(c, lane int, e rowEvidence, slope []float64) float64 {
	k := s.Shape.Coordinates
	inverse := 1 / s.total[c][lane]
	total := inverse
	for r, g := range slope {
		s.slope[r] = g - e.cross[c*k+r][lane]*inverse
	}
	row := s.factor
	for i, v := range s.slope {
		for j, x := range s.slope[:i] {
			v -= row[j][lane] * x
		}
		v *= s.inverse[i][lane]
		s.slope[i] = v
		total += v * v
		row = row[i+1:]
	}
	return total
}
