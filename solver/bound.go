package solver

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// GapBound names the upper bound of the dual norm Ω*(∇F) = max over unit h of the criterion, that a certified gap
// depends on.
type GapBound string

const (
	// OutputNorms is the dual norm of the spectral norms of the Γ_c. For ℓ1, and for a single output, it is Ω* itself.
	OutputNorms GapBound = "output norms"
	// SignPatterns is max over signs s of |λ|max(Σ_c s_c Γ_c), which is Ω* of ℓ1/ℓ∞.
	SignPatterns GapBound = "sign patterns"
	// SumOfSquares is √λmax(Σ_c Γ_c²) for ℓ1/ℓ2, √m times that for ℓ1/ℓ∞. It is loose.
	SumOfSquares GapBound = "sum of squares"
	// Flattenings is the lesser spectral norm of [B_1 … B_m] and [B_1ᵀ … B_mᵀ] for ℓ1/ℓ2 on rows of two features, one of each of two fields, where B_c are
	// the blocks of Γ_c between the fields; √m times that for ℓ1/ℓ∞. It is loose.
	Flattenings GapBound = "flattenings"
	// QuarticForm is √λmax of the form Σ_c (hᵀΓ_c h)² over symmetric matrices instead of hhᵀ, see quarticForm, for ℓ1/ℓ2; √m times that for ℓ1/ℓ∞. It is
	// less loose.
	QuarticForm GapBound = "quartic form"
	// SumOfModuli is λmax(Σ_c |Γ_c|) for ℓ1/ℓ∞. It is loose.
	SumOfModuli GapBound = "sum of moduli"
)

// dualBound is an upper bound of Ω*(∇F), or an estimate of it if kind is empty.
type dualBound struct {
	value   float64
	kind    GapBound
	failure float64   // probability, over the random start of Lanczos, that it is none; 0 for an eigensolver
	vectors []float64 // d×columns: where the bound is nearly attained if it is tight
	columns int
	// Of one output by Lanczos, further eigenvectors, as in ritz.
	further       [][]float64
	furtherValues []float64
}

// tight reports whether the bound is Ω* itself but for the accuracy of an eigenvalue.
func (b dualBound) tight(penalty Penalty, outputs int) bool {
	return b.kind == SignPatterns || b.kind == OutputNorms && (penalty == L1 || outputs == 1)
}

const (
	// maxDenseFeatures, maxDenseWork (multiplications to form the Γ_c) and maxEigenWork (matrices times d³) limit the dense eigensolver to about
	// 0.1 s each.
	maxDenseFeatures = 200
	maxDenseWork     = 2e7
	maxEigenWork     = 1e7
	// maxSignColumns is the number of sign patterns, 2^(m−1), that Lanczos follows at once.
	maxSignColumns = 16
	// boundSteps is how many Krylov vectors a bound may have in any case: its passes over the rows, and its memory in d×columns.
	boundSteps = 30
	// mostSteps limits those of a bound that more make tight, where they are boundRoom numbers at most: near the optimum many eigenvalues lie close to the
	// largest, and 30 vectors leave the bound several percent above it.
	mostSteps = 150
	boundRoom = 4e6
	// boundFailure is the probability that a bound by Lanczos is none.
	boundFailure = 1e-3
)

