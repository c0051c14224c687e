package evaluate

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/solver"
)

// WeightedSum is a sum over rows with weights, nil counting each once.
type WeightedSum struct {
	Weights    []float64
	sum, Total float64
}

func (s *WeightedSum) Add(row int, v float64) {
	w := encode.WeightAt(s.Weights, row)
	s.sum, s.Total = s.sum+w*v, s.Total+w
}

// Mean is NaN without rows, and no more than the largest number.
func (s *WeightedSum) Mean() float64 { return min(s.sum/s.Total, math.MaxFloat64) }

// Loss returns the mean bounded loss of a model on the part, NaN when the part is empty. weights nil counts every row
// once.
func Loss(e *encode.Encoded, t *encode.Target, model *solver.Model, weights []float64) float64 {
	sum := WeightedSum{Weights: weights}
	e.Each(t, model, func(i int, outputs, targets []float64) {
		sum.Add(i, encode.BoundLoss(t.Judged(&e.Events[i], outputs, targets), e.Most))
	})
	return sum.Mean()
}
