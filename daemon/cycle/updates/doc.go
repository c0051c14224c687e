// Package updates has what consumers get between refits: the live model in each variant that versions can hold, their
// comparison on later events, and the deltas that follow an update row by row.
//
// It does not decide when an update is due (package schedule), does not judge for publication (guard), and
// does not write files (daemon/publish).
//
// Goroutines: three rules. (1) Served does not change; a new one replaces it. (2) DeltaStream, DeltaEncoder and
// Compaction belong to the goroutine that updates; their fields that Cycle.mu guards are named in their comments. (3)
// Update.Make and Compaction.Make are the long parts: they need no lock and may run on a third goroutine.
//
// Files:
//
//	served.go      the version that consumers have, scores of an event with it (Served, Score, Stored)
//	update.go      an update in the making (Update); updates against the last refit (UpdateComparison)
//	variants.go    which variant predicts best for consumers (VariantSelector, Candidate)
//	encoder.go     the newest update in one variant, and changed rows as a delta (DeltaEncoder, Frontier)
//	stream.go      all variants that deltas follow, deltas that wait (DeltaStream)
//	rows.go        rows of a learner as an update has them: one type for each learner
//	popularity.go  popularity of names in deltas
//	compaction.go  an update and its deltas as one whole version (Compaction)
//	serve.go       the live model as a model to score with (LiveCopy)
//	pooledsum.go   variants put together as one model (PooledSum)
//	behind.go      how far consumers are behind the newest update (Behind)
//	known.go       how far a partition is reached
//	rankings.go    updates of choices compared by their lists (Rankings)
package updates
