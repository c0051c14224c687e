// Package choose has what a refit finds out by comparing on held-out rows: the half-life of training rows, the feature
// map of numbers and its weights, and the clipping range of each number.
//
// It does not fit the model that is published and does not choose λ (convex) or precisions (variational). What a
// version records as chosen is not chosen again when the refit is repeated.
//
// Goroutines: it runs on the goroutine of the refit, changes its task.Task and asks the task's budget. A comparison
// that the budget ends is dropped. The cycle's lock is not held.
//
// Files:
//
//	halflife.go    the half-life of training rows (Fade)
//	featuremap.go  the feature map, compared on folds in time (ChooseFeatureMap)
//	mapweights.go  weights on the feature map on top of a model (Mapped)
//	clipping.go    how far beyond the sample numbers count (Limits)
package choose
