package fitted

import (
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// HeldOutNames are the names of the entities that a refit holds out whole, sorted, for each categorical field.
type HeldOutNames [][]string

// WithoutHoldout are the posteriors of a refit that have not seen a held-out row, over the vocabulary of the champion:
// what the next refit continues from, and what the next challenger is compared with.
type WithoutHoldout struct {
	Posterior *posterior.State
	Gaussian  *posterior.State // of GaussianTarget; nil without one
}

// StateWithoutHoldout returns the posteriors of a champion that have seen no held-out row.
func (ch *Fitted) StateWithoutHoldout() WithoutHoldout {
	if ch.WithoutHoldout != nil {
		return *ch.WithoutHoldout
	}
	return WithoutHoldout{ch.Posterior, ch.Gaussian}
}

// ModelWithoutHoldout returns the champion's model as it was judged: before it learned from held-out rows.
func (ch *Fitted) ModelWithoutHoldout() *solver.Model {
	if ch.WithoutHoldout != nil && ch.Version.Sweeps > 0 { // else the model is of the convex stage, which is not swept
		return ch.WithoutHoldout.Posterior.Model()
	}
	return ch.Model
}
