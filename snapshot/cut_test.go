package snapshot

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// J10: a version of 600 or of 10,000 partitions is published, read, moved to and followed; its manifest does not grow
// with them, and what a reader of today expects of a manifest is as it was.
func TestLargeCut(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	for _, partitions := range []int{600, 10_000} {
		store, dir := storeOf(t, 1)
		c := snapshottest.TestContents(snapshottest.Small)
		c.Meta.Cut = largeCut(partitions)
		began := time.Now()
		m, err := store.Publish(t.Context(), "m", c)
		snapshottest.Must(t, err)
		took := time.Since(began)
		snapshottest.Must(t, setAlias(t, store, pointer.Champion, 2))
		b, err := os.ReadFile(at(dir, "2", disk.ManifestFile))
		snapshottest.Must(t, err)
		if len(b) > 8<<10 || len(m.Files) != 3 || m.CutFile == nil || !strings.Contains(string(b), `"cut": []`) {
			t.Errorf("%d partitions: manifest of %d bytes, %d files, cut in %+v", partitions, len(b), len(m.Files),
				m.CutFile)
		}
		t.Logf("%d partitions: manifest of %d bytes, cut of %d, published in %v", partitions, len(b), m.CutFile.Bytes,
			took)
		opened, err := Open(dir, "m", verify.Selector{})
		snapshottest.Must(t, err)
		read, err := store.Cut(&m)
		snapshottest.Must(t, err)
		watched, err := watchOf(t, DirSource{dir, often}, WatchOptions{}).Wait(t.Context())
		snapshottest.Must(t, err)
		for _, got := range [][]format.Cut{opened.Manifest().Cut, opened.Contents().Meta.Cut, watched.Position().Cut, read} {
			if !reflect.DeepEqual(got, c.Meta.Cut) {
				t.Errorf("%d partitions: a cut of %d came back", partitions, len(got))
			}
		}
		again, err := store.Publish(t.Context(), "m", opened.Contents())
		if err != nil || again.CutFile == nil || again.CutFile.SHA256 != m.CutFile.SHA256 {
			t.Errorf("published again: %+v, %v", again.CutFile, err)
		}
		spoilCut(t, store, dir, &m)
	}
}

// spoilCut damages the cut of version 2. Open and moves of aliases refuse the version. A watcher, which only scores,
// does not need the cut.
func spoilCut(t *testing.T, store *publish.Store, dir string, m *format.Manifest) {
	t.Helper()
	path := at(dir, "2", format.CutFile)
	b, err := os.ReadFile(path)
	snapshottest.Must(t, err)
	b[len(b)/2] ^= 1
	for name, spoil := range map[string]func() error{
		"altered": func() error { return os.WriteFile(path, b, 0o644) },
		"cut off": func() error { return os.Truncate(path, 100) },
		"removed": func() error { return os.Remove(path) },
	} {
		snapshottest.Must(t, os.WriteFile(path, b, 0o644))
		snapshottest.Must(t, spoil())
		_, err := Open(dir, "m", verify.Selector{Version: 2})
		_, cutErr := store.Cut(m)
		for _, err := range []error{err, cutErr, setAlias(t, store, "canary", 2)} {
			if !errors.Is(err, disk.ErrDigest) && !errors.Is(err, disk.ErrNotFound) {
				t.Errorf("%s: %v, want ErrDigest or ErrNotFound", name, err)
			}
		}
	}
	w, err := Watch(DirSource{Dir: dir}, WatchOptions{Model: "m"})
	snapshottest.Must(t, err)
	defer w.Close()
	if model, err := w.Wait(t.Context()); err != nil || model.Manifest().Version != 2 {
		t.Errorf("a consumer: %v", err)
	}
}

// A cut that has room in the manifest stays there, and one without any bound is refused.
func TestSmallAndEndlessCuts(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	store, dir := storeOf(t, 0)
	c := snapshottest.TestContents(snapshottest.Small)
	c.Meta.Cut = largeCut(50)
	m, err := store.Publish(t.Context(), "m", c)
	if err != nil || m.CutFile != nil || len(m.Cut) != 50 {
		t.Errorf("50 partitions: %+v, %v", m.CutFile, err)
	}
	if _, err := os.Stat(at(dir, "1", format.CutFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a small cut has a file: %v", err)
	}
	c.Meta.Cut = largeCut(120_000)
	if _, err := store.Publish(t.Context(), "m", c); !errors.Is(err, disk.ErrContents) ||
		!strings.Contains(err.Error(), "fewer partitions") {
		t.Errorf("120,000 partitions: %v", err)
	}
}
