package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// watchOf watches the alias latest of model m in a store, looking often.
func watchOf(t *testing.T, source Source, options WatchOptions) *Watcher {
	t.Helper()
	options.Model = "m"
	if options.Alias == "" {
		options.Alias = pointer.Latest
	}
	w, err := Watch(source, options)
	snapshottest.Must(t, err)
	t.Cleanup(w.Close)
	return w
}

// until waits for a condition of a watcher's status.
func until(t *testing.T, w *Watcher, what string, ok func(Status) bool) Status {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
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
	store, dir := storeOf(t, 1)
	w := watchOf(t, DirSource{dir, often}, WatchOptions{})
	m, err := w.Wait(t.Context())
	snapshottest.Must(t, err)
	if v := m.Manifest().Version; v != 1 {
		t.Errorf("first version %d, want 1", v)
	}
	_, err = store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	s := until(t, w, "version 2", func(s Status) bool { return s.Version == 2 })
	if s.Loads != 2 || s.Err != nil || s.PayloadDigest == "" || w.Model().Manifest().Version != 2 {
		t.Errorf("status %+v", s)
	}
	if m.Manifest().Version != 1 {
		t.Error("the model that was handed out has changed")
	}
	snapshottest.Must(t, setAlias(t, store, pointer.Latest, 1)) // a rollback is a later move to an older version
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
	_, err := publish.NewStore(dir).Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	if _, err := w.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// refusedWith waits until a watcher reports an error, and checks that it still serves a version.
func refusedWith(t *testing.T, w *Watcher, want error, version int64) {
	t.Helper()
	s := until(t, w, want.Error(), func(s Status) bool { return errors.Is(s.Err, want) })
	if s.Version != version || version != 0 && w.Model().Manifest().Version != version {
		t.Errorf("%v: serves version %d, want %d", want, s.Version, version)
	}
}

// E7: an old alias, in which everything was once true, is offered again.
func TestWatchRefusesAnOldAlias(t *testing.T) {
	store, dir, keys := publishSigned(t, 1)
	path := filepath.Join(dir, "m", disk.AliasDir, pointer.Latest)
	old, err := os.ReadFile(path)
	snapshottest.Must(t, err)
	_, err = store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	options := WatchOptions{Trust: verify.Trust{Keys: keys}, StateFile: filepath.Join(t.TempDir(), "accepted")}
	w := watchOf(t, DirSource{dir, often}, options)
	until(t, w, "version 2", func(s Status) bool { return s.Version == 2 && s.SignedBy != "" })
	replace := func(b []byte) {
		snapshottest.Must(t, os.WriteFile(path+".new", b, 0o644))
		snapshottest.Must(t, os.Rename(path+".new", path))
	}
	now, err := os.ReadFile(path)
	snapshottest.Must(t, err)
	replace(old)
	refusedWith(t, w, disk.ErrOlder, 2)
	replace(now)
	if s := until(t, w, "recovery", func(s Status) bool { return s.Err == nil }); s.Loads != 1 {
		t.Errorf("loaded %d times, want once", s.Loads)
	}
	// Unsigned, the same alias with a larger number is no better.
	forged := publish.NewStore(dir)
	snapshottest.Must(t, setAlias(t, forged, pointer.Latest, 1))
	refusedWith(t, w, disk.ErrSignature, 2)
	replace(old)
	w.Close()

	// A restart remembers; without the state file, or with a pin, the operator decides.
	again := watchOf(t, DirSource{dir, often}, options)
	refusedWith(t, again, disk.ErrOlder, 0)
	pinned := options
	pinned.Pin = 1
	until(t, watchOf(t, DirSource{dir, often}, pinned), "the pinned version",
		func(s Status) bool { return s.Version == 1 && s.Err == nil })
	// A signed rollback is a later move to an older version.
	snapshottest.Must(t, setAlias(t, store, pointer.Latest, 1))
	until(t, again, "the rollback", func(s Status) bool { return s.Version == 1 && s.Err == nil })
	options.StateFile = ""
	until(t, watchOf(t, DirSource{dir, often}, options), "any version", func(s Status) bool { return s.Version == 1 })
}

// A damaged, mixed or unsigned version is refused while the last good one serves, and taken once it is whole.
func TestWatchKeepsTheLastGoodModel(t *testing.T) {
	store, dir := storeOf(t, 1)
	w := watchOf(t, DirSource{dir, often}, WatchOptions{})
	until(t, w, "version 1", func(s Status) bool { return s.Version == 1 })
	other := snapshottest.TestContents(snapshottest.Small)
	other.Bias[0]++
	for i := range other.Golden {
		other.Golden[i].Outputs = nil
	}
	// Staged aside and moved in without its parameters: those of version 1 are in their place (E9).
	_, err := store.Publish(t.Context(), "m", other, publish.Move{Alias: "aside"})
	snapshottest.Must(t, err)
	snapshottest.Must(t, setAlias(t, store, pointer.Latest, 1))
	until(t, w, "version 1 again", func(s Status) bool { return s.Version == 1 && s.Err == nil })
	first, err := os.ReadFile(filepath.Join(dir, "m", "1", disk.TensorsFile))
	snapshottest.Must(t, err)
	path := filepath.Join(dir, "m", "2", disk.TensorsFile)
	second, err := os.ReadFile(path)
	snapshottest.Must(t, err)
	b, err := os.ReadFile(filepath.Join(dir, "m", disk.AliasDir, "aside"))
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(path, first, 0o644))
	p, err := pointer.DecodePointer("aside", b)
	snapshottest.Must(t, err)
	p.Sequence += 10
	p.Seal("m", pointer.Latest, nil)
	b, err = p.Encode()
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(filepath.Join(dir, "m", disk.AliasDir, pointer.Latest), b, 0o644))
	refusedWith(t, w, disk.ErrDigest, 1)
	snapshottest.Must(t, os.WriteFile(path, second, 0o644)) // the rest of the copy arrives
	s := until(t, w, "version 2", func(s Status) bool { return s.Version == 2 })
	if s.Refused < 1 || s.Err != nil {
		t.Errorf("status %+v", s)
	}
}

