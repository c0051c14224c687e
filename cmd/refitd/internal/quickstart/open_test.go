package quickstart

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
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
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(opened)
		if err == nil {
			if got := strings.TrimSpace(string(text)); got != "http://127.0.0.1:1/" {
				t.Errorf("opened %q", got)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("nothing was opened")
		}
	}
}
