package scorer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// ranking says which outputs a ranking needs and how they become its key.
type ranking uint8

const (
	byOutput ranking = iota // key o_c: values, and probabilities that grow with it
	byLevel                 // key L − Σ σ(o_c), the expected level
	byShare                 // key −Σ_j exp(o_j − o_c), which orders softmax probabilities
)

// TopK appends to dst the K names of a categorical field with the largest values, largest first, names of equal value
// in the order of the vocabulary. It is exact: a name that is not excluded is passed over only where a bound says that
// it cannot be among the best. That takes O(n·k) for n names, by Scratch.Workers goroutines. A field of some thousand
// names that is ranked for the eighth time gets a table of a byte for every number of its rows, which rules names out
// several times as fast; making it takes that one call as long as some thirty rankings. Models after deltas share it.
// In a field that is part of a cross each name takes as long as Score, and so do those that trees ask for. Values are
// computed from the outputs of Score and what CoChoices add to them.
// Nothing is allocated once s and dst have grown and there is the table. It returns ErrInput.
//
// Names are ordered by their outputs before Manifest.OutputLimit, and Item.Value is of those after it: names that the
// limit makes equal keep their order. Where several outputs make a value, of levels and by softmax, a list that reaches
// the limit may have a larger value behind a smaller one.
//
// A name of a one-hot field changes the kernels by S_r h_r (anova) or (2 S_r + h_r) h_r (homogeneous), S_r = Σ h_r,j
// x_j over the other columns, so a candidate costs one product of its row of the basis with a matrix that the event
// determines. Kernels of degree 3 change by A_r h_r, with the kernel of degree 2 of the other columns, or (3 S_r² + (3
// S_r + h_r) h_r) h_r, for which there is no table.
func (m *Model) TopK(dst []format.Item, q *format.Query, s *Scratch) ([]format.Item, error) {
	return m.topKOver(nil, dst, q, s)
}

func (m *Model) topKOver(over *Overlay, dst []format.Item, q *format.Query, s *Scratch) ([]format.Item, error) {
	dst, err := m.topK(over, dst, q, s)
	if err != nil {
		return dst, fmt.Errorf("snapshot: top %d over %q: %w", q.K, q.Over, err)
	}
	return dst, nil
}

func (m *Model) topK(over *Overlay, dst []format.Item, q *format.Query, s *Scratch) ([]format.Item, error) {
	c := &m.contents
	if err := q.Input.Check(&c.Schema); err != nil {
		return dst, err
	}
	if err := q.Input.Complete(&c.Schema, q.Over); err != nil {
		return dst, err
	}
	field := slices.Index(c.Schema.Categorical, q.Over)
	switch {
	case field < 0:
		return dst, fmt.Errorf("%w: %q is not a categorical field of the schema (%q)", disk.ErrInput, q.Over,
			c.Schema.Categorical)
	case over != nil && len(over.rows) > 0 && field == over.field:
		return dst, fmt.Errorf("%w: the history is of names of %q: rank over another field", disk.ErrInput, q.Over)
	case q.K < 1:
		return dst, fmt.Errorf("%w: %d names wanted, at least 1", disk.ErrInput, q.K)
	}
	output, by, err := m.rankingOf(q.Class)
	if err != nil {
		return dst, err
	}
	s.names = append(s.names[:0], q.Input.Categorical...)
	if q.Input.Categorical == nil {
		s.names = append(s.names, make([]string, len(c.Schema.Categorical))...)
	}
	s.names[field] = ""
	event := format.Input{Categorical: s.names, Numeric: q.Input.Numeric, Multi: q.Input.Multi}
	m.without(field, &event, s)
	where, err := m.conditions(field, q.Where)
	if err != nil {
		return dst, err
	}
	s.base = slices.Grow(s.base[:0], c.NumOutputs)[:c.NumOutputs]
	m.encodeOver(over, &event, s)
	m.outputs(s.base, s)
	m.exclude(field, q.Exclude, s)
	m.lift(over, field, &event, s)
	defer s.unlift()
	k := min(q.K, m.numNames(field)+m.numExtras(field))
	if m.isCrossed(field) || m.isOfTable(field) || m.isColumnOfTable(field) {
		err = m.crossedCandidates(over, field, output, by, k, &event, where, s)
	} else {
		m.setApart(field, s)
		err = m.candidates(field, output, by, k, s)
		for i := 0; i < len(s.apart) && err == nil; i++ {
			err = m.exactCandidate(over, field, s.apart[i], output, by, k, &event, s)
		}
	}
	if err != nil {
		return dst, err
	}
	return m.ranked(over, dst, field, output, by, &event, s)
}

