package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestGroupedFoldInIsASweepOfOneRow: learning one event updates the rows of its features one after the other as a sweep
// over that event does.
func TestGroupedFoldInIsASweepOfOneRow(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	p, group := posteriortest.GroupedRatings(r, 1, 1, false)
	s := posterior.New(posterior.Gaussian, 1, 2, p.Field, p.NumFields, posterior.PriorFor(posterior.Gaussian, 1))
	s.Group = group
	index, value := p.X.Row(0)
	for _, j := range index {
		mean, _ := s.Row(int(j))
		for a := range mean {
			mean[a] = r.NormFloat64()
		}
	}
	start := s.Clone()
	f := NewFoldIn(start, make([][]float64, 5))
	var features []Feature
	for e, j := range index {
		feature := Feature{Field: s.Field[j], Row: int32(e), Base: j}
		f.Place(int32(e), feature)
		features = append(features, feature)
	}
	f.Learn(features, value, p.Target(0), 1)
	got := f.State(features, nil)
	for e := range index { // by definition: evidence of the prior's mean, plus the event's
		view, solve := posterior.NewRowView(s.Sign), posterior.NewSolver(3)
		z := view.Gather(s, index, value)
		j := index[e]
		mean, cov := s.Row(int(j))
		prior := s.PrecisionOf(int(s.Field[j]))
		solve.Restore(solve.Evidence, solve.Right, prior, mean, cov)
		view.Accumulate(solve.Evidence, solve.Right, e, z, s.Noise, s.Noise*(p.Target(0)[0]-s.Bias[0]))
		solve.Finish(prior, mean, cov, nil)
		for a := range mean {
			if g := got.Mean[e*3+a]; math.Abs(g-mean[a]) > 1e-9 {
				t.Fatalf("entry %d: mean[%d] = %.10g, by definition %.10g", e, a, g, mean[a])
			}
		}
	}
}
