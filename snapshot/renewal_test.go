package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// clockOf is a clock that a test sets.
type clockOf struct{ at atomic.Int64 }

func (c *clockOf) now() time.Time { return time.UnixMilli(c.at.Load()).UTC() }

func (c *clockOf) set(t time.Time) { c.at.Store(t.UnixMilli()) }

func (c *clockOf) add(d time.Duration) { c.at.Add(d.Milliseconds()) }

// J3: a version lives for as long as its alias is renewed and no longer, for those who open it once and for watchers,
// and nothing but one file is written for it.
func TestRenewal(t *testing.T) {
	store, dir, keys := publishSigned(t, 0)
	clock := &clockOf{}
	clock.set(snapshottest.Created)
	store.Now = clock.now
	c := snapshottest.TestContents(snapshottest.Small)
	c.Meta.Expires = snapshottest.Created.Add(time.Hour)
	_, err := store.Publish(t.Context(), "m", c, publish.Move{Alias: pointer.Champion})
	snapshottest.Must(t, err)
	trust := verify.Trust{Keys: keys, Now: clock.now}
	options := WatchOptions{Alias: pointer.Champion, Trust: trust, StateFile: filepath.Join(t.TempDir(), "accepted")}
	w := watchOf(t, DirSource{dir, often}, options)
	s := until(t, w, "version 1", func(s Status) bool { return s.Version == 1 })
	if !s.Renewed.Equal(snapshottest.Created) || !s.Expires.Equal(snapshottest.Created.Add(time.Hour)) {
		t.Errorf("before a renewal: %+v", s)
	}
	alias, err := os.ReadFile(filepath.Join(dir, "m", disk.AliasDir, pointer.Champion))
	snapshottest.Must(t, err)
	log, err := os.ReadFile(filepath.Join(dir, "m", "log.jsonl"))
	snapshottest.Must(t, err)
	for range 5 { // an hour is the life, each renewal comes after a quarter of it
		clock.add(15 * time.Minute)
		p, err := store.Renew(t.Context(), "m", pointer.Champion, clock.now().Add(time.Hour))
		snapshottest.Must(t, err)
		until(t, w, "the renewal", func(s Status) bool {
			return s.Renewed.Equal(p.Renewal.Renewed) && s.Expires.Equal(clock.now().Add(time.Hour))
		})
	}
	if s := w.Status(); w.Model() == nil || s.Expired || s.Loads != 1 || s.Refused != 0 || s.Err != nil {
		t.Errorf("renewed: %+v", s)
	}
	if _, err := trust.Open(dir, "m", verify.Selector{}); err != nil {
		t.Errorf("opened by the alias: %v", err)
	}
	if _, err := trust.Open(dir, "m", verify.Selector{Version: 1}); !errors.Is(err, disk.ErrExpired) {
		t.Errorf("opened by its number: %v, want ErrExpired: that is not renewed", err)
	}
	for name, want := range map[string][]byte{filepath.Join(disk.AliasDir, pointer.Champion): alias, "log.jsonl": log} {
		if now, err := os.ReadFile(filepath.Join(dir, "m", name)); err != nil || string(now) != string(want) {
			t.Errorf("%s has changed: %v", name, err)
		}
	}
	if strays, err := store.Strays("m"); err != nil || len(strays) != 0 {
		t.Errorf("strays %v, %v", strays, err)
	}
	w.Close()
	// A watcher that starts after the manifest's expiry takes it, too, and one without news lets it go.
	w = watchOf(t, DirSource{dir, often}, options)
	until(t, w, "version 1 after a restart", func(s Status) bool { return s.Version == 1 && s.Err == nil })
	clock.add(time.Hour)
	if w.Model() != nil || !w.Status().Expired {
		t.Errorf("nobody renews it, and it is served: %+v", w.Status())
	}
	_, err = store.Renew(t.Context(), "m", pointer.Champion, clock.now().Add(time.Hour)) // the publisher is back
	snapshottest.Must(t, err)
	until(t, w, "the model again", func(s Status) bool { return w.Model() != nil })
}

// J3: a renewal that is not of this move, not signed, or older than one that was taken, neither prolongs a life nor
// keeps the alias from being served.
func TestForgedRenewal(t *testing.T) {
	store, dir, keys := publishSigned(t, 0)
	clock := &clockOf{}
	clock.set(snapshottest.Created)
	store.Now = clock.now
	another := func() {
		c := snapshottest.TestContents(snapshottest.Small)
		c.Meta.Expires = snapshottest.Created.Add(time.Hour)
		_, err := store.Publish(t.Context(), "m", c, publish.Move{Alias: pointer.Champion})
		snapshottest.Must(t, err)
	}
	another()
	path := filepath.Join(dir, "m", disk.RenewalDir, pointer.Champion)
	renew := func(s *publish.Store) []byte {
		_, err := s.Renew(t.Context(), "m", pointer.Champion, clock.now().Add(24*time.Hour))
		snapshottest.Must(t, err)
		b, err := os.ReadFile(path)
		snapshottest.Must(t, err)
		return b
	}
	old := renew(store)
	clock.add(time.Minute)
	newer := renew(store)
	w := watchOf(t, DirSource{dir, often}, WatchOptions{Alias: pointer.Champion, Trust: verify.Trust{Keys: keys,
		Now: clock.now}})
	until(t, w, "version 1", func(s Status) bool { return s.Version == 1 && s.Renewed.Equal(clock.now()) })
	replace := func(b []byte) { snapshottest.Must(t, os.WriteFile(path, b, 0o644)) }
	refused := func(what string, b []byte, want time.Time) {
		t.Helper()
		replace(b)
		time.Sleep(20 * often)
		if s := w.Status(); !s.Expires.Equal(want) || s.Err != nil {
			t.Errorf("%s: expires %v, %v, want %v", what, s.Expires, s.Err, want)
		}
	}
	taken := snapshottest.Created.Add(time.Minute + 24*time.Hour)
	refused("an old renewal again", old, taken)
	for i := range newer { // of each bit one
		b := append([]byte(nil), newer...)
		b[i] ^= 1 << (i % 8)
		var p pointer.Pointer
		replace(b)
		p, err := store.Alias("m", pointer.Champion)
		snapshottest.Must(t, err)
		if p.Renewal.Expires.After(taken) {
			t.Errorf("byte %d: %+v is taken", i, p.Renewal)
		}
	}
	unsigned := publish.NewStore(dir)
	unsigned.Now = clock.now
	if _, err := unsigned.Renew(t.Context(), "m", pointer.Champion, clock.now()); !errors.Is(err, disk.ErrSignature) {
		t.Errorf("a signed alias is renewed without a key: %v", err)
	}
	stranger := publish.NewStore(dir)
	stranger.Now = clock.now
	stranger.Signer, _ = snapshottest.Signer(t, 2)
	clock.add(time.Hour)
	refused("of another key", renew(stranger), taken)
	replace(newer)
	another() // another move: the renewal is not its own
	s := until(t, w, "version 2", func(s Status) bool { return s.Version == 2 || s.Err != nil })
	if s.Version == 2 {
		t.Errorf("an expired version with the renewal of another move is loaded: %+v", s)
	}
}
