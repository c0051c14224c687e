// Package cycle is the learning cycle of one model, without I/O and without a clock of its own: score every event
// before it is learned from, fold it in, refit on a sample, judge the result on held-out rows, install it. The daemon
// drives it from Kafka and Badger, a
// backtest from a file; both get the same numbers.
//
// Cycle.Observe belongs to one goroutine. Cycle.Refit may run beside it: it reads the live model under a lock, only to
// copy what the
// new vocabulary needs, and works on its own data from then on.
package cycle
