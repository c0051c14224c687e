package gamma

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/penalty"
)

// Selection says from where a basis selection starts and whether it continues by refinement, iteration (6) of Blondel
// et al. 2017, on |·| for ℓ1/ℓ∞: their Huber function flattens small gradients and made selections worse. The zero
// value is AllStarts; the last four are for comparing only (their figure 2).
type Selection uint8

const (
	// AllStarts refines the dominant eigenvectors of all outputs, in careful searches others as well, and keeps the
	// best.
	AllStarts Selection = iota
	// L1Start refines the vector that the ℓ1 penalty would choose, the paper's proposal.
	L1Start
	// L1Only takes that vector as it is.
	L1Only
	// RandomStart refines a random unit vector.
	RandomStart
	// RandomOnly takes a random unit vector as it is.
	RandomOnly
	// BestData takes the row x/‖x‖ of largest criterion, in O(n²) operations where the operators are not explicit.
	BestData
)

// String returns the name used in reports.
func (s Selection) String() string {
	names := [...]string{"all starts", "l1 start", "l1 only", "random start", "random only", "best data"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("selection(%d)", uint8(s))
}

// refines reports whether the selection continues by refinement.
func (s Selection) refines() bool { return s == AllStarts || s == L1Start || s == RandomStart }

// OracleSearch bounds one basis selection.
type OracleSearch struct {
	Eigen     eigenSearch
	selection Selection
	rounds    int     // refinement steps (6) of the group penalties
	tolerance float64 // a start is refined until its first-order gap is below tolerance·criterion
	Several   bool    // the other starts are wanted, too, as far as they were refined
}

// QuickOracle saves on the eigenvectors, not on their refinement: on ML-1M (McRank, ℓ1/ℓ∞) six rounds to 0.02 instead
// of these left the objective after 20 vectors 0.6 percent higher and the test error 0.0024 higher; much finer
// eigenvectors lowered the objective by 0.15 percent more, not the error, at several times the cost.
var (
	QuickOracle = OracleSearch{Eigen: quickSearch, rounds: 40, tolerance: 1e-3}
	FineOracle  = OracleSearch{Eigen: FineSearch, rounds: 300, tolerance: 1e-12}
)

func (o OracleSearch) By(s Selection) OracleSearch {
	o.selection = s
	return o
}

// maxStarts is how many eigenvectors are refined: all of them if there are no more, the best else. One start alone
// reaches 0.63 to 0.9 of the optimum late in training, all m starts 0.93 to 1.
const maxStarts = 32

// maxWideOutputs bounds the outputs for which careful searches start from further eigenvectors. Quick ones do not:
// their vectors were of larger criterion, but of models of 10 to 30 vectors the objective was higher by 3 to 5 percent
// with ℓ1/ℓ∞, and the same with ℓ1/ℓ2 (32 random multi-class problems).
const maxWideOutputs = 64

// Found is a basis vector chosen by the linear-minimisation oracle, equation (4) of Blondel et al. 2017.
type Found struct {
	Basis     []float64 // h, unit norm, length d
	Gradient  []float64 // q_c = hᵀΓ_c h, length m
	Criterion float64   // dual norm of q: at most the Ω*(∇F) that the best basis vector attains
	// ν: criterion over an upper bound of Ω*(∇F), in (0, 1]; estimated as far as Lanczos may miss an end of a spectrum.
	// 0 if unknown
	Factor float64
	// the per-output eigenvectors, a warm start for the next selection; at degree 3 its only vector is basis
	Eigen  Ritz
	Others []refined // where the refinement of each start ended, the best first; nil unless several were asked for
}

// SelectBasis maximises the criterion over unit vectors: exactly up to the tolerance for L1, from the per-output
// eigenvectors by refinement for the group penalties, for kernels of degree 3 as selectCubic does. Start is nil or the
// eigenvectors of an earlier selection.
func (g *Gamma) SelectBasis(omega penalty.Penalty, start []float64, search OracleSearch, seed uint64) Found {
	d, m := g.X.NumColumns, g.Outputs
	if d == 0 { // rows without any feature have no basis vector
		return Found{
			Gradient: make([]float64, m),
			Factor:   1,
			Eigen:    Ritz{Values: make([]float64, m), residual: make([]float64, m)},
		}
	}
	if g.Kernel.Degree() == 3 {
		return g.selectCubic(omega, start, search, seed)
	}
	refines := search.selection.refines() && (omega != penalty.L1 && m > 1 || search.selection == RandomStart)
	search.Eigen.wide = refines && search.selection == AllStarts && search.Eigen.Tolerance <= FineSearch.Tolerance &&
		m <= maxWideOutputs
	eigen := g.Dominant(start, search.Eigen, seed)
	bound := make([]float64, m)
	for c, v := range eigen.Values {
		bound[c] = math.Abs(v) + eigen.residual[c]
	}
	starts, count := eigen.Vectors, m
	switch search.selection {
	case L1Start, L1Only:
		starts, count = eigen.dominantOf(), 1
	case RandomStart, RandomOnly:
		starts, count = RandomUnit(d, seed), 1
	case BestData:
		starts, count = g.bestData(omega), 1
	case AllStarts:
		starts, count = eigen.starts()
	}
	q := make([]float64, count*m)
	g.QuadraticTo(q, starts, count)
	r := refinement{g: g, penalty: omega, search: search, several: search.Several && refines}
	order := make([]int, count)
	for t := range order {
		order[t] = t
	}
	sortByDual(order, q, m, omega)
	if !refines {
		order = order[:1]
	}
	r.start(starts, q, count, order[:min(maxStarts, len(order))])
	if refines {
		r.run()
		r.end(nil)
	}
	found := Found{Basis: make([]float64, d), Eigen: eigen}
	copy(found.Basis, r.best)
	slices.SortStableFunc(r.ended, func(a, b refined) int { return cmp.Compare(b.Criterion, a.Criterion) })
	found.Others = r.ended
	found.Gradient, found.Criterion = r.bestGradient, r.bestValue
	// Each |hᵀΓ_c h| is at most the dominant |eigenvalue|, so the norm of those bounds Ω*(∇F) from above.
	found.Factor = 1
	if upper := omega.RowDual(bound); upper > 0 {
		found.Factor = min(1, found.Criterion/upper)
	}
	return found
}

// starts returns the dominant eigenvectors and the others, d×count.
func (r Ritz) starts() (vectors []float64, count int) {
	m := len(r.Values)
	if len(r.others) == 0 {
		return r.Vectors, m
	}
	count = m + len(r.others)
	d := len(r.Vectors) / m
	vectors = make([]float64, d*count)
	for j := range d {
		copy(vectors[j*count:], r.Vectors[j*m:j*m+m])
		for t, h := range r.others {
			vectors[j*count+m+t] = h[j]
		}
	}
	return vectors, count
}

// dominantOf returns the eigenvector of the largest |eigenvalue| of all outputs: the choice of the ℓ1 penalty.
func (r Ritz) dominantOf() []float64 {
	m, best := len(r.Values), 0
	for c, v := range r.Values {
		if math.Abs(v) > math.Abs(r.Values[best]) {
			best = c
		}
	}
	h := make([]float64, len(r.Vectors)/m)
	for j := range h {
		h[j] = r.Vectors[j*m+best]
	}
	return h
}

func RandomUnit(d int, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0x72616e646f6d)) // "random": apart from other uses of the seed
	h := make([]float64, d)
	for j := range h {
		h[j] = rng.NormFloat64()
	}
	eigen.NormalizeColumns(h, 1)
	return h
}

