package convexfm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// drawSymmetric returns a random symmetric matrix in full, now and then of low rank or with equal eigenvalues.
func drawSymmetric(rng *rand.Rand, k int) []float64 {
	a := eigen.NewSymmetric(k)
	for r := range 1 + rng.IntN(k) {
		h := make([]float64, k)
		for j := range h {
			h[j] = rng.NormFloat64()
		}
		blas64.Syr(float64(1-2*(r%2)), blas64.Vector{N: k, Data: h, Inc: 1}, a)
	}
	if rng.IntN(5) == 0 {
		for j := range k {
			a.Data[j*k+j] += 2
		}
	}
	full := make([]float64, k*k)
	for r := range k {
		for s := range k {
			full[r*k+s] = a.Data[min(r, s)*k+max(r, s)]
		}
	}
	return full
}

// TestShrinkEigenvalues: the proximal point of the nuclear norm is better than any other, by the square of the
// distance, and the nuclear norm and the largest
// |eigenvalue| are dual: |⟨A, B⟩| ≤ ‖A‖_* ‖B‖, with equality for some B.
func TestShrinkEigenvalues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 7).Draw(t, "k")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		scale := rapid.SampledFrom([]float64{0, 0.1, 1, 100}).Draw(t, "threshold")
		a, other := drawSymmetric(rng, k), drawSymmetric(rng, k)
		near, point := append([]float64(nil), a...), append([]float64(nil), a...)
		shrinkEigenvalues(point, k, scale)
		floats.AddScaled(near, 0.1, other)
		distance := func(x, y []float64) float64 { return floats.Distance(x, y, 2) * floats.Distance(x, y, 2) }
		value := func(x []float64) float64 { return 0.5*distance(x, a) + scale*NuclearNorm(x, k) }
		for _, x := range [][]float64{other, near, a, make([]float64, k*k)} {
			if got, want := value(x), value(point)+0.5*distance(x, point); got < want-1e-9*(1+math.Abs(want)) {
				t.Fatalf("objective %v of another point, at least %v expected", got, want)
			}
		}
		e, _ := eigen.Decompose(SymmetricOf(a, k))
		top, _ := e.Largest()
		if inner := math.Abs(floats.Dot(a, other)); inner > top*NuclearNorm(other, k)*(1+1e-12)+1e-12 {
			t.Fatalf("⟨A, B⟩ = %v, ‖A‖ %v, ‖B‖_* %v", inner, top, NuclearNorm(other, k))
		}
		signs := eigen.NewSymmetric(k)
		for s, x := range e.Values {
			blas64.Syr(math.Copysign(1, x), blas64.Vector{N: k, Data: e.Vectors[s:], Inc: k}, signs)
		}
		inner := 0.0
		for r := range k {
			for s := range k {
				inner += a[r*k+s] * signs.Data[min(r, s)*k+max(r, s)]
			}
		}
		if norm := NuclearNorm(a, k); math.Abs(inner-norm) > 1e-9*(1+norm) {
			t.Fatalf("⟨A, sign A⟩ = %v, ‖A‖_* %v", inner, norm)
		}
	})
}

// correctiveCase returns a refit over k random orthonormal vectors, with row weights, offsets and rows of zero to d
// features, or of two.
func correctiveCase(rng *rand.Rand, loss loss.Loss, kernel problem.Kernel, n, d, k, workers int,
	two bool) *CorrectiveFit {
	p := &problem.Problem{X: problem.NewRows(d, n, n*d), Outputs: 1, Loss: loss}
	var offset []float64
	for range n {
		var index []int32
		var value []float64
		for j := range d {
			if !two && rng.IntN(2) == 0 {
				index, value = append(index, int32(j)), append(value, rng.NormFloat64())
			}
		}
		if two {
			index, value = []int32{
				int32(rng.IntN(d / 2)),
				int32(d/2 + rng.IntN(d-d/2)),
			}, []float64{
				1,
				1 + rng.Float64(),
			}
		}
		p.X.Append(index, value)
		p.Weights = append(p.Weights, float64(rng.IntN(3)))
		p.Targets = append(p.Targets, float64(2*rng.IntN(2)-1))
		offset = append(offset, rng.NormFloat64())
	}
	vectors := make([][]float64, k)
	for r := range vectors {
		vectors[r] = gamma.RandomUnit(d, rng.Uint64())
	}
	axes, _ := eigen.Orthonormal(vectors)
	f := NewCorrectiveFit(p, gamma.NewGamma(p.X, kernel, 1, solvertest.TestWorkers(workers)),
		linear.NewLinearFit(p, 0, 0, solvertest.TestWorkers(workers)), 0.7, solvertest.TestWorkers(workers))
	f.Begin(axes, offset)
	return f
}

