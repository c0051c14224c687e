// Package share is what a store that reads some of the partitions has sent of itself, as the store that merges it sees
// it: whether it is of the same sample, whether its accounts are behind those that are known, and which of its rows are
// missing.
//
// It checks all of a share before anything of it is taken, and takes nothing: rows, accounts and thresholds are merged
// by the store. How an excerpt is made and what is in one is package mirror's.
//
// It starts no goroutine and holds no lock. The mutex of the store that merges guards what a share is compared with.
package share
