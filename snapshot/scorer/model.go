package scorer

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/foldrow"
	"github.com/refitd/refitd/snapshot/internal/pages"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// Model scores events. It is immutable and safe for concurrent use. It is one type: a method for each question, of
// which every one reads the same arrays.
type Model struct {
	manifest format.Manifest
	contents format.Contents
	index    []map[string]int32 // per field of Schema.Named: name to column
	first    []int32            // the column of the first name of each
	crosses  [][]int            // the categorical fields of each cross
	screens  []*lazyScreen      // per categorical field
	asked    [][]string         // per categorical field: the names that trees ask for; nil without trees
	signedBy string
	expires  time.Time // zero is never

	// Of a model with deltas: the position, the rows that have changed, and the names added.
	position *format.Position
	rows     *pages.ChangedRows // nil where all stand in contents
	numRows  int                // of contents, once all rows were copied there; else it has NumFeatures
	layers   []nameLayer

	known  []*known   // the tables
	extras [][]string // see listExtras
}

// NewModel builds a model from contents without a store. It keeps the slices of c, but for parameters that Tensors
// rounds, which must not change afterwards. The manifest has neither version nor files; golden events are not checked.
// It returns ErrContents.
func NewModel(c *format.Contents) (*Model, error) {
	m, err := BuildModel(c)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w: %w", disk.ErrContents, err)
	}
	return m, nil
}

// BuildModel is NewModel for callers whose error says what they were doing: its own has no prefix.
func BuildModel(c *format.Contents) (*Model, error) {
	c = c.Rounded()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Model{manifest: format.NewManifest(c), contents: *c, expires: c.Meta.Expires}
	m.contents.Degree, m.contents.FoldIn, m.contents.NoFoldIn = m.manifest.Degree, m.manifest.FoldIn, m.manifest.NoFoldIn
	if err := m.indexNames(); err != nil {
		return nil, err
	}
	m.indexTables()
	m.indexTrees()
	return m, nil
}

// indexTrees notes the names that trees ask for.
func (m *Model) indexTrees() {
	if x := m.contents.Trees; x != nil {
		m.asked = make([][]string, len(m.contents.Schema.Categorical))
		for f := range m.asked {
			m.asked[f] = x.NamesOf(f)
		}
	}
}

// indexNames numbers the columns of the vocabulary.
func (m *Model) indexNames() error {
	m.indexCrosses()
	vocabulary := m.contents.Vocabulary
	m.screens = newScreens(len(m.contents.Schema.Categorical))
	m.first, m.index = make([]int32, len(vocabulary)), make([]map[string]int32, len(vocabulary))
	column := int32(0)
	var fields sync.WaitGroup
	for f, names := range vocabulary {
		m.first[f] = column
		column += int32(len(names))
		fields.Go(func() { m.index[f] = indexOf(names, m.first[f]) })
	}
	fields.Wait()
	for f, index := range m.index {
		if _, ok := index[""]; ok || len(index) != len(vocabulary[f]) {
			return fmt.Errorf("vocabulary: field %q has an empty or repeated name", m.contents.Schema.Named()[f])
		}
	}
	return nil
}

// indexOf numbers names from a first column on.
func indexOf(names []string, first int32) map[string]int32 {
	index := make(map[string]int32, len(names))
	for i, name := range names {
		index[name] = first + int32(i)
	}
	return index
}

// Manifest returns the manifest of the version, whatever deltas were applied to it: see Position. Its slices, maps and
// pointers are shared: read them only.
func (m *Model) Manifest() format.Manifest { return m.manifest }

// SignedBy returns the id of the trusted key that signed the version, empty if the reader had no keys.
func (m *Model) SignedBy() string { return m.signedBy }

// Expires returns until when the version may be used, by its manifest and what was known of a renewal when it was
// loaded; zero is without end.
func (m *Model) Expires() time.Time { return m.expires }

// IsExpired reports whether the version may not be used any more at a time, by its manifest and what was known of a
// renewal when it was loaded; a Watcher knows of later ones.
func (m *Model) IsExpired(now time.Time) bool { return !m.expires.IsZero() && !now.Before(m.expires) }

// Schema returns the schema. Its slices are shared: read them only.
func (m *Model) Schema() *format.Schema { return &m.contents.Schema }

// Contents returns the parameters, vocabulary and golden events, to train on from them. The slices are shared: read
// them only. Of a model with deltas it is what a version published there would be made of: names that were added stand
// behind the version's in their field, in the order of addition, and golden events have no outputs. That takes as long
// as copying the model.
func (m *Model) Contents() *format.Contents {
	if m.position != nil {
		return m.materialised()
	}
	c := m.contents
	return &c
}

// NumOutputs returns m, the number of outputs.
func (m *Model) NumOutputs() int { return m.contents.NumOutputs }

