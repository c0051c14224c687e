// Package state is what a model keeps on disk: the sample with its ledger ([State]), the posterior of the champion, the
// numbers of the versions ([Counters]), and how often storage has failed. It compares the state with the versions that
// were published, so that an older copy is noticed. It does not read topics, learn or publish.
//
// State.Published and State.Before belong to the goroutine of the trainer, or to the one that makes the model; all
// else is safe for concurrent use.
//
//	state.go     open and close, the witness, the posterior, storage errors
//	notes.go     what is in the place of a file that a start can do without
//	behind.go    whether the state has read more than a cut
//	counters.go  the numbers of versions and moves
package state
