package experiment

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"gonum.org/v1/gonum/mat"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/solver"
)

// selections are the ways to choose a basis vector that figure 2 compares, and the one that the solver uses by default.
var selections = []struct {
	by    solver.Selection
	name  string
	draws int // the mean of this many seeds
}{
	{solver.AllStarts, "all m starts + refine", 1},
	{solver.L1Start, "ℓ1 init + refine", 1},
	{solver.RandomStart, "random init + refine", 20},
	{solver.L1Only, "ℓ1 init", 1},
	{solver.RandomOnly, "random init", 20},
	{solver.BestData, "best data", 1},
}

// selectionSteps are the steps of a training run at which figure 2 looks, as the reference in numpy does.
var selectionSteps = []int{0, 1, 3, 6, 10, 15, 20}

const selectionLambda = 0.1

// Figure2 repeats figure 2: the part ν̂ = f₁(ĥ)/f₁(h*) of the best ℓ1/ℓ∞ criterion that ways of choosing a basis vector
// attain, along a training run, with h* by the exhaustive method of appendix C.
func Figure2(ctx context.Context, o Options) (*Report, error) {
	main := Table{
		Title:  "Figure 2: part of the best ℓ1/ℓ∞ criterion (ν̂) that selections attain, split 0",
		Header: []string{"set", "step"},
	}
	for _, s := range selections {
		main.Header = append(main.Header, s.name)
	}
	figure := Figure{Figure: plot.Figure{Legend: "basis selection"}}
	err := o.overSets([]string{"vowel", "satimage", "segment"}, func(b *classBenchmark, set *classSet) error {
		b.basis = min(b.basis, selectionSteps[len(selectionSteps)-1])
		problem := set.problem(split(len(set.class), 0).train)
		settings := b.settings(solver.L1Linf, selectionLambda, solver.OutputLayer)
		settings.Workers, settings.Rough = o.threads(), true
		var models []*solver.Model
		settings.OnStep = func(_ solver.Step, m *solver.Model) bool {
			models = append(models, m)
			return len(models) > selectionSteps[len(selectionSteps)-1]
		}
		if _, err := solver.Solve(ctx, problem, nil, settings); err != nil {
			return fmt.Errorf("paper: %w", err)
		}
		lines := make([]plot.Line, len(selections))
		o.Progress.Stage(b.name, "steps", int64(len(selectionSteps)))
		for _, step := range selectionSteps {
			if step >= len(models) {
				break
			}
			parts, err := attained(ctx, problem, models[step], settings)
			if err != nil {
				return err
			}
			row := []string{b.name, fmt.Sprint(step)}
			for s, nu := range parts {
				lines[s].Name = selections[s].name
				lines[s].X, lines[s].Y = append(lines[s].X, float64(step)), append(lines[s].Y, nu)
				row = append(row, fmt.Sprintf("%.3f", nu))
			}
			main.Rows = append(main.Rows, row)
			o.Progress.Add(1)
			o.Log.Info("selection", "set", b.name, "step", step, "nu", row[2])
		}
		figure.Columns++
		figure.Panels = append(
			figure.Panels,
			plot.Panel{Title: fmt.Sprintf("%s (m = %d)", b.name, set.classes), XLabel: "step (basis vectors tried)",
				YLabel: "ν (part of the best criterion)", Lines: lines},
		)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Report{Name: "figure2", Tables: []Table{main}, Figures: []Figure{figure}}, nil
}

// attained returns the part of the best criterion at a model that each of the selections attains.
func attained(
	ctx context.Context,
	p *solver.Problem,
	model *solver.Model,
	settings solver.Settings,
) ([]float64, error) {
	best, err := bestCriterion(gammas(p, model))
	if err != nil {
		return nil, err
	}
	parts := make([]float64, len(selections))
	for s, way := range selections {
		for draw := range way.draws {
			settings.Selection, settings.Seed = way.by, uint64(draw)
			_, criterion, err := solver.SelectBasis(ctx, p, model, settings)
			if err != nil {
				return nil, fmt.Errorf("paper: %w", err)
			}
			parts[s] += criterion / best / float64(way.draws)
		}
	}
	return parts, nil
}

// gammas returns the dense d×d matrices Γ_c = Σ_i ∂ℓ/∂o_c x_i x_i' of the homogeneous kernel at a model, in O(n d² m):
// the explicit form of the operators that the solver never builds for rows of many columns.
func gammas(p *solver.Problem, model *solver.Model) []*mat.SymDense {
	d := p.X.NumColumns
	list := make([]*mat.SymDense, p.Outputs)
	for c := range list {
		list[c] = mat.NewSymDense(d, nil)
	}
	outputs, gradient, work := make([]float64, p.Outputs), make([]float64, p.Outputs), make([]float64, 2*model.NumBasis)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		model.Predict(outputs, work, index, value)
		p.Loss.Eval(gradient, outputs, p.Target(i))
		for c, g := range gradient {
			for a, j := range index {
				for b, l := range index[:a+1] {
					list[c].SetSym(int(l), int(j), list[c].At(int(l), int(j))+g*value[a]*value[b])
				}
			}
		}
	}
	return list
}

// bestCriterion is f₁(h*) = max over unit h of Σ_c |h'Γ_c h|: the largest |eigenvalue| of Σ_c s_c Γ_c over all signs s
// (Blondel et al. 2017, appendix C). A sign vector and its opposite have the same, so the last sign stays: 2^(m−1)
// eigenproblems, visited in the order of a Gray code, which changes one sign at a time.
func bestCriterion(gammas []*mat.SymDense) (float64, error) {
	d := gammas[0].SymmetricDim()
	sum, change := mat.NewSymDense(d, nil), mat.NewSymDense(d, nil)
	sign := make([]float64, len(gammas))
	for c, g := range gammas {
		sign[c] = 1
		sum.AddSym(sum, g)
	}
	best := 0.0
	for t := range 1 << (len(gammas) - 1) {
		if t > 0 {
			c := bits.TrailingZeros(uint(t))
			sign[c] = -sign[c]
			change.ScaleSym(2*sign[c], gammas[c])
			sum.AddSym(sum, change)
		}
		var eigen mat.EigenSym
		if !eigen.Factorize(sum, false) {
			return 0, fmt.Errorf("paper: the eigenvalues of a %d×%d matrix of figure 2 were not found", d, d)
		}
		values := eigen.Values(nil)
		best = max(best, math.Abs(values[0]), math.Abs(values[len(values)-1]))
	}
	return best, nil
}
