package snapshot

import (
	"cmp"
	"math"
	"sync"
)

// question is what the names of a field are ranked by. It does not change meanwhile.
type question struct {
	model            *Model
	field, output, k int
	by               ranking
	lead             int // of the outputs the one that is computed first
	base             []float64
	cross, square    []float64 // of the leading output, what rows are multiplied with: see multipliers
	all              *Scratch  // of all outputs: see matrix
	excluded         []uint64
}

// search is one goroutine's part of a ranking. Of each name it computes the leading output, four names at a time; by that alone nearly all of them are
// passed over once there are as many as are wanted.
type search struct {
	question
	first, last int // positions of names in the field
	heap        []scored
	low, high   float64 // a name whose leading output is outside them is not among the best
	out         []float64
	values      [blockNames]float64
	err         error
	run         func() // names and done, as a goroutine that takes no memory
	done        *sync.WaitGroup
}

// minNames is how many names are worth a goroutine: tens of microseconds.
const minNames = 4 << 10

// blockNames is how many names are taken at a time: those of a word of Scratch.excluded.
const blockNames = 64

// lanes is how many outputs of a candidate, and how many candidates, are computed at once: four sums hide the latency of additions.
const lanes = 4

// candidates leaves the columns with the k largest keys in the heap of s, whose base and sums are those of the event without the field. By how many goroutines
// they are found changes nothing: keys and columns order them, and neither depends on who looks.
func (m *Model) candidates(field, output int, by ranking, k int, s *Scratch) error {
	q := question{model: m, field: field, output: output, k: k, by: by, lead: output, base: s.base, excluded: s.excluded, all: s}
	if by == byLevel {
		for o, v := range s.base {
			if v > s.base[q.lead] { // the one that is most likely to be too large
				q.lead = o
			}
		}
	}
	s.leadCross, s.leadSquare = resized(s.leadCross, m.contents.NumBasis), resized(s.leadSquare, m.contents.NumBasis)
	q.cross, q.square = s.leadCross, s.leadSquare
	q.multipliers(s.sum)
	if by != byOutput {
		m.matrix(s)
	}
	names := len(m.contents.Vocabulary[field])
	workers := max(1, min(s.Workers, names/minNames))
	for len(s.searches) < workers {
		s.searches = append(s.searches, newSearch(&s.done))
	}
	share := (names/workers + blockNames) / blockNames * blockNames
	for i, w := range s.searches[:workers] {
		w.begin(&q, min(i*share, names), min((i+1)*share, names))
	}
	s.done.Add(workers - 1)
	for _, w := range s.searches[1:workers] {
		go w.run()
	}
	own := s.searches[0]
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
	for _, w := range s.searches[:workers] {
		w.question = question{} // which has the model
	}
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
	w.out = resized(w.out, (q.model.contents.NumOutputs+lanes-1)/lanes*lanes)
}

// names ranks its names of the version.
func (w *search) names() {
	begin := w.model.first[w.field]
	for i := w.first; i < w.last; i += blockNames {
		values := w.values[:min(blockNames, w.last-i)]
		w.leadingOf(values, int(begin)+i)
		for n, v := range values {
			if v < w.low || v > w.high {
				continue
			}
			w.consider(begin+int32(i+n), i+n, v)
		}
		if w.err != nil {
			return
		}
	}
}

// addedNames ranks the names that deltas have added.
func (w *search) addedNames() {
	for l := range w.model.layers {
		for _, j := range w.model.layers[l].columns[w.field] {
			w.leadingOf(w.values[:1], int(j))
			w.consider(j, w.model.exclusion(w.field, j), w.values[0])
		}
	}
}

// consider takes the name of a column up if it is not excluded and among the best so far, given its leading output.
func (w *search) consider(j int32, place int, v float64) {
	if w.excluded[place/64]&(1<<(place%64)) != 0 {
		return
	}
	key := v
	if w.by != byOutput {
		w.model.candidate(w.out, int(j), w.all)
		out := w.out[:len(w.base)]
		for o, b := range w.base {
			out[o] += b
		}
		if w.model.contents.Linear != nil {
			for o, x := range w.model.linearRow(int(j)) {
				out[o] += x
			}
		}
		if largestOf(out) > w.high {
			return
		}
		key = w.model.key(w.by, w.output, out)
	}
	if math.IsNaN(key) {
		w.err = errTooFar
		return
	}
	w.offer(scored{key, j})
}

// offer keeps a candidate if it is among the best so far.
func (w *search) offer(x scored) {
	if len(w.heap) < w.k || w.heap[0].worse(x) {
		if w.heap = pushed(w.heap, x, w.k); len(w.heap) == w.k {
			w.bound()
		}
	}
}

// bound says what the leading output of a name has to be if its key is to be at least the worst of the heap.
func (w *search) bound() {
	worst := w.heap[0].key
	switch w.by {
	case byOutput:
		w.low = worst
	case byLevel: // one term alone would make the sum too large. Rounding is allowed for generously
		if sum := float64(w.model.contents.Schema.Levels) - worst + 1e-9; sum < 1 {
			w.high = math.Log(sum / (1 - sum))
		}
	}
}

