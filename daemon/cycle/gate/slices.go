package gate

import (
	"fmt"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// gateSlice are the gate rows whose entity of a field is known to the challenger's training rows, or new to them.
type gateSlice struct {
	field string
	known bool
	gate  []int
}

func (s gateSlice) String() string {
	switch {
	case s.field == "":
		return "all events"
	case s.known:
		return fmt.Sprintf("a known %s", s.field)
	}
	return fmt.Sprintf("a new %s", s.field)
}

// gateSlices returns those of the judged fields, of all events without such fields.
func gateSlices(j *task.Task) (all []gateSlice) {
	fields := JudgedFields(j.Model, j.Schema)
	for _, f := range fields {
		fresh, known := gateSlice{
			field: j.Schema.Categorical[f],
		}, gateSlice{
			field: j.Schema.Categorical[f],
			known: true,
		}
		for i := range j.Rows.Gate.Events {
			switch name := j.Rows.Gate.Events[i].Categorical[f]; {
			case name == "": // absent
			case j.Vocab.Column(f, name) >= 0:
				known.gate = append(known.gate, i)
			default:
				fresh.gate = append(fresh.gate, i)
			}
		}
		all = append(all, fresh, known)
	}
	if len(fields) == 0 { // of numbers alone
		all = []gateSlice{{}}
		for i := range j.Rows.Gate.Events {
			all[0].gate = append(all[0].gate, i)
		}
	}
	return all
}

// plain is a predictor without a model that no version may be worse than.
type plain struct {
	name    string
	measure string      // of both
	own     *heldLosses // of the challenger by another measure than the judged loss
	losses  heldLosses
}

// baselines returns those of the task: the mean label by the baseline's field; the frequencies of the classes where
// outputs have probabilities or are squared, and the most frequent class. They are those of the training rows.
func baselines(j *task.Task, challenger *solver.Model) []plain {
	t := j.Target
	if t.IsNumeric() {
		name, field := "the mean", j.BaselineField()
		if field >= 0 {
			name += " by " + j.Model.Evaluate.BaselineBy
		}
		return []plain{{name: name, measure: "loss", losses: lossesBy(j.Criteria.Means, j, field)}}
	}
	if j.Criteria.Lists != nil {
		return []plain{{name: "popularity", measure: "loss", losses: lossesOf(j, j.Silent(challenger), j.Vocab)}}
	}
	var all []plain
	// Hinge losses have no scale on which frequencies could be outputs.
	if _, squared := t.Loss.(solver.Squared); squared || t.Link != format.Identity {
		all = append(
			all,
			plain{name: "the frequencies of the classes", measure: "loss", losses: constant(j, j.Criteria.Means.Outputs)},
		)
	}
	if t.Task != event.Multilabel { // sets of labels have no most frequent class
		own, other := wrong(j, challenger)
		all = append(all, plain{name: "the most frequent class", measure: "error rate", own: &own, losses: other})
	}
	return all
}

// wrong returns 1 for each held-out row whose class the challenger, and the most frequent class, get wrong, else 0.
func wrong(j *task.Task, challenger *solver.Model) (own, majority heldLosses) {
	of := func(part *encode.Encoded) (a, b []float64) {
		a, b = make([]float64, len(part.Events)), make([]float64, len(part.Events))
		part.Each(j.Target, challenger, func(i int, outputs, targets []float64) {
			if !j.Target.Correct(outputs, targets) {
				a[i] = 1
			}
			if evaluate.Class(j.Target, targets) != j.Criteria.Means.Majority {
				b[i] = 1
			}
		})
		return a, b
	}
	own.chosen, majority.chosen = of(j.Rows.Select_)
	own.gate, majority.gate = of(j.Rows.Gate)
	return own, majority
}
