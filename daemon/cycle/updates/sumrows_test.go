package updates

import (
	"math"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
)

// levelRows are a part with a level, and with trees where those are set.
type levelRows struct {
	level float64
	trees *format.Trees
}

func (levelRows) Stale() string { return "" }

func (levelRows) Row(_, _ []float64, _ int, _ string) (exists, whole bool) { return false, true }

func (r levelRows) Rest(d *format.Delta, _ func(RowChange)) {
	d.Bias, d.Trees = []float64{r.level}, r.trees
}

// TestLevelsOfASum: while trees stay because their factor has hardly moved, the level of a number is not by factors of
// two times: of parts about 1e6 a hundredth would be 10,000.
func TestLevelsOfASum(t *testing.T) {
	const level = 1e6
	trees := &format.Trees{List: []format.Tree{{Splits: []format.Split{{Field: 0}}, Leaves: []float64{-1, 1}}}}
	r := &SumRows{Constant: []float64{0}, Parts: []SumPart{NewSumPart(levelRows{level: level}, 0.5, 0, 1, nil),
		NewSumPart(levelRows{level: level}, 0.5, 0, 1, trees)}}
	for _, factor := range []float64{0.505, 0.509, 0.6} {
		r.Parts[0].Factor, r.Parts[1].Factor = 1-factor, factor
		var d format.Delta
		r.Rest(&d, func(RowChange) {})
		if math.Abs(d.Bias[0]-level) > 1e-6 {
			t.Errorf("by a factor of %g the level is %g", factor, d.Bias[0])
		}
		if moved := factor > 0.51; moved != (d.Trees != nil) || moved && d.Trees.List[0].Leaves[1] != factor {
			t.Errorf("by a factor of %g the delta has the trees %v", factor, d.Trees)
		}
	}
}

// TestDeltasCountTrees: deltas that wait count with their trees, which may be all that they have.
func TestDeltasCountTrees(t *testing.T) {
	d := &format.Delta{Linear: make([]float64, 3), Basis: make([]float64, 2), Trees: &format.Trees{List: []format.Tree{
		{Splits: make([]format.Split, 2), Leaves: make([]float64, 40)}}}}
	f := &DeltaStream{Queue: []TakenDelta{{Delta: d}, {Delta: &format.Delta{Linear: make([]float64, 1)}}}}
	if got := f.Queued(); got < 8*46 {
		t.Errorf("%d bytes wait, there are %d numbers", got, 46)
	}
	var x Compaction
	if x.Keep(d, nil); x.sinceRow < 8*45 {
		t.Errorf("%d bytes are kept, there are %d numbers", x.sinceRow, 45)
	}
}
