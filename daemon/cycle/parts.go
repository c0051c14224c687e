package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// Parts returns the names of all parts of the learner that config.Model.Without may leave out: experts, baselines and
// combinations by their names as parts of the mixture, variants of updates, choices of a refit, and that experts sleep.
// The fold-in cannot be left out.
func Parts() []string {
	parts := []string{mixture.PartRefit}
	for i := range experts.Kinds {
		parts = append(parts, experts.Kinds[i].Name)
	}
	for i := range experts.Baselines {
		parts = append(parts, experts.Baselines[i].Name)
	}
	parts = append(parts, mixture.PartStack, mixture.PartPool, mixture.PartCalibration, mixture.PartLevels)
	for f := range variants[1:] {
		parts = append(parts, variants[1+f].name)
	}
	return append(parts,
		task.ChoiceHalfLife, task.ChoiceFeatureMap, task.ChoiceClipping, task.ChoiceInteractions, task.ChoicePrecisions,
		task.ChoiceRestart, task.ChoiceStage, task.ChoiceHeldOut, experts.ChoiceSleep)
}
