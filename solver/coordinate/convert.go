package coordinate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/refitd/refitd/solver"
)

// vector is a basis vector of unit length with its weights.
type vector struct {
	h, weights []float64
}

// model returns the current point.
func (r *run) model() *solver.Model {
	d, m := r.p.X.NumColumns, r.p.Outputs
	model := solver.NewModel(r.s.Kernel, d, m, r.s.LinearRidge > 0)
	var vectors []vector
	for at, g := range r.groups {
		lo := at * g.m // of its outputs
		copy(model.Bias[lo:], g.b)
		if model.Linear != nil {
			for j := range d {
				copy(model.Linear[j*m+lo:j*m+lo+g.m], g.w[j*g.m:j*g.m+g.m])
			}
		}
		for _, v := range g.vectors() {
			row := make([]float64, m)
			copy(row[lo:], v.weights)
			vectors = append(vectors, vector{v.h, row})
		}
	}
	k := len(vectors)
	model.NumBasis, model.Basis, model.Weights = k, make([]float64, d*k), make([]float64, 0, k*m)
	for s, v := range vectors {
		for j, x := range v.h {
			model.Basis[j*k+s] = x
		}
		model.Weights = append(model.Weights, v.weights...)
	}
	return model
}

// vectors returns the basis vectors of the units, without those that add nothing.
func (g *group) vectors() []vector {
	var all []vector
	switch {
	case !g.lifted:
		for s := range g.k {
			h := make([]float64, g.d)
			for j := range h {
				h[j] = g.h[j*g.k+s]
			}
			all = append(all, vector{h, slices.Clone(g.v[s*g.m : s*g.m+g.m])})
		}
	case g.degree == 3:
		for s := range g.k {
			all = append(all, polarize(g.p[s], g.p[g.k+s], g.p[2*g.k+s], g.v[s*g.m:s*g.m+g.m])...)
		}
	case g.m > 1 && g.output == nil: // each unit has a row of weights
		for s := range g.k {
			all = append(all, spectrum(g.p[s:s+1], g.p[g.k+s:g.k+s+1], g.v[s*g.m:s*g.m+g.m])...)
		}
	default:
		for c, each := 0, g.k/g.m; c < g.m; c++ {
			weights := make([]float64, g.m)
			weights[c] = 1
			all = append(all, spectrum(g.p[c*each:(c+1)*each], g.p[g.k+c*each:g.k+(c+1)*each], weights)...)
		}
	}
	return unitLength(all, g.degree)
}

// unitLength scales basis vectors to unit length and drops those without any or without weight. A length so short that
// a power of it is 0 has none.
func unitLength(all []vector, degree int) []vector {
	kept := all[:0]
	for _, v := range all {
		norm := blas64.Nrm2(blas64.Vector{N: len(v.h), Inc: 1, Data: v.h})
		if power := math.Pow(norm, float64(degree)); power > 0 && sumSquares(v.weights) > 0 {
			scale(v.h, 1/norm)
			scale(v.weights, power)
			kept = append(kept, v)
		}
	}
	return kept
}

func scale(x []float64, by float64) {
	for i := range x {
		x[i] *= by
	}
}

// polarize returns the four cubes that add up to weights·⟨a,x⟩⟨b,x⟩⟨c,x⟩: 24 abc = (a+b+c)³ +
// (a−b−c)³ − (a+b−c)³ − (a−b+c)³.
func polarize(a, b, c, weights []float64) []vector {
	out := make([]vector, 4)
	for t, signs := range [4][3]float64{{1, 1, 1}, {-1, -1, 1}, {1, -1, -1}, {-1, 1, -1}} {
		out[t].h, out[t].weights = make([]float64, len(a)), slices.Clone(weights)
		for j := range a {
			out[t].h[j] = a[j] + signs[0]*b[j] + signs[1]*c[j]
		}
		scale(out[t].weights, signs[2]/24)
	}
	return out
}

// spectrum returns the eigenvectors of S(UVᵀ) = ½ Σ_s (u_s v_sᵀ + v_s u_sᵀ) with their eigenvalues times weights as
// weights: with UV = QR it is Q·½R[0 I; I 0]Rᵀ·Qᵀ. Eigenvalues that are rounding are left out.
func spectrum(u, v [][]float64, weights []float64) []vector {
	if len(u) == 0 {
		return nil
	}
	d, r := len(u[0]), len(u)
	both := append(slices.Clone(u), v...)
	size := min(d, 2*r)
	q := blas64.General{Rows: d, Cols: 2 * r, Stride: 2 * r, Data: make([]float64, d*2*r)}
	for s, column := range both {
		for j, x := range column {
			q.Data[j*2*r+s] = x
		}
	}
	tau := make([]float64, size)
	work := make([]float64, 1)
	lapack64.Geqrf(q, tau, work, -1)
	work = make([]float64, int(work[0]))
	lapack64.Geqrf(q, tau, work, len(work))
	upper := make([]float64, size*2*r)
	for i := range size {
		copy(upper[i*2*r+i:(i+1)*2*r], q.Data[i*2*r+i:(i+1)*2*r])
	}
	core := blas64.Symmetric{N: size, Stride: size, Uplo: blas.Upper, Data: make([]float64, size*size)}
	for i := range size {
		for l := range size {
			sum := 0.0
			for s := range r {
				sum += upper[i*2*r+s]*upper[l*2*r+r+s] + upper[i*2*r+r+s]*upper[l*2*r+s]
			}
			core.Data[i*size+l] = 0.5 * sum
		}
	}
	thin := blas64.General{Rows: d, Cols: size, Stride: 2 * r, Data: q.Data}
	lapack64.Orgqr(thin, tau, work, -1)
	work = make([]float64, int(work[0]))
	lapack64.Orgqr(thin, tau, work, len(work))
	values := make([]float64, size)
	lapack64.Syev(lapack.EVCompute, core, values, work[:1], -1)
	work = make([]float64, int(work[0]))
	if !lapack64.Syev(lapack.EVCompute, core, values, work, len(work)) {
		return squares(u, v, weights)
	}
	top := max(math.Abs(values[0]), math.Abs(values[size-1]))
	var out []vector
	for t, value := range values { // ascending
		if math.Abs(value) <= eigenRounding*top {
			continue
		}
		h := make([]float64, d)
		for j := range h {
			for l := range size {
				h[j] += thin.Data[j*2*r+l] * core.Data[l*size+t]
			}
		}
		w := slices.Clone(weights)
		scale(w, value)
		out = append(out, vector{h, w})
	}
	return out
}

// eigenRounding is the part of the largest eigenvalue that may be an error of the others.
const eigenRounding = 1e-15

// squares is the same as spectrum without an eigensolver: 4uv = (u+v)² − (u−v)².
func squares(u, v [][]float64, weights []float64) []vector {
	var out []vector
	for s := range u {
		for _, sign := range [2]float64{1, -1} {
			h, w := make([]float64, len(u[s])), slices.Clone(weights)
			for j := range h {
				h[j] = u[s][j] + sign*v[s][j]
			}
			scale(w, sign/4)
			out = append(out, vector{h, w})
		}
	}
	return out
}
