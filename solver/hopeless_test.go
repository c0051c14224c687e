package solver

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestHopelessProblems: data that hold nothing to learn, or too much, end with a finite model, a certificate that the
// empty model does not refute and a status that fits it, for λ from 1e-12 to above the largest.
func TestHopelessProblems(t *testing.T) {
	tier.NotUnderRace(t)
	const n, d = 24, 4
	rng := rand.New(rand.NewPCG(91, 92))
	rows := func(entry func(i, j int) float64, n int) *Rows {
		x := NewRows(d, n, n*d)
		for i := range n {
			row := make([]float64, d)
			for j := range row {
				row[j] = entry(i, j)
			}
			x.Append([]int32{0, 1, 2, 3}, row)
		}
		return x
	}
	random := func(int, int) float64 { return rng.NormFloat64() }
	signs := func(n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = math.Copysign(1, rng.NormFloat64())
		}
		return out
	}
	separable := make([]float64, n)
	for i := range separable {
		separable[i] = float64(2*(i%2) - 1)
	}
	wide := make([]float64, n)
	for i := range wide {
		wide[i] = math.Pow(10, -6+12*float64(i)/(n-1))
	}
	copied := rows(random, n)
	for i := range n {
		_, row := copied.Row(i)
		row[1], row[2], row[3] = row[0], row[0], -row[0]
	}
	problems := map[string]*Problem{
		"separable": {
			X:       rows(func(i, j int) float64 { return separable[i] * float64(1+j) }, n),
			Targets: separable,
			Outputs: 1,
			Loss:    BinaryLogistic{},
		},
		"separable classes": {
			X:       rows(random, 4),
			Targets: []float64{1, 0, 0, 1, 1, 0, 0, 1},
			Outputs: 2,
			Loss:    MultinomialLogistic{},
		},
		"duplicated columns": {X: copied, Targets: signs(3 * n), Outputs: 3, Loss: BinaryLogistic{}},
		"one row": {
			X:       rows(random, 1),
			Targets: []float64{1, 0, 0},
			Outputs: 3,
			Loss:    MultinomialLogistic{},
		},
		"zero variance": {
			X:       rows(func(int, int) float64 { return 1 }, n),
			Targets: make([]float64, n),
			Outputs: 1,
			Loss:    Squared{},
		},
		"constant columns": {
			X:       rows(func(int, int) float64 { return 1 }, n),
			Targets: signs(2 * n),
			Outputs: 2,
			Loss:    Squared{},
		},
		"zeros": {
			X:       rows(func(int, int) float64 { return 0 }, n),
			Targets: signs(2 * n),
			Outputs: 2,
			Loss:    Squared{},
		},
		"weights of all sizes": {
			X:       rows(random, n),
			Targets: signs(2 * n),
			Outputs: 2,
			Loss:    BinaryLogistic{},
			Weights: wide,
		},
		"weights of zero": {
			X:       rows(random, n),
			Targets: signs(n),
			Outputs: 1,
			Loss:    Squared{},
			Weights: make([]float64, n),
		},
	}
	for name, p := range problems {
		for n, pen := range allPenalties {
			kernels := []Kernel{ANOVA, Homogeneous}
			for _, kernel := range tier.Size(kernels[n%2:n%2+1], kernels) {
				s := smallSettings()
				s.Kernel, s.Penalty, s.MaxIterations = kernel, pen, 200
				top, err := LambdaMax(t.Context(), p, s)
				if err != nil {
					t.Fatal(err)
				}
				for i, lambda := range []float64{1e-12, 1e-6 * top, 0.5 * top, 1.5 * top} {
					if s.Lambda = lambda; lambda == 0 || (i+n/2)%2 == 1 && !tier.Asked(tier.Long) {
						continue
					}
					res, err := Solve(t.Context(), p, nil, s)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					checkFinite(t, res)
					checkDual(t, res, p, s)
					if lambda > top && res.Model.NumBasis > 0 {
						t.Errorf("%s, %v, λ %g above the largest: %v, %d basis vectors", name, pen, lambda, res.Status,
							res.Model.NumBasis)
					}
				}
			}
		}
	}
}

// TestTooManyOutputs: what would take more memory than there is gets refused, with how much that is.
func TestTooManyOutputs(t *testing.T) {
	p := &Problem{X: NewRows(1, 1, 1), Targets: make([]float64, 100_000), Outputs: 100_000, Loss: BinaryLogistic{}}
	p.X.Append([]int32{0}, []float64{1})
	_, err := Solve(t.Context(), p, nil, DefaultSettings())
	if !errors.Is(err, ErrProblem) || !strings.Contains(err.Error(), "74 GiB") {
		t.Errorf("%v", err)
	}
}
