package scorer

import (
	"fmt"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Predict scores an event and applies the link. It allocates; Score does not. It returns ErrInput if the event does not
// have the shape of the schema, lacks a field that is not optional or has a number so large that an output overflows.
func (m *Model) Predict(in *format.Input) (answer.Prediction, error) {
	return m.predictOver(nil, in)
}

func (m *Model) predictOver(over *Overlay, in *format.Input) (answer.Prediction, error) {
	p, err := m.predictWith(over, in)
	if err != nil {
		return answer.Prediction{}, fmt.Errorf("snapshot: %w", err)
	}
	return p, nil
}

func (m *Model) predict(in *format.Input) (answer.Prediction, error) { return m.predictWith(nil, in) }

func (m *Model) predictWith(over *Overlay, in *format.Input) (answer.Prediction, error) {
	c := &m.contents
	if err := in.Check(&c.Schema); err != nil {
		return answer.Prediction{}, err
	}
	if err := in.Complete(&c.Schema, ""); err != nil {
		return answer.Prediction{}, err
	}
	p := answer.NewPrediction(c)
	var s Scratch
	in = m.join(in, &s)
	p.Absent = in.Absent(&c.Schema)
	if m.score(over, p.Outputs, in, &s) > 0 {
		p.Unseen = m.unseenNames(over, in)
	}
	for o, v := range p.Outputs {
		if !format.IsFinite(v) {
			return p, fmt.Errorf("%w: output %d is %g: a numeric field is too far from its center", disk.ErrInput, o, v)
		}
	}
	p.Link(c)
	return p, nil
}

// unseenNames lists the names that Score counted.
func (m *Model) unseenNames(over *Overlay, in *format.Input) []string {
	var unseen []string
	fields := m.contents.Schema.Named()
	note := func(f int, name string) {
		if _, ok := m.column(f, name); !ok && name != "" && !m.isFilter(f) {
			unseen = append(unseen, fields[f]+"="+name)
		}
	}
	for f, name := range in.Categorical {
		if over != nil && len(over.rows) > 0 && f == over.field && over.find(name) >= 0 {
			continue
		}
		note(f, name)
	}
	for f, names := range in.Multi {
		for _, name := range names {
			note(m.contents.Schema.FirstMulti()+f, name)
		}
	}
	return unseen
}
