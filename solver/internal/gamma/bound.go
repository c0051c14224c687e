package gamma

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/penalty"
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
	// Flattenings is the lesser spectral norm of [B_1 … B_m] and [B_1ᵀ … B_mᵀ] for ℓ1/ℓ2 on rows of two features, one
	// of each of two fields, where B_c are the blocks of Γ_c between the fields; √m times that for ℓ1/ℓ∞. It is loose.
	Flattenings GapBound = "flattenings"
	// QuarticForm is √λmax of the form Σ_c (hᵀΓ_c h)² over symmetric matrices instead of hhᵀ, see QuarticBound, for
	// ℓ1/ℓ2; √m times that for ℓ1/ℓ∞. It is less loose.
	QuarticForm GapBound = "quartic form"
	// SumOfModuli is λmax(Σ_c |Γ_c|) for ℓ1/ℓ∞. It is loose.
	SumOfModuli GapBound = "sum of moduli"
)

// DualBound is an upper bound of Ω*(∇F), or an estimate of it if kind is empty.
type DualBound struct {
	Value   float64
	Kind    GapBound
	Failure float64   // probability, over the random start of Lanczos, that it is none; 0 for an eigensolver
	Vectors []float64 // d×columns: where the bound is nearly attained if it is tight
	Columns int
	// Of one output by Lanczos, further eigenvectors, as in ritz.
	Further       [][]float64
	FurtherValues []float64
}

// Tight reports whether the bound is Ω* itself but for the accuracy of an eigenvalue.
func (b DualBound) Tight(omega penalty.Penalty, outputs int) bool {
	return b.Kind == SignPatterns || b.Kind == OutputNorms && (omega == penalty.L1 || outputs == 1)
}

const (
	// MaxDenseFeatures, maxDenseWork (multiplications to form the Γ_c) and maxEigenWork (matrices times d³) limit the
	// dense eigensolver to about 0.1 s each.
	MaxDenseFeatures = 200
	maxDenseWork     = 2e7
	maxEigenWork     = 1e7
	// maxSignColumns is the number of sign patterns, 2^(m−1), that Lanczos follows at once.
	maxSignColumns = 16
	// boundSteps is how many Krylov vectors a bound may have in any case: its passes over the rows, and its memory in
	// d×columns.
	boundSteps = 30
	// mostSteps limits those of a bound that more make tight, where they are BoundRoom numbers at most: near the
	// optimum many eigenvalues lie close to the largest, and 30 vectors leave the bound several percent above it.
	mostSteps = 150
	BoundRoom = 4e6
	// BoundFailure is the probability that a bound by Lanczos is none.
	BoundFailure = 1e-3
)

// BoundDual returns an upper bound of Ω*(∇F) over all unit vectors: by a dense eigensolver where that is cheap,
// otherwise by Lanczos iterations until the bound is within tolerance of the norm, it is enough or the steps are done.
// Enough may be nil. The operators must be prepared. It returns an unusable bound when the solve is cancelled.
func (g *Gamma) BoundDual(omega penalty.Penalty, tolerance float64, seed uint64,
	enough func(upper, lower float64) bool) DualBound {
	if g.X.NumColumns == 0 { // there is no vector
		return DualBound{Kind: OutputNorms, Columns: g.Outputs}
	}
	rng := rand.New(
		rand.NewPCG(seed, 0x6365727469667973),
	) // "certifys": apart from other uses of the seed, so that the start is random
	if bound, ok := g.boundDense(omega, rng); ok {
		return bound
	}
	d, m := g.X.NumColumns, g.Outputs
	outputs := func(failure float64) DualBound {
		steps := min(boundSteps, d)
		if omega == penalty.L1 || m == 1 {
			steps = tightSteps(d, m)
		}
		run := newKrylov(g.Workers, d, m, steps, func(dst, h []float64) { g.MulBlockTo(dst, h, m, nil) })
		bound := DualBound{
			Value: run.bound(rng, failure, false, tolerance, omega.RowDual,
				enough), Kind: OutputNorms, Failure: failure, Vectors: run.top(), Columns: m,
		}
		if m == 1 {
			bound.Further, bound.FurtherValues = run.further(FurtherDominant)
		}
		return bound
	}
	switch {
	case omega == penalty.L1 || m == 1:
		return outputs(BoundFailure)
	case omega == penalty.L1L2:
		return g.boundSquares(rng, tolerance, BoundFailure)
	case m <= maxSignColumns && 1<<(m-1) <= maxSignColumns:
		patterns, s := SignsOf(m)
		run := newKrylov(g.Workers, d, s, tightSteps(d, s),
			func(dst, h []float64) { g.MulBlockTo(dst, h, s, patterns) })
		return DualBound{
			Value: run.bound(rng, BoundFailure, false, tolerance, dense.NormInf,
				enough), Kind: SignPatterns, Failure: BoundFailure, Vectors: run.top(), Columns: s,
		}
	}
	best, other := outputs(BoundFailure/2), g.boundSquares(rng, tolerance, BoundFailure/2)
	if other.Value *= math.Sqrt(float64(m)); other.Value < best.Value {
		best = other
	}
	best.Failure = BoundFailure
	return best
}

