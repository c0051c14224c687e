// Package sweep refits a posterior over a sample by variational sweeps: Refit, its fast paths, the start and the choice
// of interactions. It does not learn from single events (package online). A Refit belongs to one goroutine and starts
// the workers it may use.
// Results do not depend on their number.
package sweep
