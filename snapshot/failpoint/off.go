//go:build !failpoint

package failpoint

// At does nothing in this build.
func At(string) error { return nil }

// AtRecord does nothing in this build.
func AtRecord(string, int32, int64) {}
