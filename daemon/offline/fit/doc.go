// Package fit is the verb fit: it reads a file, divides it into a part to train on, one to choose with and one to
// measure on, fits over a path of strengths, compares the fits with baselines and may publish the best.
//
// Files:
//
//	fit.go    the options, the run and its summary, baselines
//	model.go  the model that a file without a configuration is fitted with
//	parts.go  the parts for training, validation and test
//	path.go   the figure of losses over strengths
//	flags.go  the flags that choose an algorithm
//
// It does not encode, solve or judge: daemon/cycle and solver do. It neither reads nor changes the state of a daemon.
//
// A run belongs to one goroutine. The solver takes as many as the options allow, and the result does not depend on how
// many those are. If the context ends, a run ends with its error and publishes nothing.
package fit
