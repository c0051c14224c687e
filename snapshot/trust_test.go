package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// expiring publishes a version that expires an hour after it was created.
func expiring(t *testing.T) (*Store, string) {
	t.Helper()
	store, dir := publish(t, 0)
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
	if m, err := at(time.Hour-1).Open(dir, "m", Selector{Version: 1}); err != nil || m.IsExpired(created) || !m.Manifest().Expires.Equal(created.Add(time.Hour)) {
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
	store, dir := publish(t, 2)
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
	store, dir := publish(t, 2)
	manifest := filepath.Join(dir, "m", "2", manifestFile)
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
