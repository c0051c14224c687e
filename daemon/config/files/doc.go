// Package files reads and judges the files and directories that a configuration names.
//
// It does not know the configuration: a caller has the key, and says what is wrong in its words. It writes nothing.
//
//   - private.go: files with a secret, which only their owner may read
//   - paths.go: whether directories overlap, symbolic links followed
//   - web.go: what an exporter-toolkit file says of who may connect
//   - writer.go: schemas of writers, with the files that they import
//
// Everything is a function of its arguments and of the disk, and safe for concurrent use.
package files