// boundDual returns an upper bound of Ω*(∇F) over all unit vectors: by a dense eigensolver where that is cheap, otherwise by Lanczos
// iterations until the bound is within tolerance of the norm, it is enough or the steps are done. Enough may be nil. The operators must be prepared. It
// returns an unusable bound when the solve is cancelled.
func (g *gamma) boundDual(penalty Penalty, tolerance float64, seed uint64, enough func(upper, lower float64) bool) dualBound {
	if g.x.NumColumns == 0 { // there is no vector
		return dualBound{kind: OutputNorms, columns: g.outputs}
	}
	rng := rand.New(rand.NewPCG(seed, 0x6365727469667973)) // "certifys": apart from other uses of the seed, so that the start is random
	if bound, ok := g.boundDense(penalty, rng); ok {
		return bound
	}
	d, m := g.x.NumColumns, g.outputs
	outputs := func(failure float64) dualBound {
		steps := min(boundSteps, d)
		if penalty == L1 || m == 1 {
			steps = tightSteps(d, m)
		}
		run := newKrylov(g.workers, d, m, steps, func(dst, h []float64) { g.mulBlockTo(dst, h, m, nil) })
		bound := dualBound{
			value: run.bound(rng, failure, false, tolerance, penalty.RowDual, enough), kind: OutputNorms, failure: failure, vectors: run.top(), columns: m,
		}
		if m == 1 {
			bound.further, bound.furtherValues = run.besides(besideDominant)
		}
		return bound
	}
	switch {
	case penalty == L1 || m == 1:
		return outputs(boundFailure)
	case penalty == L1L2:
		return g.boundSquares(rng, tolerance, boundFailure)
	case m <= maxSignColumns && 1<<(m-1) <= maxSignColumns:
		patterns, s := signPatterns(m)
		run := newKrylov(g.workers, d, s, tightSteps(d, s), func(dst, h []float64) { g.mulBlockTo(dst, h, s, patterns) })
		return dualBound{
			value: run.bound(rng, boundFailure, false, tolerance, normInf, enough), kind: SignPatterns, failure: boundFailure, vectors: run.top(), columns: s,
		}
	}
	best, other := outputs(boundFailure/2), g.boundSquares(rng, tolerance, boundFailure/2)
	if other.value *= math.Sqrt(float64(m)); other.value < best.value {
		best = other
	}
	best.failure = boundFailure
	return best
}

// tightSteps returns the most Krylov vectors, with so many columns, of a bound that is Ω*(∇F) but for their number.
func tightSteps(d, columns int) int {
	return min(d, max(boundSteps, min(mostSteps, int(boundRoom)/(d*columns))))
}

// boundSquares bounds Ω*(∇F) of ℓ1/ℓ2 by Σ_c Γ_c². If every row has one feature below g.split() and one from there on, Γ_c has a block B_c and its
// transpose off the diagonal and zeros on it. For h = (a, b) then Σ_c (hᵀΓ_c h)² = Σ_c (2aᵀB_c b)² ≤ 4‖a‖²‖b‖²σ² ≤ σ², with σ the norm of [B_1 … B_m]
// or that of the B_c upon each other: the lesser one of the two diagonal blocks of Σ_c Γ_c² bounds, where the sum of squares takes the greater.
func (g *gamma) boundSquares(rng *rand.Rand, tolerance, failure float64) dualBound {
	d, m := g.x.NumColumns, g.outputs
	kind, columns, split := SumOfSquares, 1, g.split()
	if split > 0 {
		kind, columns = Flattenings, 2
	}
	column := func(j int) int { // of the iteration that feature j has a part in
		if split > 0 && j >= split {
			return 1
		}
		return 0
	}
	spread, product := make([]float64, d*m), make([]float64, d*m)
	run := newKrylov(g.workers, d, columns, min(boundSteps, d), func(dst, h []float64) {
		for i := range spread {
			j := i / m
			spread[i] = h[j*columns+column(j)]
		}
		g.mulBlockTo(product, spread, m, nil)
		g.mulBlockTo(spread, product, m, nil)
		clear(dst)
		for j := range d {
			dst[j*columns+column(j)] = floats.Sum(spread[j*m : j*m+m])
		}
	})
	root := func(values []float64) float64 { return math.Sqrt(max(0, slices.Min(values))) }
	return dualBound{value: run.bound(rng, failure, true, tolerance, root, nil), kind: kind, failure: failure}
}

// split returns the first feature of the second field if all rows have one feature of a first and one of a second field, and 0 else.
func (g *gamma) split() int {
	if g.pairs == nil {
		return 0
	}
	return g.x.split()
}

// signPatterns returns the 2^(m−1) columns of signs ±1 that differ by more than a common factor, m×s.
func signPatterns(m int) (patterns []float64, s int) {
	s = 1 << (m - 1)
	patterns = make([]float64, m*s)
	for t := range s {
		for c := range m {
			patterns[c*s+t] = 1 - 2*float64(t>>c&1)
		}
	}
	return patterns, s
}

