//go:build !simulation

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
)

// never is longer than any test: what is noticed earlier was an event.
const never = time.Hour

// noticed reports whether a watch is woken within some time.
func noticed(t *testing.T, w *dirWatch, within time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := w.wait(ctx, never)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

const (
	soon  = time.Minute           // of what comes at once but on a busy machine
	quiet = 20 * time.Millisecond // of what does not come
)

// settle consumes the events so far: one change causes several.
func settle(t *testing.T, w *dirWatch) {
	for noticed(t, w, quiet) {
	}
}

func TestDirWatchNotices(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	snapshottest.Must(t, os.WriteFile(at("file"), nil, 0o644))
	w := watchDir(dir)
	defer w.close()
	for _, change := range []struct {
		what string
		do   func() error
	}{
		{"a file that is made", func() error { return os.WriteFile(at("new"), []byte{1}, 0o644) }},
		{"a file renamed over another one", func() error { return os.Rename(at("new"), at("file")) }},
		{"bytes appended", func() error {
			f, err := os.OpenFile(at("file"), os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write([]byte{2})
			}
			return errors.Join(err, f.Close())
		}},
		{"a link", func() error { return os.Link(at("file"), at("link")) }},
		{"a file that is removed", func() error { return os.Remove(at("file")) }},
	} {
		snapshottest.Must(t, change.do())
		if !noticed(t, w, soon) {
			t.Errorf("%s: not noticed", change.what)
		}
		settle(t, w)
	}
	snapshottest.Must(t, os.WriteFile(at(".new"), []byte{1}, 0o644))
	if noticed(t, w, quiet) {
		t.Error("a file that is still being written counts")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.wait(ctx, never); !errors.Is(err, context.Canceled) {
		t.Errorf("wait with a context that is done: %v", err)
	}
	snapshottest.Must(t, w.wait(t.Context(), time.Millisecond)) // by time alone
}

// A directory that is removed, renamed, or not there yet is watched again once there is one at its path.
func TestDirWatchOfAnotherDirectory(t *testing.T) {
	parent := t.TempDir()
	dir, file := filepath.Join(parent, "d"), filepath.Join(parent, "d", "file")
	w := watchDir(dir)
	defer w.close()
	if noticed(t, w, quiet) {
		t.Error("a directory that is not there has changed")
	}
	for name, remove := range map[string]func() error{
		"removed": func() error { return os.RemoveAll(dir) },
		"renamed": func() error { return os.Rename(dir, dir+".old") },
	} {
		snapshottest.Must(t, os.Mkdir(dir, 0o755))
		snapshottest.Must(t, w.wait(t.Context(), time.Millisecond)) // the poll that finds it
		settle(t, w)
		snapshottest.Must(t, os.WriteFile(file, []byte{1}, 0o644))
		if !noticed(t, w, soon) {
			t.Fatalf("not %s yet: a change is not noticed", name)
		}
		settle(t, w)
		snapshottest.Must(t, remove())
		if !noticed(t, w, soon) {
			t.Errorf("%s: not noticed", name)
		}
		settle(t, w)
	}
}

// inotifies counts the open inotify descriptors of the process, and their watches.
func inotifies(t *testing.T) (descriptors, watches int) {
	entries, err := os.ReadDir("/proc/self/fd")
	snapshottest.Must(t, err)
	for _, e := range entries {
		if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(link, "inotify") {
			descriptors++
			info, _ := os.ReadFile("/proc/self/fdinfo/" + e.Name()) // it may have been closed
			watches += strings.Count(string(info), "inotify wd:")
		}
	}
	return descriptors, watches
}

// Thousands watch with one descriptor, and when the last is closed the descriptor is closed, too.
func TestDirWatchesShareOneDescriptor(t *testing.T) {
	parent := t.TempDir()
	var all []*dirWatch
	for i := range 3000 {
		dir := filepath.Join(parent, fmt.Sprint(i%100))
		snapshottest.Must(t, os.MkdirAll(dir, 0o755))
		all = append(all, watchDir(dir))
	}
	if d, n := inotifies(t); d != 1 || n != 100 {
		t.Errorf("%d descriptors with %d watches, want 1 with 100", d, n)
	}
	snapshottest.Must(t, os.WriteFile(filepath.Join(parent, "7", "file"), nil, 0o644))
	for i, w := range all {
		if within := map[bool]time.Duration{true: soon, false: 0}[i%100 == 7]; noticed(t, w, within) != (i%100 == 7) {
			t.Fatalf("watch %d of directory %d: noticed %t", i, i%100, i%100 != 7)
		}
	}
	for _, w := range all[50:] {
		w.close()
	}
	if d, n := inotifies(t); d != 1 || n != 50 {
		t.Errorf("%d descriptors with %d watches while half of the directories have a watcher, want 1 with 50", d, n)
	}
	for _, w := range all[:50] {
		w.close()
	}
	deadline := time.Now().Add(soon)
	for d, _ := inotifies(t); d != 0; d, _ = inotifies(t) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors that nobody uses", d)
		}
		snapshottest.Must(t, backoff.Sleep(t.Context(), time.Millisecond))
	}
	inotify.mu.Lock()
	defer inotify.mu.Unlock()
	if inotify.file != nil || inotify.watches != nil || inotify.adding != 0 {
		t.Error("the reader has not ended")
	}
}

