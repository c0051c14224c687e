package sweep

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// TestStartTellsNumbersFromNames: what a number says of a label is its own from the start, not that of names which come
// once or twice.
func TestStartTellsNumbersFromNames(t *testing.T) {
	const n, names, slope = 3000, 2000, 9.0
	r := rand.New(rand.NewPCG(6, 9))
	p := &solver.Problem{
		X:         solver.NewRows(names+1, n, 2*n),
		Outputs:   1,
		Loss:      solver.Squared{},
		Field:     make([]int32, names+1),
		NumFields: 2,
	}
	p.Field[names] = 1
	for range n {
		x := r.NormFloat64()
		p.X.Append([]int32{int32(r.IntN(names)), names}, []float64{1, x})
		p.Targets = append(p.Targets, slope*x+r.NormFloat64())
	}
	s := Start(posterior.Gaussian, p, nil, []bool{true, true}, 2, posterior.PriorFor(posterior.Gaussian, slope), r)
	if mean, _ := s.Row(names); math.Abs(mean[0]-slope) > 0.1 {
		t.Errorf("the number has the weight %g, want %g", mean[0], slope)
	}
}
