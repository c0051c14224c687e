package refit

import (
	"fmt"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/solver"
)

// Unfit returns why a refit with such settings cannot continue from the champion, "" if it can. A version that
// somebody else made champion comes without the convex stage's model. The published one is of another kernel where
// fields have groups, or where the settings were others.
func Unfit(ch *fitted.Fitted, m *config.Model) string {
	kernel, err := solver.KernelOf(m.Train.Kernel, m.Train.KernelDegree())
	if err != nil {
		return "" // the settings are at fault, and the refit says so
	}
	if augment := m.Train.Augment == "true"; ch.Vocabulary.Augment != augment {
		return fmt.Sprintf("because version %d was trained with train.augment: %t", ch.Version.Version,
			ch.Vocabulary.Augment)
	}
	if m.Train.ConvexAlone() {
		return "" // ModelOn leaves the basis of another kernel
	}
	model := ch.Model
	if from := ch.StateWithoutHoldout().Posterior; from != nil {
		if from.Group == nil {
			return ""
		}
		model = ch.Convex
	}
	switch {
	case model == nil:
		return fmt.Sprintf("because version %d was kept without the model of its convex stage", ch.Version.Version)
	case model.Kernel != kernel:
		return fmt.Sprintf(
			"because version %d has the kernel %v of degree %d, and refits look for basis vectors of %v of degree %d",
			ch.Version.Version, model.Kernel, model.Kernel.Degree(), kernel, kernel.Degree())
	}
	return ""
}
