// Package rows has events as the learning cycle keeps them: their bytes in a sample, their positions in the log, and
// bounded tables of names.
//
// It does not decide what is learned, has no model and does no I/O: the store of samples is package sketch. It imports
// no other room of the cycle, so each of them may use it.
//
// Goroutines: functions are pure. Backlog, Slots and Touched have no lock and belong to one goroutine at a time; in a
// cycle they are guarded by Cycle.mu. Backlog.From returns events that stay unchanged while more are added, so that
// Cycle.Install can learn from them without the lock.
//
// Files:
//
//	mixhash.go   keys of two hashes
//	codec.go     bytes of an event (AppendEvent, DecodeEvent, Interner); stored, so old bytes must decode for ever
//	rowbytes.go  constants of the footprint of a row (RowBytes is in codec.go)
//	copy.go      a deep copy of an event
//	counted.go   which rows of names an event may change (Counted, made by admission.EntityCap)
//	pending.go   events since the cut of the last refit, bounded by bytes (Position, Pending, Backlog)
//	slots.go     the most recently used names with small numbers, in O(1) (Slots, SlotIndex, Touched)
package rows
