package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// Implicit is the task whose events are choices: each says that something was viewed or bought, none that it was not.
// It is learned as a binary label; names that were not chosen are drawn as negatives: see Negatives.
const Implicit = "implicit"

// Negatives are what a choice is compared with: names of a field that were chosen as often and as lately as the one
// that is, drawn for each choice. The draw depends on the seed of training, on where the event is in the log and on
// those names alone.
type Negatives struct {
	Of       string `json:"of"`        // categorical field with what is chosen; empty is the second one
	PerEvent int    `json:"per_event"` // names for each choice, 1 to 32; 0 is 4
}

// EventWeight says what one kind of choices weighs.
type EventWeight struct {
	Event  string  `json:"event"`  // what schema.label says of it
	Weight float64 `json:"weight"` // from 0, which leaves such events out
}

const (
	defaultNegatives = 4
	maxNegatives     = 32
	maxEventWeights  = 100
)

// chosenLabel is the label of versions of implicit models whose events have none.
const chosenLabel = "chosen"

// Learned returns the task that a model of the schema is trained for.
func (s *Schema) Learned() event.Task {
	if s.Task == Implicit {
		return event.Binary
	}
	return event.Task(s.Task)
}

// LabelField returns the name of the label in versions: that of an implicit model is 1 for what was chosen, not the
// kind of event.
func (s *Schema) LabelField() string {
	if s.Task == Implicit {
		return chosenLabel
	}
	return s.Label
}

// Follows reports whether a field is a function of another one, or of what is one of it.
func (s *Schema) Follows(name, of string) bool {
	for range len(s.Of) + 1 {
		if name = s.Of[name]; name == of {
			return true
		}
	}
	return false
}

// ChosenField returns the categorical field with what events choose, -1 unless the task is implicit.
func (m *Model) ChosenField() int {
	if m.Schema.Task != Implicit {
		return -1
	}
	return slices.Index(m.Schema.Categorical, m.Input.Negatives.Of)
}

// Rows returns how many rows of the solver an event makes.
func (m *Model) Rows() int {
	if m.Schema.Task != Implicit {
		return 1
	}
	return 1 + m.Input.Negatives.PerEvent
}

// resolveImplicit replaces what follows from the schema.
func (m *Model) resolveImplicit() {
	if m.Schema.Task != Implicit {
		return
	}
	n := &m.Input.Negatives
	n.PerEvent = cmp.Or(n.PerEvent, defaultNegatives)
	if given, _ := m.Schema.GivenFields(); n.Of == "" && len(given) > 1 {
		n.Of = given[1]
	}
}

// implicit checks the keys of choices, which are of that task alone.
func (v *validator) implicit(m *Model, path string) {
	n, s, at := &m.Input.Negatives, &m.Schema, strictyaml.Join(path, "input")
	if s.Task != Implicit {
		if *n != (Negatives{}) {
			v.bad(at+".negatives", *n, "task: implicit in the schema, or leave negatives out")
		}
		if len(s.EventWeights) > 0 {
			v.bad(strictyaml.Join(path, "schema.event_weights"), len(s.EventWeights),
				"task: implicit in the schema, or leave event_weights out")
		}
		return
	}
	given, _ := s.GivenFields()
	if !slices.Contains(given, n.Of) {
		v.oneOfFields(at+".negatives.of", n.Of, given)
	}
	v.present(s, at+".negatives.of", n.Of)
	v.whole(at+".negatives.per_event", n.PerEvent, 1, maxNegatives)
	for i := range s.Derived {
		if d := &s.Derived[i]; d.Of == n.Of {
			v.bad(fmt.Sprintf("%s.derived[%d].of", strictyaml.Join(path, "schema"), i), d.Of,
				"another field than input.negatives.of: the past of a name that was not chosen is not known")
		}
	}
	v.eventWeights(s, strictyaml.Join(path, "schema"))
	if len(m.Sample.Quotas) > 0 {
		v.refuse(strictyaml.Join(path, "sample.quotas"),
			"needs labels of several classes: every event of task: implicit is a choice")
	}
}

// eventWeights checks that kinds have weights if and only if there is a field that says the kind.
func (v *validator) eventWeights(s *Schema, schema string) {
	weights, path := s.EventWeights, schema+".event_weights"
	if s.Label == "" && len(weights) > 0 {
		v.bad(schema+".label", "", "the name of the field with the kind of event, which event_weights gives weights")
	}
	if s.Label != "" && len(weights) == 0 {
		v.bad(
			path,
			nil,
			fmt.Sprintf(
				"what the kinds of event in %q weigh, such as [{event: view, weight: 1}, {event: buy, weight: 5}], or leave "+
					"schema.label out",
				s.Label,
			),
		)
	}
	if len(weights) > maxEventWeights {
		v.bad(path, len(weights), fmt.Sprintf("at most %d kinds of event", maxEventWeights))
	}
	positive := false
	for i, w := range weights {
		at := fmt.Sprintf("%s[%d]", path, i)
		if w.Event == "" || slices.ContainsFunc(weights[:i], func(o EventWeight) bool { return o.Event == w.Event }) {
			v.bad(at+".event", w.Event, "the name of a kind of event, each once")
		}
		v.between(at+".weight", w.Weight, 0, event.MaxKindWeight)
		positive = positive || w.Weight > 0
	}
	if len(weights) > 0 && !positive {
		v.bad(path, "0 throughout", "a weight above 0 for at least one kind of event")
	}
}

// KindOf returns a kind of event and a value of schema.weight whose product is the weight: the kind itself is not
// stored. Without kinds it is empty.
func (s *Schema) KindOf(weight float64) (kind string, factor float64) {
	factor = weight
	for _, w := range s.EventWeights {
		if w.Weight > 0 && (kind == "" || w.Weight == weight && s.Weight == "") {
			kind, factor = w.Event, weight/w.Weight
		}
	}
	return kind, factor
}

// kinds returns the weights of kinds in the decoder's terms, nil without any.
func (s *Schema) kinds() map[string]float64 {
	if len(s.EventWeights) == 0 {
		return nil
	}
	kinds := make(map[string]float64, len(s.EventWeights))
	for _, w := range s.EventWeights {
		kinds[w.Event] = w.Weight
	}
	return kinds
}
