package scorer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Position returns the position of the model.
func (m *Model) Position() format.Position {
	if m.position != nil {
		return *m.position
	}
	f := &m.manifest
	return format.Position{
		Version:       f.Version,
		Digest:        f.Digest,
		PayloadDigest: f.PayloadDigest,
		Created:       f.Created,
		Watermark:     f.Watermark,
		Events:        f.Events,
		Cut:           f.Cut,
	}
}

// Apply returns the model after the next delta of its chain. It shares what did not change with m. m does not change,
// and any number of goroutines may use it during the call. Apart from the changed rows it copies only the other rows
// of their pages, and lists of a few bytes per thousand rows. Once an eighth of the rows has changed, a goroutine
// copies all of them to one place and ends; a later model has them there. It returns ErrChain if the delta does not
// follow m's position, and ErrContents if what it says cannot be: a row for a column that is not there, a name that
// is there already, a number that is not finite.
func (m *Model) Apply(d *format.Delta) (*Model, error) {
	next, err := m.apply(d)
	if err != nil {
		return nil, fmt.Errorf("snapshot: apply delta %d of %s version %d: %w", d.Sequence, d.Model, d.Base, err)
	}
	return next, nil
}

func (m *Model) apply(d *format.Delta) (*Model, error) {
	at := m.Position()
	switch {
	case d.Model != m.manifest.Model || d.Base != at.Version || d.BaseDigest != m.manifest.Digest:
		return nil, fmt.Errorf(
			"%w: it belongs to %s version %d with manifest %s, the model is %s version %d with %s: take the deltas of that "+
				"version",
			disk.ErrChain,
			d.Model,
			d.Base,
			d.BaseDigest,
			m.manifest.Model,
			at.Version,
			m.manifest.Digest,
		)
	case d.Sequence != at.Sequence+1:
		return nil, fmt.Errorf("%w: the model is at delta %d: take the one after it", disk.ErrChain, at.Sequence)
	case d.Previous != at.Digest:
		return nil, fmt.Errorf(
			"%w: it follows %s, the model is at %s: read the version again, and its deltas from the first",
			disk.ErrChain, d.Previous, at.Digest)
	}
	if err := d.Validate(m.Shape()); err != nil {
		return nil, fmt.Errorf("%w: %w", disk.ErrContents, err)
	}
	next, err := m.changed(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", disk.ErrContents, err)
	}
	at.Sequence, at.Digest, at.PayloadDigest, at.Created = d.Sequence, d.Digest, "", d.Created
	if x := d.Checked; x != nil && x.Sequence == d.Sequence {
		at.PayloadDigest = x.PayloadDigest
	}
	if !d.Watermark.IsZero() {
		at.Watermark = d.Watermark
	}
	at.Events, at.Cut = cmp.Or(d.Events, at.Events), format.MovedCut(at.Cut, d.Cut)
	next.position = &at
	return next, nil
}

