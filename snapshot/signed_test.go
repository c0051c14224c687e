package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
)

// J1: a store with keys lists, reads, links to and keeps what they signed, and replaces what they did not; one without
// keys is as it was.
func TestStoreWithKeys(t *testing.T) {
	store, dir, keys := publishSigned(t, 2)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	good, err := store.Manifest("m", 2)
	snapshottest.Must(t, err)
	forger := publish.NewStore(dir)
	forger.Signer, _ = snapshottest.Signer(t, 2)
	forged, err := forger.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small),
		publish.Move{Alias: pointer.Champion})
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.Mkdir(filepath.Join(dir, "m", "9007199254740991"), 0o755))
	if v, err := store.Versions("m"); err != nil || len(v) != 3 {
		t.Errorf("without keys: versions %v, %v", v, err)
	}
	var found []pointer.Pointer
	store.Keys, store.Untrusted = keys, func(_ string, p pointer.Pointer) { found = append(found, p) }
	if v, err := store.Versions("m"); err != nil || len(v) != 2 {
		t.Errorf("versions %v, %v, want the two signed ones", v, err)
	}
	if aliases, err := store.Aliases("m"); err != nil || len(aliases) != 0 {
		t.Errorf("aliases %v, %v, want none: all were moved by somebody else", aliases, err)
	}
	for what, err := range map[string]error{
		"alias":    func() error { _, err := store.Alias("m", pointer.Champion); return err }(),
		"manifest": func() error { _, err := store.Manifest("m", 3); return err }(),
		"move":     setAlias(t, store, pointer.Champion, 3),
	} {
		if !errors.Is(err, disk.ErrSignature) {
			t.Errorf("%s: %v, want ErrSignature", what, err)
		}
	}
	if m, err := store.Newest("m", nil); err != nil || m.Version != 2 {
		t.Errorf("newest version %d, %v, want 2", m.Version, err)
	}
	from := int64(1)
	m, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small),
		publish.Move{Alias: pointer.Champion, From: &from})
	if err != nil || m.Version != 4 || m.Previous == forged.Digest {
		t.Fatalf("published version %d after %s, %v: want 4, not linked to the forged %s", m.Version, m.Previous, err,
			forged.Digest)
	}
	if len(found) == 0 || found[0].Version != 3 {
		t.Errorf("reported %+v, want the forged version 3", found)
	}
	p, err := store.Alias("m", pointer.Champion)
	if q := found[0]; err != nil || p.Version != 4 || p.Sequence <= q.Sequence {
		t.Errorf("champion %+v, %v, want version 4 by a later move than %d", p, err, q.Sequence)
	}
	if removed, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 1}); err != nil || len(removed) != 2 ||
		removed[1] != good.Version {
		t.Errorf("pruned %v, %v, want 1 and 2", removed, err)
	}
	if _, err := forger.Manifest("m", 3); err != nil {
		t.Errorf("the forged version was removed: %v", err)
	}
}

// A number that somebody wrote into the log, an alias or the name of a directory does not make the publisher count on
// to where readers without keys refuse what it says.
func TestInventedNumbers(t *testing.T) {
	for _, number := range []int64{1 << 24, 1 << 25, 1 << 43, 1 << 50, 1<<63 - 1} {
		for what, attack := range map[string]func(dir string, number int64) error{
			"log": func(dir string, number int64) error {
				f, err := os.OpenFile(filepath.Join(dir, "log.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
				if err == nil {
					_, err = fmt.Fprintf(f, `{"sequence":%d,"time":"2026-01-01T00:00:00Z","event":"alias"}`+"\n", number)
					err = errors.Join(err, f.Close())
				}
				return err
			},
			"alias": func(dir string, number int64) error {
				m := pointer.Pointer{Version: 1, ManifestDigest: "sha256:00", Sequence: number, Event: publish.EventPublish}
				m.Seal("m", pointer.Champion, nil)
				b, err := m.Encode()
				return errors.Join(err, os.WriteFile(filepath.Join(dir, disk.AliasDir, pointer.Champion), b, 0o644))
			},
			"directory": func(dir string, number int64) error {
				return os.Mkdir(filepath.Join(dir, fmt.Sprint(min(number, disk.MaxVersion))), 0o755)
			},
		} {
			store, dir := storeOf(t, 2)
			snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
			snapshottest.Must(t, attack(filepath.Join(dir, "m"), number))
			for range 3 {
				m, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small),
					publish.Move{Alias: pointer.Champion})
				if err != nil {
					t.Fatalf("%s, %d: %v", what, number, err)
				}
				if p, err := store.Alias("m", pointer.Champion); err != nil || p.Version != m.Version ||
					what == "alias" && number == 1<<24 && p.Sequence <= number {
					t.Errorf("%s, %d: champion %+v, %v, want version %d", what, number, p, err, m.Version)
				}
			}
			if strays, err := store.Aliases("m"); err != nil || len(strays) != 2 {
				t.Errorf("%s, %d: aliases %v, %v", what, number, strays, err)
			}
		}
	}
}
