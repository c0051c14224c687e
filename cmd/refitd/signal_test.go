package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/report"
)

// TestSignalEndsVerbs (J14): a verb that waits for what never comes ends within 5 s of the first signal, and says that
// it was not done.
func TestSignalEndsVerbs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, conf := filepath.Join(dir, "fifo"), filepath.Join(dir, "refitd.yaml")
	text := `
kafka: {bootstrap_servers: ["127.0.0.1:1"], group_id: g}
storage: {path: state}
models:
  - name: m
    input: {topics: [t]}
    schema: {task: ordinal, label: rating, levels: 5, categorical: [user, item]}
`
	for _, err := range []error{syscall.Mkfifo(fifo, 0o600), os.WriteFile(conf, []byte(text), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"a backup from a pipe": {"state", "restore", "--config.file", conf, "--input", fifo},
		"a rebuild from a pipe": {"state", "rebuild", "--config.file", conf, "--input", fifo, "--storage.path", filepath.Join(
			dir, "other")},
		"data from a pipe": {"fit", "--format", "jsonl", "--config.file", conf, "--data", fifo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, signal := context.WithCancel(t.Context())
			var stderr bytes.Buffer
			code := make(chan int, 1)
			go func() { code <- run(ctx, args, strings.NewReader(""), io.Discard, &stderr) }()
			select {
			case c := <-code:
				t.Fatalf("ended with exit code %d before the signal: %s", c, stderr.String())
			case <-time.After(time.Second):
			}
			signal()
			start := time.Now()
			select {
			case c := <-code:
				if took := time.Since(start); took > 5*time.Second || c != report.ExitNo ||
					!strings.Contains(stderr.String(), "stopped by a signal") {
					t.Errorf("after %v, exit code %d: %s", took, c, stderr.String())
				}
			case <-time.After(20 * time.Second):
				t.Error("the signal is ignored")
			}
		})
	}
}
