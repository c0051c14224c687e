package solver

import (
	"fmt"
	"math"
	"testing"

	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/penalty"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// sparse returns the rows of a dense matrix without its zeros.
func sparse(dense [][]float64) *Rows {
	x := NewRows(len(dense[0]), len(dense), len(dense)*len(dense[0]))
	for _, row := range dense {
		var index []int32
		var value []float64
		for j, v := range row {
			if v != 0 {
				index, value = append(index, int32(j)), append(value, v)
			}
		}
		x.Append(index, value)
	}
	return x
}

func flatten(rows [][]float64) []float64 {
	var out []float64
	for _, row := range rows {
		out = append(out, row...)
	}
	return out
}

// oneHot returns the targets of classes 0..m−1.
func oneHot(classes []int, m int) []float64 {
	out := make([]float64, len(classes)*m)
	for i, c := range classes {
		out[i*m+c] = 1
	}
	return out
}

// kernelOf maps the names of the reference files: pn is a polynomial network, fm a factorization machine.
func kernelOf(t *testing.T, kind string) Kernel {
	t.Helper()
	switch kind {
	case "pn":
		return Homogeneous
	case "fm":
		return ANOVA
	}
	t.Fatalf("unknown kind %q", kind)
	return 0
}

// goldenCase holds the fields the reference problems share.
type goldenCase struct {
	Kind, Loss, Penalty string
	Lam                 float64
	X, O, V, H          [][]float64
	Y                   [][]float64 // targets, absent where the case has classes
	Classes             []int       `json:"y"`
}

// problem returns the reference problem.
func (g goldenCase) problem(t *testing.T, m int) *Problem {
	t.Helper()
	p := &Problem{X: sparse(g.X), Outputs: m, Loss: lossNamed(t, g.Loss)}
	if g.Y != nil {
		p.Targets = flatten(g.Y)
	} else {
		p.Targets = oneHot(g.Classes, m)
	}
	return p
}

func TestGoldenLosses(t *testing.T) {
	var file struct {
		Cases []struct {
			goldenCase
			Values []float64
			Total  float64
			Grad   [][]float64
		}
	}
	golden(t, "losses.json", &file)
	for n, c := range file.Cases {
		t.Run(fmt.Sprintf("%d/%s", n, c.Loss), func(t *testing.T) {
			loss, m := lossNamed(t, c.Loss), len(c.O[0])
			targets := flatten(c.Y)
			if c.Y == nil {
				targets = oneHot(c.Classes, m)
			}
			grad := make([]float64, m)
			total := 0.0
			for i, pred := range c.O {
				value := loss.Eval(grad, pred, targets[i*m:i*m+m])
				total += value
				if !solvertest.Near(value, c.Values[i], 1e-12, 1e-12) ||
					value != loss.Eval(nil, pred, targets[i*m:i*m+m]) {
					t.Errorf("row %d: value %v, want %v", i, value, c.Values[i])
				}
				for a, g := range grad {
					if !solvertest.Near(g, c.Grad[i][a], 1e-10, 1e-13) {
						t.Errorf("row %d: gradient[%d] %v, want %v", i, a, g, c.Grad[i][a])
					}
				}
			}
			if !solvertest.Near(total, c.Total, 1e-12, 1e-12) {
				t.Errorf("total %v, want %v", total, c.Total)
			}
		})
	}
}

func TestGoldenPenalties(t *testing.T) {
	var file struct {
		Cases []struct {
			V         [][]float64
			Lam       float64
			Penalties map[string]struct {
				Value         float64
				DualNorm      float64   `json:"dual_norm"`
				RowDualNorms  []float64 `json:"row_dual_norms"`
				Prox          [][]float64
				ProxValue     float64 `json:"prox_value"`
				ProxObjective float64 `json:"prox_objective"`
			}
		}
		Ball []struct {
			V          []float64
			Radius     float64
			Projection []float64
		} `json:"l1_ball"`
	}
	golden(t, "penalties.json", &file)
	const tol = 1e-12
	for n, c := range file.Cases {
		for name, want := range c.Penalties {
			t.Run(fmt.Sprintf("%d/%s", n, name), func(t *testing.T) {
				pen, err := ParsePenalty(name)
				if err != nil {
					t.Fatal(err)
				}
				k, m := len(c.V), len(c.V[0])
				v := flatten(c.V)
				if got := pen.Norm(v, k, m); !solvertest.Near(got, want.Value, tol, tol) {
					t.Errorf("norm %v, want %v", got, want.Value)
				}
				if got := pen.DualNorm(v, k, m); !solvertest.Near(got, want.DualNorm, tol, tol) {
					t.Errorf("dual norm %v, want %v", got, want.DualNorm)
				}
				for r, d := range want.RowDualNorms {
					if got := pen.RowDual(c.V[r]); !solvertest.Near(got, d, tol, tol) {
						t.Errorf("row %d: dual norm %v, want %v", r, got, d)
					}
				}
				z := append([]float64(nil), v...)
				pen.Prox(z, k, m, c.Lam)
				objective := c.Lam * pen.Norm(z, k, m)
				for i, w := range flatten(want.Prox) {
					if !solvertest.Near(z[i], w, tol, tol) {
						t.Errorf("prox[%d] = %v, want %v", i, z[i], w)
					}
					objective += 0.5 * (z[i] - v[i]) * (z[i] - v[i])
				}
				if got := pen.Norm(z, k, m); !solvertest.Near(got, want.ProxValue, tol, tol) ||
					!solvertest.Near(objective, want.ProxObjective, tol, tol) {
					t.Errorf("prox: norm %v and objective %v, want %v and %v", got, objective, want.ProxValue,
						want.ProxObjective)
				}
			})
		}
	}
	for n, c := range file.Ball {
		penalty.ProjectL1Ball(c.V, c.Radius)
		for i, w := range c.Projection {
			if !solvertest.Near(c.V[i], w, tol, tol) {
				t.Errorf("ball %d: projection[%d] = %v, want %v", n, i, c.V[i], w)
			}
		}
	}
}

func TestGoldenActivations(t *testing.T) {
	var file struct {
		Cases []struct {
			Kind            string
			X, H, Phi, D, G [][]float64
			Gamma           [][][]float64
		}
	}
	golden(t, "activations.json", &file)
	const rtol, atol = 1e-11, 1e-12
	for n, c := range file.Cases {
		t.Run(fmt.Sprintf("%d/%s", n, c.Kind), func(t *testing.T) {
			x, kernel := sparse(c.X), kernelOf(t, c.Kind)
			d, m, k := x.NumColumns, len(c.D[0]), len(c.H)
			block := make([]float64, d*k) // feature-major
			for r, h := range c.H {
				for j, v := range h {
					block[j*k+r] = v
				}
			}
			model := Model{Kernel: kernel, NumBasis: k, Basis: block}
			phi, work := make([]float64, k), make([]float64, k)
			for i, want := range c.Phi {
				index, value := x.Row(i)
				model.Activations(phi, work, index, value)
				for r := range phi {
					if !solvertest.Near(phi[r], want[r], rtol, atol) {
						t.Errorf("Phi[%d,%d] = %v, want %v", i, r, phi[r], want[r])
					}
				}
			}
			g := gamma.NewGamma(x, kernel, m, solvertest.TestWorkers(1))
			copy(g.Grad, flatten(c.D))
			q := make([]float64, k*m)
			g.QuadraticTo(q, block, k)
			for r := range k {
				for a := range m {
					if !solvertest.Near(-q[r*m+a], c.G[r][a], rtol, atol) {
						t.Errorf("g[%d,%d] = %v, want %v", r, a, -q[r*m+a], c.G[r][a])
					}
				}
			}
			dst := make([]float64, d)
			for a := range m {
				whole := mat.NewSymDense(d, g.Dense(a).Data)
				for j := range d {
					unit := make([]float64, d)
					unit[j] = 1
					mulTo(g, dst, a, unit)
					for l := range d {
						if want := c.Gamma[a][l][j]; !solvertest.Near(dst[l], want, rtol, atol) ||
							!solvertest.Near(whole.At(l, j), want, rtol, atol) {
							t.Errorf("Gamma[%d][%d,%d] = %v, dense %v, want %v", a, l, j, dst[l], whole.At(l, j), want)
						}
					}
				}
			}
		})
	}
}

func TestGoldenSelection(t *testing.T) {
	var file struct {
		Cases []struct {
			goldenCase
			PerClass []struct {
				Eigenvalue float64
				SecondAbs  float64 `json:"second_abs"`
				Vector     []float64
			} `json:"per_class"`
			L1 struct {
				Value float64
				H     []float64
			}
			L2 struct {
				Best    float64 `json:"global_best_f2"`
				Refined float64 `json:"refined_f2"`
			}
			Linf struct {
				Global  float64 `json:"global_f1"`
				Refined float64 `json:"refined_huber_f1"`
			}
		}
	}
	golden(t, "selection.json", &file)
	for n, c := range file.Cases {
		t.Run(fmt.Sprintf("%d/%s", n, c.Kind), func(t *testing.T) {
			m := len(c.O[0])
			p := c.problem(t, m)
			g := gamma.NewGamma(p.X, kernelOf(t, c.Kind), m, solvertest.TestWorkers(1))
			linear.RowLosses(solvertest.TestWorkers(1), p, flatten(c.O), g.Grad)
			eigen := g.Dominant(nil, gamma.FineSearch, 1)
			for a, want := range c.PerClass {
				if !solvertest.Near(eigen.Values[a], want.Eigenvalue, 1e-10, 0) {
					t.Errorf("eigenvalue %d is %v, want %v", a, eigen.Values[a], want.Eigenvalue)
				}
				if want.SecondAbs > 0.99*math.Abs(want.Eigenvalue) {
					continue
				}
				cos := 0.0
				for j, w := range want.Vector {
					cos += w * eigen.Vectors[j*m+a]
				}
				for j, w := range want.Vector {
					if got := math.Copysign(1, cos) * eigen.Vectors[j*m+a]; !solvertest.Near(got, w, 0, 1e-7) {
						t.Errorf("vector %d[%d] = %v, want %v", a, j, got, w)
					}
				}
			}
			for pen, want := range map[Penalty][2]float64{ // global and refined criterion
				L1:     {c.L1.Value, c.L1.Value},
				L1L2:   {math.Sqrt(c.L2.Best), math.Sqrt(c.L2.Refined)},
				L1Linf: {c.Linf.Global, c.Linf.Refined},
			} {
				found := g.SelectBasis(pen, nil, gamma.FineOracle, 1)
				if found.Criterion < want[1]*(1-1e-6) || found.Criterion > want[0]*(1+1e-9) {
					t.Errorf("%v: criterion %v, refined reference %v, global %v", pen, found.Criterion, want[1],
						want[0])
				}
				if found.Factor <= 0 || found.Factor > 1 || found.Criterion < found.Factor*want[0]*(1-1e-9) {
					t.Errorf("%v: criterion %v is less than ν = %v of the global %v", pen, found.Criterion,
						found.Factor, want[0])
				}
				if pen == L1 && !solvertest.Near(found.Criterion, want[0], 1e-10, 0) {
					t.Errorf("criterion %v, want %v", found.Criterion, want[0])
				}
			}
		})
	}
}

// fitOf returns a refit of the output weights with the basis of a reference case.
func fitOf(t *testing.T, p *Problem, kernel Kernel, penalty Penalty, lambda float64, basis [][]float64) *solve {
	t.Helper()
	s := DefaultSettings()
	s.Kernel, s.Penalty, s.Lambda, s.LinearRidge, s.BiasRidge, s.Workers = kernel, penalty, lambda, 0, 0, 1
	run, err := newSolve(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range basis {
		run.append(h)
	}
	return run
}

// centre subtracts its mean from every row of length m.
func centre(v []float64, m int) {
	for lo := 0; lo < len(v); lo += m {
		floats.AddConst(-floats.Sum(v[lo:lo+m])/float64(m), v[lo:lo+m])
	}
}
