// Package piece collects what one transaction of a store will write: rows, accounts, counters, settings and whatever
// else changes with them, encoded into one buffer that the next piece uses again.
//
// It counts how much there is, but neither decides when a piece is full nor commits it: that is the store's, which
// knows what still has to go into the same transaction.
//
// It starts no goroutine and holds no lock. The mutex of the store that has the piece guards it.
package piece
