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

	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// Links and pipes in place of files are refused, whether or not they leave the store.
func TestLinksRefused(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, path, dir string){
		"link out of the store": func(t *testing.T, path, dir string) {
			outside := filepath.Join(t.TempDir(), "copy")
			snapshottest.Must(t, os.Rename(path, outside))
			snapshottest.Must(t, os.Symlink(outside, path))
		},
		"link within the store": func(t *testing.T, path, dir string) {
			snapshottest.Must(t, os.Rename(path, path+".old"))
			snapshottest.Must(t, os.Symlink(filepath.Base(path)+".old", path))
		},
		"pipe": func(t *testing.T, path, dir string) {
			snapshottest.Must(t, os.Remove(path))
			snapshottest.Must(t, syscall.Mkfifo(path, 0o644))
		},
		"directory": func(t *testing.T, path, dir string) {
			snapshottest.Must(t, os.Remove(path))
			snapshottest.Must(t, os.Mkdir(path, 0o755))
		},
	} {
		for _, file := range []string{"1/" + disk.ManifestFile, "1/" + disk.TensorsFile, "1/" + disk.VocabularyFile, "1/" +
			disk.GoldenFile,
			"aliases/latest"} {
			_, dir := storeOf(t, 1)
			replace(t, filepath.Join(dir, "m", file), dir)
			if _, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest}); err == nil {
				t.Errorf("%s as %s: opened", file, name)
			}
		}
	}
	_, dir := storeOf(t, 1)
	outside := filepath.Join(t.TempDir(), "m")
	snapshottest.Must(t, os.Rename(filepath.Join(dir, "m"), outside))
	snapshottest.Must(t, os.Symlink(outside, filepath.Join(dir, "m")))
	if _, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest}); err == nil {
		t.Error("a model directory outside the store: opened")
	}
}

// A pipe in the place of a segment is not waited for.
func TestWatchDeltasFromAPipe(t *testing.T) {
	t.Parallel()
	attack{want: disk.ErrFormat, do: func(t *testing.T, segment string, _ []byte) {
		snapshottest.Must(t, os.Remove(segment), syscall.Mkfifo(segment, 0o644))
	}}.run(t)
}

func TestLockWaitsAndGivesUp(t *testing.T) {
	store, dir := storeOf(t, 1)
	root, err := os.OpenRoot(filepath.Join(dir, "m"))
	snapshottest.Must(t, err)
	defer root.Close()
	unlock, err := disk.Lock(t.Context(), root, ".lock")
	snapshottest.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := setAliasUntil(ctx, store); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("SetAlias while locked: %v, want context.DeadlineExceeded", err)
	}
	done := make(chan error)
	go func() { done <- setAliasUntil(t.Context(), store) }()
	snapshottest.Must(t, unlock())
	snapshottest.Must(t, <-done)
}

func setAliasUntil(ctx context.Context, store *publish.Store) error {
	_, err := store.MoveAlias(ctx, "m", publish.Move{Alias: pointer.Champion, To: 1})
	return err
}
