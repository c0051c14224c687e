package sketch

import (
	"errors"
	"fmt"
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

// A ConfigError names the setting in which configuration and stored state differ.
type ConfigError struct {
	Option     string // the field of Options, such as Size
	Stored     string
	Configured string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("sketch: %s is %s, but the state was made with %s", e.Option, e.Configured, e.Stored)
}

// Unwrap makes errors.Is(err, ErrConfig) true.
func (e *ConfigError) Unwrap() error { return ErrConfig }

// A GapError says that the log no longer holds the record the ledger needs next: offsets Next..LogStart-1 are lost
// unless a copy exists. Nothing was applied. AcceptGap declares the loss.
type GapError struct {
	Topic          string
	Partition      int32
	Next, LogStart int64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("sketch: %s/%d: the log starts at offset %d but %d is needed next: %d offsets are gone",
		e.Topic, e.Partition, e.LogStart, e.Next, e.LogStart-e.Next)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("sketch: "+format+": %w", append(args, ErrCorrupt)...)
}
