// Package versions is the verbs over the versions of a store: promote, rollback, aliases, log, prune, diff, inspect and
// reproduce, and the keys that sign them.
//
// Files:
//
//	aliases.go    moves of aliases, what they name, and by whom they were signed
//	log.go        the publish log, what was live at a moment, pruning, new keys
//	diff.go       two versions: settings, metrics, and losses on events that neither has learned
//	inspect.go    one version: its manifest, ancestors and bill of materials
//	reproduce.go  the fit of a version once more, from what the state keeps of it
//
// It makes no versions: fit and the daemon do, by package snapshot, which also owns the locks and the files. It does
// not ask a running daemon.
//
// Each verb is one call on one goroutine. Others, in this process or another, may read or write the store at the same
// time: a move that was overtaken fails with exit code 1 and changes nothing.
package versions
