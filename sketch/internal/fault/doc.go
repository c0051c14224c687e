// Package fault has the errors that callers of a store branch on, and the two ways in which its rooms word them. It
// decides nothing: which error a fault becomes is said where the fault is found.
//
// The rooms of a store lie below internal, so that what they export is no part of the interface of package sketch:
// there it is an alias, or not there.
//
// It starts no goroutine and holds no lock; everything in it may be used concurrently.
package fault
