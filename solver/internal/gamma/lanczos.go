package gamma

import (
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/parallel"
)

// eigenSearch bounds the search for dominant eigenvectors. The plain power method is no alternative: on one-hot rows of
// two fields Γ_c is bipartite, its spectrum symmetric, and the iterates need not converge to any eigenvector.
type eigenSearch struct {
	Dimension int     // Krylov vectors per restart, at least 2; memory is d·m·dimension
	restarts  int     // restarts from the best Ritz vectors, at least 1 run
	Tolerance float64 // stop when the residual ‖Γh − θh‖ is below tolerance·|θ| for every output
	wide      bool    // find others in addition to the dominant eigenvectors
	Further   int     // how many eigenvectors to return in addition to the dominant one, of the first output
}

// quickSearch is enough to choose basis vectors: the objective after refitting hardly depends on more (numerics of
// power steps against exact eigenvectors). FineSearch is used before a solve is called converged and for the reported
// gap.
var (
	quickSearch = eigenSearch{Dimension: 12, restarts: 1, Tolerance: 0.1}
	FineSearch  = eigenSearch{Dimension: 24, restarts: 8, Tolerance: 1e-8}
)

// Ritz holds approximate dominant eigenpairs of Γ_1..Γ_m: those of largest |eigenvalue|.
type Ritz struct {
	Vectors  []float64 // d×m feature-major; column c has unit norm
	Values   []float64 // m signed Rayleigh quotients
	residual []float64 // m norms ‖Γ_c h − θ h‖: an eigenvalue lies within this distance of θ
	// others are further unit vectors to refine: two from each end of the spectrum of each Γ_c and the dominant ones
	// of Σ_c Γ_c². Nil where they were not looked for. On problems late in training the dominant eigenvectors alone
	// lead to 0.85 to 0.93 of the largest criterion, with these to 0.96 to 1.
	others [][]float64
	// Further are more eigenvectors of the first output, those of largest |eigenvalue| first, with their eigenvalues.
	Further       [][]float64
	FurtherValues []float64
}

// Dominant runs the m Lanczos iterations with full reorthogonalisation (Lanczos 1950; Parlett 1980, chapter 13) in
// step, one pass over the rows for all outputs. Start, d×m or nil, is mixed with seeded noise: a start in an invariant
// subspace would never leave it. It returns what it has when the solve is cancelled.
//
// Explicit operators of few columns go to an eigensolver instead.
func (g *Gamma) Dominant(start []float64, search eigenSearch, seed uint64) Ritz {
	d, m := g.X.NumColumns, g.Outputs
	if g.Explicit && d <= maxEigenStep {
		if found, ok := g.eigenpairs(search); ok {
			return found
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0x6c616e637a6f73)) // "lanczos": apart from other uses of the seed
	found := Ritz{Vectors: make([]float64, d*m), Values: make([]float64, m), residual: make([]float64, m)}
	for i := range found.Vectors {
		found.Vectors[i] = rng.NormFloat64()
	}
	eigen.NormalizeColumns(found.Vectors, m)
	if start != nil {
		for i, x := range start[:d*m] {
			found.Vectors[i] = x + 0.3*found.Vectors[i]
		}
		eigen.NormalizeColumns(found.Vectors, m)
	}
	krylov := newKrylov(g.Workers, d, m, min(search.Dimension, d),
		func(dst, h []float64) { g.MulBlockTo(dst, h, m, nil) })
	for range search.restarts {
		if krylov.run(&found, search.Tolerance) || g.Workers.Cancelled() {
			break
		}
	}
	if search.Further > 0 {
		found.Further, found.FurtherValues = krylov.further(search.Further)
	}
	if search.wide && !g.Workers.Cancelled() {
		for c := range m {
			found.others = append(found.others, krylov.outer(c)...)
		}
		found.others = append(found.others, g.squareVectors(rng)...)
	}
	return found
}

// EndVectors is how many eigenvectors of each end of a spectrum are looked for, squareCount how many of Σ_c Γ_c²,
// squareSteps in how many steps.
const (
	EndVectors  = 2
	squareCount = 8
	squareSteps = 16
)

// outer returns the Ritz vectors at both ends of the spectrum of one column, in the Krylov space of the last run.
func (k *krylov) outer(c int) [][]float64 {
	e, size, ok := k.tridiagonal(c, k.used)
	if !ok {
		return nil
	}
	var vectors [][]float64
	for t := range size {
		if t >= EndVectors && t < size-EndVectors {
			continue
		}
		vectors = append(vectors, k.combine(c, e, size, t))
	}
	return vectors
}

// further returns the Ritz vectors of the first column, in the Krylov space of the last run, of the count largest
// |values| but for the largest.
func (k *krylov) further(count int) (vectors [][]float64, values []float64) {
	e, size, ok := k.tridiagonal(0, k.used)
	if !ok {
		return nil, nil
	}
	for _, t := range e.Outermost(count) {
		vectors, values = append(vectors, k.combine(0, e, size, t)), append(values, e.Values[t])
	}
	return vectors, values
}

