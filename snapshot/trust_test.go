package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// expiring publishes a version that expires an hour after it was created.
func expiring(t *testing.T) (*publish.Store, string) {
	t.Helper()
	store, dir := storeOf(t, 0)
	c := snapshottest.TestContents(snapshottest.Small)
	c.Meta.Expires = snapshottest.Created.Add(time.Hour)
	store.Now = func() time.Time { return snapshottest.Created }
	_, err := store.Publish(t.Context(), "m", c)
	snapshottest.Must(t, err)
	return store, dir
}

// E8, for those who open a version once.
func TestExpiry(t *testing.T) {
	store, dir := expiring(t)
	at := func(after time.Duration) verify.Trust {
		return verify.Trust{Now: func() time.Time { return snapshottest.Created.Add(after) }}
	}
	if m, err := at(time.Hour-1).Open(dir, "m", verify.Selector{Version: 1}); err != nil || m.IsExpired(
		snapshottest.Created) ||
		!m.Manifest().Expires.Equal(snapshottest.Created.Add(time.Hour)) {
		t.Errorf("just before: %v", err)
	}
	if _, err := at(time.Hour).Open(dir, "m", verify.Selector{Version: 1}); !errors.Is(err, disk.ErrExpired) {
		t.Errorf("then: %v, want ErrExpired", err)
	}
	allowed := at(time.Hour)
	allowed.AllowExpired = true
	if m, err := allowed.Open(dir, "m", verify.Selector{Version: 1}); err != nil || !m.IsExpired(snapshottest.Created.Add(
		time.Hour)) {
		t.Errorf("allowed: %v", err)
	}
	store.Now = func() time.Time { return snapshottest.Created.Add(2 * time.Hour) }
	if err := setAlias(t, store, pointer.Champion, 1); !errors.Is(err, disk.ErrExpired) {
		t.Errorf("an alias is moved to an expired version: %v", err)
	}
}

// An alias moves only to a version that is whole, and stays where it was otherwise.
func TestMoveVerifiesTheVersion(t *testing.T) {
	store, dir := storeOf(t, 2)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	path := filepath.Join(dir, "m", "2", disk.VocabularyFile)
	b, err := os.ReadFile(path)
	snapshottest.Must(t, err)
	b[3] ^= 1
	snapshottest.Must(t, os.WriteFile(path, b, 0o644))
	if err := setAlias(t, store, pointer.Champion, 2); !errors.Is(err, disk.ErrDigest) {
		t.Errorf("damaged: %v, want ErrDigest", err)
	}
	if p, err := store.Alias("m", pointer.Champion); err != nil || p.Version != 1 {
		t.Errorf("champion %+v, %v, want 1", p, err)
	}
}

// A directory without a valid manifest does not exist: it is being copied.
func TestHalfCopiedVersion(t *testing.T) {
	store, dir := storeOf(t, 2)
	manifest := filepath.Join(dir, "m", "2", disk.ManifestFile)
	b, err := os.ReadFile(manifest)
	snapshottest.Must(t, err)
	for _, content := range [][]byte{nil, b[:len(b)/2], append([]byte(" "), b[1:]...)} {
		snapshottest.Must(t, os.WriteFile(manifest, content, 0o644))
		if v, err := store.Versions("m"); err != nil || len(v) != 1 || v[0] != 1 {
			t.Errorf("%d bytes of the manifest: versions %v, %v, want 1 only", len(content), v, err)
		}
	}
	snapshottest.Must(t, os.Remove(manifest))
	if v, err := store.Versions("m"); err != nil || len(v) != 1 {
		t.Errorf("no manifest: versions %v, %v, want 1 only", v, err)
	}
	if m, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small)); err != nil ||
		m.Version != 3 {
		t.Errorf("version %d, %v, want 3: a number is not used again", m.Version, err)
	}
}

// E4: what is claimed costs nothing until it comes: a version whose manifest promises a quarter of a gigabyte is
// refused for the price of what is there.
func TestClaimsDoNotAllocate(t *testing.T) {
	_, dir := storeOf(t, 1)
	files := readStored(t, dir)
	m, err := format.DecodeManifest(files[disk.ManifestFile])
	snapshottest.Must(t, err)
	m.Files[0].Bytes = format.MaxModelBytes
	files[disk.ManifestFile], err = m.Encode()
	snapshottest.Must(t, err)
	for _, size := range []int{0, 1, 600} {
		files[disk.TensorsFile] = make([]byte, size)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := (verify.Trust{}).Load("m", pointer.Pointer{Version: 1}, files.Read); !errors.Is(err, disk.ErrDigest) {
			t.Errorf("%d bytes: %v, want ErrDigest", size, err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%d bytes cost %d", size, got)
		}
	}
}
