package snapshot

import (
	"fmt"
	"slices"
)

// Model scores events. It is immutable and safe for concurrent use.
type Model struct {
	manifest Manifest
	contents Contents
	index    []map[string]int32 // per categorical field, then per multi field: name to column
}

// NewModel builds a model from contents without a store. It keeps the slices of c, which must not change afterwards. The manifest has neither
// version nor files; golden events are not checked. It returns ErrContents.
func NewModel(c *Contents) (*Model, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w: %w", ErrContents, err)
	}
	return m, nil
}

func newModel(c *Contents) (*Model, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	m := &Model{manifest: newManifest(c), contents: *c}
	if err := m.indexNames(); err != nil {
		return nil, err
	}
	return m, nil
}

// indexNames numbers the columns of the vocabulary.
func (m *Model) indexNames() error {
	column := int32(0)
	for f, names := range m.contents.Vocabulary {
		index := make(map[string]int32, len(names))
		for _, name := range names {
			index[name] = column
			column++
		}
		if _, ok := index[""]; ok || len(index) != len(names) {
			return fmt.Errorf("vocabulary: field %q has an empty or repeated name", m.contents.Schema.fieldName(f))
		}
		m.index = append(m.index, index)
	}
	return nil
}

// Manifest returns the manifest. Its slices, maps and pointers are shared: read them only.
func (m *Model) Manifest() Manifest { return m.manifest }

// Schema returns the schema. Its slices are shared: read them only.
func (m *Model) Schema() *Schema { return &m.contents.Schema }

// Contents returns the parameters, vocabulary and golden events, to train on from them. The slices are shared: read them only.
func (m *Model) Contents() *Contents {
	c := m.contents
	return &c
}

// NumOutputs returns m, the number of outputs.
func (m *Model) NumOutputs() int { return m.contents.NumOutputs }

// Scratch is the working memory of Score. The zero value is ready; it grows to what is needed and is then used again. One goroutine at a
// time may use it.
type Scratch struct {
	index []int32
	value []float64
	sum   []float64 // Σ h_r,j x_j
	kern  []float64 // Σ (h_r,j x_j)², then K(h_r, x)
}

// Score stores the m outputs o(x) of an event in dst and returns how many of its names the vocabulary does not have; those contribute
// nothing. It takes O(nnz(x)·(k+m) + k·m) and does not allocate once s has grown. It panics unless dst has length m and the slices of
// in are nil or as long as the schema's; outputs are finite unless a number is absurdly far from the field's center.
func (m *Model) Score(dst []float64, in *Input, s *Scratch) (unseen int) {
	if len(dst) != m.contents.NumOutputs {
		panic(fmt.Sprintf("snapshot: dst has length %d, the model has %d outputs", len(dst), m.contents.NumOutputs))
	}
	if err := in.check(&m.contents.Schema); err != nil {
		panic("snapshot: " + err.Error())
	}
	unseen = m.encode(in, s)
	m.outputs(dst, s)
	return unseen
}

// encode turns an event into columns and values, columns increasing.
func (m *Model) encode(in *Input, s *Scratch) (unseen int) {
	schema := &m.contents.Schema
	s.index, s.value = s.index[:0], s.value[:0]
	for f, name := range in.Categorical {
		if name == "" {
			continue
		}
		if j, ok := m.index[f][name]; ok {
			s.index, s.value = append(s.index, j), append(s.value, 1)
		} else {
			unseen++
		}
	}
	for f, names := range in.Multi {
		index, start := m.index[len(schema.Categorical)+f], len(s.index)
		for _, name := range names {
			if j, ok := index[name]; ok {
				s.index = append(s.index, j)
			} else if name != "" {
				unseen++
			}
		}
		slices.Sort(s.index[start:])
		s.index = s.index[:start+len(slices.Compact(s.index[start:]))]
		for range s.index[start:] {
			s.value = append(s.value, MultiValue(len(names)))
		}
	}
	first := m.contents.NumFeatures - schema.numExtra()
	for f, v := range in.Numeric {
		field := &schema.Numeric[f]
		if x := (v - field.Center) / field.Scale; isFinite(v) && x != 0 {
			s.index, s.value = append(s.index, int32(first+f)), append(s.value, x)
		}
	}
	if schema.Augment {
		s.index, s.value = append(s.index, int32(m.contents.NumFeatures-1)), append(s.value, 1)
	}
	return unseen
}

// outputs computes o(x) of the encoded event. The ANOVA kernel uses Σ_{i<j} a_i a_j = ½((Σa)² − Σa²) (Rendle 2010, lemma 3.1).
func (m *Model) outputs(dst []float64, s *Scratch) {
	c := &m.contents
	k, numOut := c.NumBasis, c.NumOutputs
	copy(dst, c.Bias)
	if c.Linear != nil {
		for e, j := range s.index {
			x := s.value[e]
			for o, w := range c.Linear[int(j)*numOut : (int(j)+1)*numOut] {
				dst[o] += w * x
			}
		}
	}
	if k == 0 {
		return
	}
	s.sum, s.kern = slices.Grow(s.sum[:0], k)[:k], slices.Grow(s.kern[:0], k)[:k]
	sum, kern := s.sum, s.kern
	clear(sum)
	clear(kern)
	for e, j := range s.index {
		x := s.value[e]
		row := c.Basis[int(j)*k : (int(j)+1)*k]
		for r, h := range row {
			a := h * x
			sum[r] += a
			kern[r] += a * a
		}
	}
	for r, a := range sum {
		if c.Kernel == ANOVA {
			kern[r] = 0.5 * (a*a - kern[r])
		} else {
			kern[r] = a * a
		}
	}
	for r, v := range kern {
		for o, w := range c.Weights[r*numOut : (r+1)*numOut] {
			dst[o] += w * v
		}
	}
}