// combine returns the Ritz vector of column c that belongs to values[t] of its tridiagonal matrix of the given size.
func (k *krylov) combine(c int, e eigen.EigenSym, size, t int) []float64 {
	h := make([]float64, len(k.vectors[0])/k.columns)
	for s := range size {
		weight := e.Vectors[s*size+t]
		for j := range h {
			h[j] += weight * k.vectors[s][j*k.columns+c]
		}
	}
	eigen.NormalizeColumns(h, 1)
	return h
}

// squareVectors returns Ritz vectors of the largest eigenvalues of Σ_c Γ_c², by Lanczos iterations from a random start.
func (g *Gamma) squareVectors(rng *rand.Rand) [][]float64 {
	d, m := g.X.NumColumns, g.Outputs
	spread, product := make([]float64, d*m), make([]float64, d*m)
	k := newKrylov(g.Workers, d, 1, min(squareSteps, d), func(dst, h []float64) {
		for i := range spread {
			spread[i] = h[i/m]
		}
		g.MulBlockTo(product, spread, m, nil)
		g.MulBlockTo(spread, product, m, nil)
		for j := range dst {
			dst[j] = 0
			for _, x := range spread[j*m : j*m+m] {
				dst[j] += x
			}
		}
	})
	start := make([]float64, d)
	for j := range start {
		start[j] = rng.NormFloat64()
	}
	eigen.NormalizeColumns(start, 1)
	used := k.iterate(start, func(int) bool { return false })
	e, size, ok := k.tridiagonal(0, used)
	if !ok {
		return nil
	}
	var vectors [][]float64
	for t := max(0, size-squareCount); t < size; t++ {
		vectors = append(vectors, k.combine(0, e, size, t))
	}
	return vectors
}

// maxEigenStep is the number of columns up to which a dense eigensolver costs less than what forming the operators did.
const maxEigenStep = 40

// eigenpairs returns the dominant eigenpairs of explicit operators by a dense eigensolver, and further ones as the
// search asks for.
func (g *Gamma) eigenpairs(search eigenSearch) (Ritz, bool) {
	d, m := g.X.NumColumns, g.Outputs
	found := Ritz{Vectors: make([]float64, d*m), Values: make([]float64, m), residual: make([]float64, m)}
	squares := eigen.NewSymmetric(d)
	add := func(e eigen.EigenSym, t int) {
		h := make([]float64, d)
		e.Vector(h, 1, t)
		found.others = append(found.others, h)
	}
	for c := range m {
		operator := g.Dense(c)
		e, ok := eigen.Decompose(operator)
		if !ok {
			return found, false
		}
		_, best := e.Largest()
		found.Values[c] = e.Values[best]
		e.Vector(found.Vectors[c:], m, best)
		if c == 0 && search.Further > 0 {
			for _, t := range e.Outermost(search.Further) {
				h := make([]float64, d)
				e.Vector(h, 1, t)
				found.Further, found.FurtherValues = append(found.Further, h), append(found.FurtherValues, e.Values[t])
			}
		}
		if !search.wide {
			continue
		}
		eigen.AddSquare(squares, operator)
		for t := range d {
			if t != best && (t < EndVectors || t >= d-EndVectors) {
				add(e, t)
			}
		}
	}
	if search.wide {
		if e, ok := eigen.Decompose(squares); ok {
			for t := max(0, d-squareCount); t < d; t++ {
				add(e, t)
			}
		}
	}
	return found, true
}

// krylov is the memory of a block of Lanczos iterations in step, one per column, each with a separate symmetric
// operator.
type krylov struct {
	workers parallel.Workers
	apply   func(dst, h []float64) // stores in column c of dst operator c times column c of h
	columns int
	vectors [][]float64 // dimension blocks, d×columns each
	alpha   [][]float64 // diagonals of the tridiagonal matrices, dimension×columns
	beta    [][]float64 // norms of the next vectors, dimension×columns
	coef    []float64   // columns
	steps   []int       // per column: vectors before breakdown
	used    int         // vectors of the last bound
}

func newKrylov(w parallel.Workers, d, columns, dimension int, apply func(dst, h []float64)) *krylov {
	k := &krylov{
		workers: w,
		apply:   apply,
		columns: columns,
		coef:    make([]float64, columns),
		steps:   make([]int, columns),
	}
	for range dimension {
		k.vectors = append(k.vectors, make([]float64, d*columns))
		k.alpha = append(k.alpha, make([]float64, columns))
		k.beta = append(k.beta, make([]float64, columns))
	}
	return k
}

