// Package policy says which events a sample keeps: the hashes and roles of events, their ranks, what a rank says of the
// chance to be kept, and the settings that a state is bound to, with what may follow them and what may be merged.
//
// It is arithmetic: it has no events, stores nothing and reads no clock. What holds the rows of largest rank is package
// reservoir.
//
// It starts no goroutine and holds no lock. A Drawer is for one goroutine; the rest may be used concurrently as long as
// nobody changes the settings, which the mutex of the store that has them guards.
package policy
