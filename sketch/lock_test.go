package sketch

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLockIsReleased: a lock that is closed is free at once, although a child has its file, as one that another part of the process starts does for a moment.
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
