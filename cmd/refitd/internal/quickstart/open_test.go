package quickstart

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
)

// TestOpenBrowser: the system's command is given the address; without that command the error says so, and is no
// reason to end.
func TestOpenBrowser(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the command of the test is a shell script named xdg-open")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := openBrowser("http://127.0.0.1:1/"); err == nil {
		t.Error("no error without a command")
	}
	opened := filepath.Join(dir, "opened")
	script := "#!/bin/sh\necho \"$@\" > " + opened + ".tmp && /bin/mv " + opened + ".tmp " + opened + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := openBrowser("http://127.0.0.1:1/"); err != nil {
		t.Fatal(err)
	}
	var text []byte
	daemontest.Within(t, daemontest.Patience, "the command", func() bool {
		var err error
		text, err = os.ReadFile(opened)
		return err == nil
	})
	if got := strings.TrimSpace(string(text)); got != "http://127.0.0.1:1/" {
		t.Errorf("opened %q", got)
	}
}
