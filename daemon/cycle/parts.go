package cycle

import (
	"slices"

	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// Parts returns the names of all parts of the learner that config.Model.Without may leave out: experts, baselines and
// combinations by their names as parts of the mixture, variants of updates, and choices of a refit. The fold-in cannot
// be left out.
func Parts() []string {
	parts := []string{
		mixture.PartPublished,
		experts.PartGaussian, experts.PartBefore, experts.PartAdagrad, experts.PartRecent, experts.PartNewton,
		experts.PartNeighbours, experts.PartNames,
		experts.PartMean, experts.PartRecentMean, experts.PartSGD, experts.PartFirstMean, experts.PartSecondMean,
		experts.PartLastLabel, experts.PartEntityLabel,
		mixture.PartStack, mixture.PartPool, mixture.PartLevels,
	}
	parts = append(parts, mixture.VariantNames[1:]...)
	return slices.Concat(parts, []string{
		task.ChoiceHalfLife, task.ChoiceFeatureMap, task.ChoiceClipping, task.ChoiceInteractions, task.ChoicePrecisions,
		task.ChoiceRestart, task.ChoiceStage, task.ChoiceHeldOut,
	})
}
