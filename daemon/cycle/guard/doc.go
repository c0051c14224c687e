// Package guard decides whether consumers may have an update or a delta in place of what they have. It compares both
// on held-out rows of the last refit, on recent events and on the latest events.
//
// It does not choose between variants of an update (updates.VariantSelector) and does not judge refits (gate). A
// refusal ends nothing: the cycle counts it and the previous version stays.
//
// Goroutines: a Guard is guarded by Cycle.mu. The exception is Holdout, which a refit calls from its own goroutine: it
// reads only fields of the Guard that never change. Judge scores up to GuardSize rows of each set with either model,
// while the lock is held.
//
// Files:
//
//	guard.go  the three sets of rows, the comparison and its bounds (Guard, Judge, HeldBack)
//	flood.go  what the latest events have in common that others have not (flood)
//	labels.go the labels of the sets, by parts
//	limit.go  the largest output that versions of a refit may have (OutputLimit)
package guard
