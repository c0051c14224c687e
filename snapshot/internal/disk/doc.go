// Package disk is what readers and publishers of snapshots share of a directory: names of files, opening what is below
// the directory of a model, reads with a limit, locks, private keys, segments of deltas, and the errors that callers
// branch on, which package snapshot names once more.
//
// It knows no format but names and numbers: what is in a file, package format knows. Nothing outside the directory of a
// model is opened, by ".." or by links. Functions keep no state and may be called concurrently; a lock is held until
// its unlock is called.
package disk
