// Package mixture combines the predictions of the fold-in, of the published version, of the experts and of the
// baselines into the live prediction, with weights by recent loss.
//
// It does not own the experts, and no expert learns from it: a part that is added or taken away changes no other
// expert. It does not publish: variant.go only numbers what an update may be made of, and combination.go has a
// weighted sum as a model.
//
// Goroutines: Mixture, OrdinalMixture, Stacking, LogitPool and StackedUpdate have no lock. In a cycle they change
// under Cycle.mu and Cycle.reportMu, since reports read their weights. Predict comes before Learn of the same event.
// LinearCombination and StackedWeights do not change.
//
// Files:
//
//	mixture.go      the parts, their weights and losses (Mixture, NewMixture)
//	stacking.go     a number by least squares on the parts (Stacking)
//	logitpool.go    classes by a weighted sum of logits (LogitPool)
//	calibration.go  probabilities that are too sure or not sure enough, corrected (calibration)
//	sleep.go        which parts sleep, as no prediction depends on them (CheckSleep)
//	ordinal.go      chances of levels, mixed threshold by threshold (OrdinalMixture)
//	blendfit.go     weights of a sum that versions can hold (StackedUpdate)
//	combination.go  such a sum as a posterior and as rows (LinearCombination)
//	variant.go      the variants of updates: their order, and which a blend is a sum of (Variant)
//	curve.go        losses of all parts over an interval (IntervalLosses)
package mixture
