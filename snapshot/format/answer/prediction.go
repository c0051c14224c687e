package answer

import (
	"cmp"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// Prediction is what a model says of one event.
type Prediction struct {
	// Value is the predicted number: the label of a regression; the expected level of an ordinal label, in [1, L]; the
	// class 0 or 1 of a binary label; the position in Schema.Classes of a multiclass one; the number of labels of a
	// multilabel one.
	Value float64
	// Classes are the predicted names: one of a multiclass label, those with p > ½ of a multilabel one, in the order
	// of the schema; else nil.
	// The name of a binary label is what Label returns.
	Classes []string
	// Probabilities belong to 0 and 1 (binary), to the classes, or to the levels 1..L, and add up to 1; of a multilabel
	// label each class has its own. Levels have separate classifiers, so where those are not ordered an entry is
	// negative. Nil where the link has none: identity, and the one-against-the-rest logistic link of a multiclass
	// label.
	Probabilities []float64
	Outputs       []float64 // o(x), of length m, clipped to Manifest.OutputLimit
	Unseen        []string  // names outside the vocabulary, as "user=u9"
	Absent        []string  // fields that the event lacks, which contribute nothing

	task  string
	names []string // of the classes, or of a binary label
}

// NewPrediction returns the prediction of a model with these contents, with outputs of 0; link fills in the rest.
func NewPrediction(c *format.Contents) Prediction {
	p := Prediction{Outputs: make([]float64, c.NumOutputs), task: c.Schema.Task, names: c.Schema.Classes}
	if c.Schema.Task == format.Binary {
		p.names = c.Schema.LabelNames()
	}
	return p
}

// Ranked returns the classes of a multiclass label, those with the largest outputs first, of equal outputs in the order
// of the schema; else nil.
func (p *Prediction) Ranked() []string {
	if p.task != format.Multiclass {
		return nil
	}
	order := make([]int, len(p.Outputs))
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Outputs[b], p.Outputs[a]) })
	ranked := make([]string, len(order))
	for i, c := range order {
		ranked[i] = p.names[c]
	}
	return ranked
}

// Names returns the names of a binary label in the order of Probabilities; nil for labels that are no names and for
// other tasks.
func (p *Prediction) Names() []string {
	if p.task != format.Binary {
		return nil
	}
	return p.names
}

// Label returns the prediction as files and commands show it: the Value, for a multiclass label and a binary one with
// names the name, for a multilabel one the list of names.
func (p *Prediction) Label() any {
	switch p.task {
	case format.Multiclass:
		return p.Classes[0]
	case format.Multilabel:
		return p.Classes
	case format.Binary:
		if p.names != nil {
			return p.names[int(p.Value)]
		}
	}
	return p.Value
}

// Link fills in value, classes and probabilities from the outputs.
func (p *Prediction) Link(c *format.Contents) {
	o, s := p.Outputs, &c.Schema
	threshold := 0.0 // of an output, where its class is as likely as not; squared loss learns targets 0 and 1
	if c.Link == format.Identity {
		threshold = 0.5
	}
	switch s.Task {
	case format.Regression:
		p.Value = o[0]
	case format.Binary:
		if o[0] > threshold {
			p.Value = 1
		}
		if c.Link == format.Logistic {
			p.Probabilities = []float64{rowmath.Sigmoid(-o[0]), rowmath.Sigmoid(o[0])}
		}
	case format.Ordinal:
		if c.Link == format.Identity {
			p.Value = min(max(o[0], 1), float64(s.Levels))
			return
		}
		// Expected level Σ_c c (p_c − p_{c−1}) = L − Σ_{c<L} p_c, with p_0 = 0 and p_L = 1 (Li et al. 2007).
		p.Value, p.Probabilities = float64(s.Levels), make([]float64, s.Levels)
		last := 0.0
		for c, v := range o {
			below := rowmath.Sigmoid(v)
			p.Value -= below
			p.Probabilities[c] = below - last
			last = below
		}
		p.Probabilities[len(o)] = 1 - last
	case format.Multiclass:
		best := 0
		for c, v := range o {
			if v > o[best] {
				best = c
			}
		}
		p.Value, p.Classes = float64(best), s.Classes[best:best+1:best+1]
		if c.Link == format.Softmax {
			p.Probabilities = rowmath.Softmax(o, o[best])
		}
	case format.Multilabel:
		p.Classes = []string{}
		for c, v := range o {
			if v > threshold {
				p.Classes = append(p.Classes, s.Classes[c])
			}
		}
		p.Value = float64(len(p.Classes))
		if c.Link == format.Logistic {
			p.Probabilities = make([]float64, len(o))
			for c, v := range o {
				p.Probabilities[c] = rowmath.Sigmoid(v)
			}
		}
	}
}

// Answer is the JSON form of a prediction, as HTTP and the WebAssembly module give it.
type Answer struct {
	Prediction    any             `json:"prediction"`        // a number, a class or a list of classes
	Classes       []string        `json:"classes,omitempty"` // the names of a binary label, in the order of probabilities
	Outputs       []format.Number `json:"outputs"`           // raw, in the order of the manifest
	Probabilities []format.Number `json:"probabilities"`     // of the classes or levels; null where the link has none
	Ranked        []string        `json:"ranked,omitempty"`  // the classes of a multiclass label, best first
	// names such as user=u9 that the version does not know: they count nothing
	Unseen []string `json:"unseen"`
	Absent []string `json:"absent"` // optional fields that the event lacks: they count nothing
}

// Answer returns the JSON form.
func (p *Prediction) Answer() Answer {
	label := p.Label()
	if v, ok := label.(float64); ok {
		label = format.Number(v)
	}
	return Answer{
		Prediction:    label,
		Classes:       p.Names(),
		Outputs:       format.Numbers(p.Outputs),
		Probabilities: format.Numbers(p.Probabilities),
		Ranked:        p.Ranked(),
		Unseen:        List(p.Unseen),
		Absent:        List(p.Absent),
	}
}

// List returns a list that JSON writes as [] where it is nil.
func List(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}
