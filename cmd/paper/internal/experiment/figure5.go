package experiment

import (
	"context"
	"fmt"
	"math"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/solver"
)

const refitLambda = 0.1

// Figure5 repeats figure 5: output refits against full refits of ℓ1/ℓ2 with λ = 0.1, by the relative difference of
// the objective from the best of both and by the test accuracy, against the basis vectors and against the seconds. One
// split, one path at a time.
func Figure5(ctx context.Context, o Options) (*Report, error) {
	refits := []solver.Depth{solver.OutputLayer, solver.Full}
	main := Table{Title: "Figure 5: output and full refits at the end of the path, ℓ1/ℓ2, λ = 0.1, split 0",
		Header: []string{"set", "refit", "k", "objective", "test accuracy (%)", "seconds"}}
	var all []job
	panels := make([][]plot.Panel, 4) // by measure, then by set
	err := o.overSets([]string{"segment", "vowel", "satimage", "letter"}, func(b *classBenchmark, set *classSet) error {
		lowest := math.Inf(1)
		jobs := make([]job, len(refits))
		o.Progress.Stage(b.name, "paths", int64(len(refits)))
		for r, refit := range refits {
			settings := b.settings(solver.L1L2, refitLambda, refit)
			settings.Workers = o.threads()
			points, err := set.walk(ctx, o.Now, split(len(set.class), 0), settings)
			if err != nil {
				return err
			}
			jobs[r] = job{bench: b, set: set, penalty: solver.L1L2, refit: refit, lambda: refitLambda, points: points}
			for _, p := range points {
				lowest = min(lowest, p.objective)
			}
			last := points[len(points)-1]
			main.Rows = append(
				main.Rows,
				[]string{b.name, refit.String(), fmt.Sprint(last.k), fmt.Sprintf("%.2f", last.objective),
					fmt.Sprintf("%.2f", last.test), fmt.Sprintf("%.2f", last.seconds)},
			)
			o.Progress.Add(1)
			o.Log.Info(
				"path",
				"set",
				b.name,
				"refit",
				refit.String(),
				"k",
				last.k,
				"objective",
				last.objective,
				"test",
				last.test,
				"seconds",
				last.seconds,
			)
		}
		all = append(all, jobs...)
		for measure := range panels {
			panels[measure] = append(panels[measure], refitPanel(jobs, measure, lowest))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	columns := len(panels[0])
	figures := []Figure{
		{
			Name:   "basis",
			Figure: plot.Figure{Columns: columns, Panels: append(panels[0], panels[1]...), Legend: "refit"},
		},
		{
			Name:   "seconds",
			Figure: plot.Figure{Columns: columns, Panels: append(panels[2], panels[3]...), Legend: "refit"},
		},
	}
	return &Report{Name: "figure5", Tables: []Table{main}, Numbers: []Table{pathTable(all)}, Figures: figures}, nil
}

// refitPanel draws one of the measures: objective and accuracy against basis vectors, then both against seconds.
func refitPanel(jobs []job, measure int, lowest float64) plot.Panel {
	panel := plot.Panel{Title: jobs[0].bench.name, XLabel: "basis vectors tried", YLabel: "test accuracy (%)"}
	objective, seconds := measure%2 == 0, measure >= 2
	if objective {
		panel.YLabel, panel.LogY = "relative objective difference", true
	}
	if seconds {
		panel.XLabel, panel.LogX = "time (s)", true
	}
	for i := range jobs {
		line := plot.Line{Name: jobs[i].refit.String(), Dashed: jobs[i].refit == solver.OutputLayer}
		for _, p := range jobs[i].points {
			x, y := float64(p.step), p.test
			if seconds {
				x = p.seconds
			}
			if objective {
				y = (p.objective - lowest) / lowest
			}
			line.X, line.Y = append(line.X, x), append(line.Y, y)
		}
		panel.Lines = append(panel.Lines, line)
	}
	return panel
}
