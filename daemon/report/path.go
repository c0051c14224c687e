package report

import (
	"fmt"
	"io"
)

// Path is a regularisation path: the steps of every λ, in the order in which they were made. It is the text form of
// what the step lines say one by one, and has nothing to add to them in JSON.
type Path struct {
	Steps []Step `json:"-"`
}

// Lambdas returns the strengths in the order of their first steps.
func (p *Path) Lambdas() []Number {
	var list []Number
	seen := make(map[Number]bool)
	for i := range p.Steps {
		if l := p.Steps[i].Lambda; !seen[l] {
			seen[l] = true
			list = append(list, l)
		}
	}
	return list
}

// Of returns the steps of one λ.
func (p *Path) Of(lambda Number) []Step {
	var steps []Step
	for i := range p.Steps {
		if p.Steps[i].Lambda == lambda {
			steps = append(steps, p.Steps[i])
		}
	}
	return steps
}

// headline is the measure that a path is judged by: the error of numbers or the accuracy of classes, nil without
// either.
func headline(m *Metrics) (name string, value *Number, lowerIsBetter bool) {
	switch {
	case m == nil:
	case m.RMSE != nil:
		return "rmse", m.RMSE, true
	case m.Accuracy != nil:
		return "accuracy", m.Accuracy, false
	}
	return "", nil, false
}

// WriteText prints one line for each λ: its best step by the validation rows and its last step.
func (p Path) WriteText(w io.Writer) error {
	if len(p.Steps) == 0 {
		return say(w, "regularisation path: no step was finished\n")
	}
	metric, _, _ := headline(p.Steps[0].Valid)
	head := []string{"lambda", "steps", "k", "objective", "seconds"}
	if metric != "" {
		head = append(head, "best k", "best "+metric)
	}
	rows := [][]string{head}
	for _, lambda := range p.Lambdas() {
		steps := p.Of(lambda)
		last := &steps[len(steps)-1]
		row := []string{plain(lambda), whole(len(steps)), whole(last.K), plain(last.Objective),
			fmt.Sprintf("%.2f", float64(last.Seconds))}
		if metric != "" {
			best := bestStep(steps)
			_, value, _ := headline(best.Valid)
			row = append(row, whole(best.K), number(value))
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(w, "regularisation path")
	return table(w, rows)
}

// bestStep returns the earliest step of the best validation figure.
func bestStep(steps []Step) *Step {
	best := &steps[0]
	for i := range steps[1:] {
		_, value, lower := headline(steps[i+1].Valid)
		_, old, _ := headline(best.Valid)
		if value != nil && old != nil && *value != *old && (*value < *old) == lower {
			best = &steps[i+1]
		}
	}
	return best
}
