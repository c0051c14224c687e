//go:build unix

package snapshottest

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// KilledChild runs this test's binary again, with one more variable, until it ends or kills itself. It returns what the
// child printed, at which step that was, and whether it came to its end.
func KilledChild(t *testing.T, variable string) (step string, ended bool) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), variable)
	out, err := child.Output()
	status, _ := child.ProcessState.Sys().(syscall.WaitStatus)
	if err != nil && !(status.Signaled() && status.Signal() == syscall.SIGKILL) {
		t.Fatalf("%s: %v: %s", variable, err, out)
	}
	return strings.TrimSpace(string(out)), err == nil
}
