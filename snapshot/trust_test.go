package snapshot

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// expiring publishes a version that expires an hour after it was created.
func expiring(t *testing.T) (*Store, string) {
	t.Helper()
	store, dir := storeOf(t, 0)
	c := testContents(small)
	c.Meta.Expires = created.Add(time.Hour)
	store.Now = func() time.Time { return created }
	_, err := store.Publish(t.Context(), "m", c)
	must(t, err)
	return store, dir
}

// E8, for those who open a version once.
func TestExpiry(t *testing.T) {
	store, dir := expiring(t)
	at := func(after time.Duration) Trust {
		return Trust{Now: func() time.Time { return created.Add(after) }}
	}
	if m, err := at(time.Hour-1).Open(dir, "m", Selector{Version: 1}); err != nil || m.IsExpired(created) ||
		!m.Manifest().Expires.Equal(created.Add(time.Hour)) {
		t.Errorf("just before: %v", err)
	}
	if _, err := at(time.Hour).Open(dir, "m", Selector{Version: 1}); !errors.Is(err, ErrExpired) {
		t.Errorf("then: %v, want ErrExpired", err)
	}
	allowed := at(time.Hour)
	allowed.AllowExpired = true
	if m, err := allowed.Open(dir, "m", Selector{Version: 1}); err != nil || !m.IsExpired(created.Add(time.Hour)) {
		t.Errorf("allowed: %v", err)
	}
	store.Now = func() time.Time { return created.Add(2 * time.Hour) }
	if err := setAlias(t, store, Champion, 1); !errors.Is(err, ErrExpired) {
		t.Errorf("an alias is moved to an expired version: %v", err)
	}
}

// An alias moves only to a version that is whole, and stays where it was otherwise.
func TestMoveVerifiesTheVersion(t *testing.T) {
	store, dir := storeOf(t, 2)
	must(t, setAlias(t, store, Champion, 1))
	path := filepath.Join(dir, "m", "2", vocabularyFile)
	b, err := os.ReadFile(path)
	must(t, err)
	b[3] ^= 1
	must(t, os.WriteFile(path, b, 0o644))
	if err := setAlias(t, store, Champion, 2); !errors.Is(err, ErrDigest) {
		t.Errorf("damaged: %v, want ErrDigest", err)
	}
	if p, err := store.Alias("m", Champion); err != nil || p.Version != 1 {
		t.Errorf("champion %+v, %v, want 1", p, err)
	}
}

// A directory without a valid manifest does not exist: it is being copied.
func TestHalfCopiedVersion(t *testing.T) {
	store, dir := storeOf(t, 2)
	manifest := filepath.Join(dir, "m", "2", ManifestFile)
	b, err := os.ReadFile(manifest)
	must(t, err)
	for _, content := range [][]byte{nil, b[:len(b)/2], append([]byte(" "), b[1:]...)} {
		must(t, os.WriteFile(manifest, content, 0o644))
		if v, err := store.Versions("m"); err != nil || len(v) != 1 || v[0] != 1 {
			t.Errorf("%d bytes of the manifest: versions %v, %v, want 1 only", len(content), v, err)
		}
	}
	must(t, os.Remove(manifest))
	if v, err := store.Versions("m"); err != nil || len(v) != 1 {
		t.Errorf("no manifest: versions %v, %v, want 1 only", v, err)
	}
	if m, err := store.Publish(t.Context(), "m", testContents(small)); err != nil || m.Version != 3 {
		t.Errorf("version %d, %v, want 3: a number is not used again", m.Version, err)
	}
}

// E4: what is claimed costs nothing until it comes: a version whose manifest promises a quarter of a gigabyte is
// refused for the price of what is there.
func TestClaimsDoNotAllocate(t *testing.T) {
	_, dir := storeOf(t, 1)
	files := readStored(t, dir)
	m, err := decodeManifest(files[ManifestFile])
	must(t, err)
	m.Files[0].Bytes = maxModelBytes
	files[ManifestFile], err = m.encode()
	must(t, err)
	for _, size := range []int{0, 1, 600} {
		files[tensorsFile] = make([]byte, size)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := (Trust{}).load("m", Pointer{Version: 1}, files.read); !errors.Is(err, ErrDigest) {
			t.Errorf("%d bytes: %v, want ErrDigest", size, err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%d bytes cost %d", size, got)
		}
	}
}

// Nothing that a file or a server sends as an alias, a signature or a log makes a reader panic, and what is accepted is
// in its one form.
func FuzzPointer(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	s, err := NewSigner(key)
	if err != nil {
		f.Fatal(err)
	}
	p := Pointer{Version: 3, ManifestDigest: "sha256:00", Sequence: 4, Moved: created, Event: EventPublish}
	p.seal("m", Latest, s)
	b, err := p.encode()
	if err != nil {
		f.Fatal(err)
	}
	sig, err := s.signManifest(b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(sig)
	f.Add([]byte(`{"version":1,"manifest_digest":"sha256:00"}` + "\n"))
	keys := Keys{s.ID(): key.Public().(ed25519.PublicKey)}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := decodePointer(Latest, b); err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Error(err)
			}
		} else if got.Verify("m", Latest, keys) == nil && !got.same(&p) {
			t.Errorf("a forged alias is accepted: %q", b)
		} else if err := got.Verify("m", Latest, nil); err != nil && !isRefusal(err) {
			t.Error(err)
		}
		if _, err := keys.verifyManifest(b, b); !errors.Is(err, ErrSignature) {
			t.Errorf("a forged signature: %v", err)
		}
	})
}
