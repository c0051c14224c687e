package quality

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// Scores collects scores of a positive outcome for the area under the ROC curve and, where they are probabilities, the
// expected calibration error. It keeps every score; Histogram is bounded.
type Scores struct {
	cells   []cell
	hasOdds bool
}

// NewScores returns an empty collection of log odds, or of scores that only order if hasOdds is false.
func NewScores(hasOdds bool) *Scores { return &Scores{hasOdds: hasOdds} }

// Add adds the score of one event and whether the outcome was positive.
func (s *Scores) Add(score float64, positive bool) {
	c := cell{score: score, chance: chanceUnits(score)}
	if positive {
		c.positive = 1
	} else {
		c.negative = 1
	}
	s.cells = append(s.cells, c)
}

// AUC returns the area under the ROC curve, NaN unless there are outcomes of both kinds. Scores that are equal count
// half.
func (s *Scores) AUC() float64 { return areaUnderCurve(s.sorted()) }

// ECE returns the expected calibration error over 15 bins of equal mass, NaN without events or without log odds.
func (s *Scores) ECE() float64 {
	if !s.hasOdds {
		return math.NaN()
	}
	return calibrationError(s.sorted())
}

// sorted returns one cell for each score, in their order.
func (s *Scores) sorted() []cell {
	slices.SortFunc(s.cells, func(a, b cell) int { return cmp.Compare(a.score, b.score) })
	merged := s.cells[:0:0]
	for _, c := range s.cells {
		if n := len(merged); n > 0 && merged[n-1].score == c.score {
			merged[n-1].merge(&c)
			continue
		}
		merged = append(merged, c)
	}
	return merged
}

// Histogram is Scores in bounded memory: scores within a thirty-second of log odds count as equal, and those beyond ±16
// as the last of their side. The area under the curve is within half the share of pairs of both outcomes that fall into
// one cell of the exact one. With log odds that spread over 1 or more, and 20,000 events, that is within .001, and the
// calibration error within .002, which is less than chance makes of it. Counts are whole numbers, so nothing is lost in
// a long stream. The zero value is empty.
type Histogram struct {
	cells [histogramCells]cell
}

const (
	histogramCells = 1024
	histogramWidth = 1.0 / 32
)

// HistogramBytes is what a Histogram takes.
const HistogramBytes = 32 * histogramCells

// cell counts the events of one score.
type cell struct {
	score              float64 // of Scores
	positive, negative int64
	chance             uint64 // sum of the probabilities, in units of 2⁻³²
}

func (c *cell) n() int64 { return c.positive + c.negative }

func (c *cell) merge(o *cell) {
	c.positive, c.negative, c.chance = c.positive+o.positive, c.negative+o.negative, c.chance+o.chance
}

// chanceUnits returns the probability of log odds as a whole number, whose sums are exact.
func chanceUnits(score float64) uint64 {
	if math.IsNaN(score) {
		return 0
	}
	return uint64(math.Round(chanceUnit / (1 + math.Exp(-score))))
}

const chanceUnit = 1 << 32

// Add adds the log odds of one event and whether the outcome was positive. What is no number counts as the lowest.
func (h *Histogram) Add(score float64, positive bool) {
	at := 0
	if at0 := math.Floor(score/histogramWidth) + histogramCells/2; at0 > 0 {
		at = int(min(at0, histogramCells-1))
	}
	c := &h.cells[at]
	c.chance += chanceUnits(score)
	if positive {
		c.positive++
	} else {
		c.negative++
	}
}

// AUC is that of Scores, up to the width of cells.
func (h *Histogram) AUC() float64 { return areaUnderCurve(h.cells[:]) }

// ECE is that of Scores, up to the width of cells.
func (h *Histogram) ECE() float64 { return calibrationError(h.cells[:]) }

// areaUnderCurve is the share of pairs of a positive and a negative event in which the positive one has the higher
// score (Mann and Whitney).
func areaUnderCurve(cells []cell) float64 {
	below, positive, sum := 0.0, 0.0, 0.0
	for i := range cells {
		c := &cells[i]
		sum += float64(c.positive) * (below + float64(c.negative)/2)
		below, positive = below+float64(c.negative), positive+float64(c.positive)
	}
	return sum / (below * positive)
}

// calibrationBins is how many bins of equal mass the calibration error has.
const calibrationBins = 15

// calibrationError is the mean over bins of |mean probability − share of positives|. A cell that lies across the border
// of two bins is divided between them in proportion, so that the order of equal scores does not matter.
func calibrationError(cells []cell) float64 {
	total := 0.0
	for i := range cells {
		total += float64(cells[i].n())
	}
	bin := total / calibrationBins
	room, gap, sum := bin, 0.0, sum{}
	for i := range cells {
		c := &cells[i]
		n := float64(c.n())
		if n == 0 {
			continue
		}
		each := (float64(c.chance)/chanceUnit - float64(c.positive)) / n
		for n > room {
			sum.add(math.Abs(gap + each*room))
			n, room, gap = n-room, bin, 0
		}
		room, gap = room-n, gap+each*n
	}
	sum.add(math.Abs(gap))
	return sum.value() / total
}

// AppendBinary appends the cells that are not empty: for each, as unsigned varints, how many empty ones are before it,
// the events of both outcomes and the sum of probabilities.
func (h *Histogram) AppendBinary(b []byte) []byte {
	skipped := uint64(0)
	for i := range h.cells {
		c := &h.cells[i]
		if c.n() == 0 {
			skipped++
			continue
		}
		b = binary.AppendUvarint(b, skipped)
		b = binary.AppendUvarint(b, uint64(c.positive))
		b = binary.AppendUvarint(b, uint64(c.negative))
		b = binary.AppendUvarint(b, c.chance)
		skipped = 0
	}
	return b
}

// UnmarshalBinary restores what AppendBinary wrote.
func (h *Histogram) UnmarshalBinary(b []byte) error {
	*h = Histogram{}
	for at := uint64(0); len(b) > 0; at++ {
		var v [4]uint64
		for i := range v {
			n := 0
			if v[i], n = binary.Uvarint(b); n <= 0 {
				return errHistogram
			}
			b = b[n:]
		}
		if v[0] >= histogramCells || at+v[0] >= histogramCells || v[1] > math.MaxInt64/2 || v[2] > math.MaxInt64/2 {
			return errHistogram
		}
		at += v[0]
		h.cells[at] = cell{positive: int64(v[1]), negative: int64(v[2]), chance: v[3]}
	}
	return nil
}

var errHistogram = errors.New("quality: a histogram of scores that is cut off or has cells beyond its range")
