// Package offline runs the verbs that need no broker: backtest, fit, eval, score and inspect. Each is a function of its options that
// emits the lines of the command-line contract.
package offline