// Scratch is the working memory of Score, ScoreBatch and TopK. The zero value is ready; it grows to what is needed and
// is then used again, with any model. One goroutine at a time may use it. It is one type: callers need not know which
// question takes which memory.
type Scratch struct {
	// Workers is by how many goroutines TopK may look at the names of a large field, some thousand names each; 0 is 1.
	// What it finds is the same.
	Workers int

	index []int32
	value []float64
	sum   []float64          // Σ h_r,j x_j
	kern  []float64          // Σ (h_r,j x_j)², then K(h_r, x)
	pairs []float64          // of the ANOVA kernel of degree 3: Σ_{i<j} h_r,i x_i h_r,j x_j
	phi   []float64          // columns of the feature map; empty where an event has none
	ruled []float64          // what trees add to the outputs; empty without trees
	own   *foldrow.FoldedRow // of an overlay: its entity's row, which has no column in index; nil for none

	joined []byte      // the name of a cross
	list   []string    // names of a list in order
	event  joinedInput // with what tables know

	// Of TopK: the event without the ranked field, its outputs, what candidates are multiplied with, theirs, and the
	// best so far.
	names               []string
	base                []float64
	cross, square, cube []float64
	excluded            []uint64
	apart               []int32 // columns of names that trees ask for
	heap                []scored
	numbers             []float64  // of the event without what tables say of the ranked field
	lists               [][]string // the same
	seen                []uint64   // rows of a table that were looked at
	coding              coding

	// Of TopK: what the leading value of candidates is made of, what rules most of them out, and the goroutines that
	// look at them.
	lifted                          lifted
	mix, otherMix                   []float64
	leadCross, leadSquare, leadCube []float64
	screening                       screening
	searches                        []*search
	done                            sync.WaitGroup
}

// Score stores the m outputs o(x) of an event in dst and returns how many of its names the vocabulary does not have;
// those contribute nothing. It takes O(nnz(x)·(k+m) + k·m), with a feature map O(D·(p+m)) more, and does not allocate
// once s has grown. It panics unless dst has length m and the slices of in are nil or as long as the schema's; outputs
// are finite unless a number is absurdly far from the field's center. Finite outputs are clipped to
// Manifest.OutputLimit.
func (m *Model) Score(dst []float64, in *format.Input, s *Scratch) (unseen int) {
	return m.score(nil, dst, in, s)
}

func (m *Model) score(over *Overlay, dst []float64, in *format.Input, s *Scratch) (unseen int) {
	if len(dst) != m.contents.NumOutputs {
		panic(fmt.Sprintf("snapshot: dst has length %d, the model has %d outputs", len(dst), m.contents.NumOutputs))
	}
	if err := in.Check(&m.contents.Schema); err != nil {
		panic("snapshot: " + err.Error())
	}
	unseen = m.encodeOver(over, in, s)
	m.outputs(dst, s)
	format.Limit(dst, m.limit())
	return unseen
}

// ScoreBatch stores the outputs of several events in dst, those of event i in dst[i·m:(i+1)·m], and returns how many of
// their names the vocabulary does not have. It is Score for each; it panics unless dst has length m·len(in).
func (m *Model) ScoreBatch(dst []float64, in []format.Input, s *Scratch) (unseen int) {
	return m.scoreBatch(nil, dst, in, s)
}

func (m *Model) scoreBatch(over *Overlay, dst []float64, in []format.Input, s *Scratch) (unseen int) {
	numOut := m.contents.NumOutputs
	if len(dst) != numOut*len(in) {
		panic(fmt.Sprintf("snapshot: dst has length %d for %d events of %d outputs", len(dst), len(in), numOut))
	}
	for i := range in {
		unseen += m.score(over, dst[i*numOut:(i+1)*numOut], &in[i], s)
	}
	return unseen
}

// encode turns an event into columns and values, in the order that the columns have in Contents.
func (m *Model) encode(in *format.Input, s *Scratch) (unseen int) {
	in = m.join(in, s)
	schema := &m.contents.Schema
	s.index, s.value, s.own = s.index[:0], s.value[:0], nil
	for f, name := range in.Categorical {
		if name == "" {
			continue
		}
		if j, ok := m.column(f, name); ok {
			s.index, s.value = append(s.index, j), append(s.value, 1)
		} else if !m.isFilter(f) {
			unseen++
		}
	}
	if in.Categorical != nil {
		m.encodeCrosses(in, s)
	}
	for f, names := range in.Multi {
		field, start := schema.FirstMulti()+f, len(s.index)
		for _, name := range names {
			if j, ok := m.column(field, name); ok {
				s.index = append(s.index, j)
			} else if name != "" && !m.isFilter(field) {
				unseen++
			}
		}
		slices.Sort(s.index[start:])
		s.index = s.index[:start+len(slices.Compact(s.index[start:]))]
		value := format.MultiValue(schema.MultiWeights, f, s.lengthOf(names, schema.MultiWeights))
		for range s.index[start:] {
			s.value = append(s.value, value)
		}
	}
	first := m.contents.NumFeatures - schema.NumExtra()
	for f, v := range in.Numeric {
		if x := schema.Numeric[f].Scaled(v); format.IsFinite(v) && x != 0 {
			s.index, s.value = append(s.index, int32(first+f)), append(s.value, x)
		}
	}
	if schema.Augment {
		s.index, s.value = append(s.index, int32(m.contents.NumFeatures-1)), append(s.value, 1)
	}
	s.phi = s.phi[:0]
	if fm := schema.FeatureMap; fm != nil && in.Numeric != nil {
		s.phi = slices.Grow(s.phi, fm.NumColumns())[:fm.NumColumns()]
		if !fm.Columns(s.phi, in.Numeric) {
			s.phi = s.phi[:0]
		}
	}
	if s.ruled = s.ruled[:0]; m.contents.Trees != nil {
		s.ruled = rowmath.Resized(s.ruled, m.contents.NumOutputs)
		clear(s.ruled)
		m.contents.Trees.AddTo(s.ruled, in.Categorical, in.Numeric)
	}
	return unseen
}

