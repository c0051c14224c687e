// Package fitted is one trained model with all that is needed to score with it, to publish it and to continue from it.
// A champion, a challenger and an update are each a Fitted.
//
// It does not train (refit), does not decide what is published (gate, updates), and writes no files: Contents returns
// what package snapshot stores, Checkpoint the bytes that a daemon keeps in addition.
//
// Goroutines: Fitted, FixedModel, BaselineMeans and PopularWeights do not change once built and are safe for
// concurrent use. To change one, copy the struct and replace whole fields. A Scorer has buffers and belongs to one
// goroutine. Popularity counts choices as they come; in a cycle it is guarded by Cycle.mu.
//
// Files:
//
//	fitted.go         the model, its causes of decisions, and how to score with it (Fitted, Scorer)
//	fixedmodel.go     a model that does not learn any more (FixedModel)
//	checkpoint.go     to a snapshot and back; what a restart needs in addition (Contents, Checkpoint, Restore)
//	foldinspec.go     what a version says about fold-in: fields that forget, and their rates
//	baselinemeans.go  the baselines that a refit fits on its sample
//	popularity.go     how likely each name is chosen, as weights of a model
//	cochoices.go      which names the same entities choose, for lists
//	crosses.go        a model without its own crosses (Plain)
//	halflife.go       half-lives and the weights of rows of an age
//	holdout.go        names held out whole; posteriors and models that have seen no held-out row
//	reservoir.go      capped samples of held-out rows for the guard (HoldoutSet)
//	dual.go           dual variables by row
//	limits.go         the limit of outputs
//	precision.go      what a refit chose about precisions
package fitted
