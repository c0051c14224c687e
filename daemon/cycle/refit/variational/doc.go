// Package variational is the variational stage of a refit, for multilinear models: sweeps of a Gaussian posterior over
// the sample. That posterior becomes the prior of the fold-in.
//
// It does not implement a sweep: package solver/posterior does. It does not choose the half-life or the feature map
// (choose), and is not used where train.refit is not variational.
//
// Goroutines: it runs on the goroutine of the refit and takes a task.Task. The sweeps use the task's workers; results
// do not depend on their number. The cycle's lock is not held.
//
// Files:
//
//	sweep.go         the sweeps and when they end
//	warmstart.go     continuing from the last posterior; learning the held-out rows once the gate has decided
//	precisions.go    where the precisions begin: at the last ones or at the start
//	interactions.go  which fields interact
//	gaussian.go      the second posterior of an ordinal label, as a number
//	race.go          when a refit can leave out the convex stage
package variational
