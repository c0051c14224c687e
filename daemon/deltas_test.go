package daemon_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// chainOf returns the model after all deltas of a version, and how many these are. Cuts have to grow from delta to
// delta. each is called with the version and after each delta.
func chainOf(t *testing.T, dir string, version int64, each func(*snapshot.Model)) (*snapshot.Model, int64) {
	t.Helper()
	m, err := snapshot.Open(dir, "ratings", snapshot.Selector{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	each(m)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	stream, err := snapshot.DirSource{Dir: dir}.Deltas(ctx, "ratings", version, 0)
	if err != nil {
		return m, 0
	}
	defer stream.Close()
	last := int64(-1)
	for {
		frame, err := format.ReadFrame(stream)
		if errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) {
			return m, m.Position().Sequence
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := format.DecodeDelta(frame, m.Shape(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if m, err = m.Apply(d); err != nil {
			t.Fatal(err)
		}
		each(m)
		sum := int64(0)
		for _, c := range m.Position().Cut {
			sum += c.Next
		}
		if sum < last {
			t.Errorf("version %d, delta %d: cut at %d after %d", version, d.Sequence, sum, last)
		}
		last = sum
	}
}

// continues reports whether a version continues its parent bit for bit. Its payload is that of the parent with deltas
// up to some sequence. With n deltas it is what the parent is after n more. The answer is not known before the
// version has deltas that the parent does not have.
func continues(t *testing.T, dir string, m *snapshot.Manifest) (known bool) {
	t.Helper()
	digest := func(m *snapshot.Model) string {
		s, err := format.PayloadDigest(m.Contents())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var own []string
	chainOf(t, dir, m.Version, func(m *snapshot.Model) { own = append(own, digest(m)) })
	from := int64(-1)
	other, n := chainOf(t, dir, *m.Parent, func(other *snapshot.Model) {
		if digest(other) == m.PayloadDigest {
			from = other.Position().Sequence
		}
	})
	since := int(n - from)
	if from <= 0 || own[0] != m.PayloadDigest {
		t.Fatalf("version %d, %s, is none of the %d states of version %d with deltas", m.Version, m.PayloadDigest, n,
			*m.Parent)
	}
	if len(own) < since+2 {
		return false
	}
	if d := digest(other); own[since] != d {
		t.Fatalf("version %d with %d deltas is %s; version %d, with as many after it, is %s", m.Version, since,
			own[since], *m.Parent, d)
	}
	return true
}

// TestDeltasFollowUpdates: consumers that watch the store get deltas between updates; the next update is, bit for bit,
// the one before with deltas, and those that came while it was written are deltas of it, too. Where the files of deltas
// are gone others follow another version, and where an operator chooses another version deltas end.
func TestDeltasFollowUpdates(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	path := b.Configure("f", "every_events: 0", "every_events: 1500", "update_every: 0s",
		"update_every: 1s, deltas: {every: 20ms}")
	dir := filepath.Join(b.Dir, "store-f")
	store := publish.NewStore(dir)
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var log locked.Buffer
	d, err := daemon.New(t.Context(), daemon.Options{Config: conf, Out: report.NewEmitter(&locked.Buffer{}, true),
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	defer stop()
	b.ProduceRatings(1, 1600)
	daemontest.Within(t, daemontest.Patience, "a first version", func() bool {
		_, err := store.Alias("ratings", pointer.Champion)
		return err == nil
	})
	watcher, err := snapshot.Watch(snapshot.DirSource{Dir: dir}, snapshot.WatchOptions{Model: "ratings"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	compared, seed := 0, uint64(10)
	seen := make(map[int64]bool)
	daemontest.Within(t, daemontest.Patience, "an update of an update with deltas", func() bool {
		seed++
		b.ProduceRatings(seed, 3)
		versions, err := store.Versions("ratings")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			m, err := store.Manifest("ratings", v)
			if err != nil || seen[v] || !strings.Contains(m.Reason, "with its deltas") {
				continue
			}
			if seen[v] = continues(t, dir, &m); seen[v] {
				compared++
			}
		}
		return compared > 1 && watcher.Status().DeltasApplied > 10
	})
	if s := watcher.Status(); s.DeltasRefused > 0 || s.Err != nil {
		t.Errorf("the watcher refused %d deltas: %+v", s.DeltasRefused, s)
	}
	at, err := store.Alias("ratings", pointer.Champion)
	if err != nil {
		t.Fatal(err)
	}
	applied := watcher.Status().DeltasApplied
	if err := os.RemoveAll(filepath.Join(dir, "ratings", strconv.FormatInt(at.Version, 10), "deltas")); err != nil {
		t.Fatal(err)
	}
	daemontest.Within(t, daemontest.Patience, "deltas of another version", func() bool {
		seed++
		b.ProduceRatings(seed, 3)
		s := watcher.Status()
		return s.Version > at.Version && s.DeltasApplied > applied+10
	})
	if _, err := store.MoveAlias(t.Context(), "ratings", publish.Move{Alias: pointer.Champion, To: 1,
		Event: publish.EventRollback,
		Why:   "a test"}); err != nil {
		t.Fatal(err)
	}
	b.ProduceRatings(3, 30)
	// An update under way may end the deltas itself, so the test waits for the champion's move, not for why they end.
	daemontest.Within(t, 2*daemontest.Patience, "the end of deltas",
		func() bool { return log.Has("champion moved by somebody else") })
	latest, err := store.Alias("ratings", snapshot.Latest)
	if err != nil {
		t.Fatal(err)
	}
	_, before := chainOf(t, dir, latest.Version, func(*snapshot.Model) {})
	b.ProduceRatings(4, 30)
	daemontest.Throughout(t, 300*time.Millisecond, func() {
		if _, after := chainOf(t, dir, latest.Version, func(*snapshot.Model) {}); after != before {
			t.Fatalf("%d deltas follow a version that is not champion", after-before)
		}
	})
	stop()
}