// tightSteps returns the most Krylov vectors, with so many columns, of a bound that is Ω*(∇F) but for their number.
func tightSteps(d, columns int) int {
	return min(d, max(boundSteps, min(mostSteps, int(BoundRoom)/(d*columns))))
}

// boundSquares bounds Ω*(∇F) of ℓ1/ℓ2 by Σ_c Γ_c². If every row has one feature below g.split() and one from
// there on, Γ_c has a block B_c and its transpose off the diagonal and zeros on it. For h = (a, b) then Σ_c (hᵀΓ_c
// h)² = Σ_c (2aᵀB_c b)² ≤ 4‖a‖²‖b‖²σ² ≤ σ², with σ the norm of [B_1 … B_m] or that of the B_c
// upon each other: the lesser one of the two diagonal blocks of Σ_c Γ_c² bounds, where the sum of squares takes the
// greater.
func (g *Gamma) boundSquares(rng *rand.Rand, tolerance, failure float64) DualBound {
	d, m := g.X.NumColumns, g.Outputs
	kind, columns, split := SumOfSquares, 1, g.Split()
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
	run := newKrylov(g.Workers, d, columns, min(boundSteps, d), func(dst, h []float64) {
		for i := range spread {
			j := i / m
			spread[i] = h[j*columns+column(j)]
		}
		g.MulBlockTo(product, spread, m, nil)
		g.MulBlockTo(spread, product, m, nil)
		clear(dst)
		for j := range d {
			dst[j*columns+column(j)] = floats.Sum(spread[j*m : j*m+m])
		}
	})
	root := func(values []float64) float64 { return math.Sqrt(max(0, slices.Min(values))) }
	return DualBound{Value: run.bound(rng, failure, true, tolerance, root, nil), Kind: kind, Failure: failure}
}

// Split returns the first feature of the second field if all rows have one feature of a first and one of a second
// field, and 0 else.
func (g *Gamma) Split() int {
	if g.Pairs == nil {
		return 0
	}
	return g.X.Split()
}

