// Package backup is the file form of a whole state: a header, the keys and values of its database, files of its
// directory, and a digest over all of it.
//
// It copies keys and values as they are and knows none of them. That the cut is whole before it is written, and the
// state after it was read, is its callers' to check.
//
// It starts no goroutine and holds no lock. A Writer, and what Read reads from, are for one goroutine.
package backup
