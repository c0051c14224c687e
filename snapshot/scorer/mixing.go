package scorer

import (
	"math"

	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// A ranking by several outputs has a leading value, too: one that bounds the key from above, so that most names need no
// other. For weights α ≥ 0 that add up to 1 and their entropy H, Jensen's inequality makes of
//
//	byLevel  Σ σ(o_c) ≤ t < 1            −Σ α_c o_c ≥ H − log(t/(1−t)), for no o_c is more than log(t/(1−t)), so that log σ(o_c) ≥ o_c + log(1−t)
//	byShare  Σ_j≠c exp(o_j − o_c) ≤ t    o_c − Σ α_j o_j ≥ H − log t
//
// It is sharp where α are the shares that outputs have in the sum on the left.

// lead makes Σ mix o the leading value, given the mixing weights of the outputs; nil for the output that is ranked by.
func (q *question) lead(mix []float64) {
	s, m := q.all, q.model
	s.leadCross, s.leadSquare = rowmath.Resized(s.leadCross, m.contents.NumBasis), rowmath.Resized(s.leadSquare,
		m.contents.NumBasis)
	s.leadCube = rowmath.Resized(s.leadCube, m.contents.NumBasis)
	q.cross, q.square, q.cube = s.leadCross, s.leadSquare, s.leadCube
	q.mix, q.entropy, q.offset = mix, 0, q.base[q.output]
	if mix != nil {
		q.entropy, q.offset = q.entropyOf(mix), rowmath.Dot(mix, q.base)
	}
	q.multipliers(s)
}

// entropyOf returns H of mixing weights.
func (q *question) entropyOf(mix []float64) float64 {
	h := 0.0
	for _, v := range mix {
		if v < 0 {
			h += v * math.Log(-v)
		}
	}
	return h
}

// least returns, by the entropy and the offset of mixing weights, the least leading value that a name may have whose
// key is at least as good as one, and the most that an output in the sum on the left may be: its value in a ranking
// by level, its excess over the ranked output in one by share. Rounding is allowed for generously.
func (q *question) least(key, entropy, offset float64) (low, high float64) {
	const rounding = 1e-9
	switch t := 0.0; {
	case q.by == byOutput:
		return key, math.Inf(1)
	case q.by == byShare && len(q.base) == 1:
		return math.Inf(-1), math.Inf(1)
	case q.by == byShare:
		t = -key - 1
		high = math.Log(t + rounding*(1+t))
	default:
		if t = float64(q.model.contents.Schema.Levels) - key + rounding; t >= 1 {
			return math.Inf(-1), math.Inf(1)
		}
		high = math.Log(t / (1 - t))
	}
	slack := rounding * (1 + math.Abs(high) + math.Abs(offset))
	return entropy - high - slack, high + slack
}

// exceeds reports whether one output of a name suffices to show that it is not among the best.
func (w *search) exceeds(out []float64) bool {
	most := w.high
	if w.by == byShare {
		most += out[w.output]
	}
	for o, v := range out {
		if v > most && (w.by == byLevel || o != w.output) {
			return true
		}
	}
	return false
}

// firstMix returns mixing weights of a question: all on the output that is likely to be the largest of those in the
// sum, nil for a ranking by one output.
func (s *Scratch) firstMix(q *question) []float64 {
	if q.by == byOutput {
		return nil
	}
	s.mix = rowmath.Resized(s.mix, len(q.base))
	clear(s.mix)
	largest := -1
	for o, v := range q.base {
		if (q.by == byLevel || o != q.output) && (largest < 0 || v > q.base[largest]) {
			largest = o
		}
	}
	if largest >= 0 {
		s.mix[largest] = -1
	}
	if q.by == byShare {
		s.mix[q.output] = 1
	}
	return s.mix
}

// betterMix returns, after the first names of a field, their mixing weights or the shares that outputs have in the keys
// of the best of them: those that are likely to pass over more of the others. The goal is a leading value that a few
// more names than are wanted would reach if values were normal.
func (s *Scratch) betterMix(w *search) (mix []float64, goal float64) {
	if len(w.heap) == 0 {
		return w.mix, math.Inf(1)
	}
	mix, mean, deviation, far := w.mix, 0.0, 0.0, math.Inf(1)
	s.otherMix = rowmath.Resized(s.otherMix, len(w.base))
	for _, m := range [][]float64{w.mix, w.sharesOf(s.otherMix)} {
		if v, d, f := w.passes(m); f <= far {
			mix, mean, deviation, far = m, v, d, f
		}
	}
	names := float64(w.model.numNames(w.field))
	odds := math.Log(max(names/float64(32+2*w.k), 10))
	away := math.Sqrt(2 * odds) // that a normal number is exceeded by one in exp(odds), asymptotically
	return mix, mean + deviation*(away-math.Log(4*math.Pi*odds)/(2*away))
}

// sharesOf stores the shares that outputs have in the keys of the best names so far as mixing weights.
func (w *search) sharesOf(shares []float64) []float64 {
	clear(shares)
	total := 0.0
	for _, x := range w.heap {
		out := w.outputsOf(int(x.column))
		ranked, sum := out[w.output], 0.0
		for o, v := range out {
			if out[o] = rowmath.Sigmoid(v); w.by == byShare {
				out[o] = math.Exp(v - ranked)
			}
			if w.by == byLevel || o != w.output {
				sum += out[o]
			}
		}
		for o, v := range out {
			shares[o] -= v / sum
		}
		total++
	}
	for o := range shares {
		shares[o] /= total
	}
	if w.by == byShare {
		shares[w.output] = 1
	}
	return shares
}

// passes returns mean and deviation of the leading values of the first names by a mix, and how far below the mean, in
// deviations, a name as good as the best of them may be: the less, the fewer names are left.
func (w *search) passes(mix []float64) (mean, deviation, far float64) {
	best, n, sum, squares := w.heap[0].key, 0.0, 0.0, 0.0
	for _, x := range w.heap {
		best = max(best, x.key)
	}
	begin := int(w.model.first[w.field])
	for j := begin + w.first; j < begin+w.last; j++ {
		v := rowmath.Dot(mix, w.outputsOf(j))
		n, sum, squares = n+1, sum+v, squares+v*v
	}
	mean = sum / n
	deviation = math.Sqrt(squares/n - mean*mean)
	low, _ := w.least(best, w.entropyOf(mix), rowmath.Dot(mix, w.base))
	return mean, deviation, (mean - low) / deviation
}
