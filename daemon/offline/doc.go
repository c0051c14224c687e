// Package offline is what the verbs without a broker share: how they read files of events and find versions and
// states, what they report of lines that are no events, and the export of versions and samples. The verbs are in the
// packages below it. Each is a function of its options that emits the lines of the command-line contract.
//
//   - fit trains and compares fits of a file,
//   - evaluate measures a version on a file (eval) and scores events with it (score),
//   - guess makes a configuration for a file (init) and says how replay writes the records of one,
//   - versions lists, moves, compares, reproduces and prunes the versions of a store,
//   - backtest plays a file to the learner of the daemon as if time passed.
//
// Files:
//
//	events.go    tables and events of files, derived fields, classes, limits of dense files
//	dropped.go   lines that are no events, and fields that events lack
//	snapshot.go  the SNAPSHOT argument: store, model, version and keys
//	state.go     the state of a stopped daemon
//	clock.go     the clock of a backtest, by which guess plans refits
//	export.go    ONNX, and the sample as JSON Lines or LIBSVM
//
// The package imports none of the packages below it. It does not learn, and it does not talk to Kafka: records of a
// topic are read by the command and passed in as Records.
//
// Nothing here starts a goroutine or keeps state between calls. Functions may be called concurrently if their emitters
// and files differ.
package offline
