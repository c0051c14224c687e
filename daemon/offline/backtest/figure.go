package backtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
)

// backtestPoints is the number of points of a line: each is the loss of one interval of events.
const backtestPoints = 50

// logRatio is how many times the least loss the largest may be before the axis is logarithmic.
const logRatio = 20

// backtestPlot gathers the figure of a backtest: the loss of every predictor over stretches of events, and where refits
// were judged.
type backtestPlot struct {
	numeric  bool
	loss     string // label of its axis
	names    []string
	baseline map[string]bool
	events   []float64            // at the end of each stretch
	losses   map[string][]float64 // one for each stretch, NaN without
	accuracy map[string][]float64
	marks    []plot.Mark
}

func newBacktestPlot(numeric bool) *backtestPlot {
	p := &backtestPlot{
		numeric:  numeric,
		loss:     "mean loss",
		baseline: make(map[string]bool),
		losses:   make(map[string][]float64),
		accuracy: make(map[string][]float64),
	}
	if numeric {
		p.loss = "RMSE (units of the label)"
	}
	return p
}

// add takes up a stretch that ends after so many events.
func (p *backtestPlot) add(events int64, losses []evaluate.PredictorLoss) {
	p.events = append(p.events, float64(events))
	for i := range losses {
		l := &losses[i]
		if !slices.Contains(p.names, l.Name) {
			p.names, p.baseline[l.Name] = append(p.names, l.Name), l.Baseline
		}
		loss := l.Loss
		if p.numeric {
			loss = math.Sqrt(loss)
		}
		p.losses[l.Name] = p.put(p.losses[l.Name], loss)
		p.accuracy[l.Name] = p.put(p.accuracy[l.Name], 100*l.Accuracy)
	}
}

// put appends the value of the last stretch, after NaN for those before that had none.
func (p *backtestPlot) put(values []float64, v float64) []float64 {
	for len(values) < len(p.events)-1 {
		values = append(values, math.NaN())
	}
	return append(values, v)
}

// judged marks a refit after so many events.
func (p *backtestPlot) judged(events int64, v *report.Version) {
	p.marks = append(p.marks,
		plot.Mark{Name: "refit " + v.Decision, X: float64(events), Dashed: v.Decision != publish.Promoted})
}

// write draws the figure: losses, and to their right the share of right classes if the model has classes. Lines of
// baselines are dashed.
func (p *backtestPlot) write(file string) error {
	figure := &plot.Figure{Columns: 2, Panels: []plot.Panel{p.panel(p.loss, p.losses)}}
	if right := p.panel("accuracy (%)", p.accuracy); len(right.Lines) > 0 {
		right.LogY = false
		figure.Panels = append(figure.Panels, right)
	}
	if err := figure.Write(file); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Key: "--plot", Path: file, Err: fmt.Errorf("--plot: %w", err)}
	}
	return nil
}

func (p *backtestPlot) panel(label string, values map[string][]float64) plot.Panel {
	panel := plot.Panel{XLabel: "events", YLabel: label, Marks: p.marks}
	if n := len(p.events); n > 0 {
		panel.YLabel += fmt.Sprintf(", of each %.0f events", p.events[0])
	}
	least, largest := math.Inf(1), 0.0
	for _, name := range p.names {
		finite := false
		for _, v := range values[name] {
			if !math.IsNaN(v) {
				finite, least, largest = true, min(least, v), max(largest, v)
			}
		}
		if finite {
			panel.Lines = append(panel.Lines,
				plot.Line{Name: name, X: p.events[:len(values[name])], Y: values[name], Dashed: p.baseline[name]})
		}
	}
	panel.LogY = least > 0 && largest > logRatio*least
	return panel
}
