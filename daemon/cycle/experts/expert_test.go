package experts

import (
	"testing"

	"github.com/refitd/refitd/solver"
)

// TestOneOutputRises: the single output of a vector falls where those of thresholds rise.
func TestOneOutputRises(t *testing.T) {
	ordinal := &solver.Model{
		NumFeatures: 2,
		NumOutputs:  2,
		NumBasis:    2,
		Basis:       []float64{1, 0, 0, 1},
		Weights:     []float64{1, 3, -2, -4},
	}
	if got := OneOutput(ordinal).Weights; got[0] != -2 || got[1] != 3 {
		t.Errorf("weights %v, want [-2 3]", got)
	}
}
