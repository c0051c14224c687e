//go:build !failpoint

package snapshot

// failpoint is the hook of a store where a test build may fail; this build has none.
func failpoint() func(site string) error { return nil }
