//go:build unix

package files

import (
	"io/fs"
	"os"
	"syscall"
)

// owner returns the user that a file belongs to, and whether that is neither this one nor root.
func owner(st fs.FileInfo) (user int, others bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(sys.Uid), sys.Uid != 0 && int(sys.Uid) != os.Geteuid()
}
