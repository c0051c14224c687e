package solver

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// quarticForm bounds p(h) = Σ_c (hᵀΓ_c h)² over unit vectors h: Ω*(∇F)² of ℓ1/ℓ2. With X = hhᵀ both Σ_c ⟨Γ_c, X⟩² and Σ_c ⟨X, Γ_c X Γ_c⟩ are p(h), so for every
// real θ the self-adjoint operator on symmetric matrices
//
//	L_θ(X) = θ Σ_c ⟨Γ_c, X⟩ Γ_c + (1 − θ) Σ_c Γ_c X Γ_c
//
// has p(h) = ⟨hhᵀ, L_θ(hhᵀ)⟩, and as ‖hhᵀ‖_F = 1, p(h) ≤ λmax(L_θ). It is the relaxation of hhᵀ to all symmetric matrices of unit norm. At θ = 0 it is
// never worse than the sum of squares, as the Perron root of the positive map X ↦ Σ Γ_c X Γ_c is at most λmax of what it makes of the identity
// (Evans and Høegh-Krohn 1978). λmax(L_θ) is convex in θ: every X gives a line θ Σ ⟨Γ_c, X⟩² + (1 − θ) Σ ⟨X, Γ_c X Γ_c⟩ below it.
//
// Matrices are packed by the isometry that scales entries off the diagonal by √2.
type quarticForm struct {
	d         int
	operators [][]float64 // Γ_c, d×d
	theta     float64
	products  int // evaluations of L_θ so far, of about 2 m d³ multiplications

	x, image, work []float64 // d×d
}

const (
	// quarticWork limits the multiplications of a bound by L_θ, to about 0.1 s.
	quarticWork = 2e8
	// quarticProducts is how many evaluations of L_θ the choice of θ and a bound take at most.
	quarticProducts = quarticRounds*quarticSteps + quarticBoundSteps
	quarticRounds   = 8
	quarticSteps    = 16
	// quarticBoundSteps is the most Krylov vectors of the bound that counts, where no eigensolver gives it, and quarticBoundAccuracy how far above
	// the Ritz value it may stay. At the best θ the largest eigenvalue stands apart, and 30 vectors give 1e-12.
	quarticBoundSteps    = 60
	quarticBoundAccuracy = 1e-6
	// quarticAccuracy is what a better θ may still take off λmax, as a part of it.
	quarticAccuracy = 0.005
)

// quarticPays reports whether bounding p for m operators of order d is cheap.
func quarticPays(d, m int) bool {
	return quarticProducts*2*float64(m)*float64(d)*float64(d)*float64(d) <= quarticWork
}

func newQuarticForm(operators []blas64.Symmetric) *quarticForm {
	d := operators[0].N
	q := &quarticForm{d: d, x: make([]float64, d*d), image: make([]float64, d*d), work: make([]float64, d)}
	for _, a := range operators {
		whole := make([]float64, d*d)
		for j := range d {
			for l := j; l < d; l++ {
				whole[j*d+l], whole[l*d+j] = a.Data[j*d+l], a.Data[j*d+l]
			}
		}
		q.operators = append(q.operators, whole)
	}
	return q
}

// size returns the number of packed entries.
func (q *quarticForm) size() int { return q.d * (q.d + 1) / 2 }

// parts stores Σ ⟨Γ_c, X⟩ Γ_c and Σ Γ_c X Γ_c, weighted by the two factors, in dst, for packed X.
func (q *quarticForm) parts(dst, packed []float64, first, second float64) {
	d, at := q.d, 0
	for j := range d {
		q.x[j*d+j] = packed[at]
		at++
		for l := j + 1; l < d; l++ {
			q.x[j*d+l] = packed[at] * math.Sqrt2 / 2
			q.x[l*d+j] = q.x[j*d+l]
			at++
		}
	}
	clear(q.image)
	for _, a := range q.operators {
		if first != 0 {
			floats.AddScaled(q.image, first*floats.Dot(a, q.x), a)
		}
		if second == 0 {
			continue
		}
		for j := range d {
			clear(q.work) // row j of Γ_c X
			for l, e := range a[j*d : j*d+d] {
				floats.AddScaled(q.work, second*e, q.x[l*d:l*d+d])
			}
			for l, e := range q.work {
				floats.AddScaled(q.image[j*d+j:j*d+d], e, a[l*d+j:l*d+d])
			}
		}
	}
	at = 0
	for j := range d {
		dst[at] = q.image[j*d+j]
		at++
		for _, e := range q.image[j*d+j+1 : j*d+d] {
			dst[at] = e * math.Sqrt2
			at++
		}
	}
}

