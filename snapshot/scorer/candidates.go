package scorer

import (
	"cmp"
	"math"
	"math/bits"
	"sync"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// question is what the names of a field are ranked by. It does not change during the search.
type question struct {
	model            *Model
	field, output, k int
	by               ranking
	base             []float64
	all              *Scratch // of all outputs: see matrix
	excluded         []uint64

	// Of the leading value of names, Σ mix o: the larger it is the better they may be. See mixing.
	mix                 []float64 // of the outputs; nil for the one that is ranked by
	entropy             float64
	offset              float64    // Σ mix base
	goal                float64    // that a few names reach; +Inf is not known
	cross, square, cube []float64  // what rows are multiplied with: see multipliers
	ruled               *screening // by which most names are ruled out; nil for none
}

// search is one goroutine's part of a ranking. Of each name it computes the leading value, four names at a time, or
// less by a screening; by that alone nearly all of them are passed over once there are as many as are wanted.
type search struct {
	question
	first, last int // positions of names in the field
	heap        []scored
	low         float64  // a name whose leading value is less is not among the best
	high        float64  // a name with an output above it is not, either: see exceeds
	seen        []uint64 // per block of names: those ranked
	out         []float64
	values      [blockNames]float64
	err         error
	run         func() // names and done, as a goroutine that takes no memory
	done        *sync.WaitGroup
}

// minNames is how many names are worth a goroutine, or a screen: tens of microseconds.
const minNames = 4 << 10

// blockNames is how many names are taken at a time: those of a word of Scratch.excluded.
const blockNames = 64

// firstNames is how many names say what to rule others out by.
const firstNames = 8 * blockNames

// candidates leaves the columns with the k largest keys in the heap of s, whose base and sums are those of the event
// without the field. By how many goroutines they are found changes nothing: keys and columns order them, and neither
// depends on who looks.
func (m *Model) candidates(field, output int, by ranking, k int, s *Scratch) error {
	q := question{
		model:    m,
		field:    field,
		output:   output,
		k:        k,
		by:       by,
		base:     s.base,
		excluded: s.excluded,
		all:      s,
		goal:     math.Inf(1),
	}
	if by != byOutput {
		m.matrix(s)
	}
	q.lead(s.firstMix(&q))
	names := len(m.contents.Vocabulary[field])
	workers := max(1, min(s.Workers, names/minNames))
	for len(s.searches) < workers {
		s.searches = append(s.searches, newSearch(&s.done))
	}
	own := s.searches[0]
	own.begin(&q, 0, min(names, firstNames))
	own.names()
	if names > minNames && by != byOutput {
		mix, goal := s.betterMix(own)
		q.lead(mix)
		q.goal = goal
	}
	if screen := m.screenOf(field); screen != nil && s.screening.begin(screen, &q) {
		q.ruled = &s.screening
	}
	own.question, own.low = q, math.Inf(-1)
	own.bound()
	share := (names/workers + blockNames) / blockNames * blockNames
	for i, w := range s.searches[1:workers] {
		w.begin(&q, min((i+1)*share, names), min((i+2)*share, names))
		w.low, w.high = own.low, own.high
	}
	s.done.Add(workers - 1)
	for _, w := range s.searches[1:workers] {
		go w.run()
	}
	own.first, own.last = own.last, min(share, names)
	own.names()
	own.addedNames()
	s.done.Wait()
	err := own.err
	for _, w := range s.searches[1:workers] {
		err = cmp.Or(err, w.err)
		for _, x := range w.heap {
			own.offer(x)
		}
	}
	s.heap = append(s.heap[:0], own.heap...)
	own.lift(s)
	for _, w := range s.searches[:workers] {
		w.question = question{} // which has the model
	}
	s.screening.of = nil
	return err
}

func newSearch(done *sync.WaitGroup) *search {
	w := &search{done: done}
	w.run = func() {
		defer w.done.Done()
		w.names()
	}
	return w
}

func (w *search) begin(q *question, first, last int) {
	w.question, w.first, w.last, w.err = *q, first, last, nil
	w.low, w.high, w.heap = math.Inf(-1), math.Inf(1), w.heap[:0]
	w.out = rowmath.Resized(w.out, (q.model.contents.NumOutputs+rowmath.Lanes-1)/rowmath.Lanes*rowmath.Lanes)
}

// names ranks its names of the version. With a goal it first ranks the names that may reach it by the screening: they
// set bounds for the others.
func (w *search) names() {
	if w.ruled == nil {
		w.rank(w.low, false)
		return
	}
	w.seen = rowmath.Resized(w.seen, (w.last-w.first+blockNames-1)/blockNames)
	clear(w.seen)
	if !math.IsInf(w.goal, 1) {
		w.rank(w.goal, true)
	}
	w.rank(math.Inf(-1), false)
}

// rank ranks names whose leading value may be at least low, and all that may be among the best. With onlyScreened it
// skips blocks that the screening leaves with too many names.
func (w *search) rank(low float64, onlyScreened bool) {
	begin := w.model.first[w.field]
	for i := w.first; i < w.last && w.err == nil; i += blockNames {
		values, block := w.values[:min(blockNames, w.last-i)], (i-w.first)/blockNames
		if w.ruled != nil && !math.IsInf(w.low, -1) && !w.model.isChanged(int(begin)+i, len(values)) {
			names := w.ruled.possible(i/blockNames,
				max(w.low, low)) &^ w.excluded[i/blockNames] &^ w.seen[block] & (1<<len(values) - 1)
			if bits.OnesCount64(names) <= mostPossible {
				w.seen[block] |= names
				w.rankThese(names, i)
				continue
			}
		}
		if onlyScreened {
			continue
		}
		w.leadingOf(values, int(begin)+i)
		for n, v := range values {
			if w.ruled == nil || w.seen[block]&(1<<n) == 0 {
				w.consider(begin+int32(i+n), i+n, v)
			}
		}
	}
}

// rankThese ranks some of the names from place i on, given bit by bit.
func (w *search) rankThese(names uint64, i int) {
	begin := w.model.first[w.field]
	for ; names != 0; names &= names - 1 {
		place, v := i+bits.TrailingZeros64(names), math.Inf(1)
		if w.by == byOutput { // else all outputs say it as quickly
			w.leadingOf(w.values[:1], int(begin)+place)
			v = w.values[0]
		}
		w.consider(begin+int32(place), place, v)
	}
}

// mostPossible is of how many names of a block the leading values are computed one by one, which takes twice the time
// of several together.
const mostPossible = blockNames / 4

// addedNames ranks the names that deltas have added.
func (w *search) addedNames() {
	for l := range w.model.layers {
		for _, j := range w.model.layers[l].columns[w.field] {
			w.leadingOf(w.values[:1], int(j))
			w.consider(j, w.model.exclusion(w.field, j), w.values[0])
		}
	}
}

// consider takes the name of a column up if it is not excluded and among the best so far, given its leading value.
func (w *search) consider(j int32, place int, v float64) {
	if v < w.low || w.excluded[place/64]&(1<<(place%64)) != 0 {
		return
	}
	key := v
	if w.by != byOutput {
		out := w.outputsOf(int(j))
		if w.exceeds(out) {
			return
		}
		key = w.model.key(w.by, w.output, out)
	}
	if math.IsNaN(key) {
		w.err = errTooFar
		return
	}
	w.offer(scored{key: key, column: j})
}

// outputsOf returns the outputs of the name of a column, until the next call. Only of rankings by several.
func (w *search) outputsOf(j int) []float64 {
	w.model.candidate(w.out, j, w.all)
	out := w.out[:len(w.base)]
	for o, b := range w.base {
		out[o] += b
	}
	if w.model.contents.Linear != nil {
		for o, x := range w.model.linearRow(j) {
			out[o] += x
		}
	}
	return out
}

// offer keeps a candidate if it is among the best so far.
func (w *search) offer(x scored) {
	if len(w.heap) < w.k || w.heap[0].worse(x) {
		if w.heap = pushed(w.heap, x, w.k); len(w.heap) == w.k {
			w.bound()
		}
	}
}

// bound says what the leading value of a name has to be if its key is to be at least the worst of the heap.
func (w *search) bound() {
	if len(w.heap) == w.k {
		low, high := w.least(w.heap[0].key, w.entropy, w.offset)
		w.low, w.high = max(w.low, low), min(w.high, high)
	}
}

// multipliers stores what rows, their squares and their cubes are multiplied with for the leading value, given the sums
// of the event: v_r = Σ_c mix_c V[r,c] times Contents.steps.
func (q *question) multipliers(s *Scratch) {
	c := &q.model.contents
	for r := range c.NumBasis {
		weights := c.Weights[r*c.NumOutputs : (r+1)*c.NumOutputs]
		v := weights[q.output]
		if q.mix != nil {
			v = rowmath.Dot(weights, q.mix)
		}
		first, second, third := steps(c, s, r)
		q.cross[r], q.square[r], q.cube[r] = v*first, v*second, v*third
	}
}

// leadingOf stores the leading values of the names of columns from j on, which a model has one after the other. Rows
// are taken where they are: in the version, or in a page that a delta has changed.
func (w *search) leadingOf(dst []float64, j int) {
	m := w.model
	c := &m.contents
	k, width := c.NumBasis, m.linearWidth()
	for len(dst) > 0 {
		n, rows, linear, stride, linearStride := len(dst), []float64(nil), []float64(nil), k, width
		if m.rows == nil {
			rows, linear = c.Basis[min(j*k, len(c.Basis)):], c.Linear[min(j*width, len(c.Linear)):]
		} else {
			rows, linear, stride, linearStride, n = m.runOf(j, n)
		}
		leading := dst[:n]
		switch {
		case k == 0:
			clear(leading)
		case c.Kernel == format.ANOVA:
			rowmath.Dots(leading, rows, stride, w.cross)
		case isCube(c):
			rowmath.CubeDots(leading, rows, stride, w.cross, w.square, w.cube)
		default:
			rowmath.SquareDots(leading, rows, stride, w.cross, w.square)
		}
		switch {
		case width == 0:
			for i := range leading {
				leading[i] += w.offset
			}
		case w.mix == nil:
			for i, at := 0, w.output; i < len(leading); i, at = i+1, at+linearStride {
				leading[i] += w.offset + linear[at]
			}
		default:
			for i, at := 0, 0; i < len(leading); i, at = i+1, at+linearStride {
				leading[i] += w.offset + rowmath.Dot(linear[at:at+width], w.mix)
			}
		}
		dst, j = dst[n:], j+n
	}
}
