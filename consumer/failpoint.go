//go:build failpoint

package consumer

// Failpoint gets the name of every durable step and may end the process there, wait, or return an error, which the step then
// returns. Set it before anything else runs. It exists under the build tag failpoint only.
var Failpoint = func(site string) error { return nil }

func failpoint(site string) error { return Failpoint(site) }
