// Package outbox has the rejected records that wait in a state to be sent on: what is kept of one, how it is written,
// and whether each is of a record that the ledger counts.
//
// How many there may be, when one is put in and when one that was sent leaves is the store's. Nothing is sent from
// here.
//
// It starts no goroutine and holds no lock; everything in it may be used concurrently.
package outbox