// slowLoss predicts with the eigenvectors as a model, row by row.
func (f *CorrectiveFit) slowLoss(t *testing.T, a []float64) float64 {
	t.Helper()
	d := f.P.X.NumColumns
	axes := make([][]float64, f.k)
	for r := range axes {
		for j := range d {
			axes[r] = append(axes[r], f.axes[j*f.k+r])
		}
	}
	vectors, values, ok := eigen.EigenvectorsOf(SymmetricOf(a, f.k), axes)
	if !ok {
		t.Fatal("no eigenvectors")
	}
	model := problem.NewModel(f.G.Kernel, d, 1, false)
	model.NumBasis, model.Weights = len(vectors), values
	for j := range d {
		for _, h := range vectors {
			model.Basis = append(model.Basis, h[j])
		}
	}
	out, work, sum := make([]float64, 1), make([]float64, 2*model.NumBasis), 0.0
	for i := range f.P.X.NumRows() {
		index, value := f.P.X.Row(i)
		model.Predict(out, work, index, value)
		out[0] += f.Offset[i]
		sum += f.P.Weight(i) * f.P.Loss.Eval(nil, out, f.P.Target(i))
	}
	return sum
}

// TestCorrectivePass compares a pass with a model of eigenvectors, row by row, its gradient with differences, and one
// worker with three.
func TestCorrectivePass(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 61))
		loss := []loss.Loss{loss.Squared{}, loss.BinaryLogistic{}, loss.BinarySquaredHinge{}}[seed%3]
		kernel := []problem.Kernel{problem.ANOVA, problem.Homogeneous}[seed/3%2]
		two := seed >= 6
		n := 40
		if seed%4 == 3 {
			n = 3000 // several blocks of rows
		}
		f := correctiveCase(rand.New(rand.NewPCG(seed, 62)), loss, kernel, n, 9, 1+int(seed%6), 1, two)
		k := f.k
		start, a := drawSymmetric(rng, k), drawSymmetric(rng, k)
		const momentum = 0.4
		f.Pass(start, 0)
		f.Accept()
		value, valueY, gradient := f.Pass(a, momentum)
		y := make([]float64, k*k)
		for i := range y {
			y[i] = a[i] + momentum*(a[i]-start[i])
		}
		if want, wantY := f.slowLoss(t, a), f.slowLoss(t, y); !solvertest.Near(value, want, 1e-10, 0) ||
			!solvertest.Near(valueY, wantY, 1e-10, 0) {
			t.Errorf("%d: losses %v and %v, want %v and %v", seed, value, valueY, want, wantY)
		}
		const h = 1e-5
		for r := range k {
			for s := range k {
				move := func(by float64) float64 {
					z := append([]float64(nil), y...)
					z[r*k+s] += by / 2
					z[s*k+r] += by / 2
					return f.slowLoss(t, z)
				}
				if slope := (move(h) - move(-h)) / (2 * h); !solvertest.Near(gradient[r*k+s], slope, 1e-5,
					1e-5*wantScale(gradient)) {
					t.Errorf("%d: gradient %d,%d is %v, difference %v", seed, r, s, gradient[r*k+s], slope)
				}
			}
		}
		shared := correctiveCase(rand.New(rand.NewPCG(seed, 62)), loss, kernel, n, 9, 1+int(seed%6), 3, two)
		shared.Pass(start, 0)
		shared.Accept()
		if again, _, same := shared.Pass(a, momentum); again != value || !floats.Same(same, gradient) {
			t.Errorf("%d: three workers make a loss of %v, one of %v", seed, again, value)
		}
	}
}

