package foldrow

import "github.com/refitd/refitd/snapshot/internal/rowmath"

// FewEvents is the posterior of the row of an entity by its events, of which it has no more than coordinates. Each
// says something of M outputs: with their gradients G by the coordinates, the prior's precision P, and one over their
// weights in N, the mean is center + P⁻¹ Gᵀ α, (G P⁻¹ Gᵀ + N) α = y − G center (Rasmussen and Williams 2006, eq.
// 2.12). Rates share G P⁻¹ Gᵀ and differ in N. The evidence by coordinates is accumulated in parallel; what RowSolver
// makes of it is the same but for rounding.
type FewEvents struct {
	Row    *FoldedRow // whose; nil for none
	count  int        // observations: M of each event
	slopes []float64  // of observations, those of the event at hand included: gradients by the coordinates
	scaled []float64  // K: one of them times the prior's variances
	gram   []float64  // packed: G P⁻¹ Gᵀ, of the same
	excess []float64  // y − G center
	noise  []rowmath.RateLanes
	alpha  []rowmath.RateLanes
	solver RowSolver // factor and inverse of count observations, of the block solved last
}

// Limits beyond which rounding or overflow would change results: of what an observation says in units of the prior,
// and of one over its weight.
const (
	maxSignal = 1e8
	maxNoise  = 1e200
)

// Begin starts with a row without events.
func (w *FewEvents) Begin(row *FoldedRow, h *RowShape) {
	n := h.Coordinates
	w.Row, w.count = row, 0
	for _, part := range []struct {
		to *[]float64
		n  int
	}{{&w.slopes, n * n}, {&w.scaled, n}, {&w.gram, n * (n + 1) / 2}, {&w.excess, n}} {
		*part.to = rowmath.Resized(*part.to, part.n)
	}
	w.noise, w.alpha = rowmath.Resized(w.noise, h.Blocks()*n), rowmath.Resized(w.alpha, n)
	w.solver.factor, w.solver.inverse = rowmath.Resized(w.solver.factor, n*(n+1)/2), rowmath.Resized(w.solver.inverse, n)
}

// Holds reports whether a row is the one at hand and has room for an event more.
func (w *FewEvents) Holds(row *FoldedRow, h *RowShape) bool {
	return w.Row == row && w.count+h.Linear <= h.Coordinates
}

// Meet notes the gradients of the outputs of an event, M×K, before it is learned.
func (w *FewEvents) Meet(gradient, prior []float64, h *RowShape) {
	m, k := h.Linear, h.Coordinates
	copy(w.slopes[w.count*k:], gradient)
	for o := range m {
		i := w.count + o
		for r, g := range gradient[o*k : o*k+k] {
			w.scaled[r] = g / prior[m+r]
		}
		line := w.gram[i*(i+1)/2 : i*(i+1)/2+i+1]
		for j := range line {
			line[j] = rowmath.Dot(w.slopes[j*k:j*k+k], w.scaled)
		}
		for j := o; j <= i; j += m { // of the same output
			line[j] += 1 / prior[o]
		}
	}
}

// Variance returns that of an output of the event at hand, in a lane of the block solved last.
func (w *FewEvents) Variance(o, lane int) float64 {
	i := w.count + o
	line, row, total := w.gram[i*(i+1)/2:i*(i+1)/2+i+1], w.solver.factor, 0.0
	work := w.scaled
	for n := range w.count {
		v := line[n]
		for j, x := range work[:n] {
			v -= row[j][lane] * x
		}
		v *= w.solver.inverse[n][lane]
		work[n] = v
		total += v * v
		row = row[n+1:]
	}
	return line[i] - total
}

// Learn takes the event at hand up: curvature and linear terms of the quadratics of its outputs, as folding.observe
// leaves them. It reports false, and knows no row any more, if numbers are beyond what can be worked on here.
func (w *FewEvents) Learn(omega, right, center []float64, keep []rowmath.RateLanes, h *RowShape) bool {
	k := h.Coordinates
	for b, rates := range keep {
		for i := range w.noise[b*k : b*k+w.count] {
			for g, rate := range rates {
				v := &w.noise[b*k+i][g]
				*v = min(*v/rate, maxNoise)
			}
		}
	}
	for o, v := range omega {
		i := w.count + o
		if !(v > 1/maxNoise) || !(v*w.gram[i*(i+1)/2+i] < maxSignal) {
			w.Row = nil
			return false
		}
		noise := 1 / v
		w.excess[i] = right[o]*noise - center[o] - rowmath.Dot(w.slopes[i*k:i*k+k], center[h.Linear:])
		for b := range keep {
			w.noise[b*k+i] = rowmath.RateLanes{noise, noise, noise}
		}
	}
	w.count += h.Linear
	return true
}

// Solve stores the means of a block of rates and leaves its factor. It reports false, and knows no row any more, if
// rounding defeats it.
func (w *FewEvents) Solve(mean []rowmath.RateLanes, block int, prior, center []float64, h *RowShape) bool {
	m, k, n := h.Linear, h.Coordinates, w.count
	s := &w.solver
	s.factor, s.inverse = s.factor[:n*(n+1)/2], s.inverse[:n]
	gram, alpha := w.gram[:len(s.factor)], w.alpha[:n]
	for i, v := range gram {
		s.factor[i] = rowmath.RateLanes{v, v, v}
	}
	at := 0
	for i, v := range w.excess[:n] {
		alpha[i] = rowmath.RateLanes{v, v, v}
		for g, x := range w.noise[block*k+i] {
			s.factor[at][g] += x
		}
		at += i + 2
	}
	if !s.cholesky() {
		w.Row = nil
		return false
	}
	s.substitute(alpha)
	clear(mean)
	for i := range alpha {
		a, to := alpha[i], &mean[i%m]
		to[0] += a[0]
		to[1] += a[1]
		to[2] += a[2]
		addScaled(mean[m:], &a, w.slopes[i*k:i*k+k])
	}
	for a, p := range prior {
		v, to := center[a], &mean[a]
		to[0], to[1], to[2] = v+to[0]/p, v+to[1]/p, v+to[2]/p
	}
	return true
}

// addScaled adds scale times row to dst.
func addScaled(dst []rowmath.RateLanes, scale *rowmath.RateLanes, row []float64) {
	a, b, c := scale[0], scale[1], scale[2]
	row = row[:len(dst)]
	for i, v := range row {
		to := &dst[i]
		to[0] += a * v
		to[1] += b * v
		to[2] += c * v
	}
}
