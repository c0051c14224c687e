// Package admission decides what of each event is learned: all of it, the row of its entity alone, or nothing.
//
// It bounds the shares of entities and names (EntityCap, Held), finds floods of events that came before (copies.go),
// and remembers the newest events of identities, whose labels may be corrected (corrected.go). It does not learn, weigh
// losses or know experts; what it says is a function of the order of events, and of the rows of tables, alone.
//
// An EntityCap belongs to one goroutine at a time; in a cycle it is guarded by Cycle.mu. Only Held is atomic, for the
// scraper. Its memory is bounded by named constants and train.fold_in.max_rows.
package admission
