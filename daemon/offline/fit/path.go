package fit

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/daemon/report"
)

// CheckFigure refuses a file, as a flag names it, that no figure can be written to, before anything is run. An empty
// one asks for none.
func CheckFigure(flag, path string) error {
	if path == "" {
		return nil
	}
	err := plot.Check(path)
	if err == nil {
		_, err = os.Stat(filepath.Dir(path)) // better known now than after a long run
	}
	if err != nil {
		return &report.ExitError{
			Code: report.ExitUsage,
			Key:  flag,
			Path: path,
			Err:  fmt.Errorf("%s %s: %w", flag, path, err),
		}
	}
	return nil
}

// writePath plots the path, as far as it came, and prints it where no step lines in JSON replace it. Without a step
// there is no figure.
func writePath(file string, path *report.Path, out *report.Emitter) error {
	if !out.IsJSON() {
		if err := out.Emit("path", path); err != nil {
			return err
		}
	}
	if len(path.Steps) == 0 {
		return nil
	}
	if err := pathFigure(path).Write(file); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Key: "--path", Path: file, Err: fmt.Errorf("--path: %w", err)}
	}
	return nil
}

// pathFigure has one line for each λ and, from left to right, the basis vectors and the seconds it took; above the
// quality on the validation rows, if there are any, below the objective.
func pathFigure(path *report.Path) *plot.Figure {
	type measure struct {
		label string
		value func(*report.Step) float64
	}
	objective := measure{"objective (summed loss and penalty)",
		func(s *report.Step) float64 { return float64(s.Objective) }}
	rows := []measure{objective}
	switch m := path.Steps[0].Valid; {
	case m == nil:
	case m.RMSE != nil:
		rows = []measure{
			{"validation RMSE (units of the label)", func(s *report.Step) float64 { return float64(*s.Valid.RMSE) }},
			objective,
		}
	case m.Accuracy != nil:
		rows = []measure{
			{"validation accuracy (%)", func(s *report.Step) float64 { return 100 * float64(*s.Valid.Accuracy) }},
			objective,
		}
	}
	across := []measure{
		{"k (basis vectors)", func(s *report.Step) float64 { return float64(s.K) }},
		{"time of this λ's path (s)", func(s *report.Step) float64 { return float64(s.Seconds) }},
	}
	figure := &plot.Figure{Columns: len(across), Legend: "λ per 10,000 rows"}
	for _, y := range rows {
		for _, x := range across {
			panel := plot.Panel{XLabel: x.label, YLabel: y.label}
			for _, lambda := range path.Lambdas() {
				line := plot.Line{Name: fmt.Sprintf("λ = %.3g", float64(lambda))}
				for _, s := range path.Of(lambda) {
					line.X, line.Y = append(line.X, x.value(&s)), append(line.Y, y.value(&s))
				}
				panel.Lines = append(panel.Lines, line)
			}
			figure.Panels = append(figure.Panels, panel)
		}
	}
	return figure
}
