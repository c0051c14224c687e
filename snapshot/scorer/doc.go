// Package scorer is a version in memory: a Model scores events, ranks names, explains, folds in histories and takes
// deltas. Package snapshot names its types; programs that use models import that.
//
// It opens no file and trusts nobody: a Loader gets bytes that package verify has verified, NewModel contents that were
// just trained. It neither trains nor publishes.
//
// A Model never changes, so it needs no lock: Apply, Fold and Learn return another value that shares what did not
// change. Only screens and merged rows are made on the side, by one goroutine, and appear by an atomic pointer or the
// close of a channel. A Scratch belongs to one goroutine at a time; Scratch.Workers says how many TopK starts.
//
//	model.go      Model, NewModel, Scratch, Score: an event becomes columns, columns become outputs; cubic.go degree 3
//	names.go      columns of names, those that deltas added too; cross.go names of crosses
//	rows.go       rows that deltas changed; apply.go a delta becomes another model
//	predict.go    outputs become a prediction; explain.go terms that add up to them
//	topk.go       TopK; candidates.go the search, mixing.go bounds of several outputs, screen.go and screening.go rule out
//	tables.go     what tables know of entities, joined to events; where.go conditions of TopK on it; coded.go its
//	              rows as columns
//	cochoices.go  what co-choices add to names of lists
//	overlay.go    Overlay, Fold, Learn: histories; folding.go one row is folded in
//	loader.go     Loader: files become a model; golden.go its self-test
package scorer
