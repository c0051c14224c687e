//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockEvery is the pause between two tries for a lock that another publisher holds: for milliseconds, while it writes a
// large version for seconds.
const lockEvery = 5 * time.Millisecond

// Lock takes an exclusive lock of a model directory, by the name of its file, which the kernel drops if the process
// dies. It waits until ctx is done.
func Lock(ctx context.Context, root *os.Root, name string) (unlock func() error, err error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			// A child that is being started has the file for a moment, too, and would hold what is closed alone.
			return func() error { return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()) }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(
				fmt.Errorf("lock %s: %w: the store has to be on a file system with locks", f.Name(), err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: held by another publisher: %w", f.Name(), ctx.Err()),
				f.Close())
		case <-tick.C:
		}
	}
}
