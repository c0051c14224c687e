package experiment

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// shared returns a folder of the shared material outside the project, or skips the test.
func shared(t *testing.T, name string) string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if filepath.Dir(root) == root {
			t.Fatal("no go.mod above the test")
		}
		root = filepath.Dir(root)
	}
	dir := filepath.Join(root, "..", "shared", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("needs ../shared/%s, which is not part of the project", name)
	}
	return dir
}

// quick are the options of a short form.
func quick(data string) Options {
	return Options{Data: data, Quick: true, Threads: 2, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}