// boundDense bounds Ω*(∇F) by an eigensolver on d×d matrices, false where that is not cheap.
func (g *gamma) boundDense(penalty Penalty, rng *rand.Rand) (dualBound, bool) {
	d, m := g.x.NumColumns, g.outputs
	cube := float64(d) * float64(d) * float64(d)
	if d > maxDenseFeatures || float64(m)*cube > maxEigenWork || !g.explicit && g.denseWork() > maxDenseWork {
		return dualBound{}, false
	}
	operators := make([]blas64.Symmetric, m)
	norms := make([]float64, m)
	squares, moduli := newSymmetric(d), newSymmetric(d)
	top := make([]float64, d*m)
	for c := range m {
		operators[c] = g.dense(c)
		e, ok := decompose(operators[c])
		if !ok || !g.workers.yield() {
			return dualBound{}, false
		}
		best := 0
		norms[c], best = e.largest()
		e.vector(top[c:], m, best)
		addSquare(squares, operators[c])
		for t, v := range e.values {
			blas64.Syr(math.Abs(v), blas64.Vector{N: d, Data: e.vectors[t:], Inc: d}, moduli)
		}
	}
	bound := dualBound{value: penalty.RowDual(norms), kind: OutputNorms, vectors: top, columns: m}
	if penalty == L1 || m == 1 {
		return bound, true
	}
	if penalty == L1Linf && m <= 30 && float64(int(1)<<(m-1))*cube <= maxEigenWork {
		return g.boundSigns(operators)
	}
	e, ok := decompose(squares)
	if !ok {
		return dualBound{}, false
	}
	root := math.Sqrt(max(0, e.values[d-1]))
	if penalty == L1Linf {
		root *= math.Sqrt(float64(m))
		if e, ok := decompose(moduli); ok && e.values[d-1] < bound.value {
			bound.value, bound.kind = e.values[d-1], SumOfModuli
		}
	}
	if root < bound.value {
		bound.value, bound.kind = root, SumOfSquares
	}
	if quarticRounds(d) > 0 {
		root, failure, ok := newQuarticForm(operators, g.workers).bound(rng, boundFailure)
		if !ok {
			return dualBound{}, false
		}
		if penalty == L1Linf {
			root *= math.Sqrt(float64(m))
		}
		if root < bound.value {
			bound.value, bound.kind, bound.failure = root, QuarticForm, failure
		}
	}
	return bound, true
}

// boundSigns returns the largest |eigenvalue| of all Σ_c s_c Γ_c.
func (g *gamma) boundSigns(operators []blas64.Symmetric) (dualBound, bool) {
	d, m := g.x.NumColumns, g.outputs
	patterns, s := signPatterns(m)
	bound := dualBound{kind: SignPatterns, vectors: make([]float64, d), columns: 1}
	sum := newSymmetric(d)
	for t := range s {
		clear(sum.Data)
		for c, operator := range operators {
			floats.AddScaled(sum.Data, patterns[c*s+t], operator.Data)
		}
		e, ok := decompose(sum)
		if !ok || !g.workers.yield() {
			return bound, false
		}
		if value, at := e.largest(); value > bound.value {
			bound.value = value
			e.vector(bound.vectors, 1, at)
		}
	}
	return bound, true
}

// denseWork returns the multiplications that form all Γ_c.
func (g *gamma) denseWork() float64 {
	work := 0.0
	for i := range g.x.NumRows() {
		entries := float64(g.x.Start[i+1] - g.x.Start[i])
		work += entries * entries * float64(g.outputs)
	}
	return work
}

