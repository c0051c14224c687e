package gamma

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/parallel"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// BoundColumns is the number of columns of a block of the bound.
const BoundColumns = 32

// QuarticBound bounds p(h) = Σ_c (hᵀΓ_c h)² over unit vectors h: Ω*(∇F)² of ℓ1/ℓ2. A self-adjoint operator
// L on symmetric matrices with ⟨hhᵀ, L(hhᵀ)⟩ = p(h) for every h bounds it by λmax(L), as ‖hhᵀ‖_F = 1:
// the relaxation of hhᵀ to all symmetric matrices of unit norm. There are many: X ↦ ⟨A, X⟩A and X ↦ AXA take
// the same value (hᵀAh)² at hhᵀ, so L may be moved along the difference of the two, for any A and any weight, and
// what can be reached so is every L of p. The least λmax is the bound by sums of squares of Lasserre (2001; Nie and
// Wang 2014 on the sphere).
//
// It starts at the L whose coefficients do not depend on the order of their four indices, which is ⅓ Σ_c ⟨Γ_c,
// X⟩Γ_c + ⅔ Σ_c Γ_c X Γ_c, and is lowered by subgradient steps (Polyak 1969): the derivative of λmax along L
// is XXᵀ for the eigenmatrix X, what of it leaves p as it is comes to ⅔(⟨X, ·⟩X − X·X), and the length of a
// step is that after which a linear function would be at the greatest value of p found. Several eigenvalues meet at the
// least λmax, so the Ritz matrices near the largest have a part in each step, with weights that fall exponentially.
//
// Every L on the way bounds p, so nothing depends on how far that comes. Matrices are packed, j ≤ l row by row, by the
// isometry that scales entries off the diagonal by √2.
type QuarticBound struct {
	workers   parallel.Workers
	d         int
	operators [][]float64 // Γ_c, d×d
	place     []int       // d×d: where an entry is packed
	Scale     []float64   // packed: 1 or √2
	Form      []float64   // L, packed twice
	outer     []float64   // Σ of products of entries, as moved takes it
	direction []float64   // packed twice
	Products  int         // evaluations of L so far
	Reached   float64     // the greatest p(h) found
}

const (
	// quarticWork limits the multiplications of a bound, to about 0.2 s.
	quarticWork = 4e8
	// quarticSteps is the number of Krylov vectors from which the Ritz matrices of a step come, QuarticRound what a
	// step costs in evaluations of L.
	quarticSteps = 16
	QuarticRound = 30
	// At least and at most so many subgradient steps are made.
	quarticLeast = 4
	QuarticMost  = 20
	// QuarticBoundSteps is the most Krylov vectors of the bound that counts, where no eigensolver gives it, and
	// quarticBoundAccuracy how far above the Ritz value it may stay.
	QuarticBoundSteps    = 60
	quarticBoundAccuracy = 1e-5
	// quarticAccuracy is the part of p by which λmax may exceed the greatest value found when the steps end.
	quarticAccuracy = 1e-5
	// The weight of a Ritz matrix is the exponential of what its value is below the largest, in quarticWidth of the
	// distance between that and the greatest value of p found: from .1 to .3 twenty steps come about as far on
	// satimage, segment and vowel, with .03 not. Weights below quarticShare are left out.
	quarticWidth = 0.3
	quarticShare = 0.01
)

// quarticRounds returns how many steps operators of order d are worth, 0 where the bound is not cheap.
func quarticRounds(d int) int {
	size := float64(d) * float64(d+1) / 2
	rounds := (quarticWork/(size*size) - QuarticBoundSteps) / QuarticRound
	if rounds < quarticLeast {
		return 0
	}
	return int(min(rounds, QuarticMost))
}

func NewQuarticBound(operators []blas64.Symmetric, w parallel.Workers) *QuarticBound {
	d := operators[0].N
	size := d * (d + 1) / 2
	q := &QuarticBound{workers: w, d: d, place: make([]int, d*d), Scale: make([]float64, 0, size)}
	for j := range d {
		for l := j; l < d; l++ {
			q.place[j*d+l], q.place[l*d+j] = len(q.Scale), len(q.Scale)
			if l == j {
				q.Scale = append(q.Scale, 1)
			} else {
				q.Scale = append(q.Scale, math.Sqrt2)
			}
		}
	}
	q.Form, q.outer, q.direction = make([]float64, size*size), make([]float64, size*size), make([]float64, size*size)
	packed := make([][]float64, len(operators))
	for c, a := range operators {
		whole := make([]float64, d*d)
		for j := range d {
			for l := j; l < d; l++ {
				whole[j*d+l], whole[l*d+j] = a.Data[j*d+l], a.Data[j*d+l]
				packed[c] = append(packed[c], a.Data[j*d+l])
			}
		}
		q.operators = append(q.operators, whole)
	}
	q.Products += q.move(q.Form, packed, slices.Repeat([]float64{1}, len(packed)), 1.0/3, 2.0/3)
	return q
}

