package quality

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/report"
)

// drawn draws log odds of the given spread around a mean, and outcomes that have them but for a shift.
func drawn(seed uint64, n int, mean, spread, shift float64) (scores []float64, positive []bool) {
	r := rand.New(rand.NewPCG(seed, 4))
	for range n {
		s := mean + spread*r.NormFloat64()
		scores = append(scores, s)
		positive = append(positive, r.Float64() < 1/(1+math.Exp(-s-shift)))
	}
	return scores, positive
}

// pairs is the area under the curve by its definition.
func pairs(scores []float64, positive []bool) float64 {
	won, all := 0.0, 0.0
	for i, s := range scores {
		for j, o := range scores {
			if !positive[i] || positive[j] {
				continue
			}
			all++
			if s > o {
				won++
			} else if s == o {
				won += 0.5
			}
		}
	}
	return won / all
}

// equalMass is the calibration error by its definition, of a number of events that 15 divides and scores that all
// differ.
func equalMass(scores []float64, positive []bool) float64 {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if scores[a] < scores[b] {
			return -1
		}
		return 1
	})
	sum := 0.0
	for bin := range slices.Chunk(order, len(order)/15) {
		gap := 0.0
		for _, i := range bin {
			gap += 1 / (1 + math.Exp(-scores[i]))
			if positive[i] {
				gap--
			}
		}
		sum += math.Abs(gap)
	}
	return sum / float64(len(scores))
}

func TestScoresByDefinition(t *testing.T) {
	for _, shift := range []float64{0, 1} {
		scores, positive := drawn(1, 600, -1, 1.5, shift)
		s := NewScores(true)
		for i := range scores {
			s.Add(scores[i], positive[i])
		}
		if got, want := s.AUC(), pairs(scores, positive); math.Abs(got-want) > 1e-12 {
			t.Errorf("AUC %g, by definition %g", got, want)
		}
		if got, want := s.ECE(), equalMass(scores, positive); math.Abs(got-want) > 1e-8 {
			t.Errorf("ECE %g, by definition %g", got, want)
		}
		for i := range scores {
			scores[i] = math.Round(scores[i])
		}
		s = NewScores(false)
		for i := range scores {
			s.Add(scores[i], positive[i])
		}
		if got, want := s.AUC(), pairs(scores, positive); math.Abs(got-want) > 1e-12 {
			t.Errorf("with ties AUC %g, by definition %g", got, want)
		}
		if !math.IsNaN(s.ECE()) {
			t.Error("a calibration error of scores that are no log odds")
		}
	}
	same := NewScores(true) // one score for all: in every bin the same share
	for i := range 100 {
		same.Add(0, i%4 == 0)
	}
	if got := same.ECE(); math.Abs(got-0.25) > 1e-9 || same.AUC() != 0.5 {
		t.Errorf("equal scores: ECE %g, AUC %g", got, same.AUC())
	}
	if s := NewScores(true); !math.IsNaN(s.AUC()) || !math.IsNaN(s.ECE()) {
		t.Error("figures of nothing")
	}
}

// TestHistogramIsCloseToScores holds the stated resolution against the exact figures, for strong and weak predictors,
// calibrated or not.
func TestHistogramIsCloseToScores(t *testing.T) {
	for seed, c := range []struct{ mean, spread, shift, tolerance float64 }{
		{0, 1, 0, 0.001}, {-1, 2, 0, 0.001}, {-3, 1, 1, 0.001}, {2, 5, -1, 0.001}, {-6, 1.5, 0.5, 0.001}, {0, 0.1, 0, 0.01},
	} {
		scores, positive := drawn(uint64(seed), 20_000, c.mean, c.spread, c.shift)
		exact, h := NewScores(true), &Histogram{}
		for i := range scores {
			exact.Add(scores[i], positive[i])
			h.Add(scores[i], positive[i])
		}
		if got, want := h.AUC(), exact.AUC(); math.Abs(got-want) > c.tolerance {
			t.Errorf("%+v: AUC %g, exact %g", c, got, want)
		}
		if got, want := h.ECE(), exact.ECE(); math.Abs(got-want) > 2*c.tolerance {
			t.Errorf("%+v: ECE %g, exact %g", c, got, want)
		}
		b := h.AppendBinary(nil)
		if len(b) > 10_000 {
			t.Errorf("%+v: %d bytes", c, len(b))
		}
		again := &Histogram{}
		if err := again.UnmarshalBinary(b); err != nil || *again != *h {
			t.Errorf("%+v: came back different, error %v", c, err)
		}
		for cut := 1; cut < 8; cut++ {
			if err := again.UnmarshalBinary(b[:len(b)-cut]); err == nil && *again == *h {
				t.Errorf("%+v: %d bytes less are the same", c, cut)
			}
		}
	}
}

