package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/refitd/refitd/sketch/internal/fault"
)

const lockName = "LOCK"

// How long a lock that is held is waited for, and how often it is tried: well below the 2 s in which a second daemon
// has to be refused.
const (
	lockWait  = time.Second
	lockPause = 20 * time.Millisecond
)

// A Lock keeps other processes out of a state directory. The system releases it when the process ends, however it ends.
type Lock struct{ file *os.File }

// LockDir locks a state directory that exists. The error wraps ErrLocked and names the process that holds it, or
// fs.ErrNotExist if there is no such directory. If the directory is replaced during the call, the new one is locked.
func LockDir(dir string) (*Lock, error) {
	for {
		name := filepath.Join(dir, lockName)
		lock, err := LockFile(name)
		if err != nil {
			return nil, err
		}
		locked, err := lock.file.Stat()
		if err == nil {
			var now os.FileInfo
			if now, err = os.Stat(name); err == nil && os.SameFile(locked, now) {
				return lock, nil
			}
		}
		lock.Close() // nothing was written to it that matters
		if err != nil {
			return nil, fault.Denied(err)
		}
	}
}

// LockFile locks a file, which it makes if it is absent. The error is that of LockDir.
func LockFile(name string) (*Lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.Denied(err)
	}
	// A process that was killed may leave the one that checks the state behind it for a moment.
	for try := time.Duration(0); ; try += lockPause {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) ||
			try >= lockWait {
			break
		}
		time.Sleep(lockPause)
	}
	if err != nil {
		text, _ := io.ReadAll(io.LimitReader(f, 20))
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("sketch: lock %s: %w", name, err)
		}
		return nil, fmt.Errorf("sketch: %s: %w by pid %s",
			strings.TrimSuffix(name, string(filepath.Separator)+lockName), fault.ErrLocked, strings.TrimSpace(string(text)))
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("sketch: write %s: %w", name, err)
	}
	return &Lock{f}, nil
}

// Close releases the lock. The file stays. A child that is being started has the file for a moment, too, and would hold
// what is closed alone.
func (l *Lock) Close() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