// lengthOf returns the n of MultiValue: the different names of a list, as training counts them. Schemas without weights
// count repeats and empty names, too.
// O(n log n), without allocations once the scratch is large enough.
func (s *Scratch) lengthOf(names, weights []string) int {
	if len(weights) == 0 {
		return len(names)
	}
	s.list = append(s.list[:0], names...)
	slices.Sort(s.list)
	s.list = slices.Compact(s.list)
	n := len(s.list)
	if n > 0 && s.list[0] == "" {
		n--
	}
	clear(s.list)
	return n
}

// outputs computes o(x) of the encoded event, which Manifest.OutputLimit does not clip yet.
// The ANOVA kernel of degree 2 uses Σ_{i<j} a_i a_j = ½((Σa)² − Σa²) (Rendle 2010, lemma 3.1), that of
// degree 3 a recurrence over the columns: see addTripleRow.
func (m *Model) outputs(dst []float64, s *Scratch) {
	c := &m.contents
	k, numOut := c.NumBasis, c.NumOutputs
	copy(dst, c.Bias)
	s.sum, s.kern = slices.Grow(s.sum[:0], k)[:k], slices.Grow(s.kern[:0], k)[:k]
	if m.isPair(s) {
		m.addPair(dst, s)
	} else {
		m.addRows(dst, s)
	}
	for j, x := range s.phi {
		if x != 0 { // most bins
			for o, w := range c.MapWeights[j*numOut : (j+1)*numOut] {
				dst[o] += w * x
			}
		}
	}
	for o, v := range s.ruled {
		dst[o] += v
	}
	rowmath.AddKernels(dst, s.kern, c.Weights)
}

// isPair reports whether the encoded event has two columns of value 1, as two names are, and the kernel is the product
// of their coordinates.
func (m *Model) isPair(s *Scratch) bool {
	n := len(s.index)
	if s.own != nil {
		n++
	}
	return n == 2 && m.contents.Kernel == format.ANOVA && m.contents.Degree != format.Cubic && s.value[0] == 1 &&
		s.value[len(s.value)-1] == 1
}

// addPair adds the linear weights of a pair to dst and leaves the sums of their coordinates and the kernels. Products
// of numbers far from their field's center are left to addRows, whose squares say earlier that they are too far, as all
// readers do.
func (m *Model) addPair(dst []float64, s *Scratch) {
	one, linear := m.row(int(s.index[0]))
	other, otherLinear := one, linear
	if s.own != nil {
		other, otherLinear = s.own.Basis, s.own.Linear
	} else {
		other, otherLinear = m.row(int(s.index[1]))
	}
	rowmath.AddLinear(dst, linear, 1)
	rowmath.AddLinear(dst, otherLinear, 1)
	sum, kern := s.sum[:len(one)], s.kern[:len(one)]
	other = other[:len(one)]
	for r, a := range one {
		b := other[r]
		sum[r], kern[r] = a+b, a*b
	}
}

// addRows is addPair for any number of columns.
func (m *Model) addRows(dst []float64, s *Scratch) {
	c, sum, kern := &m.contents, s.sum, s.kern
	clear(sum)
	clear(kern)
	if c.Degree == format.Cubic && c.Kernel == format.ANOVA {
		m.addTriples(dst, s) // whose recurrence has the kernels
		return
	}
	for e, j := range s.index {
		basis, linear := m.row(int(j))
		rowmath.AddRow(dst, sum, kern, basis, linear, s.value[e])
	}
	if s.own != nil {
		rowmath.AddRow(dst, sum, kern, s.own.Basis, s.own.Linear, 1)
	}
	kern = kern[:len(sum)]
	switch {
	case c.Degree == format.Cubic:
		for r, a := range sum {
			kern[r] = a * a * a
		}
	case c.Kernel == format.ANOVA:
		for r, a := range sum {
			kern[r] = 0.5 * (a*a - kern[r])
		}
	default:
		for r, a := range sum {
			kern[r] = a * a
		}
	}
}

// limit returns the largest magnitude of an output, 0 for none.
func (m *Model) limit() float64 {
	if l := m.manifest.OutputLimit; l != nil {
		return float64(*l)
	}
	return 0
}
