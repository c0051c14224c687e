// Package snapshot is the library of programs that use models which refitd publishes. It needs the standard library
// only: no Kafka, no Badger, no metrics.
//
// A service follows an alias and asks for the model with each request:
//
//	w, err := snapshot.Watch(snapshot.DirSource{Dir: "snapshots"}, snapshot.WatchOptions{Model: "ratings"}) // alias champion
//	...
//	defer w.Close()
//	if m := w.Model(); m != nil { // nil until the first version is loaded
//		p, err := m.Predict(&in) // p.Value, p.Classes, p.Probabilities, p.Unseen
//	}
//
// The example of the package is such a service, whole. A program that runs once takes Open. HTTPSource asks a daemon in
// place of a directory, package kafkasource reads topics, and any other Source will do: nothing it says is trusted.
//
// On the hot path, fill an Input by hand and call Score, ScoreBatch or TopK with a Scratch of your own: nothing is
// allocated. A Model never changes and may be used by any number of goroutines; a Scratch belongs to one at a time. A
// Watcher swaps a pointer to another Model, so hold on to what Model returned for the length of a request.
//
// Most types are names for those of the packages below, where their methods are documented: scorer (Model, Overlay),
// format (events, manifests, keys, and the formats themselves) and verify (Trust, Selector: what a reader refuses).
// The package does not write to a store: package publish does.
//
//	models.go       what a model is and is asked
//	versions.go     what a version is and which one is meant: manifests, aliases, keys, trust; Open; errors
//	watch.go        Watcher: follows an alias; follow.go its deltas; accepted.go what a restart must not go behind
//	source.go       Source, DirSource; deltasource.go DeltaSource; http.go HTTPSource; notify_*.go changes of a directory
package snapshot
