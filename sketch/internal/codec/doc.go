// Package codec writes and reads the keys and values of a state: sample rows, accounts, counters, settings, markers,
// time bounds, entities and schemas. Package sketch has the table of all keys. Every value ends in a checksum over its
// key and itself.
//
// It keeps the format: a state of an earlier build is read as it is, and FormatVersion says which are too new. It
// checks what one value says, not what values say of each other, which is audit's, and it writes nothing.
//
// It starts no goroutine and holds no lock; everything in it may be used concurrently.
package codec
