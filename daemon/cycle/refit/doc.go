// Package refit orders the stages of a refit: decode the sample, choose (half-life, feature map), the convex stage,
// the variational stage, the gate, and last the held-out rows, once they have judged. It also has the offline fit.
//
// It does not install or publish a model, and does not know the cycle: all it needs is in a task.Task. It takes no
// time from a clock but through the task's budget.
//
// A refit is a function of the sample, the settings and the champion. Where the clock ended it, the version records
// after which step, and Repeat ends there.
//
// Goroutines: Run, Fit and Repeat work on the caller's goroutine and start workers below it, for which they wait. The
// cycle's lock is not held.
//
// Files:
//
//	run.go       the order of the stages (Run, Prepare, Stages), a challenger's version
//	cold.go      why a refit cannot continue from the champion (Unfit)
//	fit.go       an offline fit of one model (Fit); pilot.go tries the variational stage on a share of the rows
//	record.go    a refit made again from its record (Repeat)
//	progress.go  progress of an offline fit
package refit
