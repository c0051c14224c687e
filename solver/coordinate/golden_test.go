package coordinate

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/columns"
)

// binaryHinge is max(1 − t·o, 0)² with targets of ±1, to have a loss that the package does not know.
type binaryHinge struct{}

func (binaryHinge) Name() string { return "squared_hinge" }

func (binaryHinge) Curvature(int) float64 { return 2 }

func (binaryHinge) Eval(grad, pred, target []float64) float64 {
	total := 0.0
	for c, o := range pred {
		margin := max(1-target[c]*o, 0)
		total += margin * margin
		if grad != nil {
			grad[c] = -2 * target[c] * margin
		}
	}
	return total
}

func lossNamed(t *testing.T, name string) solver.Loss {
	t.Helper()
	switch name {
	case "squared":
		return solver.Squared{}
	case "logistic":
		return solver.BinaryLogistic{}
	case "squared_hinge":
		return binaryHinge{}
	}
	t.Fatalf("unknown loss %q", name)
	return nil
}

// sparse returns the rows of a dense matrix without its zeros.
func sparse(dense [][]float64) *solver.Rows {
	x := solver.NewRows(len(dense[0]), len(dense), len(dense)*len(dense[0]))
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

func near(got, want, rtol, atol float64) bool { return math.Abs(got-want) <= atol+rtol*math.Abs(want) }

type goldenCase struct {
	X, P, P0, P1, P10        [][]float64
	U0, U1, U10              [][][]float64
	Y, Lambda                []float64
	Loss, Kernel             string
	Beta                     float64
	Degree                   int
	Objective                float64
	Objectives, Prediction10 []float64
	A2, A3, H2, H3           [][]float64
}

// group returns the descent of a case, with all coordinates at 0.
func (c goldenCase) group(t *testing.T, d Descent, kernel solver.Kernel, k int) *group {
	t.Helper()
	p := &solver.Problem{X: sparse(c.X), Targets: c.Y, Outputs: 1, Loss: lossNamed(t, c.Loss)}
	s := solver.DefaultSettings()
	s.Kernel, s.Lambda, s.MaxBasis, s.LinearRidge, s.BiasRidge = kernel, c.Beta, k, 0, 0
	d.Relaxation = 1 // as in the paper
	g := newGroup(d, p, columns.New(p.X.NumColumns, p.X.Start, p.X.Index, p.X.Value), s,
		&pace{ctx: t.Context(), left: quantum}, 0, 1)
	g.byFeature = false
	return g
}

// setBasis sets the basis vectors to the columns of a d×k matrix.
func (g *group) setBasis(p [][]float64) {
	for j, row := range p {
		copy(g.h[j*g.k:], row)
	}
}

func (g *group) setFactors(u [][][]float64) {
	for t, factor := range u {
		for j, row := range factor {
			for s, x := range row {
				g.p[t*g.k+s][j] = x
			}
		}
	}
}

func kernelOf(t *testing.T, kind string, degree int) solver.Kernel {
	t.Helper()
	kernel, err := solver.KernelOf(map[string]string{"A": "anova", "H": "homogeneous"}[kind], degree)
	if err != nil {
		t.Fatal(err)
	}
	return kernel
}

// TestGolden compares kernels and ten sweeps from given points with those of an independent implementation.
func TestGolden(t *testing.T) {
	raw, err := os.ReadFile(tier.Shared(t, "golden", "cd2016.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Kernels, Cases, Lifted []goldenCase
		LambdaFit              []goldenCase `json:"lambda_fit"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Kernels) != 3 || len(file.Cases) != 18 || len(file.Lifted) != 27 || len(file.LambdaFit) != 9 {
		t.Fatalf("%d, %d, %d and %d cases, 3, 18, 27 and 9 were written", len(file.Kernels), len(file.Cases),
			len(file.Lifted), len(file.LambdaFit))
	}
	for n, c := range file.Kernels {
		t.Run(fmt.Sprintf("kernel/%d", n), func(t *testing.T) { goldenKernels(t, c) })
	}
	for n, c := range file.Cases {
		t.Run(fmt.Sprintf("direct/%d", n), func(t *testing.T) {
			g := c.group(t, Descent{Weights: Ones}, kernelOf(t, "A", c.Degree), len(c.Lambda))
			copy(g.v, c.Lambda)
			g.setBasis(c.P0)
			goldenSweeps(t, g, c, func(want [][]float64) (worst float64) {
				for j, row := range want {
					for s, x := range row {
						worst = max(worst, math.Abs(g.h[j*g.k+s]-x))
					}
				}
				return worst
			}, c.P1, c.P10)
		})
	}
	for n, c := range file.Lifted {
		t.Run(fmt.Sprintf("lifted/%d", n), func(t *testing.T) {
			g := c.group(t, Descent{Objective: Lifted}, kernelOf(t, c.Kernel, c.Degree), c.Degree*len(c.U0[0][0]))
			g.v = make([]float64, g.k)
			for s := range g.v {
				g.v[s] = 1
			}
			g.setFactors(c.U0)
			goldenSweeps(t, g, c, func(want [][][]float64) (worst float64) {
				for f, factor := range want {
					for j, row := range factor {
						for s, x := range row {
							worst = max(worst, math.Abs(g.p[f*g.k+s][j]-x))
						}
					}
				}
				return worst
			}, c.U1, c.U10)
		})
	}
	for n, c := range file.LambdaFit {
		t.Run(fmt.Sprintf("weights/%d", n), func(t *testing.T) { goldenWeights(t, c) })
	}
}

// goldenSweeps makes ten sweeps and compares the points after the first and the last with those wanted.
func goldenSweeps[M any](t *testing.T, g *group, c goldenCase, off func(M) float64, first, last M) {
	t.Helper()
	if len(c.Objectives) != 11 || len(c.Prediction10) != len(c.X) {
		t.Fatalf("%d objectives, %d predictions", len(c.Objectives), len(c.Prediction10))
	}
	g.predict()
	g.score()
	for e, want := range c.Objectives {
		if !near(g.objective, want, 1e-8, 0) {
			t.Errorf("objective %v after %d sweeps, want %v", g.objective, e, want)
		}
		switch e {
		case 1:
			if worst := off(first); worst > 1e-9 {
				t.Errorf("the first sweep is off by %g", worst)
			}
		case 10:
			if worst := off(last); worst > 1e-6 {
				t.Errorf("the tenth sweep is off by %g", worst)
			}
			for i, want := range c.Prediction10 {
				got := g.state[i]
				if g.block.kind == residuals {
					got += c.Y[i]
				}
				if !near(got, want, 1e-6, 1e-6) {
					t.Errorf("row %d: prediction %v, want %v", i, got, want)
				}
			}
		}
		if e < len(c.Objectives)-1 {
			g.sweep()
		}
	}
}

func goldenKernels(t *testing.T, c goldenCase) {
	k := len(c.P[0])
	c.Y, c.Loss, c.Beta = make([]float64, len(c.X)), "squared", 1
	for name, want := range map[string][][]float64{"A2": c.A2, "A3": c.A3, "H2": c.H2, "H3": c.H3} {
		degree := int(name[1] - '0')
		units := k
		if name[0] == 'H' {
			units *= degree
		}
		g := c.group(t, Descent{}, kernelOf(t, name[:1], degree), units)
		if g.lifted {
			var factors [][][]float64
			for range degree {
				factors = append(factors, c.P)
			}
			g.setFactors(factors)
		} else {
			g.setBasis(c.P)
		}
		for s := range k {
			activations := g.activations(s)
			if len(activations) != len(c.X) {
				t.Fatalf("%d activations of %d rows", len(activations), len(c.X))
			}
			for i, got := range activations {
				if !near(got, want[i][s], 1e-11, 1e-15) {
					t.Errorf("%s of row %d and basis vector %d: %v, want %v", name, i, s, got, want[i][s])
				}
			}
		}
	}
}

func goldenWeights(t *testing.T, c goldenCase) {
	g := c.group(t, Descent{Weights: Fitted}, kernelOf(t, "A", c.Degree), len(c.P[0]))
	if c.Degree == 3 {
		g.rule = single // which the package does for degree 2 only
	}
	g.setBasis(c.P)
	g.predict()
	for range 5000 {
		for s := range g.k {
			square := 0.0
			for j := range c.P {
				square += c.P[j][s] * c.P[j][s]
			}
			g.moveWeights(s, g.activations(s), square)
		}
	}
	g.score()
	if !near(g.objective, c.Objective, 1e-9, 0) {
		t.Errorf("objective %v, want %v", g.objective, c.Objective)
	}
	for s, want := range c.Lambda {
		if !near(g.v[s], want, 1e-5, 1e-5) {
			t.Errorf("weight %d of %v, want %v", s, g.v, want)
		}
	}
}