func TestHistogramAtItsEnds(t *testing.T) {
	h := &Histogram{}
	for _, s := range []float64{math.NaN(), math.Inf(-1), -1e300, -16.1} {
		h.Add(s, false)
	}
	for _, s := range []float64{math.Inf(1), 1e300, 16} {
		h.Add(s, true)
	}
	if h.cells[0].negative != 4 || h.cells[histogramCells-1].positive != 3 || h.AUC() != 1 || h.ECE() > 1e-6 {
		t.Errorf("first cell %+v, last %+v, AUC %g, ECE %g", h.cells[0], h.cells[histogramCells-1], h.AUC(), h.ECE())
	}
	for _, b := range [][]byte{{0x80}, {0xff, 0x7f, 1, 1, 1}, {0, 1, 1}, {0xff, 0x07, 1, 1, 1, 0, 1, 1, 1}} {
		if err := h.UnmarshalBinary(b); err == nil {
			t.Errorf("% x was read", b)
		}
	}
}

func TestClassesByDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	c, confusion := NewClasses(5), [5][5]float64{}
	for range 1000 {
		actual := r.IntN(4) // none of the last
		predicted := actual
		if r.IntN(3) == 0 {
			predicted = r.IntN(4)
		}
		c.Add(predicted, actual)
		confusion[actual][predicted]++
	}
	f1, recalls := 0.0, c.Recalls([]string{"a", "b", "c", "d", "e"})
	for k, name := range []string{"a", "b", "c", "d"} {
		row, column := 0.0, 0.0
		for o := range 5 {
			row += confusion[k][o]
			column += confusion[o][k]
		}
		precision, recall := confusion[k][k]/column, confusion[k][k]/row
		f1 += 2 * precision * recall / (precision + recall) / 4
		if math.Abs(float64(recalls[name])-recall) > 1e-12 {
			t.Errorf("recall of %s %g, want %g", name, recalls[name], recall)
		}
	}
	if math.Abs(c.MacroF1()-f1) > 1e-12 || len(recalls) != 4 {
		t.Errorf("macro F1 %g, want %g; recalls %v", c.MacroF1(), f1, recalls)
	}
	var m report.Metrics
	NewClasses(3).AddTo(&m, []string{"a", "b", "c"})
	if m.MacroF1 != nil || m.RecallPerClass != nil {
		t.Errorf("of nothing %+v", m)
	}
	if NewClasses(MaxRecalls+1).Recalls(make([]string, MaxRecalls+1)) != nil {
		t.Error("recalls of too many classes")
	}
	if math.Abs(Kappa(0.9, 0.6)-0.75) > 1e-12 || !math.IsNaN(Kappa(1, 1)) {
		t.Errorf("κ %g and %g", Kappa(0.9, 0.6), Kappa(1, 1))
	}
}

func TestRecall(t *testing.T) {
	r := NewRanking()
	for i := range 30 { // the best items of u are the 3rd, 10th and 20th by score
		relevance := 1.0
		if i == 2 || i == 9 || i == 19 {
			relevance = 5
		}
		r.Add("u", float64(-i), relevance)
		r.Add("v", float64(-i), 0) // nothing to find
	}
	near(t, "two of three", report.Some(r.Recall(10)), 2.0/3)
	near(t, "one of two places", report.Some(r.Recall(3)), 1.0/3)
	near(t, "none", report.Some(r.Recall(2)), 0)
	for i := range 30 {
		r.Add("w", float64(-i), 1) // all best: ten are enough
	}
	near(t, "with a group of equals", report.Some(r.Recall(10)), (2.0/3+1)/2)
	var m report.Metrics
	none := NewRanking()
	none.Add("v", 1, 0)
	if none.AddTo(&m); m.Recall10 != nil || m.NDCG10 == nil {
		t.Errorf("%+v", m)
	}
}
