//go:build !failpoint

package snapshot

// failpoint is where a test build may fail; this build does nothing there.
func failpoint(string) error { return nil }
