// Package storage keeps keys and values on disk, by Badger, or in memory: transactions that are durable when they
// return, consistent cuts, what one transaction replaced, the lock of a state directory, and what has to hold of files
// and of their file system before Badger may see them.
//
// It knows no key and no encoding: what a value means is codec's. It recovers nothing: a damaged database is refused,
// and one that lost its end is the witness's to notice.
//
// A Backend has one writer at a time, which is its caller's to see to; any number of goroutines may have a view at
// that time. Memory has a lock, held while a commit is written or a view is open, so a view must not commit. The room
// starts no goroutine; Badger starts those of a Disk, which end with Close.
package storage
