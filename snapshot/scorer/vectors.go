package scorer

import (
	"fmt"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// Vectors are a model of degree 2 as one inner product a pair: with K the kernel, S_r = Σ h_r,j x_j over the columns of
// the event, and s_r over those of the name i of a field with what tables know of it,
//
//	o(event, i) = o(event) + b_i + Σ_r V_r f S_r s_r,  f = 1 of ANOVA kernels, 2 of homogeneous ones
//
// so that the name's vector (b_i, s_1 … s_k) and the event's (1, V_1 f S_1 …) order names as TopK does. It is safe for
// concurrent use.
type Vectors struct {
	model         *Model
	field, output int
}

// Vectors returns the vectors of a categorical field, for a class where the model has several. It returns ErrInput,
// with the reason, where the model is no inner product of these.
func (m *Model) Vectors(over, class string) (*Vectors, error) {
	v, err := m.vectors(over, class)
	if err != nil {
		return nil, fmt.Errorf("snapshot: vectors of %q: %w", over, err)
	}
	return v, nil
}

func (m *Model) vectors(over, class string) (*Vectors, error) {
	c := &m.contents
	field := slices.Index(c.Schema.Categorical, over)
	if field < 0 {
		return nil, fmt.Errorf("%w: not a categorical field of the schema (%q)", disk.ErrInput, c.Schema.Categorical)
	}
	output, by, err := m.rankingOf(class)
	if err != nil {
		return nil, err
	}
	reason := ""
	switch {
	case by != byOutput:
		reason = "several outputs make its value together"
	case c.Degree == format.Cubic && c.NumBasis > 0:
		reason = "its kernel is of degree 3"
	case c.Trees != nil:
		reason = "it has trees"
	case m.mixesCrosses(field):
		reason = "a cross joins what names bring with other fields"
	case m.mixesNumbers(field):
		reason = "its feature map takes a number of a table together with others"
	case m.chainsTables(field):
		reason = "a table is of a field that another table says"
	}
	if x := c.CoChoices; x != nil && reason == "" {
		if of, _ := x.Fields(&c.Schema); of == field {
			reason = "which names are chosen together adds to it"
		}
	}
	if reason != "" {
		return nil, fmt.Errorf("%w: the model is no inner product of an event and a name: %s", disk.ErrInput, reason)
	}
	return &Vectors{m, field, output}, nil
}

// bringsField reports whether a name of a field brings one of a categorical field with it: itself, or by a table.
func (m *Model) bringsField(field, categorical int) bool {
	return categorical == field || slices.ContainsFunc(m.known,
		func(k *known) bool { return k.of == field && slices.Contains(k.categorical, categorical) })
}

func (m *Model) mixesCrosses(field int) bool {
	return slices.ContainsFunc(m.crosses, func(parts []int) bool {
		return slices.ContainsFunc(parts, func(f int) bool { return m.bringsField(field, f) })
	})
}

func (m *Model) mixesNumbers(field int) bool {
	return m.contents.Schema.FeatureMap != nil &&
		slices.ContainsFunc(m.known, func(k *known) bool { return k.of == field && len(k.numeric) > 0 })
}

func (m *Model) chainsTables(field int) bool {
	return slices.ContainsFunc(m.known, func(k *known) bool { return k.of != field && m.bringsField(field, k.of) }) ||
		m.isColumnOfTable(field)
}

// Dim returns how many numbers a vector has: k + 1.
func (v *Vectors) Dim() int { return v.model.contents.NumBasis + 1 }

// Query appends the vector of an event to dst. What the event has in the field of the names does not matter. It also
// returns o(event), which a name's inner product adds to. It returns ErrInput.
func (v *Vectors) Query(dst []float64, in *format.Input, s *Scratch) (vector []float64, offset float64, err error) {
	m := v.model
	c := &m.contents
	if err := in.Check(&c.Schema); err != nil {
		return dst, 0, fmt.Errorf("snapshot: query vector: %w", err)
	}
	if err := in.Complete(&c.Schema, c.Schema.Categorical[v.field]); err != nil {
		return dst, 0, fmt.Errorf("snapshot: query vector: %w", err)
	}
	event := *in
	if event.Categorical = slices.Clone(in.Categorical); event.Categorical != nil {
		event.Categorical[v.field] = ""
		m.without(v.field, &event, s)
	}
	out := make([]float64, c.NumOutputs)
	m.encode(&event, s)
	m.outputs(out, s)
	if offset = out[v.output]; !format.IsFinite(offset) {
		return dst, 0, fmt.Errorf("snapshot: query vector: %w", errTooFar)
	}
	dst = append(dst, 1)
	for r := range c.NumBasis {
		first, _, _ := steps(c, s, r)
		dst = append(dst, c.Weights[r*c.NumOutputs+v.output]*first)
	}
	return dst, offset, nil
}

// Has reports whether a name has a vector.
func (v *Vectors) Has(name string) bool {
	_, ok := v.model.placeOf(v.field, name)
	return ok
}

// IsPlaced reports whether a name has a place, see Names.
func (v *Vectors) IsPlaced(name string) bool {
	_, ok := v.model.column(v.field, name)
	return ok
}

// Name appends the vector of a name to dst, that of no columns if it has none. O(k).
func (v *Vectors) Name(dst []float64, name string, s *Scratch) []float64 {
	m := v.model
	c := &m.contents
	s.names = rowmath.Resized(s.names, len(c.Schema.Categorical))
	clear(s.names)
	s.names[v.field] = name
	s.base = rowmath.Resized(s.base, c.NumOutputs)
	m.encode(&format.Input{Categorical: s.names}, s)
	if c.Schema.Augment { // is of the event
		s.index, s.value = s.index[:len(s.index)-1], s.value[:len(s.value)-1]
	}
	m.outputs(s.base, s)
	return append(append(dst, s.base[v.output]-c.Bias[v.output]), s.sum...)
}

// Names calls yield with each name that TopK may find until it returns false. place is that of the name among names of
// equal value, and -1 of names that tables alone know: they come behind, ascending.
func (v *Vectors) Names(yield func(name string, place int) bool) {
	m, s := v.model, new(Scratch)
	m.exclude(v.field, nil, s)
	_ = m.eachName(v.field, s, func(j int32) error { // which is the end, not an error
		place := int(j)
		if place >= m.NumColumns() {
			place = -1
		}
		if !yield(m.nameOf(v.field, j), place) {
			return disk.ErrInput
		}
		return nil
	})
}

// Each calls do with each of Names and its vector, which is valid until do returns, until that returns an error, which
// it returns. O(n·k) for n names.
func (v *Vectors) Each(do func(name string, place int, vector []float64) error) (err error) {
	var vector []float64
	var s Scratch
	v.Names(func(name string, place int) bool {
		vector = v.Name(vector[:0], name, &s)
		err = do(name, place, vector)
		return err == nil
	})
	return err
}
