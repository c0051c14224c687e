package solver

import (
	"context"
	"math"
)

// oracleSearch bounds one basis selection.
type oracleSearch struct {
	eigen     eigenSearch
	rounds    int     // refinement steps (6) of the group penalties
	tolerance float64 // a start is refined until its first-order gap is below tolerance·criterion
}

var (
	quickOracle = oracleSearch{eigen: quickSearch, rounds: 6, tolerance: 0.02}
	fineOracle  = oracleSearch{eigen: fineSearch, rounds: 300, tolerance: 1e-12}
)

// maxStarts is how many per-output eigenvectors are refined: all of them for up to this many outputs, the best beyond. One start alone
// reaches 0.63 to 0.9 of the optimum late in training, all m starts 0.93 to 1.
const maxStarts = 32

// selection is a basis vector chosen by the linear-minimisation oracle, equation (4) of Blondel et al. 2017.
type selection struct {
	basis     []float64 // h, unit norm, length d
	gradient  []float64 // q_c = hᵀΓ_c h, length m
	criterion float64   // dual norm of q: at most the Ω*(∇F) that the best basis vector attains
	factor    float64   // ν: criterion over an upper bound of Ω*(∇F), in (0, 1]; estimated as far as Lanczos may miss an end of a spectrum
	eigen     ritz      // the per-output eigenvectors, a warm start for the next selection
}

// selectBasis maximises the criterion over unit vectors: exactly up to the tolerance for L1, from the per-output eigenvectors by refinement
// for the group penalties. Start is nil or the eigenvectors of an earlier selection.
func (g *gamma) selectBasis(ctx context.Context, penalty Penalty, start []float64, search oracleSearch, seed uint64) selection {
	d, m := g.x.NumColumns, g.outputs
	eigen := g.dominant(ctx, start, search.eigen, seed)
	bound := make([]float64, m)
	for c, v := range eigen.values {
		bound[c] = math.Abs(v) + eigen.residual[c]
	}
	q := make([]float64, m*m)
	g.quadraticTo(q, eigen.vectors, m)
	r := refinement{g: g, penalty: penalty, search: search}
	order := make([]int, 0, m)
	for t := range m {
		order = append(order, t)
	}
	keep := maxStarts
	if penalty == L1 || m == 1 {
		keep = 1
	}
	sortByDual(order, q, m, penalty)
	r.start(eigen.vectors, q, order[:min(keep, m)])
	if penalty != L1 && m > 1 {
		r.run(ctx)
	}
	found := selection{basis: make([]float64, d), eigen: eigen}
	copy(found.basis, r.best)
	found.gradient, found.criterion = r.bestGradient, r.bestValue
	// Each |hᵀΓ_c h| is at most the dominant |eigenvalue|, so the norm of those bounds Ω*(∇F) from above.
	found.factor = 1
	if upper := penalty.RowDual(bound); upper > 0 {
		found.factor = min(1, found.criterion/upper)
	}
	return found
}

// sortByDual orders outputs by decreasing dual norm of their rows of q; ties keep their order.
func sortByDual(order []int, q []float64, m int, penalty Penalty) {
	for i := 1; i < len(order); i++ {
		for j := i; j > 0; j-- {
			a, b := order[j-1], order[j]
			if penalty.RowDual(q[a*m:a*m+m]) >= penalty.RowDual(q[b*m:b*m+m]) {
				break
			}
			order[j-1], order[j] = b, a
		}
	}
}

// refinement climbs ‖q(h)‖_p from several starts in step, by iteration (6) with the Armijo rule and |·| instead of the Huber function
// (which flattens small q). Iterates are scaled back to the unit sphere, which never lowers the criterion.
type refinement struct {
	g       *gamma
	penalty Penalty
	search  oracleSearch

	columns int       // s starts still climbing
	h       []float64 // d×s
	q       []float64 // s×m
	value   []float64 // s

	best         []float64
	bestGradient []float64
	bestValue    float64
}

