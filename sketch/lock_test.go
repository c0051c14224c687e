package sketch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestLockIsReleased: a lock that is closed is free at once, although a child has its file, as one that another part of
// the process starts does for a moment.
func TestLockIsReleased(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	lock, err := LockFile(name)
	must(t, err)
	cmd := exec.Command("sleep", "60")
	cmd.ExtraFiles = []*os.File{lock.file}
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	must(t, lock.Close())
	again, err := LockFile(name)
	must(t, err)
	must(t, again.Close())
}

// TestDatabaseIsAwaited: the directory of a database is locked a moment longer than it was open where a child was being
// started, and is opened then; one that stays locked is in use.
func TestDatabaseIsAwaited(t *testing.T) {
	o := damageOptions(t.TempDir())
	s, err := Open(t.Context(), o)
	must(t, err)
	must(t, s.Close())
	held, err := os.Open(filepath.Join(o.Dir, rowsName))
	must(t, err)
	defer held.Close()
	must(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) {
		t.Fatalf("locked by another: %v", err)
	}
	time.AfterFunc(10*lockPause, func() { _ = syscall.Flock(int(held.Fd()), syscall.LOCK_UN) })
	s, err = Open(t.Context(), o)
	must(t, err)
	must(t, s.Close())
}
