package scorer

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// screening is what an event asks of a screen: whole weights of some columns, so that sums are whole numbers below
// 2¹⁵, four of them side by side in a word.
// It does not change while names are ruled out.
type screening struct {
	of      *screen
	columns []int    // those looked at: where their words begin in a block
	weights []uint64 // of each, modulo 2⁶⁴
	unit    float64  // of the sums
	offset  float64  // of the leading value: what it is where the sum is 0, rounding included
	lowest  int      // a sum is no less

	order []int32   // of columns, by weight
	full  []float64 // weights, in deviations
}

const (
	// screenedShare is the part of the squared weights that columns may have which are not looked at: less looks at
	// more columns, more leaves more names over, and a ranking by several outputs has more of them than one by one.
	screenedShare = 1.0 / 32
	mixedShare    = 1.0 / 512

	wholeWeights = 256 // is what whole weights add up to at most: times screenMost it is less than 2¹⁵
	leastWeights = 16  // is what they add up to at least: less would say little

	// Lengths of weights that screening takes, far from over- and underflow.
	leastScreened = 1e-100
	mostScreened  = 1e100
)

// begin chooses columns and weights for a question. It reports false if its numbers over- or underflow.
func (g *screening) begin(of *screen, q *question) bool {
	g.of = of
	g.full, g.order = rowmath.Resized(g.full, len(of.columns)), g.order[:0]
	offset, margin, total := q.offset, 1e-9*math.Abs(q.offset), 0.0
	for i := range of.columns {
		x, v := &of.columns[i], q.weightOf(i)
		offset += v * x.center
		margin += math.Abs(v) * (x.rounding + 1e-9*math.Abs(x.center))
		v *= x.deviation
		g.full[i], total = v, total+v*v
		g.order = append(g.order, int32(i))
	}
	length := math.Sqrt(total)
	if !(length > leastScreened && length < mostScreened && math.Abs(offset)+margin < mostScreened) {
		return false
	}
	slices.SortFunc(g.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(math.Abs(g.full[b]), math.Abs(g.full[a])), cmp.Compare(a, b))
	})
	share, rest, n := screenedShare, total, 0
	if q.mix != nil {
		share = mixedShare
	}
	for ; n < len(g.order) && rest > share*total; n++ {
		rest -= g.full[g.order[n]] * g.full[g.order[n]]
	}
	for most := wholeWeights * 3 / 4; most >= leastWeights; most /= 2 {
		if g.round(q, n, float64(most)) {
			g.offset += offset + margin + 1e-9*length
			return true
		}
	}
	return false
}

// weightOf returns what the number of a column is multiplied with.
func (q *question) weightOf(column int) float64 {
	own := column - len(q.cross)
	switch {
	case own < 0:
		return q.cross[column]
	case q.mix != nil:
		return q.mix[own]
	case own == q.output:
		return 1
	}
	return 0
}

// round makes whole weights of those of the first n columns, which add up to about most, and of the length one that
// bounds what they leave out. It reports false if the latter is too large.
func (g *screening) round(q *question, n int, most float64) bool {
	sum := 0.0
	for _, i := range g.order[:n] {
		sum += math.Abs(q.weightOf(int(i))) * g.of.columns[i].step
	}
	g.columns, g.weights = g.columns[:0], g.weights[:0]
	g.unit, g.offset, g.lowest = sum/most, 0, 0
	rest, all := 0.0, 0
	for place, i := range g.order {
		x, left := &g.of.columns[i], g.full[i]
		if place < n && x.step > 0 {
			v := q.weightOf(int(i))
			whole := math.Round(v * x.step / g.unit)
			left = (v - whole*g.unit/x.step) * x.deviation
			g.offset += g.unit * (whole*(x.low-x.center)/x.step + math.Abs(whole)*(0.5+1e-9))
			if w := int(whole); w != 0 {
				g.columns, g.weights = append(g.columns, int(i)*8), append(g.weights, uint64(w))
				g.lowest += min(w, 0) * screenMost
				all += max(w, -w)
			}
		}
		rest += left * left
	}
	ofLength := math.Ceil(math.Sqrt(rest) * (1 + 1e-9) * g.of.lengthStep / g.unit)
	if !(ofLength+float64(all) <= wholeWeights) {
		return false
	}
	g.columns, g.weights = append(g.columns, len(g.of.columns)*8), append(g.weights, uint64(ofLength))
	return true
}

// possible returns the names of a block, bit by bit, whose leading value may be at least low.
func (g *screening) possible(block int, low float64) (names uint64) {
	const (
		even = 0x00ff00ff00ff00ff
		each = 0x0001000100010001
		half = 1 << 15
		top  = half * each
	)
	names = g.of.outliers[block]
	least := math.Ceil((low-g.offset)/g.unit-1e-6) - float64(g.lowest) // of the sums, those taken from their lowest
	if !(least > 0) {
		return ^uint64(0)
	} else if least > half-1 {
		return names
	}
	size := (len(g.of.columns) + 1) * 8
	data := g.of.blocks[block*size : (block+1)*size]
	begin := uint64(half-int(least)-g.lowest) * each // sums of at least that have the highest bit of their 16
	weights := g.weights[:len(g.columns)]
	for word := 0; word < 8; word += 2 {
		a, b, c, d := begin, begin, begin, begin
		for i, at := range g.columns {
			w, pair := weights[i], data[at+word:]
			if len(pair) < 2 {
				break
			}
			x, y := pair[0], pair[1]
			a += x & even * w
			b += x >> 8 & even * w
			c += y & even * w
			d += y >> 8 & even * w
		}
		if (a|b|c|d)&top != 0 {
			names |= gathered(a&top>>8|b&top)<<(8*word) | gathered(c&top>>8|d&top)<<(8*word+8)
		}
	}
	return names
}

// gathered returns the highest bits of the bytes of a word.
func gathered(word uint64) uint64 { return word >> 7 * 0x0102040810204080 >> 56 }