// SignsOf returns the 2^(m−1) columns of signs ±1 that differ by more than a common factor, m×s.
func SignsOf(m int) (patterns []float64, s int) {
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
func (g *Gamma) boundDense(omega penalty.Penalty, rng *rand.Rand) (DualBound, bool) {
	d, m := g.X.NumColumns, g.Outputs
	cube := float64(d) * float64(d) * float64(d)
	if d > MaxDenseFeatures || float64(m)*cube > maxEigenWork || !g.Explicit && g.denseWork() > maxDenseWork {
		return DualBound{}, false
	}
	operators := make([]blas64.Symmetric, m)
	for c := range m {
		operators[c] = g.Dense(c)
	}
	if m > 1 && omega == penalty.L1Linf && m <= 30 && float64(int(1)<<(m-1))*cube <= maxEigenWork {
		return g.boundSigns(operators)
	}
	tight := omega == penalty.L1 || m == 1 // the norms of the outputs are the bound
	norms := make([]float64, m)
	squares, moduli := eigen.NewSymmetric(d), eigen.NewSymmetric(d)
	top := make([]float64, d*m)
	for c, operator := range operators {
		e, ok := eigen.Decompose(operator)
		if !ok || !g.Workers.Yield() {
			return DualBound{}, false
		}
		best := 0
		norms[c], best = e.Largest()
		e.Vector(top[c:], m, best)
		if tight {
			continue
		}
		eigen.AddSquare(squares, operator)
		if omega == penalty.L1Linf {
			for t, v := range e.Values {
				blas64.Syr(math.Abs(v), blas64.Vector{N: d, Data: e.Vectors[t:], Inc: d}, moduli)
			}
		}
	}
	bound := DualBound{Value: omega.RowDual(norms), Kind: OutputNorms, Vectors: top, Columns: m}
	if tight {
		return bound, true
	}
	e, ok := eigen.Decompose(squares)
	if !ok {
		return DualBound{}, false
	}
	root := math.Sqrt(max(0, e.Values[d-1]))
	if omega == penalty.L1Linf {
		root *= math.Sqrt(float64(m))
		if e, ok := eigen.Decompose(moduli); ok && e.Values[d-1] < bound.Value {
			bound.Value, bound.Kind = e.Values[d-1], SumOfModuli
		}
	}
	if root < bound.Value {
		bound.Value, bound.Kind = root, SumOfSquares
	}
	if quarticRounds(d) > 0 {
		root, failure, ok := NewQuarticBound(operators, g.Workers).Bound(rng, BoundFailure)
		if !ok {
			return DualBound{}, false
		}
		if omega == penalty.L1Linf {
			root *= math.Sqrt(float64(m))
		}
		if root < bound.Value {
			bound.Value, bound.Kind, bound.Failure = root, QuarticForm, failure
		}
	}
	return bound, true
}

// boundSigns returns the largest |eigenvalue| of all Σ_c s_c Γ_c.
func (g *Gamma) boundSigns(operators []blas64.Symmetric) (DualBound, bool) {
	d, m := g.X.NumColumns, g.Outputs
	patterns, s := SignsOf(m)
	bound := DualBound{Kind: SignPatterns, Vectors: make([]float64, d), Columns: 1}
	sum := eigen.NewSymmetric(d)
	for t := range s {
		clear(sum.Data)
		for c, operator := range operators {
			floats.AddScaled(sum.Data, patterns[c*s+t], operator.Data)
		}
		e, ok := eigen.Decompose(sum)
		if !ok || !g.Workers.Yield() {
			return bound, false
		}
		if value, at := e.Largest(); value > bound.Value {
			bound.Value = value
			e.Vector(bound.Vectors, 1, at)
		}
	}
	return bound, true
}

// denseWork returns the multiplications that form all Γ_c.
func (g *Gamma) denseWork() float64 {
	work := 0.0
	for i := range g.X.NumRows() {
		entries := float64(g.X.Start[i+1] - g.X.Start[i])
		work += entries * entries * float64(g.Outputs)
	}
	return work
}

// bound runs Lanczos from random starts, until norm of the upper bounds of the columns is within tolerance of norm of
// their Ritz values or enough, unless that is nil, or the memory is full, and returns the former. The bounds are of the
// largest |eigenvalue|, for nonnegative operators of the largest eigenvalue. That all of them hold has at least the
// probability 1 − failure.
//
// The Lanczos vector after k steps is p(A) b with p(t) = Π (t − θ_j) / Π β_j, so that Σ_i γ_i² p(λ_i)² = 1
// for the components γ_i of b along the eigenvectors: |p(λ)| ≤ 1/|γ| for the outermost eigenvalue, and beyond the
// Ritz values θ, where |p| grows, that bounds it (Van Dorsselaer, Hochstenbach and Van der Vorst 2000; Hochstenbach
// 2013). For b uniform on the sphere, the density of γ is at most c_d = Γ(d/2)/(√π Γ((d−1)/2)), so |γ| <
// ε/2c_d has a probability of at most ε. Nothing is assumed of the spectrum: several equal eigenvalues only make γ
// larger.
func (k *krylov) bound(rng *rand.Rand, failure float64, nonnegative bool, tolerance float64,
	norm func([]float64) float64, enough func(upper, lower float64) bool) float64 {
	d, m := len(k.vectors[0])/k.columns, k.columns
	start := make([]float64, d*m)
	for i := range start {
		start[i] = rng.NormFloat64()
	}
	eigen.NormalizeColumns(start, m)
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
	values := e.Values
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

// beyond returns the point t on the given side of the outermost root, at end, where Σ log|t − root| reaches target,
// rounded away from it.
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
	found := Ritz{
		Vectors:  make([]float64, len(k.vectors[0])),
		Values:   make([]float64, k.columns),
		residual: make([]float64, k.columns),
	}
	k.extract(&found, k.used, true)
	return found.Vectors
}