// changed returns the model with the names, rows and parameters of a delta.
func (m *Model) changed(d *format.Delta) (*Model, error) {
	columns := m.NumColumns()
	known := d.Columns[:len(d.Columns)-len(d.Added)]
	if n := len(known); n > 0 && int(known[n-1]) >= columns {
		return nil, fmt.Errorf("row of column %d, the model has %d", known[n-1], columns)
	}
	if len(d.Added) > 0 && int(d.Columns[len(known)]) != columns {
		return nil, fmt.Errorf("names are added from column %d on, the model has %d", d.Columns[len(known)], columns)
	}
	c := &m.contents
	if _, _, err := format.TensorHeader(columns+len(d.Added), c.NumOutputs, c.NumBasis, c.Linear != nil,
		c.Schema.FeatureMap,
		cmp.Or(c.Tensors, format.F64)); err != nil {
		return nil, err
	}
	layers, err := m.withNames(d.Added)
	if err != nil {
		return nil, err
	}
	d = d.Rounded(c.Tensors)
	next := *m
	next.layers = layers
	if err := next.withTableRows(d.TableRows); err != nil {
		return nil, err
	}
	if len(next.known) > 0 && len(d.TableRows)+len(d.Added) > 0 {
		next.updateExtras(d)
	}
	next.withRows(d, columns+len(d.Added))
	n := &next.contents
	for _, t := range []struct{ to, from *[]float64 }{{&n.Bias, &d.Bias}, {&n.Weights, &d.Weights}, {&n.MapWeights,
		&d.MapWeights}} {
		if *t.from != nil {
			*t.to = slices.Clone(*t.from)
		}
	}
	if d.Trees != nil {
		n.Trees = d.Trees
		next.indexTrees()
	}
	if d.Weights != nil && c.Kernel == format.Homogeneous { // what names add without other names depends on the weights
		next.screens = newScreens(len(m.screens))
	}
	if d.FoldInLosses != nil {
		fold := *n.FoldIn
		fold.Fields = slices.Clone(fold.Fields)
		for i, losses := range d.FoldInLosses {
			fold.Fields[i].Losses = slices.Clone(losses)
		}
		n.FoldIn = &fold
	}
	if d.Weights != nil {
		if err := n.FoldIn.Validate(n); err != nil {
			return nil, err
		}
	}
	return &next, next.saysSomething()
}

// saysSomething returns an error for a model all of whose outputs are 0, which could not be published.
func (m *Model) saysSomething() error {
	c := &m.contents
	nonzero := func(v float64) bool { return v != 0 }
	if c.Link == format.Identity || slices.ContainsFunc(c.Bias, nonzero) || slices.ContainsFunc(c.Weights, nonzero) ||
		slices.ContainsFunc(c.MapWeights, nonzero) || c.Trees.SaysSomething() {
		return nil
	}
	if c.Linear != nil {
		for j := range m.NumColumns() {
			if slices.ContainsFunc(m.linearRow(j), nonzero) {
				return nil
			}
		}
	}
	return fmt.Errorf("all weights, linear terms and biases would be zero: the model would say nothing")
}

// materialised returns the contents of a model with deltas: columns as Schema says, the names of a field in the order
// of their columns.
func (m *Model) materialised() *format.Contents {
	c := m.contents
	k, numOut, columns := c.NumBasis, m.linearWidth(), m.NumColumns()
	c.NumFeatures, c.Vocabulary = columns, make([][]string, len(m.contents.Vocabulary))
	c.Basis = make([]float64, 0, columns*k)
	if c.Linear != nil {
		c.Linear = make([]float64, 0, columns*numOut)
	}
	add := func(j int) {
		c.Basis = append(c.Basis, m.basisRow(j)...)
		if c.Linear != nil {
			c.Linear = append(c.Linear, m.linearRow(j)...)
		}
	}
	for f, names := range m.contents.Vocabulary {
		c.Vocabulary[f] = slices.Grow(slices.Clone(names), m.numNames(f)-len(names))
		for i := range names {
			add(int(m.first[f]) + i)
		}
		for l := range m.layers {
			for _, j := range m.layers[l].columns[f] {
				c.Vocabulary[f] = append(c.Vocabulary[f], m.addedName(j).Name)
				add(int(j))
			}
		}
	}
	for j := m.contents.NumFeatures - c.Schema.NumExtra(); j < m.contents.NumFeatures; j++ {
		add(j)
	}
	if len(m.known) > 0 {
		c.Tables = make([]*format.Table, len(m.known))
		for i, k := range m.known {
			c.Tables[i] = k.current(i)
		}
	}
	p := m.position
	c.Meta.Created, c.Meta.Watermark, c.Meta.Events, c.Meta.Cut = p.Created, p.Watermark, p.Events, p.Cut
	c.Golden = slices.Clone(c.Golden)
	for i := range c.Golden {
		c.Golden[i].Outputs = nil // were the version's
	}
	return &c
}
