// Package backtest is the verb backtest: it plays the events of a file to the learner of the daemon, which scores each
// before it learns from it, and refits, updates and publishes as a daemon would have.
//
// Files:
//
//	backtest.go  the options and the run: events, refits, updates, the summary
//	schedule.go  refits by time need times in the file
//	consumer.go  programs that use the versions: every so often, with deltas, with the history of an entity
//	figure.go    the figure of losses over events
//	without.go   parts of the learner that are left out, to measure what each is worth
//
// It does not measure throughput, and it has no goroutine for reading, training or publishing as the daemon has: events
// and refits take turns, so that the result is a function of the file and the options. The time is that of the clock in
// the options, not that of the machine.
//
// A run belongs to one goroutine. A refit takes as many workers as the options allow, and the result does not depend on
// how many those are.
package backtest
