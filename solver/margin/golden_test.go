package margin

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// goldenCase holds the fields that the reference values share.
type goldenCase struct {
	Loss  string
	M, K  int
	Rho   []float64
	Gamma float64
	Y     []int
}

// loss returns the loss of a reference case.
func (c goldenCase) loss(t *testing.T) Loss {
	t.Helper()
	kind, ok := map[string]Kind{"maxhinge": MaxHinge, "topk": TopK, "usunier": Usunier, "wtopk": WeightedTopK,
		"wusunier": WeightedUsunier}[c.Loss]
	if !ok {
		t.Fatalf("unknown loss %q", c.Loss)
	}
	l := Loss{Kind: kind, K: c.K, Weights: c.Rho, Moreau: c.Gamma}
	if err := l.Validate(c.M); err != nil {
		t.Fatal(err)
	}
	return l
}

type goldenValues struct {
	goldenCase
	S, Subgradient, Gradient [][]float64
	Values                   []float64
}

type goldenFit struct {
	goldenCase
	Lam    float64
	X      [][]float64
	Dual   []float64   `json:"fw_dual"`
	Gap    []float64   `json:"fw_gap"`
	Primal float64     `json:"optimum_primal"`
	W      [][]float64 `json:"optimum_W"`
}

type goldenFile struct {
	Values []goldenValues `json:"loss_values"`
	Moreau []goldenValues
	Cases  []goldenFit
}

func golden(t *testing.T) (file goldenFile) {
	t.Helper()
	raw, err := os.ReadFile(tier.Shared(t, "golden", "mcsvm.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Values) != 15 || len(file.Moreau) != 30 || len(file.Cases) != 30 {
		t.Fatalf("%d, %d and %d cases, 15, 30 and 30 were written", len(file.Values), len(file.Moreau), len(file.Cases))
	}
	return file
}

func near(got, want, rtol, atol float64) bool { return math.Abs(got-want) <= atol+rtol*math.Abs(want) }

// TestGoldenValues compares losses, a subgradient of each, envelopes and their gradients with the reference.
func TestGoldenValues(t *testing.T) {
	file := golden(t)
	check := func(t *testing.T, c goldenValues, grads [][]float64, atol float64) {
		loss, grad := c.loss(t), make([]float64, c.M)
		for i, pred := range c.S {
			target := make([]float64, c.M)
			target[c.Y[i]] = 1
			if value := loss.Eval(grad, pred, target); !near(value, c.Values[i], 1e-12, atol) {
				t.Errorf("row %d: value %v, want %v", i, value, c.Values[i])
			}
			for k, g := range grad {
				if !near(g, grads[i][k], 1e-12, atol) {
					t.Errorf("row %d: subgradient %v, want %v", i, grad, grads[i])
					break
				}
			}
		}
	}
	for n, c := range file.Values {
		t.Run(fmt.Sprintf("%d/%s", n, c.Loss), func(t *testing.T) { check(t, c, c.Subgradient, 1e-12) })
	}
	for n, c := range file.Moreau {
		t.Run(fmt.Sprintf("%d/%s/%g", n, c.Loss, c.Gamma), func(t *testing.T) { check(t, c, c.Gradient, 1e-9) })
	}
}

// problem returns the problem and the settings of a reference case.
func (c goldenFit) problem(t *testing.T) (*solver.Problem, solver.Settings) {
	t.Helper()
	p := &solver.Problem{
		X:       solver.NewRows(len(c.X[0]), len(c.X), 0),
		Outputs: c.M,
		Loss:    c.loss(t),
		Targets: make([]float64, len(c.X)*c.M),
	}
	for i, row := range c.X {
		index := make([]int32, len(row))
		for j := range row {
			index[j] = int32(j)
		}
		p.X.Append(index, row)
		p.Targets[i*c.M+c.Y[i]] = 1
	}
	s := solver.DefaultSettings()
	s.Lambda, s.BiasRidge, s.Tolerance, s.MaxIterations = c.Lam*float64(len(c.X)), 0, 1e-12, 20_000
	return p, s
}

// TestGoldenTrace compares twenty steps of Frank–Wolfe with the reference.
func TestGoldenTrace(t *testing.T) {
	for n, c := range golden(t).Cases {
		t.Run(fmt.Sprintf("%d/%s/%g", n, c.Loss, c.Gamma), func(t *testing.T) {
			p, s := c.problem(t)
			f := newFit(t, SVM{Method: LineSearch}, p, s)
			for k, want := range c.Dual {
				f.evaluate()
				rows := float64(f.n)
				if !near(f.value/rows, want, 1e-8, 1e-10) || !near(f.linear/rows, c.Gap[k], 1e-8, 1e-10) {
					t.Fatalf("step %d: dual %v, gap %v, want %v, %v", k, f.value/rows, f.linear/rows, want, c.Gap[k])
				}
				if gap := f.objective - f.value; gap > f.linear+1e-9 || c.Gamma == 0 && !near(gap, f.linear, 0, 1e-9) {
					t.Errorf("step %d: gap %v, of Frank–Wolfe %v", k, gap, f.linear)
				}
				f.frankWolfe(k)
			}
		})
	}
}

// TestGoldenOptimum compares what each method ends with with the optimum of the reference.
func TestGoldenOptimum(t *testing.T) {
	for n, c := range golden(t).Cases {
		for _, method := range []Method{BlockAscent, LineSearch, Scheduled} {
			t.Run(fmt.Sprintf("%d/%s/%g/%v", n, c.Loss, c.Gamma, method), func(t *testing.T) {
				p, s := c.problem(t)
				atol := 1e-8
				if method != BlockAscent {
					s.MaxIterations, s.Tolerance, atol = 2000, 1e-3, 5e-3
				}
				result, err := SVM{Method: method}.Fit(t.Context(), p, nil, s)
				if err != nil {
					t.Fatal(err)
				}
				rows := float64(len(c.X))
				if result.Objective/rows < c.Primal-1e-9 || result.Objective/rows > c.Primal+atol ||
					result.Gap/rows < result.Objective/rows-c.Primal-1e-9 {
					t.Errorf("objective %v, want %v; gap %v", result.Objective/rows, c.Primal, result.Gap/rows)
				}
				t.Logf("%v after %d steps, relative gap %.2g", result.Status, len(result.Steps), result.GapRelative)
				if method != BlockAscent {
					return
				}
				for class, row := range c.W {
					for j, want := range row {
						if got := result.Model.Linear[j*c.M+class]; !near(got, want, 0, 1e-4) {
							t.Fatalf("weight of class %d, feature %d: %v, want %v", class, j, got, want)
						}
					}
				}
			})
		}
	}
}