// start fills the block with the chosen columns of vectors.
func (r *refinement) start(vectors, q []float64, chosen []int) {
	m := r.g.outputs
	r.bestValue = -1
	r.h, r.q, r.value, r.columns = vectors, q, nil, m
	r.compact(chosen)
	for t := range chosen {
		r.keepBest(t)
	}
}

// compact keeps the given columns of the block.
func (r *refinement) compact(chosen []int) {
	d, m, s := r.g.x.NumColumns, r.g.outputs, r.columns
	h := make([]float64, d*len(chosen))
	q := make([]float64, 0, len(chosen)*m)
	value := make([]float64, 0, len(chosen))
	for to, t := range chosen {
		for j := range d {
			h[j*len(chosen)+to] = r.h[j*s+t]
		}
		q = append(q, r.q[t*m:t*m+m]...)
		value = append(value, r.penalty.RowDual(r.q[t*m:t*m+m]))
	}
	r.h, r.q, r.value, r.columns = h, q, value, len(chosen)
}

func (r *refinement) keepBest(t int) {
	if r.value[t] <= r.bestValue {
		return
	}
	d, m, s := r.g.x.NumColumns, r.g.outputs, r.columns
	r.bestValue = r.value[t]
	r.bestGradient = append(r.bestGradient[:0], r.q[t*m:t*m+m]...)
	r.best = append(r.best[:0], make([]float64, d)...)
	for j := range d {
		r.best[j] = r.h[j*s+t]
	}
}

// run refines until all starts are stationary, rounds are used up or ctx is done.
func (r *refinement) run(ctx context.Context) {
	m := r.g.outputs
	for range r.search.rounds {
		s := r.columns
		direction := make([]float64, len(r.h))
		coef := make([]float64, m*s)
		for t := range s {
			for c, x := range r.q[t*m : t*m+m] {
				// The gradient of ‖q‖₁ and of ‖q‖₂ in q; that in h is 2 Σ_c coef_c Γ_c h.
				if r.penalty == L1Linf {
					coef[c*s+t] = math.Copysign(1, x)
				} else if r.value[t] > 0 {
					coef[c*s+t] = x / r.value[t]
				}
			}
		}
		r.g.mulBlockTo(direction, r.h, s, coef)
		slope := make([]float64, s)
		columnDots(slope, direction, direction, s)
		var climbing []int
		for t := range slope {
			slope[t] = 2 * (math.Sqrt(slope[t]) - r.value[t]) // ⟨∇f, ∇f/‖∇f‖ − h⟩
			if slope[t] > 2*r.search.tolerance*r.value[t] {
				climbing = append(climbing, t)
			}
		}
		if len(climbing) == 0 || ctx.Err() != nil {
			return
		}
		normalizeColumns(direction, s)
		moved := r.climb(direction, slope, climbing)
		if len(moved) == 0 {
			return
		}
		if len(moved) < s {
			r.compact(moved)
		}
	}
}

// climb moves the climbing columns along direction with the largest step 1, ½, … that gives a sufficient increase, and returns those that moved.
func (r *refinement) climb(direction, slope []float64, climbing []int) (moved []int) {
	const (
		armijo    = 0.1
		smallStep = 1.0 / 64
	)
	m, s := r.g.outputs, r.columns
	trial := make([]float64, len(r.h))
	q := make([]float64, s*m)
	copy(trial, r.h)
	for step := 1.0; step >= smallStep && len(climbing) > 0; step /= 2 {
		for _, t := range climbing {
			for i := t; i < len(trial); i += s {
				trial[i] = (1-step)*r.h[i] + step*direction[i]
			}
		}
		normalizeColumns(trial, s)
		r.g.quadraticTo(q, trial, s)
		rest := climbing[:0:0]
		for _, t := range climbing {
			value := r.penalty.RowDual(q[t*m : t*m+m])
			if value < r.value[t]+armijo*step*slope[t] {
				rest = append(rest, t)
				continue
			}
			for i := t; i < len(trial); i += s {
				r.h[i] = trial[i]
			}
			copy(r.q[t*m:t*m+m], q[t*m:t*m+m])
			r.value[t] = value
			r.keepBest(t)
			moved = append(moved, t)
		}
		climbing = rest
	}
	return moved
}
