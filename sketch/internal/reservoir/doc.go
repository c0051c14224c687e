// Package reservoir holds in memory what a store knows of its sample rows: of each its rank, its identity, its place in
// the ledger, its size and its cost, in one bounded reservoir for each role and each class with a quota.
//
// Which rows a reservoir holds is a function of the set of offers, not of their order; the rules of it are package
// policy's. The rows themselves are not here, nor are the accounts that change when one comes or leaves: its caller
// writes both, in one transaction.
//
// It starts no goroutine and holds no lock. The mutex of the store that has the samples guards them.
package reservoir
