// Package mirror has what a copy of a store elsewhere lacks: the notes, in each transaction, of the keys that it
// changes of what the copy needs; the excerpts made of them, with the accounts of one commit; and the thresholds of
// samples.
//
// The notes stay until the copy has them, so that no crash loses one. What the copy gets is read at one commit,
// together with the accounts of that commit: what came and went in between is not sent at all, not even as a tombstone,
// unless an excerpt may have been sent while it was there. Nothing is sent from here, and nothing merged.
//
// It starts no goroutine and holds no lock. The mutex of the store that has the notes guards them; an excerpt is read
// with a copy of them.
package mirror