// rankingOf returns what a ranking looks at: an output, or all of them.
func (m *Model) rankingOf(class string) (output int, by ranking, err error) {
	s := &m.contents.Schema
	switch s.Task {
	case format.Multiclass, format.Multilabel:
		if output = slices.Index(s.Classes, class); output < 0 {
			return 0, 0, fmt.Errorf("%w: choose a class to rank by, %q is none of the model's", disk.ErrInput, class)
		}
		if m.contents.Link == format.Softmax {
			by = byShare
		}
	case format.Ordinal:
		if m.contents.Link == format.OrdinalLink {
			by = byLevel
		}
	}
	return output, by, nil
}

// exclude marks the names not wanted: by their position in the field, those that deltas have added behind the version's
// by their column.
func (m *Model) exclude(field int, names []string, s *Scratch) {
	own := len(m.contents.Vocabulary[field])
	words := (own + m.NumColumns() - m.contents.NumFeatures + m.numExtras(field) + 63) / 64
	s.excluded = slices.Grow(s.excluded[:0], words)[:words]
	clear(s.excluded)
	for _, name := range names {
		if j, ok := m.placeOf(field, name); ok {
			i := m.exclusion(field, j)
			s.excluded[i/64] |= 1 << (i % 64)
		}
	}
}

// exclusion returns the place of a column of a field in Scratch.excluded.
func (m *Model) exclusion(field int, j int32) int {
	if n := m.contents.NumFeatures; int(j) >= n {
		return len(m.contents.Vocabulary[field]) + int(j) - n
	}
	return int(j - m.first[field])
}

// eachName calls do with the columns of the names of a field that are not excluded, ascending, until it returns an
// error.
func (m *Model) eachName(field int, s *Scratch, do func(j int32) error) error {
	wanted := func(i int) bool { return s.excluded[i/64]&(1<<(i%64)) == 0 }
	for i := range m.contents.Vocabulary[field] {
		if wanted(i) {
			if err := do(m.first[field] + int32(i)); err != nil {
				return err
			}
		}
	}
	for l := range m.layers {
		for _, j := range m.layers[l].columns[field] {
			if wanted(m.exclusion(field, j)) {
				if err := do(j); err != nil {
					return err
				}
			}
		}
	}
	for i := range m.numExtras(field) {
		if j := int32(m.NumColumns() + i); wanted(m.exclusion(field, j)) {
			if err := do(j); err != nil {
				return err
			}
		}
	}
	return nil
}

var errTooFar = fmt.Errorf("%w: an output is not finite: a numeric field is too far from its center", disk.ErrInput)

// crossedCandidates is candidates for a field of a cross or of a table, whose names bring other columns with them: each
// for which the conditions hold is scored as Score does.
func (m *Model) crossedCandidates(over *Overlay, field, output int, by ranking, k int, event *format.Input,
	where []asked, s *Scratch) error {
	s.heap = s.heap[:0]
	if len(where) > 0 {
		return m.whereCandidates(over, field, output, by, k, event, where, s)
	}
	if m.isCoded(field) {
		return m.allCoded(over, field, output, by, k, event, s)
	}
	return m.eachName(field, s,
		func(j int32) error { return m.exactCandidate(over, field, j, output, by, k, event, s) })
}

// setApart sets the names of a field apart that trees ask for: all others have the same answers, those of no name.
// They are then excluded.
func (m *Model) setApart(field int, s *Scratch) {
	s.apart = s.apart[:0]
	if m.asked == nil {
		return
	}
	for _, name := range m.asked[field] {
		j, ok := m.column(field, name)
		if !ok {
			continue
		}
		if i := m.exclusion(field, j); s.excluded[i/64]&(1<<(i%64)) == 0 {
			s.excluded[i/64] |= 1 << (i % 64)
			s.apart = append(s.apart, j)
		}
	}
}

// exactCandidate adds a name to those that candidates found, scored as Score does: one of a field of a cross, whose
// names bring other columns with them, or one that trees ask for.
func (m *Model) exactCandidate(over *Overlay, field int, j int32, output int, by ranking, k int, event *format.Input,
	s *Scratch) error {
	event.Categorical[field] = m.nameOf(field, j)
	m.encodeOver(over, event, s)
	m.outputs(s.base, s)
	s.base[output] += m.liftOf(field, j, s)
	key := m.keyOf(by, output, s.base)
	if math.IsNaN(key) {
		return errTooFar
	}
	if x := (scored{key: key, column: j}); len(s.heap) < k || s.heap[0].worse(x) {
		s.heap = pushed(s.heap, x, k)
	}
	return nil
}

