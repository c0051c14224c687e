package scorer

import (
	"math"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// codes say the rows of a table in columns of the version, so that an entity is scored without looking up a name. A
// row has that of its entity and those of columns with one name. For each list it has the n of MultiValue, how many
// columns follow, and these. A code below 0 is no column: -1 for no name, -2 - i for names[i], which the version lacks.
// They take 4 bytes for each row and for each code, and are made once.
type codes struct {
	ends  []int32 // by row
	codes []int32
	names []uncoded
	// bare are the columns of the entities' field that have no row, ascending.
	bare []int32
}

// uncoded is a name that the version has no column of. A delta may add one.
type uncoded struct {
	field int
	name  string
}

// codesOf returns the codes of a table. They have columns of the version alone, so that every model after deltas may
// have them.
func (m *Model) codesOf(k *known) *codes {
	k.posted.mu.Lock()
	defer k.posted.mu.Unlock()
	if k.posted.codes != nil {
		return k.posted.codes
	}
	c, schema, t := new(codes), &m.contents.Schema, k.table
	code := func(field int, name string) int32 {
		if j, ok := m.index[field][name]; ok {
			return j
		}
		c.names = append(c.names, uncoded{field, name})
		return int32(-1 - len(c.names))
	}
	values := func(field int, names []string) []int32 {
		list := make([]int32, len(names))
		for i, name := range names {
			list[i] = code(field, name)
		}
		return list
	}
	single, lists := make([][]int32, len(k.categorical)), make([][]int32, len(k.multi))
	for i, field := range k.categorical {
		single[i] = values(field, t.Categorical[i].Values)
	}
	for i, field := range k.multi {
		lists[i] = values(schema.FirstMulti()+field, t.Multi[i].Values)
	}
	var list []int32
	for row, name := range t.Names {
		c.codes = append(c.codes, code(k.of, name))
		for i := range single {
			if at := t.Categorical[i].At[row]; at >= 0 {
				c.codes = append(c.codes, single[i][at])
			} else {
				c.codes = append(c.codes, -1)
			}
		}
		for i := range lists {
			column, begin := &t.Multi[i], int32(0)
			if row > 0 {
				begin = column.Ends[row-1]
			}
			list = append(list[:0], column.At[begin:column.Ends[row]]...)
			n := len(list)
			slices.Sort(list)
			if list = slices.Compact(list); len(schema.MultiWeights) > 0 {
				n = len(list)
			}
			c.codes = append(c.codes, int32(n), int32(len(list)))
			for _, at := range list {
				c.codes = append(c.codes, lists[i][at])
			}
		}
		c.ends = append(c.ends, int32(len(c.codes)))
	}
	c.bare = m.bareNames(k.of, c)
	k.posted.codes = c
	return c
}

// bareNames returns the columns of the version's names of a field that no row is of.
func (m *Model) bareNames(field int, c *codes) (bare []int32) {
	begin, n := m.first[field], len(m.contents.Vocabulary[field])
	has := make([]bool, n)
	for row := range c.ends {
		if j := c.of(int32(row))[0]; j >= 0 {
			has[j-begin] = true
		}
	}
	for i, ok := range has {
		if !ok {
			bare = append(bare, begin+int32(i))
		}
	}
	return bare
}

// of returns the codes of a row.
func (c *codes) of(row int32) []int32 {
	if row == 0 {
		return c.codes[:c.ends[0]]
	}
	return c.codes[c.ends[row-1]:c.ends[row]]
}

// isCoded reports whether codes say all that an entity of a field brings: its column and those of its one table. Where
// tables say the field, an event without a name has columns by them that one with a name lacks.
func (m *Model) isCoded(field int) bool {
	c := &m.contents
	if c.Trees != nil || c.Degree == format.Cubic || m.isCrossed(field) || m.isColumnOfTable(field) {
		return false
	}
	tables := 0
	for _, k := range m.known {
		if k.of != field {
			continue
		}
		tables++
		if c.Schema.FeatureMap != nil && len(k.numeric) > 0 {
			return false
		}
		for _, f := range k.categorical {
			if m.isCrossed(f) || m.isOfTable(f) {
				return false
			}
		}
	}
	return tables == 1
}

// coding scores the entities of a table by their codes: the event's columns are added up once.
type coding struct {
	*known
	codes               *codes
	event, sum, squares []float64 // of the event: outputs before kernels, Σ h x and Σ (h x)²
	out                 []float64
	rows                []int32 // that wait to be scored, at most codedRows
	touched             float64
}

// codedRows is how many rows are scored together. Their numbers are asked for first, one row after the other, so that
// memory is not waited for once a row. Measured with 8 to 128.
const codedRows = 32

// begin adds the columns of the encoded event up.
func (x *coding) begin(m *Model, k *known, s *Scratch) {
	c := &m.contents
	x.known, x.codes, x.rows = k, m.codesOf(k), x.rows[:0]
	x.event, x.out = rowmath.Resized(x.event, c.NumOutputs), rowmath.Resized(x.out, c.NumOutputs)
	x.sum, x.squares = rowmath.Resized(x.sum, c.NumBasis), rowmath.Resized(x.squares, c.NumBasis)
	copy(x.event, c.Bias)
	clear(x.sum)
	clear(x.squares)
	for e, j := range s.index {
		basis, linear := m.row(int(j))
		rowmath.AddRow(x.event, x.sum, x.squares, basis, linear, s.value[e])
	}
	if s.own != nil {
		rowmath.AddRow(x.event, x.sum, x.squares, s.own.Basis, s.own.Linear, 1)
	}
	for j, v := range s.phi {
		for o := range x.event {
			x.event[o] += v * c.MapWeights[j*c.NumOutputs+o]
		}
	}
}

// touch reads something of each row that waits.
func (x *coding) touch(m *Model) {
	for _, row := range x.rows {
		x.touched += float64(x.codes.ends[row])
		for i := range x.numeric {
			x.touched += x.table.Numeric[i].Values[row]
		}
	}
	for _, row := range x.rows {
		if j := x.codes.of(row)[0]; j >= 0 {
			basis, linear := m.row(int(j))
			for r := 0; r < len(basis); r += 8 { // a line of the cache
				x.touched += basis[r]
			}
			if len(linear) > 0 {
				x.touched += linear[0]
			}
		}
	}
}

// outputs computes those of the event with an entity of the table. It is Score but for the order of sums.
func (x *coding) outputs(m *Model, row int32, s *Scratch) []float64 {
	c := &m.contents
	copy(x.out, x.event)
	copy(s.sum, x.sum)
	copy(s.kern, x.squares)
	codes := x.codes.of(row)
	for _, j := range codes[:1+len(x.categorical)] {
		x.add(m, j, 1, s)
	}
	codes = codes[1+len(x.categorical):]
	for _, f := range x.multi {
		value, list := format.MultiValue(c.Schema.MultiWeights, f, int(codes[0])), codes[2:2+codes[1]]
		for _, j := range list {
			x.add(m, j, value, s)
		}
		codes = codes[2+len(list):]
	}
	for i, f := range x.numeric {
		v := x.table.Numeric[i].Values[row]
		if scaled := c.Schema.Numeric[f].Scaled(v); format.IsFinite(v) && scaled != 0 {
			x.add(m, int32(c.NumFeatures-c.Schema.NumExtra()+f), scaled, s)
		}
	}
	kern := s.kern[:len(s.sum)]
	if c.Kernel == format.ANOVA {
		for r, a := range s.sum {
			kern[r] = 0.5 * (a*a - kern[r])
		}
	} else {
		for r, a := range s.sum {
			kern[r] = a * a
		}
	}
	rowmath.AddKernels(x.out, kern, c.Weights)
	return x.out
}

// add adds a column of a value; of a name that the version lacks the one that a delta has added.
func (x *coding) add(m *Model, j int32, value float64, s *Scratch) {
	if j < 0 {
		if j == -1 || len(m.layers) == 0 {
			return
		}
		name, ok := &x.codes.names[-2-j], false
		if j, ok = m.column(name.field, name.name); !ok {
			return
		}
	}
	basis, linear := m.row(int(j))
	if m.contents.Kernel == format.ANOVA {
		rowmath.AddRow(x.out, s.sum, s.kern, basis, linear, value)
		return
	}
	rowmath.AddLinear(x.out, linear, value)
	sum := s.sum[:len(basis)]
	for r, h := range basis {
		sum[r] += h * value
	}
}

// codedCandidates scores the rows that wait.
func (m *Model) codedCandidates(field, output int, by ranking, k int, s *Scratch) error {
	x := &s.coding
	x.touch(m)
	for _, row := range x.rows {
		if err := m.codedCandidate(field, output, row, by, k, s); err != nil {
			return err
		}
	}
	x.rows = x.rows[:0]
	return nil
}

// codedCandidate is exactCandidate of a row of the table. Where the entity is looked up, and whether it is excluded,
// only for one that is among the best so far.
func (m *Model) codedCandidate(field, output int, row int32, by ranking, k int, s *Scratch) error {
	x := &s.coding
	out := x.outputs(m, row, s)
	place := func() (int32, bool) {
		if j := x.codes.of(row)[0]; j >= 0 {
			return j, true
		}
		return m.placeOf(field, x.table.Names[row])
	}
	if len(s.lifted.touched) > 0 {
		j, ok := place()
		if !ok {
			return nil
		}
		out[output] += m.liftOf(field, j, s)
	}
	key := m.keyOf(by, output, out)
	if math.IsNaN(key) {
		return errTooFar
	}
	if len(s.heap) == k && key < s.heap[0].key {
		return nil
	}
	j, ok := place()
	if !ok {
		return nil
	}
	if i := m.exclusion(field, j); s.excluded[i/64]&(1<<(i%64)) != 0 {
		return nil
	}
	if best := (scored{key: key, column: j}); len(s.heap) < k || s.heap[0].worse(best) {
		s.heap = pushed(s.heap, best, k)
	}
	return nil
}

// allCoded is candidates for a field of a table, without conditions: rows by their codes, other names as Score does.
func (m *Model) allCoded(over *Overlay, field, output int, by ranking, k int, event *format.Input, s *Scratch) error {
	of := m.known[slices.IndexFunc(m.known, func(k *known) bool { return k.of == field })]
	m.encodeOver(over, event, s)
	x := &s.coding
	x.begin(m, of, s)
	for row := range of.table.Names {
		if len(of.changed) > 0 && of.changed[of.table.Names[row]] != nil {
			continue
		}
		if x.rows = append(x.rows, int32(row)); len(x.rows) == codedRows {
			if err := m.codedCandidates(field, output, by, k, s); err != nil {
				return err
			}
		}
	}
	if err := m.codedCandidates(field, output, by, k, s); err != nil {
		return err
	}
	exact := func(j int32) error {
		if i := m.exclusion(field, j); s.excluded[i/64]&(1<<(i%64)) != 0 {
			return nil
		}
		return m.exactCandidate(over, field, j, output, by, k, event, s)
	}
	for _, j := range x.codes.bare {
		if err := exact(j); err != nil {
			return err
		}
	}
	for l := range m.layers {
		for _, j := range m.layers[l].columns[field] {
			if _, ok := of.rows[m.nameOf(field, j)]; ok {
				continue
			}
			if err := exact(j); err != nil {
				return err
			}
		}
	}
	for name := range of.changed { // also those whose row is gone
		j, ok := m.placeOf(field, name)
		if _, had := of.rows[name]; !ok || !had && int(j) < m.NumColumns() { // as a bare name
			continue
		}
		if err := exact(j); err != nil {
			return err
		}
	}
	return nil
}
