//go:build unix

package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Links and pipes in place of files are refused, whether or not they leave the store.
func TestLinksRefused(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, path, dir string){
		"link out of the store": func(t *testing.T, path, dir string) {
			outside := filepath.Join(t.TempDir(), "copy")
			must(t, os.Rename(path, outside))
			must(t, os.Symlink(outside, path))
		},
		"link within the store": func(t *testing.T, path, dir string) {
			must(t, os.Rename(path, path+".old"))
			must(t, os.Symlink(filepath.Base(path)+".old", path))
		},
		"pipe": func(t *testing.T, path, dir string) {
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o644))
		},
		"directory": func(t *testing.T, path, dir string) {
			must(t, os.Remove(path))
			must(t, os.Mkdir(path, 0o755))
		},
	} {
		for _, file := range []string{"1/" + ManifestFile, "1/" + tensorsFile, "1/" + vocabularyFile, "1/" + goldenFile,
			"aliases/latest"} {
			_, dir := storeOf(t, 1)
			replace(t, filepath.Join(dir, "m", file), dir)
			if _, err := Open(dir, "m", Selector{Alias: Latest}); err == nil {
				t.Errorf("%s as %s: opened", file, name)
			}
		}
	}
	_, dir := storeOf(t, 1)
	outside := filepath.Join(t.TempDir(), "m")
	must(t, os.Rename(filepath.Join(dir, "m"), outside))
	must(t, os.Symlink(outside, filepath.Join(dir, "m")))
	if _, err := Open(dir, "m", Selector{Alias: Latest}); err == nil {
		t.Error("a model directory outside the store: opened")
	}
}

// A pipe in the place of a segment is not waited for.
func TestWatchDeltasFromAPipe(t *testing.T) {
	t.Parallel()
	attack{want: ErrFormat, do: func(t *testing.T, segment string, _ []byte) {
		must(t, os.Remove(segment), syscall.Mkfifo(segment, 0o644))
	}}.run(t)
}

func TestLockWaitsAndGivesUp(t *testing.T) {
	store, dir := storeOf(t, 1)
	root, err := os.OpenRoot(filepath.Join(dir, "m"))
	must(t, err)
	defer root.Close()
	unlock, err := lock(t.Context(), root, ".lock")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := setAliasUntil(ctx, store); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("SetAlias while locked: %v, want context.DeadlineExceeded", err)
	}
	done := make(chan error)
	go func() { done <- setAliasUntil(t.Context(), store) }()
	must(t, unlock())
	must(t, <-done)
}

func setAliasUntil(ctx context.Context, store *Store) error {
	_, err := store.MoveAlias(ctx, "m", Move{Alias: Champion, To: 1})
	return err
}
