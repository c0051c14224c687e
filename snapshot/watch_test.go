package snapshot

import (
	"context"
	"testing"
	"time"
)

// watchOf watches the alias latest of model m in a store, looking often.
func watchOf(t *testing.T, source Source, options WatchOptions) *Watcher {
	t.Helper()
	options.Model = "m"
	if options.Alias == "" {
		options.Alias = Latest
	}
	w, err := Watch(source, options)
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

// until waits for a condition of a watcher's status.
func until(t *testing.T, w *Watcher, what string, ok func(Status) bool) Status {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if s := w.Status(); ok(s) {
			return s
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within 10 s: %+v", what, w.Status())
		case <-tick.C:
		}
	}
}

const often = 2 * time.Millisecond

func TestWatchFollows(t *testing.T) {
	store, dir := publish(t, 1)
	w := watchOf(t, DirSource{dir, often}, WatchOptions{})
	m, err := w.Wait(t.Context())
	must(t, err)
	if v := m.Manifest().Version; v != 1 {
		t.Errorf("first version %d, want 1", v)
	}
	_, err = store.Publish(t.Context(), "m", testContents(small))
	must(t, err)
	s := until(t, w, "version 2", func(s Status) bool { return s.Version == 2 })
	if s.Loads != 2 || s.Err != nil || s.PayloadDigest == "" || w.Model().Manifest().Version != 2 {
		t.Errorf("status %+v", s)
	}
	if m.Manifest().Version != 1 {
		t.Error("the model that was handed out has changed")
	}
	must(t, setAlias(t, store, Latest, 1)) // a rollback is a later move to an older version
	until(t, w, "the rollback", func(s Status) bool { return s.Version == 1 })
	w.Close()
	w.Close()
	if w.Model() == nil {
		t.Error("no model after Close")
	}
}

func TestWatchWaitsForTheFirst(t *testing.T) {
	dir := t.TempDir()
	w := watchOf(t, DirSource{dir, often}, WatchOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*often)
	defer cancel()
	if m, err := w.Wait(ctx); m != nil || err == nil {
		t.Errorf("Wait = %v, %v before anything is published", m, err)
	}
	_, err := NewStore(dir).Publish(t.Context(), "m", testContents(small))
	must(t, err)
	if _, err := w.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