// multipliers stores what rows are multiplied with for the leading output, given the sums S of the event: V[r,c] S_r or 2 V[r,c] S_r, and V[r,c] itself for
// the squares of the homogeneous kernel.
func (q *question) multipliers(sum []float64) {
	c := &q.model.contents
	for r := range c.NumBasis {
		v := c.Weights[r*c.NumOutputs+q.lead]
		q.square[r] = v
		if c.Kernel == Homogeneous {
			v *= 2
		}
		q.cross[r] = v * sum[r]
	}
}

// leadingOf stores the leading outputs of the names of columns from j on, which a model has one after the other. Rows are taken where they are: in the
// version, or in a page that a delta has changed.
func (w *search) leadingOf(dst []float64, j int) {
	m := w.model
	c := &m.contents
	k, width := c.NumBasis, m.linearWidth()
	for len(dst) > 0 {
		n, rows, linear, stride, linearStride := len(dst), []float64(nil), []float64(nil), k, width
		if m.pages == nil {
			rows, linear = c.Basis[min(j*k, len(c.Basis)):], c.Linear[min(j*width, len(c.Linear)):]
		} else {
			rows, linear, stride, linearStride, n = m.runOf(j, n)
		}
		leading := dst[:n]
		switch {
		case k == 0:
			clear(leading)
		case c.Kernel == ANOVA:
			dots(leading, rows, stride, w.cross)
		default:
			squareDots(leading, rows, stride, w.cross, w.square)
		}
		base := w.base[w.lead]
		if width == 0 {
			for i := range leading {
				leading[i] += base
			}
		} else {
			for i, at := 0, w.lead; i < len(leading); i, at = i+1, at+linearStride {
				leading[i] += base + linear[at]
			}
		}
		dst, j = dst[n:], j+n
	}
}

// dots stores Σ_r h_r w_r of each of so many rows, which begin stride numbers after one another. Four rows are taken at a time, so that additions wait for each
// other less; each is added up in the same order wherever it stands.
func dots(dst, rows []float64, stride int, w []float64) {
	k, at, i := len(w), 0, 0
	for ; i+lanes <= len(dst); i, at = i+lanes, at+lanes*stride {
		a, b, c, d := rows[at:at+k], rows[at+stride:at+stride+k], rows[at+2*stride:at+2*stride+k], rows[at+3*stride:at+3*stride+k]
		var a0, b0, c0, d0, a1, b1, c1, d1 float64
		v := w
		for len(v) >= 2 && len(a) >= 2 && len(b) >= 2 && len(c) >= 2 && len(d) >= 2 {
			x, y := v[0], v[1]
			a0 += a[0] * x
			b0 += b[0] * x
			c0 += c[0] * x
			d0 += d[0] * x
			a1 += a[1] * y
			b1 += b[1] * y
			c1 += c[1] * y
			d1 += d[1] * y
			v, a, b, c, d = v[2:], a[2:], b[2:], c[2:], d[2:]
		}
		if len(v) == 1 {
			x := v[0]
			a0 += a[0] * x
			b0 += b[0] * x
			c0 += c[0] * x
			d0 += d[0] * x
		}
		*(*[lanes]float64)(dst[i:]) = [lanes]float64{a0 + a1, b0 + b1, c0 + c1, d0 + d1}
	}
	for ; i < len(dst); i, at = i+1, at+stride {
		var a0, a1 float64
		a, v := rows[at:at+k], w
		for ; len(v) >= 2 && len(a) >= 2; v, a = v[2:], a[2:] {
			a0 += a[0] * v[0]
			a1 += a[1] * v[1]
		}
		if len(v) == 1 {
			a0 += a[0] * v[0]
		}
		dst[i] = a0 + a1
	}
}

// squareDots is dots for Σ_r h_r (w_r + h_r v_r).
func squareDots(dst, rows []float64, stride int, w, v []float64) {
	k, at, i := len(w), 0, 0
	v = v[:k]
	for ; i+lanes <= len(dst); i, at = i+lanes, at+lanes*stride {
		a, b, c, d := rows[at:at+k], rows[at+stride:at+stride+k], rows[at+2*stride:at+2*stride+k], rows[at+3*stride:at+3*stride+k]
		var sa, sb, sc, sd float64
		for r, x := range w {
			y, ha, hb, hc, hd := v[r], a[r], b[r], c[r], d[r]
			sa += ha * (x + ha*y)
			sb += hb * (x + hb*y)
			sc += hc * (x + hc*y)
			sd += hd * (x + hd*y)
		}
		*(*[lanes]float64)(dst[i:]) = [lanes]float64{sa, sb, sc, sd}
	}
	for ; i < len(dst); i, at = i+1, at+stride {
		sum, a := 0.0, rows[at:at+k]
		for r, x := range w {
			sum += a[r] * (x + a[r]*v[r])
		}
		dst[i] = sum
	}
}