// run replaces the pairs in found by the dominant Ritz pairs of the Krylov spaces they span and reports whether all
// residuals are small.
func (k *krylov) run(found *Ritz, tolerance float64) bool {
	used := k.iterate(found.Vectors, func(used int) bool {
		return used >= 6 && used%3 == 0 && k.extract(found, used, false) <= tolerance
	})
	k.used = used
	return k.extract(found, used, true) <= tolerance
}

// iterate builds the Krylov spaces from the unit columns of start until they are full or all invariant, enough returns
// true or the solve is cancelled, and returns the number of vectors.
func (k *krylov) iterate(start []float64, enough func(used int) bool) (used int) {
	m := k.columns
	copy(k.vectors[0], start)
	next := make([]float64, len(start))
	for c := range k.steps {
		k.steps[c] = len(k.vectors)
	}
	for t := range k.vectors {
		q := k.vectors[t]
		k.apply(next, q)
		eigen.ColumnDots(k.alpha[t], q, next, m)
		// Twice is enough (Parlett 1980, section 6.9) to make next orthogonal to working precision.
		for range 2 {
			for _, old := range k.vectors[:t+1] {
				eigen.ColumnDots(k.coef, old, next, m)
				columnAxpy(next, k.coef, old, m)
			}
		}
		eigen.ColumnDots(k.beta[t], next, next, m)
		open := false
		for c := range m {
			k.beta[t][c] = math.Sqrt(k.beta[t][c])
			scale := math.Abs(k.alpha[t][c]) + k.beta[max(t-1, 0)][c]
			if k.steps[c] > t+1 && !(k.beta[t][c] > breakdown*scale) {
				k.steps[c] = t + 1 // the space is invariant: its Ritz pairs are eigenpairs
			}
			open = open || k.steps[c] > t+1
		}
		used = t + 1
		if !open || !k.workers.Yield() || used == len(k.vectors) || enough(used) {
			break
		}
		dst := k.vectors[used]
		for c, b := range k.beta[t] {
			k.coef[c] = 0
			if k.steps[c] > used {
				k.coef[c] = 1 / b
			}
		}
		for i := 0; i < len(dst); i += m {
			for c, f := range k.coef {
				dst[i+c] = next[i+c] * f
			}
		}
	}
	return used
}

// breakdown is the length of the next vector, as a part of what it came from, below which it is rounding.
const breakdown = 1e-13

// tridiagonal returns the eigendecomposition of the first used steps of column c, and how many there were before
// breakdown.
func (k *krylov) tridiagonal(c, used int) (e eigen.EigenSym, size int, ok bool) {
	size = min(used, k.steps[c])
	tri := eigen.NewSymmetric(size)
	for t := range size {
		tri.Data[t*size+t] = k.alpha[t][c]
		if t+1 < size {
			tri.Data[t*size+t+1] = k.beta[t][c]
		}
	}
	e, ok = eigen.Decompose(tri)
	return e, size, ok
}

// extract solves the tridiagonal eigenproblems of the first used steps and returns the largest relative residual. It
// stores values and residuals in found, and the vectors if asked to.
func (k *krylov) extract(found *Ritz, used int, vectors bool) float64 {
	m := k.columns
	worst := 0.0
	weights := make([]float64, len(k.vectors)*m)
	for c := range m {
		e, size, ok := k.tridiagonal(c, used)
		if !ok {
			worst = math.Inf(1)
			continue
		}
		_, best := e.Largest()
		found.Values[c] = e.Values[best]
		found.residual[c] = 0
		if size < k.steps[c] || k.steps[c] == len(k.vectors) {
			found.residual[c] = k.beta[size-1][c] * math.Abs(e.Vectors[(size-1)*size+best])
		}
		if found.residual[c] > 0 {
			worst = max(worst, found.residual[c]/math.Abs(e.Values[best]))
		}
		e.Vector(weights[c:], m, best)
	}
	if !vectors {
		return worst
	}
	clear(found.Vectors)
	for t, q := range k.vectors[:used] {
		row := weights[t*m : t*m+m]
		for i := 0; i < len(q); i += m {
			for c, w := range row {
				found.Vectors[i+c] += w * q[i+c]
			}
		}
	}
	eigen.NormalizeColumns(found.Vectors, m)
	return worst
}

// columnAxpy subtracts coef_c times column c of a from column c of dst.
func columnAxpy(dst, coef, a []float64, m int) {
	if m == 1 {
		dense.AddScaled(dst[:len(a)], -coef[0], a)
		return
	}
	coef = coef[:m]
	for i := 0; i < len(a); i += m {
		x, y := dst[i:i+m], a[i:i+m]
		for c, f := range coef {
			x[c] -= f * y[c]
		}
	}
}

// FurtherDominant is the number of eigenvectors sought in addition to the dominant one: what enters together takes one
// refit. On ML-100k with β = 20 single vectors take twice the time to the same gap.
const FurtherDominant = 7
