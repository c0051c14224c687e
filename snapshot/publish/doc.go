// Package publish is what programs that publish models import: it writes versions into a store, moves and renews their
// aliases, keeps the publish log, appends deltas, and removes old versions. Programs that only use models import
// package snapshot, which does not import this package.
//
//	store := publish.NewStore("snapshots")
//	store.Signer, store.Keys = signer, signer.Keys()
//	manifest, err := store.Publish(ctx, "ratings", &contents, publish.Move{Alias: pointer.Champion})
//
// Files:
//
//	store.go    Store: versions are staged, synced and renamed; locks of a model
//	alias.go    moves of aliases, compare and swap
//	renewal.go  renewals: until when an alias may be used
//	log.go      the publish log: records, what was live at a moment
//	rotate.go   older files of the log
//	chain.go    Chain: the deltas of a version
//	prune.go    which versions may go, and removing them
//	repair.go   what killed publishers left, damaged aliases, strays
//	signed.go   what in the store was not signed by a trusted key
//	numbers.go  numbers of versions and moves that are reserved elsewhere
//	modelsig.go OpenSSF Model Signing bundles
//
// It does not train, score or serve, and it does not decide which version is the champion. Formats and digests are kept
// in package format, what a reader refuses in package verify.
//
// A Store is safe for concurrent use, and so are several stores of one directory, in this process or others: writers to
// a model take turns by a file lock, and deltas have a lock apart, so that they do not wait for a version. Set the
// fields of a Store before its first use. A Chain belongs to one goroutine at a time; a second writer is noticed
// (ErrConflict). Every step is durable before the next begins, so a killed publisher leaves a whole store.
//
// # Log
//
// A line of the log takes some 500 bytes, so a version every ten seconds makes 4 MB a day, and the log, which takes 272
// MiB at most, goes back two months. Each file begins with the records of the moves that stood when it was begun, so
// that what is live is known from it alone. A writer cuts off what a killed one left of a line. Copy files that were
// put aside to keep them for longer.
package publish