// bestData returns the row x/‖x‖ of largest criterion, zeros if there are only empty rows.
func (g *Gamma) bestData(penalty penalty.Penalty) []float64 {
	const width = 64 // rows judged at once
	d, m := g.X.NumColumns, g.Outputs
	block, q := make([]float64, d*width), make([]float64, width*m)
	best, value := make([]float64, d), -1.0
	for lo := 0; lo < g.X.NumRows() && g.Workers.Yield(); lo += width {
		clear(block)
		for t := range min(width, g.X.NumRows()-lo) {
			index, entries := g.X.Row(lo + t)
			for e, j := range index {
				block[int(j)*width+t] = entries[e]
			}
		}
		eigen.NormalizeColumns(block, width)
		g.QuadraticTo(q, block, width)
		for t := range width {
			if now := penalty.RowDual(q[t*m : t*m+m]); now > value {
				value = now
				for j := range best {
					best[j] = block[j*width+t]
				}
			}
		}
	}
	return best
}

// sortByDual orders outputs by decreasing dual norm of their rows of q; ties keep their order.
func sortByDual(order []int, q []float64, m int, penalty penalty.Penalty) {
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

// refinement climbs ‖q(h)‖_p from several starts in step, by iteration (6) with the Armijo rule and |·| instead of the
// Huber function (which flattens small q). Iterates are scaled back to the unit sphere, which never lowers the
// criterion.
type refinement struct {
	g       *Gamma
	penalty penalty.Penalty
	search  OracleSearch

	columns int       // s starts still climbing
	h       []float64 // d×s
	q       []float64 // s×m
	value   []float64 // s

	best         []float64
	bestGradient []float64
	bestValue    float64

	several bool
	ended   []refined
}

// refined is where the refinement of one start ended.
type refined struct {
	Basis     []float64
	Criterion float64
}

// end keeps where the columns of the block are, except for some that continue.
func (r *refinement) end(unfinished []int) {
	if !r.several {
		return
	}
	for t := range r.columns {
		if slices.Contains(unfinished, t) {
			continue
		}
		h := make([]float64, r.g.X.NumColumns)
		for j := range h {
			h[j] = r.h[j*r.columns+t]
		}
		r.ended = append(r.ended, refined{h, r.value[t]})
	}
}

// start fills the block with the chosen ones of s columns of vectors.
func (r *refinement) start(vectors, q []float64, s int, chosen []int) {
	r.bestValue = -1
	r.h, r.q, r.value, r.columns = vectors, q, nil, s
	r.compact(chosen)
	for t := range chosen {
		r.keepBest(t)
	}
}

// compact keeps the given columns of the block.
func (r *refinement) compact(chosen []int) {
	d, m, s := r.g.X.NumColumns, r.g.Outputs, r.columns
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
	d, m, s := r.g.X.NumColumns, r.g.Outputs, r.columns
	r.bestValue = r.value[t]
	r.bestGradient = append(r.bestGradient[:0], r.q[t*m:t*m+m]...)
	r.best = append(r.best[:0], make([]float64, d)...)
	for j := range d {
		r.best[j] = r.h[j*s+t]
	}
}

// run refines until all starts are stationary, rounds are used up or the solve is cancelled.
func (r *refinement) run() {
	m, degree := r.g.Outputs, float64(r.g.Kernel.Degree())
	for range r.search.rounds {
		s := r.columns
		direction := make([]float64, len(r.h))
		coef := make([]float64, m*s)
		for t := range s {
			for c, x := range r.q[t*m : t*m+m] {
				// The gradient of ‖q‖₁, ‖q‖₂ or max|q| in q; that in h is 2 Σ_c coef_c Γ_c h, or 3 Σ_c
				// coef_c T_c(h, h, ·).
				switch {
				case r.penalty == penalty.L1Linf, r.penalty == penalty.L1 && math.Abs(x) == r.value[t]:
					coef[c*s+t] = math.Copysign(1, x)
				case r.penalty == penalty.L1L2 && r.value[t] > 0:
					coef[c*s+t] = x / r.value[t]
				}
			}
		}
		r.g.MulBlockTo(direction, r.h, s, coef)
		slope := make([]float64, s)
		eigen.ColumnDots(slope, direction, direction, s)
		var climbing []int
		for t := range slope {
			slope[t] = degree * (math.Sqrt(slope[t]) - r.value[t]) // ⟨∇f, ∇f/‖∇f‖ − h⟩
			if slope[t] > degree*r.search.tolerance*r.value[t] {
				climbing = append(climbing, t)
			}
		}
		if len(climbing) == 0 || !r.g.Workers.Yield() {
			return
		}
		eigen.NormalizeColumns(direction, s)
		moved := r.climb(direction, slope, climbing)
		if len(moved) == 0 {
			return
		}
		if len(moved) < s {
			r.end(moved)
			r.compact(moved)
		}
	}
}

// climb moves the climbing columns along direction with the largest step 1, ½, … that gives a sufficient increase,
// and returns those that moved.
func (r *refinement) climb(direction, slope []float64, climbing []int) (moved []int) {
	const (
		armijo    = 0.1
		smallStep = 1.0 / 64
	)
	m, s := r.g.Outputs, r.columns
	trial := make([]float64, len(r.h))
	q := make([]float64, s*m)
	copy(trial, r.h)
	for step := 1.0; step >= smallStep && len(climbing) > 0; step /= 2 {
		for _, t := range climbing {
			for i := t; i < len(trial); i += s {
				trial[i] = (1-step)*r.h[i] + step*direction[i]
			}
		}
		eigen.NormalizeColumns(trial, s)
		r.g.QuadraticTo(q, trial, s)
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
