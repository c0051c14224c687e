// Package encode turns events into numbers: labels into targets of a loss, names and numbers into columns, and outputs
// back into predictions.
//
// It does not learn a model, does not choose what is learned from, and does not read a clock. It does not know how
// losses are summed (evaluate) or how a model is kept (fitted).
//
// Goroutines: Target, LevelLink and a built Vocabulary do not change and are safe for concurrent use. NumberScale,
// Scaling, LabelScale, WeightScale, Location and RecentLevels change at each event and belong to one goroutine at a
// time; in a cycle they are guarded by Cycle.mu. NumberScale.Take comes before NumberScale.Learn of the same event, so
// that an event is scaled by what came before it.
//
// Files:
//
//	target.go      label to targets, outputs to value, the loss by which models are compared (Target)
//	vocabulary.go  features to columns (Vocabulary, BuildVocabulary)
//	crosses.go     columns of pairs of names
//	featuremap.go  columns that a feature map makes of numbers
//	sample.go      the rows of a refit, decoded and encoded (Sample, Encoded)
//	scaling.go     limits of outliers, scales of numeric columns
//	running.go     robust running location and scale of numbers and labels (NumberScale, Location)
//	weights.go     limits of weights and losses (WeightLimit, WeightScale, BoundLoss)
//	levels.go      a number as chances of ordinal levels (LevelLink)
//	groups.go      fields that are functions of other fields
//	rescale.go     models and posteriors carried over to other scales of numbers
package encode