// bound runs Lanczos from random starts, until norm of the upper bounds of the columns is within tolerance of norm of their Ritz values or enough, unless
// that is nil, or the memory is full, and returns the former. The bounds are of the largest |eigenvalue|, for nonnegative operators of the largest
// eigenvalue. That all of them hold has at least the probability 1 − failure.
//
// The Lanczos vector after k steps is p(A) b with p(t) = Π (t − θ_j) / Π β_j, so that Σ_i γ_i² p(λ_i)² = 1 for the components γ_i of b along the
// eigenvectors: |p(λ)| ≤ 1/|γ| for the outermost eigenvalue, and beyond the Ritz values θ, where |p| grows, that bounds it (Van Dorsselaer,
// Hochstenbach and Van der Vorst 2000; Hochstenbach 2013). For b uniform on the sphere, the density of γ is at most c_d = Γ(d/2)/(√π Γ((d−1)/2)),
// so |γ| < ε/2c_d has a probability of at most ε. Nothing is assumed of the spectrum: several equal eigenvalues only make γ larger.
func (k *krylov) bound(
	rng *rand.Rand, failure float64, nonnegative bool, tolerance float64, norm func([]float64) float64, enough func(upper, lower float64) bool,
) float64 {
	d, m := len(k.vectors[0])/k.columns, k.columns
	start := make([]float64, d*m)
	for i := range start {
		start[i] = rng.NormFloat64()
	}
	normalizeColumns(start, m)
	ends := 2.0
	if nonnegative {
		ends = 1
	}
	above, _ := math.Lgamma(0.5 * float64(d))
	below, _ := math.Lgamma(0.5 * float64(d-1))
	reach := math.Log(2*ends*float64(m)/failure) + above - below - 0.5*math.Log(math.Pi) // log 1/|γ|
	upper, lower := make([]float64, m), make([]float64, m)
	ratio := func(used int) float64 {
		for c := range m {
			upper[c], lower[c] = k.boundColumn(c, used, reach, nonnegative)
		}
		return norm(upper)
	}
	k.used = k.iterate(start, func(used int) bool {
		if used%5 != 0 {
			return false
		}
		bound, attained := ratio(used), norm(lower)
		return bound <= (1+tolerance)*attained || enough != nil && enough(bound, attained)
	})
	return ratio(k.used)
}

// boundColumn returns the upper bound of the largest |eigenvalue| (or eigenvalue) of one column and its Ritz value.
func (k *krylov) boundColumn(c, used int, reach float64, nonnegative bool) (upper, ritz float64) {
	e, size, ok := k.tridiagonal(c, used)
	if !ok {
		return math.Inf(1), 0
	}
	values := e.values
	last := k.beta[size-1][c]
	ritz = max(values[size-1], -values[0])
	if nonnegative {
		ritz = values[size-1]
	}
	if full := size == len(k.vectors[0])/k.columns; full || size < used || size == k.steps[c] && size < len(k.vectors) {
		return ritz + last, ritz // the Krylov space is invariant up to last: almost surely it holds the outermost eigenvalues
	}
	target := reach
	for t := range size {
		target += math.Log(k.beta[t][c])
	}
	upper = beyond(values, values[size-1], 1, target)
	if !nonnegative {
		upper = max(upper, -beyond(values, values[0], -1, target))
	}
	return upper + 1e-13*math.Abs(ritz), ritz
}

// beyond returns the point t on the given side of the outermost root, at end, where Σ log|t − root| reaches target, rounded away from it.
func beyond(roots []float64, end, side, target float64) float64 {
	excess := func(step float64) float64 {
		sum := -target
		for _, root := range roots {
			sum += math.Log(math.Abs(end + side*step - root))
		}
		return sum
	}
	high := math.Abs(roots[len(roots)-1]) + math.Abs(roots[0])
	for high > 0 && !math.IsInf(high, 1) && excess(high) < 0 {
		high *= 2
	}
	low := 0.0
	for range 100 {
		step := 0.5 * (low + high)
		if step <= low || step >= high {
			break
		}
		if excess(step) < 0 {
			low = step
		} else {
			high = step
		}
	}
	return end + side*high
}

// top returns the Ritz vectors of largest |value|, d×columns.
func (k *krylov) top() []float64 {
	found := ritz{vectors: make([]float64, len(k.vectors[0])), values: make([]float64, k.columns), residual: make([]float64, k.columns)}
	k.extract(&found, k.used, true)
	return found.vectors
}
