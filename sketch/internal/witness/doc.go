// Package witness is the small file in a state directory that records how far the state had come and which subjects it
// has forgotten: Badger loses the end of its log, or all of it, without an error. What the file says is durable, so
// that a state behind it has lost something.
//
// It compares and says where a ledger is behind; what has to be read again then, and when the file is written, is its
// callers'. Files of the same form keep the markers of a state outside of it.
//
// It starts no goroutine and holds no lock. A file has one writer at a time, which is the store's to see to.
package witness
