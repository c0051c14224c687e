package task

import "github.com/refitd/refitd/daemon/cycle/fitted"

// The choices of a refit that a backtest can leave out. What is in parentheses is then taken without a comparison.
const (
	ChoiceHalfLife     = "half_life"    // of training rows (none)
	ChoiceFeatureMap   = "feature_map"  // under auto (none)
	ChoiceClipping     = "clipping"     // how far beyond the sample a number counts (its range)
	ChoiceInteractions = "interactions" // which fields interact (all)
	ChoicePrecisions   = "precisions"   // where those of a stage begin (anew)
	ChoiceRestart      = "restart"      // of a stage that loses to the convex one (no restart)
	ChoiceStage        = "stage"        // which is published (the variational one)
	ChoiceHeldOut      = "held_out"     // sweeps over held-out rows after the gate (none)
)

// Choices are what the stages before have chosen for those that follow.
type Choices struct {
	// Unbounded lifts the bounds of choices, by entity and by row: of a refit of an earlier build that is repeated.
	Unbounded bool
	HalfLife  int     // an index of fitted.HalfLives
	Given     int     // the half-life of a refit that is repeated, -1 of any other
	MainOnly  []bool  // posterior.State.MainOnly, by ChooseInteractions
	Ridge     float64 // of weights on the feature map, by choose.ChooseFeatureMap
	Plain     bool    // by ChooseFeatureMap: no basis vectors are looked for
	Whole     bool    // the model has all products of numbers already
	// Restarted is set where a last variational stage exists and this one does not continue it.
	Restarted  bool
	Precisions fitted.PrecisionChoice // by the variational stages
}
