// Package schedule says when a model is due for a refit, an update and a delta.
//
// It knows no model but its settings, starts nothing and reads no clock: the daemon asks with the monotonic clock, a
// backtest with a simulated one. A [Schedule] belongs to one goroutine, that of the trainer.
package schedule
