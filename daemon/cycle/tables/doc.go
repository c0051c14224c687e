// Package tables has what topics say of entities, such as the genre of an item, by name: rows in memory, and the join
// that gives their columns to events as fields of the schema.
//
// It reads no topic and stores nothing: package ingest decodes records, keeps their rows in the state and puts them
// here. It does not say what a version has of them, as package fitted does.
//
// Goroutines: a Set may be used by any number of goroutines at a time, while one puts rows into it. Rows never change.
//
// Files:
//
//	tables.go    Set: rows by name, which one counts, what changed; the join
//	history.go   the values that a key has had, of tables that are joined at the event's time
//	coverage.go  which share of events has a row in each table; columns that change often
//	codec.go     bytes of a row in the state (AppendRow, DecodeRow), and of the rows of a refit in its record
package tables
