// Package task has what the stages of a refit share: configuration, target, vocabulary, the encoded parts of the
// sample, the time budget, and the helpers by which every stage chooses.
//
// It does not fit a model; convex, variational and choose do. It does not order the stages (refit). It has no lock and
// does not know the cycle.
//
// Goroutines: a Task belongs to the goroutine of one refit. InParallel runs two parts that write to different places,
// waits for both and raises a panic of either. Results do not depend on the number of workers. Only the Budget reads a
// clock, and it records where the clock ended the refit, so that the refit can be repeated without one.
//
// Files:
//
//	task.go         the fields (Task); fits.go has the results of stages (Candidate, VariationalFit, MappedFit)
//	input.go        an offline fit (FitInput), weights of events
//	budget.go       the time budget (Budget); parallel.go runs two parts; progress.go shows progress
//	record.go       what a refit was made of, so that it can be repeated (Record, Chosen)
//	warmstart.go    what a refit continues from (WarmStart); cold.go when it starts from nothing
//	choice.go       weights by which stages choose, capped by entity (entitycap.go)
//	compare.go      the loss on the select rows; calibration.go scales outputs before it
//	plausible.go    the largest loss that one row may count
//	lists.go        judging choices by lists; popularity.go counts choices
//	rows.go         evenly spread rows; groups.go, incumbent.go small types
package task
