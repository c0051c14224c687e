// Package evaluate measures a version on the events of a file (the verb eval) and scores events with it (the verb
// score).
//
// Files:
//
//	evaluate.go  the run over labelled events, rows that the version may have learned, required metrics
//	rank.go      lists of names against what was chosen, and against popularity
//	require.go   --require: a metric and its bound
//	score.go     predictions for lines of JSON and rows of tables, with a history if asked for
//
// It does not train, and it changes neither versions nor aliases. METRICS themselves are computed by daemon/cycle, as
// for the daemon.
//
// A run belongs to one goroutine, and so does an Evaluation. Only Score starts a second one, which makes reading from
// standard input end with the context.
package evaluate
