// Package ledger has the accounts of a store: what became of each offset of each partition, how far each was applied,
// which checkpoints of an account are kept, and of which subjects the events are forgotten from where on.
//
// A Row is what callers see of an account, an Account what the ledger keeps of it, a Book all of them in memory. The
// package writes nothing and knows no encoding: when an account changes, and when it is durable, is its caller's.
//
// It starts no goroutine and holds no lock. A Book is guarded by the mutex of the store that has it.
package ledger