func wantScale(x []float64) float64 { return 1 + dense.NormInf(x) }

// TestCorrectiveRefit compares the refit of squared loss with the alternating direction method of multipliers of the
// paper, equations (13) and (14), on the explicit k²×k² system.
func TestCorrectiveRefit(t *testing.T) {
	for seed := range uint64(4) {
		f := correctiveCase(rand.New(rand.NewPCG(seed, 63)), loss.Squared{},
			[]problem.Kernel{problem.ANOVA, problem.Homogeneous}[seed%2], 200, 8, 4, 1, seed >= 2)
		f.Lambda = 6
		a := make([]float64, f.k*f.k)
		iterations := output.Accelerated(f, f.Workers, &f.Smooth, a,
			output.FitLimits{Tolerance: 1e-14, Span: 20, Iterations: 5000})
		twin := f.multipliers(2000)
		got, want := f.slowLoss(t, a)+f.Term(a), f.slowLoss(t, twin)+f.Term(twin)
		if !solvertest.Near(got, want, 1e-9, 0) ||
			floats.Distance(a, twin, math.Inf(1)) > 1e-4*(1+dense.NormInf(twin)) {
			t.Errorf("%d: objective %v after %d iterations, by multipliers %v; %v and %v", seed, got, iterations, want,
				a, twin)
		}
		if start := f.slowLoss(t, make([]float64, f.k*f.k)); !(want < 0.99*start) {
			t.Errorf("%d: objective %v at 0, minimum %v: nothing to fit", seed, start, want)
		}
	}
}

// multipliers is ADMM on the refit of a squared loss.
func (f *CorrectiveFit) multipliers(rounds int) []float64 {
	k, n := f.k, f.P.X.NumRows()
	size := k * k
	features := make([][]float64, size) // weighted by the root of the row weight
	for e := range features {
		unit := make([]float64, size)
		unit[e/k*k+e%k] += 0.5
		unit[e%k*k+e/k] += 0.5
		features[e] = make([]float64, n)
		f.Predict(features[e], unit)
		for i := range n {
			features[e][i] = (features[e][i] - f.Offset[i]) * math.Sqrt(f.P.Weight(i))
		}
	}
	rest := make([]float64, n)
	for i := range rest {
		rest[i] = (f.P.Targets[i] - f.Offset[i]) * math.Sqrt(f.P.Weight(i))
	}
	const rho = 20
	system := make([]float64, size*(size+1))
	a, b, m := make([]float64, size), make([]float64, size), make([]float64, size)
	for range rounds {
		for r := range size {
			for s := range size {
				system[r*(size+1)+s] = floats.Dot(features[r], features[s])
			}
			system[r*(size+1)+r] += rho
			system[r*(size+1)+size] = floats.Dot(features[r], rest) + rho*(b[r]-m[r])
		}
		solveInPlace(system, size)
		for r := range size {
			a[r] = system[r*(size+1)+size]
			b[r] = a[r] + m[r]
		}
		shrinkEigenvalues(b, k, f.Lambda/rho)
		for r := range size {
			m[r] += a[r] - b[r]
		}
	}
	return b
}

// solveInPlace solves a positive definite system of n rows, each with its right side at the end, by elimination.
func solveInPlace(rows []float64, n int) {
	for p := range n {
		row := rows[p*(n+1) : (p+1)*(n+1)]
		floats.Scale(1/row[p], row)
		for q := range n {
			if other := rows[q*(n+1) : (q+1)*(n+1)]; q != p {
				floats.AddScaled(other, -other[p], row)
			}
		}
	}
}
