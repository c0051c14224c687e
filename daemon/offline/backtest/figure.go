package backtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"gonum.org/v1/gonum/floats"
)

// backtestPoints is the number of points of a line: each is the loss of one interval of events.
const backtestPoints = 50

// logRatio is how many times the least loss the largest may be before the axis is logarithmic.
const logRatio = 20

// leading are the predictors that a figure is about, with the best baseline.
var leading = []string{"published", "live"}

// backtestPlot gathers the figure of a backtest: the loss of every predictor over stretches of events, where refits
// were judged, and where alarms of drift were.
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

// alarmed marks an alarm of the drift detector after so many events.
func (p *backtestPlot) alarmed(events int64) {
	p.marks = append(p.marks, plot.Mark{Name: "drift", X: float64(events), Alarm: true})
}

// write draws the figure: losses of what a user has with the best baseline, to their right the share of right classes
// if the model has classes, and below the losses of all others. Lines of baselines are dashed.
func (p *backtestPlot) write(file string) error {
	first := append(slices.Clone(leading), p.best()...)
	rest := slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return slices.Contains(first, name) })
	figure := &plot.Figure{Columns: 2, Panels: []plot.Panel{p.panel(p.loss, p.losses, first, false)}}
	figure.Panels[0].Title = "models and the best baseline"
	if right := p.panel("accuracy (%)", p.accuracy, first, false); len(right.Lines) > 0 {
		right.LogY = false
		figure.Panels = append(figure.Panels, right)
	}
	if others := p.panel(p.loss, p.losses, rest, true); len(others.Lines) > 0 {
		others.Title = "all other predictors"
		figure.Panels = append(figure.Panels, others)
	}
	if err := figure.Write(file); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Key: "--plot", Path: file, Err: fmt.Errorf("--plot: %w", err)}
	}
	return nil
}

// best returns the name of the baseline with the least mean loss over the second half of the stretches, nothing without
// baselines. Only one with a loss in each of them counts.
func (p *backtestPlot) best() (name []string) {
	least, from := math.Inf(1), len(p.events)/2
	for _, n := range p.names {
		if values := p.losses[n]; p.baseline[n] && len(values) == len(p.events) && len(values) > 0 {
			if mean := floats.Sum(values[from:]) / float64(len(values)-from); mean < least { // NaN is not
				least, name = mean, []string{n}
			}
		}
	}
	return name
}

// panel draws the predictors of some names.
func (p *backtestPlot) panel(label string, values map[string][]float64, names []string, faint bool) plot.Panel {
	panel := plot.Panel{XLabel: "events", YLabel: label, Marks: p.marks}
	if n := len(p.events); n > 0 {
		panel.YLabel += fmt.Sprintf(", of each %.0f events", p.events[0])
	}
	least, largest := math.Inf(1), 0.0
	for _, name := range names {
		finite := false
		for _, v := range values[name] {
			if !math.IsNaN(v) {
				finite, least, largest = true, min(least, v), max(largest, v)
			}
		}
		if finite {
			panel.Lines = append(panel.Lines, plot.Line{Name: name, X: p.events[:len(values[name])], Y: values[name],
				Dashed: p.baseline[name], Faint: faint})
		}
	}
	panel.LogY = least > 0 && largest > logRatio*least
	return panel
}