// matrix stores, for all outputs in groups of lanes, what a candidate's row of the basis, its squares and its cubes are
// multiplied with: V[r,c] times Contents.steps. Of an ANOVA kernel only the first counts.
func (m *Model) matrix(s *Scratch) {
	c := &m.contents
	k := c.NumBasis
	outputs := (c.NumOutputs + rowmath.Lanes - 1) / rowmath.Lanes * rowmath.Lanes
	s.cross, s.square = rowmath.Resized(s.cross, outputs*k), rowmath.Resized(s.square, outputs*k)
	s.cube = rowmath.Resized(s.cube, outputs*k)
	clear(s.cross)
	clear(s.square)
	clear(s.cube)
	for r := range k {
		first, second, third := steps(c, s, r)
		for o, w := range c.Weights[r*c.NumOutputs : (r+1)*c.NumOutputs] {
			at := (o/rowmath.Lanes*k+r)*rowmath.Lanes + o%rowmath.Lanes
			s.cross[at], s.square[at], s.cube[at] = w*first, w*second, w*third
		}
	}
}

// candidate stores what the name of column j adds to all outputs of the event through the kernels, given the matrix of
// s. Outputs are a multiple of lanes.
func (m *Model) candidate(outputs []float64, j int, s *Scratch) {
	k, row := m.contents.NumBasis, m.basisRow(j)
	for at := 0; at < len(outputs); at += rowmath.Lanes {
		cross, square, out := s.cross[at*k:(at+rowmath.Lanes)*k], s.square[at*k:(at+rowmath.Lanes)*k], outputs[at:at+
			rowmath.Lanes]
		switch {
		case m.contents.Kernel == format.ANOVA:
			rowmath.Cross4(out, row, cross)
		case isCube(&m.contents):
			rowmath.Cubes4(out, row, cross, square, s.cube[at*k:(at+rowmath.Lanes)*k])
		default:
			rowmath.Squares4(out, row, cross, square)
		}
	}
}

// key orders candidates; out are their outputs, or the only one that is looked at.
func (m *Model) key(by ranking, output int, out []float64) float64 {
	switch by {
	case byLevel:
		level := float64(m.contents.Schema.Levels)
		for _, v := range out {
			level -= rowmath.Sigmoid(v)
		}
		return level
	case byShare:
		share := 0.0
		for _, v := range out {
			share -= math.Exp(v - out[output])
		}
		return share
	}
	return out[0]
}

// keyOf is key, given all outputs.
func (m *Model) keyOf(by ranking, output int, out []float64) float64 {
	if by == byOutput {
		return out[output]
	}
	return m.key(by, output, out)
}

// scored is a candidate with its key. Of equal keys the earlier column is the better one.
type scored struct {
	key    float64 // of the outputs before Manifest.OutputLimit
	column int32
	final  float64 // the key of the outputs after it; known once the best are found
}

func (a scored) worse(b scored) bool { return a.key < b.key || a.key == b.key && a.column > b.column }

// pushed keeps the best k candidates in a heap with the worst on top.
func pushed(h []scored, x scored, k int) []scored {
	if len(h) < k {
		h = append(h, x)
		for i := len(h) - 1; i > 0 && h[i].worse(h[(i-1)/2]); i = (i - 1) / 2 {
			h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		}
		return h
	}
	h[0] = x
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h) {
			return h
		}
		if child+1 < len(h) && h[child+1].worse(h[child]) {
			child++
		}
		if !h[child].worse(h[i]) {
			return h
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// ranked scores the candidates of the heap again as Score does, lifts them, and appends them in order.
func (m *Model) ranked(over *Overlay, dst []format.Item, field, output int, by ranking, event *format.Input,
	s *Scratch) ([]format.Item, error) {
	for i := range s.heap {
		x := &s.heap[i]
		event.Categorical[field] = m.nameOf(field, x.column)
		m.encodeOver(over, event, s)
		m.outputs(s.base, s)
		for _, v := range s.base {
			if !format.IsFinite(v) {
				return dst, errTooFar
			}
		}
		s.base[0] += m.liftOf(field, x.column, s)
		x.key = m.keyOf(by, output, s.base)
		format.Limit(s.base, m.limit())
		x.final = m.keyOf(by, output, s.base)
	}
	slices.SortFunc(s.heap,
		func(a, b scored) int { return cmp.Or(cmp.Compare(b.key, a.key), cmp.Compare(a.column, b.column)) })
	for _, x := range s.heap {
		dst = append(dst, format.Item{Name: m.nameOf(field, x.column), Value: m.itemValue(by, x.final)})
	}
	return dst, nil
}

// itemValue turns a key into Item.Value.
func (m *Model) itemValue(by ranking, key float64) float64 {
	c := &m.contents
	switch {
	case by == byShare:
		return -1 / key
	case by == byOutput && c.Link == format.Logistic && c.Schema.Task != format.Multiclass:
		return rowmath.Sigmoid(key)
	case by == byOutput && c.Schema.Task == format.Ordinal:
		return min(max(key, 1), float64(c.Schema.Levels))
	}
	return key
}
