// Package stub keeps what came of the event of one join key: the outcomes that were applied under it, whether or not
// the event itself was. A stub is a function of the set of those outcomes, and of what each partition took back.
//
// The outcomes of each partition are a separate list, since a partition is applied in the order of its offsets and
// others are not: a tombstone takes back what its partition had before it. Lists are bounded by a rule that looks at
// times and offsets alone. What the outcomes add up to, and which of them came too late, is for who reads them, who
// knows the time of the event.
//
// It starts no goroutine and holds no lock. A Stub belongs to one goroutine.
package stub