// mulTo stores L_θ(X) in dst, both packed.
func (q *quarticForm) mulTo(dst, packed []float64) {
	q.products++
	q.parts(dst, packed, q.theta, 1-q.theta)
}

// line returns the values of the line of X at θ = 0 and θ = 1.
func (q *quarticForm) line(packed []float64) (zero, one float64) {
	image := make([]float64, len(packed))
	q.parts(image, packed, 0, 1)
	zero = floats.Dot(image, packed)
	q.parts(image, packed, 1, 0)
	return zero, floats.Dot(image, packed)
}

// choose sets θ in [−1, 1] near the least λmax(L_θ): by cutting planes, the lines of the Ritz vectors found at earlier θ. It stops early
// when the solve is cancelled.
func (q *quarticForm) choose(workers workers, rng *rand.Rand) {
	type plane struct{ zero, one float64 }
	var planes []plane
	size := q.size()
	run := newKrylov(workers, size, 1, min(quarticSteps, size), q.mulTo)
	start := make([]float64, size)
	best, least := 0.0, math.Inf(1)
	q.theta = 0.25
	for range quarticRounds {
		for i := range start {
			start[i] += 0.3 * rng.NormFloat64() / math.Sqrt(float64(size))
		}
		normalizeColumns(start, 1)
		run.used = run.iterate(start, func(int) bool { return false })
		value, ok := run.highest(start)
		if !ok || workers.cancelled() {
			return
		}
		if value < least {
			best, least = q.theta, value
		}
		zero, one := q.line(start)
		planes = append(planes, plane{zero, one})
		// The least value that the planes leave possible is at an end or where two of them cross.
		lower := func(theta float64) float64 {
			top := math.Inf(-1)
			for _, p := range planes {
				top = max(top, p.zero+theta*(p.one-p.zero))
			}
			return top
		}
		next, floor := -1.0, lower(-1)
		try := func(theta float64) {
			if v := lower(theta); theta >= -1 && theta <= 1 && v < floor {
				next, floor = theta, v
			}
		}
		try(1)
		for i, a := range planes {
			for _, b := range planes[:i] {
				try((b.zero - a.zero) / (a.one - a.zero - b.one + b.zero))
			}
		}
		if floor >= (1-quarticAccuracy)*least || next == q.theta {
			break
		}
		q.theta = next
	}
	q.theta = best
}

// bound returns an upper bound of the square root of p over unit vectors, and the probability, over the random start of Lanczos, that it is none;
// false when the solve is cancelled.
func (q *quarticForm) bound(workers workers, rng *rand.Rand, failure float64) (value, fails float64, ok bool) {
	q.choose(workers, rng)
	size := q.size()
	if cube := float64(size) * float64(size) * float64(size); cube <= maxEigenWork {
		whole, unit := newSymmetric(size), make([]float64, size)
		for j := range size {
			if !workers.yield() {
				return 0, 0, false
			}
			unit[j] = 1
			q.mulTo(whole.Data[j*size:j*size+size], unit)
			unit[j] = 0
		}
		e, ok := decompose(whole)
		if !ok {
			return 0, 0, false
		}
		return math.Sqrt(max(0, e.values[size-1])), 0, true
	}
	run := newKrylov(workers, size, 1, min(quarticBoundSteps, size), q.mulTo)
	top := run.bound(rng, failure, true, quarticBoundAccuracy, func(v []float64) float64 { return v[0] })
	return math.Sqrt(max(0, top)), failure, !workers.cancelled()
}
