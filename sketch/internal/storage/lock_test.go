package storage

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLockIsReleased: a lock that is closed is free at once, although a child has its file, as one that another part of
// the process starts does for a moment.
func TestLockIsReleased(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	lock, err := LockFile(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	cmd.ExtraFiles = []*os.File{lock.file}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := LockFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
