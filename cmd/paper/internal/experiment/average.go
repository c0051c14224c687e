package experiment

import (
	"fmt"

	"github.com/refitd/refitd/solver"
)

// averageOf returns the model whose outputs are the mean of the given models' outputs: bases concatenate, output weights
// are divided by the number of models, linear terms and biases averaged. The models must have one kernel and the same
// numbers of features and outputs. A model without a linear term counts as one with zeros.
func averageOf(models ...*solver.Model) (*solver.Model, error) {
	if len(models) == 0 {
		return nil, fmt.Errorf("%w: no models to average", solver.ErrProblem)
	}
	first := models[0]
	linear, k := false, 0
	for _, m := range models {
		if m.Kernel != first.Kernel || m.NumFeatures != first.NumFeatures || m.NumOutputs != first.NumOutputs {
			return nil, fmt.Errorf("%w: a model with kernel %v, %d features and %d outputs cannot be averaged with one with "+
				"kernel %v, %d features and %d outputs", solver.ErrProblem, m.Kernel, m.NumFeatures, m.NumOutputs,
				first.Kernel, first.NumFeatures, first.NumOutputs)
		}
		linear = linear || m.Linear != nil
		k += m.NumBasis
	}
	mean := solver.NewModel(first.Kernel, first.NumFeatures, first.NumOutputs, linear)
	mean.NumBasis = k
	mean.Basis = make([]float64, first.NumFeatures*k)
	mean.Weights = make([]float64, 0, k*first.NumOutputs)
	share := 1 / float64(len(models))
	at := 0
	for _, m := range models {
		for j := range m.NumFeatures {
			copy(mean.Basis[j*k+at:], m.Basis[j*m.NumBasis:(j+1)*m.NumBasis])
		}
		at += m.NumBasis
		for _, v := range m.Weights {
			mean.Weights = append(mean.Weights, share*v)
		}
		for e, v := range m.Linear {
			mean.Linear[e] += share * v
		}
		for c, v := range m.Bias {
			mean.Bias[c] += share * v
		}
	}
	return mean, nil
}
