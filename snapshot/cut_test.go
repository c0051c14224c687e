package snapshot

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// largeCut is the cut of partitions of topics with the longest names that Kafka takes.
func largeCut(partitions int) []Cut {
	cut := make([]Cut, partitions)
	for i := range cut {
		cut[i] = Cut{
			Topic:     fmt.Sprintf("%s%03d", strings.Repeat("t", 246), i/100),
			Partition: int32(i % 100),
			Next:      1<<52 + int64(i),
		}
	}
	return cut
}

// J10: a version of 600 or of 10,000 partitions is published, read, moved to and followed; its manifest does not grow
// with them, and what a reader of today expects of a manifest is as it was.
func TestLargeCut(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{600, 10_000} {
		store, dir := storeOf(t, 1)
		c := testContents(small)
		c.Meta.Cut = largeCut(partitions)
		began := time.Now()
		m, err := store.Publish(t.Context(), "m", c)
		must(t, err)
		took := time.Since(began)
		must(t, setAlias(t, store, Champion, 2))
		b, err := os.ReadFile(at(dir, "2", ManifestFile))
		must(t, err)
		if len(b) > 8<<10 || len(m.Files) != 3 || m.CutFile == nil || !strings.Contains(string(b), `"cut": []`) {
			t.Errorf(
				"%d partitions: manifest of %d bytes, %d files, cut in %+v",
				partitions,
				len(b),
				len(m.Files),
				m.CutFile,
			)
		}
		t.Logf(
			"%d partitions: manifest of %d bytes, cut of %d, published in %v",
			partitions,
			len(b),
			m.CutFile.Bytes,
			took,
		)
		opened, err := Open(dir, "m", Selector{})
		must(t, err)
		read, err := store.Cut(&m)
		must(t, err)
		for _, got := range [][]Cut{opened.Manifest().Cut, opened.Contents().Meta.Cut, read} {
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
func spoilCut(t *testing.T, store *Store, dir string, m *Manifest) {
	t.Helper()
	path := at(dir, "2", cutFile)
	b, err := os.ReadFile(path)
	must(t, err)
	b[len(b)/2] ^= 1
	for name, spoil := range map[string]func() error{
		"altered": func() error { return os.WriteFile(path, b, 0o644) },
		"cut off": func() error { return os.Truncate(path, 100) },
		"removed": func() error { return os.Remove(path) },
	} {
		must(t, os.WriteFile(path, b, 0o644))
		must(t, spoil())
		_, err := Open(dir, "m", Selector{Version: 2})
		_, cutErr := store.Cut(m)
		for _, err := range []error{err, cutErr, setAlias(t, store, "canary", 2)} {
			if !errors.Is(err, ErrDigest) && !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %v, want ErrDigest or ErrNotFound", name, err)
			}
		}
	}
	w, err := Watch(DirSource{Dir: dir}, WatchOptions{Model: "m"})
	must(t, err)
	defer w.Close()
	if model, err := w.Wait(t.Context()); err != nil || model.Manifest().Version != 2 {
		t.Errorf("a consumer: %v", err)
	}
}

// A cut that has room in the manifest stays there, and one without any bound is refused.
func TestSmallAndEndlessCuts(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 0)
	c := testContents(small)
	c.Meta.Cut = largeCut(50)
	m, err := store.Publish(t.Context(), "m", c)
	if err != nil || m.CutFile != nil || len(m.Cut) != 50 {
		t.Errorf("50 partitions: %+v, %v", m.CutFile, err)
	}
	if _, err := os.Stat(at(dir, "1", cutFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a small cut has a file: %v", err)
	}
	c.Meta.Cut = largeCut(120_000)
	if _, err := store.Publish(t.Context(), "m", c); !errors.Is(err, ErrContents) ||
		!strings.Contains(err.Error(), "fewer partitions") {
		t.Errorf("120,000 partitions: %v", err)
	}
}
