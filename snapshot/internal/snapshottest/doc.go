// Package snapshottest has what tests of the packages of snapshot share: contents of every shape, inputs, deltas, keys,
// and slow twins of what is tested. It is imported by tests alone.
package snapshottest