// E8: past its expiry a version is reported, and served only where that is asked for.
func TestWatchExpiry(t *testing.T) {
	_, dir := expiring(t)
	var now atomic.Pointer[time.Time]
	set := func(after time.Duration) {
		at := snapshottest.Created.Add(after)
		now.Store(&at)
	}
	set(0)
	clock := func() time.Time { return *now.Load() }
	strict := watchOf(t, DirSource{dir, often}, WatchOptions{Trust: verify.Trust{Now: clock}})
	lenient := watchOf(t, DirSource{dir, often}, WatchOptions{Trust: verify.Trust{Now: clock, AllowExpired: true}})
	for _, w := range []*Watcher{strict, lenient} {
		if s := until(t, w, "version 1", func(s Status) bool { return s.Version == 1 }); s.Expired {
			t.Error("expired at once")
		}
	}
	set(2 * time.Hour)
	if !strict.Status().Expired || !lenient.Status().Expired {
		t.Error("the expiry is not reported")
	}
	if strict.Model() != nil || lenient.Model() == nil {
		t.Errorf("strict serves %v, lenient %v", strict.Model(), lenient.Model())
	}
	refusedWith(t, watchOf(t, DirSource{dir, often}, WatchOptions{Trust: verify.Trust{Now: clock}}), disk.ErrExpired, 0)
	until(t, watchOf(t, DirSource{dir, often}, WatchOptions{Trust: verify.Trust{Now: clock, AllowExpired: true}}),
		"version 1",
		func(s Status) bool { return s.Version == 1 })
}

func TestWatchAsksTheProgram(t *testing.T) {
	store, dir := storeOf(t, 1)
	w := watchOf(t, DirSource{dir, often}, WatchOptions{OnLoad: func(m *scorer.Model) error {
		if m.Manifest().Version == 2 {
			return errors.New("not this one")
		}
		return nil
	}})
	until(t, w, "version 1", func(s Status) bool { return s.Version == 1 })
	for range 2 {
		_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
		snapshottest.Must(t, err)
		if p, err := store.Alias("m", pointer.Latest); err == nil && p.Version == 2 {
			s := until(t, w, "a refusal", func(s Status) bool { return s.Err != nil })
			if !strings.Contains(s.Err.Error(), "not this one") {
				t.Errorf("refused with %v", s.Err)
			}
		}
	}
	until(t, w, "version 3", func(s Status) bool { return s.Version == 3 && s.Err == nil })
}

func TestWatchOptionsRefused(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "accepted")
	for name, content := range map[string]string{"not JSON": "{",
		"of another model": `{"model":"n","alias":"champion","last":{"version":1,"manifest_digest":"sha256:00"}}`,
		"altered":          `{"model":"m","alias":"champion","last":{"version":1,"manifest_digest":"sha256:00","sequence":3,"pointer_digest":"sha256:00"}}`} {
		snapshottest.Must(t, os.WriteFile(state, []byte(content), 0o644))
		if w, err := Watch(DirSource{Dir: dir}, WatchOptions{Model: "m", StateFile: state}); err == nil ||
			!strings.Contains(err.Error(), state) {
			t.Errorf("state file %s: %v, %v", name, w, err)
		}
	}
	for _, options := range []WatchOptions{{}, {Model: "m", Alias: "../x"}, {Model: "a/b"}} {
		if w, err := Watch(DirSource{Dir: dir}, options); !errors.Is(err, disk.ErrName) {
			t.Errorf("%+v: %v, %v, want ErrName", options, w, err)
		}
	}
}

// Publish to loaded by a watching consumer that was there before the first version: all of it, and what is after the
// alias has moved.
func BenchmarkPublishToLoaded(b *testing.B) {
	dir := b.TempDir()
	store, c := publish.NewStore(dir), snapshottest.UserItem(5_000, 20, 4)
	w, err := Watch(DirSource{Dir: dir}, WatchOptions{Model: "m", Alias: pointer.Latest})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	var whole, after []time.Duration
	for b.Loop() {
		began := time.Now()
		m, err := store.Publish(b.Context(), "m", c)
		if err != nil {
			b.Fatal(err)
		}
		for w.Status().Version != m.Version {
			if backoff.Sleep(b.Context(), 100*time.Microsecond) != nil {
				return
			}
		}
		loaded := time.Now()
		alias, err := os.Stat(filepath.Join(dir, "m", disk.AliasDir, pointer.Latest))
		if err != nil {
			b.Fatal(err)
		}
		whole, after = append(whole, loaded.Sub(began)), append(after, loaded.Sub(alias.ModTime()))
	}
	for unit, waits := range map[string][]time.Duration{"whole": whole, "after-alias": after} {
		slices.Sort(waits)
		b.ReportMetric(waits[len(waits)/2].Seconds()*1e3, "ms-p50-"+unit)
		b.ReportMetric(waits[len(waits)*99/100].Seconds()*1e3, "ms-p99-"+unit)
		b.ReportMetric(waits[len(waits)-1].Seconds()*1e3, "ms-worst-"+unit)
	}
}