// move stores first · Σ_t w_t ⟨A_t, X⟩A_t + second · Σ_t w_t A_t X A_t, as a matrix in packed X, in dst, for the
// entries A_t[j,l], j ≤ l, and returns what that cost in evaluations of L.
func (q *QuarticBound) move(dst []float64, entries [][]float64, weights []float64, first, second float64) int {
	d, size := q.d, len(q.Scale)
	q.workers.Blocks(size, BoundColumns, func(_, _, lo, hi int) {
		for r := lo; r < hi; r++ {
			row := q.outer[r*size : r*size+size]
			clear(row)
			for t, a := range entries {
				dense.AddScaled(row, weights[t]*a[r], a)
			}
		}
	})
	q.workers.Blocks(d, 1, func(_, _, j, _ int) {
		for l := j; l < d; l++ {
			r := q.place[j*d+l]
			for u := range d {
				// AXA takes entry [u,v] of X to [j,l] by A[j,u]·A[v,l] and by A[l,u]·A[v,j], halves of which make it
				// symmetric.
				at := q.place[u*d+u]
				one, other := q.outer[q.place[j*d+u]*size:][:size], q.outer[q.place[l*d+u]*size:][:size]
				for v := u; v < d; v++ {
					same := q.outer[r*size+at]
					cross := 0.5 * (one[q.place[l*d+v]] + other[q.place[j*d+v]])
					dst[r*size+at] = q.Scale[r] * q.Scale[at] * (first*same + second*cross)
					at++
				}
			}
		}
	})
	return len(entries) + 2
}

// mulTo stores L(X) in dst, both packed.
func (q *QuarticBound) MulTo(dst, packed []float64) {
	q.Products++
	size := len(packed)
	q.workers.Blocks(size, 4*BoundColumns, func(_, _, lo, hi int) {
		for r := lo; r < hi; r++ {
			dst[r] = dense.Dot(q.Form[r*size:r*size+size], packed)
		}
	})
}

// climb raises q.reached by fixed-point steps h ← Σ_c (hᵀΓ_c h) Γ_c h, from the dominant eigenvector of a matrix
// of packed entries.
func (q *QuarticBound) climb(entries []float64) {
	d := q.d
	x, h, next := make([]float64, d*d), make([]float64, d), make([]float64, d)
	for i, at := range q.place {
		x[i] = entries[at]
	}
	for j := range h {
		h[j] = 1 + float64(j)/float64(d) // not orthogonal to much
	}
	mul := func(dst, a []float64) {
		for j := range dst {
			dst[j] = dense.Dot(a[j*d:j*d+d], h)
		}
	}
	for range 2 * quarticSteps {
		mul(next, x)
		copy(h, next)
		eigen.NormalizeColumns(h, 1)
	}
	image := make([]float64, d)
	for range quarticSteps {
		value := 0.0
		clear(next)
		for _, a := range q.operators {
			mul(image, a)
			form := floats.Dot(h, image)
			value += form * form
			floats.AddScaled(next, form, image)
		}
		q.Reached = max(q.Reached, value)
		copy(h, next)
		eigen.NormalizeColumns(h, 1)
	}
}

// lower moves L near the least λmax by so many steps, fewer when the solve is cancelled.
func (q *QuarticBound) lower(rng *rand.Rand, rounds int) {
	size := len(q.Scale)
	run := newKrylov(q.workers, size, 1, min(quarticSteps, size), q.MulTo)
	start := make([]float64, size)
	best, least, last, step := slices.Clone(q.Form), math.Inf(1), math.Inf(1), 1.0
	for range rounds {
		for i := range start {
			start[i] += 0.1 * rng.NormFloat64() / math.Sqrt(float64(size))
		}
		eigen.NormalizeColumns(start, 1)
		run.used = run.iterate(start, func(int) bool { return false })
		e, steps, ok := run.tridiagonal(0, run.used)
		if !ok || q.workers.Cancelled() {
			break
		}
		top := e.Values[steps-1]
		if top < least {
			least = top
			copy(best, q.Form)
		}
		if top > last { // the step before was too long: q.reached may be less than the maximum of p
			step = max(0.1, 0.5*step)
		}
		last = top
		var entries [][]float64
		var weights []float64
		clear(start)
		for t := steps - 1; t >= 0; t-- {
			weight := 1.0
			if t < steps-1 {
				weight = math.Exp((e.Values[t] - top) / (quarticWidth * (top - q.Reached)))
			}
			if !(weight >= quarticShare) {
				break
			}
			x := run.combine(0, e, steps, t)
			floats.AddScaled(start, math.Sqrt(weight), x)
			floats.Div(x, q.Scale)
			if t == steps-1 {
				q.climb(x)
				if top <= (1+quarticAccuracy)*q.Reached {
					break
				}
			}
			entries, weights = append(entries, x), append(weights, weight)
		}
		if len(entries) == 0 {
			break
		}
		floats.Scale(1/floats.Sum(weights), weights)
		q.Products += q.move(q.direction, entries, weights, 2.0/3, -2.0/3)
		square := dense.Dot(q.direction, q.direction)
		if q.workers.Cancelled() || !(square > 0) { // no other L has this p
			break
		}
		dense.AddScaled(q.Form, -step*(top-q.Reached)/square, q.direction)
	}
	q.Form = best
}

// Bound returns an upper bound of the square root of p over unit vectors, and the probability, over the random start of
// Lanczos, that it is none; false when the solve is cancelled.
func (q *QuarticBound) Bound(rng *rand.Rand, failure float64) (value, fails float64, ok bool) {
	q.lower(rng, quarticRounds(q.d))
	if q.workers.Cancelled() {
		return 0, 0, false
	}
	size := len(q.Scale)
	if cube := float64(size) * float64(size) * float64(size); cube <= maxEigenWork {
		whole := eigen.NewSymmetric(size)
		copy(whole.Data, q.Form)
		e, ok := eigen.Decompose(whole)
		if !ok {
			return 0, 0, false
		}
		return math.Sqrt(max(0, e.Values[size-1])), 0, true
	}
	run := newKrylov(q.workers, size, 1, min(QuarticBoundSteps, size), q.MulTo)
	top := run.bound(rng, failure, true, quarticBoundAccuracy, func(v []float64) float64 { return v[0] }, nil)
	return math.Sqrt(max(0, top)), failure, !q.workers.Cancelled()
}
