//go:build !unix

package terminal

import "io"

// Width returns 0: how wide a terminal is is not known here.
func Width(io.Writer) int { return 0 }
