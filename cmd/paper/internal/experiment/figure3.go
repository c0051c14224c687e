package experiment

import (
	"context"
	"fmt"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/solver"
)

// Figure3 repeats figure 3: test accuracy against the largest number of basis vectors, with output refits, for the
// three penalties and one-vs-rest logistic regression; λ and k up to that number are chosen on the validation rows,
// means over splits.
func Figure3(ctx context.Context, o Options) (*Report, error) {
	main := Table{
		Title:  "Figure 3: test accuracy in percent against the largest number of basis vectors, output refits",
		Header: []string{"set", "k ≤", "ℓ1", "ℓ1/ℓ2", "ℓ1/ℓ∞", "linear"},
	}
	numbers := Table{Name: "accuracy", Header: []string{"set", "k", "penalty", "test_percent", "deviation", "splits"}}
	var figure Figure
	err := o.overSets([]string{"vowel.t", "satimage", "letter"}, func(b *classBenchmark, set *classSet) error {
		splits := o.splits(b.splits)
		jobs := jobsFor(b, set, splits, solver.OutputLayer)
		if err := o.walkAll(ctx, jobs); err != nil {
			return err
		}
		linear, err := o.linearCell(ctx, set, splits)
		if err != nil {
			return err
		}
		panel := plot.Panel{
			Title:  b.name,
			XLabel: "largest number of basis vectors (units)",
			YLabel: "test accuracy (%)",
		}
		for _, penalty := range penalties {
			line := plot.Line{Name: penaltyName(penalty)}
			for k := 1; k <= b.basis; k++ {
				tests := make([]float64, splits)
				for split := range splits {
					chosen, _ := best(pointsOf(jobs, split, penalty, solver.OutputLayer), k)
					tests[split] = chosen.test
				}
				mean, deviation := spread(tests)
				line.X, line.Y = append(line.X, float64(k)), append(line.Y, mean)
				numbers.add(b.name, k, penalty, mean, deviation, splits)
			}
			panel.Lines = append(panel.Lines, line)
		}
		for _, k := range []int{b.basis / 5, 2 * b.basis / 5, b.basis} {
			row := []string{b.name, fmt.Sprint(k)}
			for p := range penalties {
				row = append(row, fmt.Sprintf("%.2f", panel.Lines[p].Y[k-1]))
			}
			main.Rows = append(main.Rows, append(row, linear.String()))
		}
		panel.Lines = append(panel.Lines, plot.Line{Name: "linear", Dashed: true, Bare: true,
			X: []float64{1, float64(b.basis)}, Y: []float64{linear.mean(), linear.mean()}})
		figure.Columns++
		figure.Panels = append(figure.Panels, panel)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Report{Name: "figure3", Tables: []Table{main}, Numbers: []Table{numbers}, Figures: []Figure{figure}}, nil
}