// Watches come and go while directories do, and the descriptor with them: none of them sleeps through the last change.
func TestDirWatchesComeAndGo(t *testing.T) {
	parent := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			dir := filepath.Join(parent, fmt.Sprint(i%3))
			for range 200 {
				_ = os.Mkdir(dir, 0o755) // another one made it
				w := watchDir(dir)
				_ = os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644)
				if err := w.wait(t.Context(), 10*time.Millisecond); err != nil {
					t.Error(err)
				}
				if i == 0 {
					_ = os.RemoveAll(dir)
				}
				w.close()
			}
		})
	}
	all.Wait()
	inotify.mu.Lock()
	defer inotify.mu.Unlock()
	if len(inotify.watches) != 0 || inotify.adding != 0 {
		t.Errorf("%d watches of nobody, %d being added", len(inotify.watches), inotify.adding)
	}
}

// Where no descriptor is to be had, or it fails, time still passes, and another one is tried.
func TestDirWatchWithoutNotifier(t *testing.T) {
	dir := t.TempDir()
	w := watchDir(dir)
	defer w.close()
	inotify.mu.Lock()
	f := inotify.file
	inotify.mu.Unlock()
	snapshottest.Must(t, f.Close()) // its reader gets an error
	if !noticed(t, w, soon) {
		t.Error("nobody says that the notifier has failed")
	}
	settle(t, w)
	snapshottest.Must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	if !noticed(t, w, soon) {
		t.Error("a change is not noticed by another notifier")
	}
}

// A version is loaded when it is published, not at the next poll.
func TestWatchIsWoken(t *testing.T) {
	store, dir := storeOf(t, 1)
	w := watchOf(t, DirSource{dir, never}, WatchOptions{})
	until(t, w, "version 1", func(s Status) bool { return s.Version == 1 })
	for v := int64(2); v < 5; v++ {
		_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
		snapshottest.Must(t, err)
		until(t, w, "the next version", func(s Status) bool { return s.Version == v })
	}
}

// TestArrivalIsNoticed: a watcher that is there before the first version hears of it by each directory that is made on
// the way, and not by looking again after a while.
func TestArrivalIsNoticed(t *testing.T) {
	dir := t.TempDir()
	source := DirSource{Dir: filepath.Join(dir, "store")}
	snapshottest.Must(t, os.Mkdir(source.Dir, 0o755))
	published := make(chan error, 1)
	for looks := 0; ; looks++ {
		_, err := source.Wait(t.Context(), "m", pointer.Latest, pointer.Pointer{})
		if err == nil {
			break
		}
		if !errors.Is(err, disk.ErrNotFound) {
			t.Fatal(err)
		}
		if looks == 0 {
			go func() {
				_, err := publish.NewStore(source.Dir).Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
				published <- err
			}()
		}
		snapshottest.Must(t, source.arrival(t.Context(), "m", pointer.Latest, never))
	}
	snapshottest.Must(t, <-published)
}
