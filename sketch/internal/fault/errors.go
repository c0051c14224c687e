package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// What callers branch on. Each is wrapped with the values that explain it.
var (
	// ErrLocked: another process has the state directory open.
	ErrLocked = errors.New("state directory is in use")
	// ErrCorrupt: the state is damaged or incomplete.
	ErrCorrupt = errors.New("state is damaged")
	// ErrFormat: the state was written by a newer version of this program.
	ErrFormat = errors.New("state format is not supported")
	// ErrConfig: the state was made with other sample settings. The error is a *ConfigError.
	ErrConfig = errors.New("state was made with other sample settings")
	// ErrNoState: there is no state in the directory.
	ErrNoState = errors.New("no state in this directory")
	// ErrPart: a part contradicts itself or the ledger. Nothing of it was applied.
	ErrPart = errors.New("part does not fit the ledger")
	// ErrSpace: the file system has too little free space to open or close the state. Nothing was changed.
	ErrSpace = errors.New("not enough free space")
	// ErrInodes: the same of files. It wraps ErrSpace.
	ErrInodes = fmt.Errorf("too few inodes: %w", ErrSpace)
	// ErrNetwork: the state would be on a network's file system. Nothing was changed.
	ErrNetwork = errors.New("state on a network file system")
	// ErrGone: the directory of an open state was removed or replaced. Nothing can be stored any more.
	ErrGone = errors.New("state directory is gone")
	// ErrStorage: a write failed and may or may not be durable. The process has to open the state again.
	ErrStorage = errors.New("storage error")
)

// Corrupt returns an error that wraps ErrCorrupt.
func Corrupt(format string, args ...any) error {
	return fmt.Errorf("sketch: "+format+": %w", append(args, ErrCorrupt)...)
}

// Denied names the user where the system only says that permission is denied.
func Denied(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("sketch: user id %d: %w", os.Geteuid(), err)
	}
	return fmt.Errorf("sketch: %w", err)
}
