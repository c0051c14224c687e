package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// storeOf publishes n versions of a model "m" in a new store.
func storeOf(t *testing.T, n int) (*publish.Store, string) {
	t.Helper()
	dir := t.TempDir()
	store := publish.NewStore(dir)
	for range n {
		if _, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small)); err != nil {
			t.Fatal(err)
		}
	}
	return store, dir
}

func TestPublishAndOpen(t *testing.T) {
	for _, s := range snapshottest.Shapes {
		t.Run(s.String(), func(t *testing.T) {
			dir, c := filepath.Join(t.TempDir(), "new", "store"), snapshottest.TestContents(s)
			published, err := publish.NewStore(dir).Publish(t.Context(), "ratings.v2", c)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Open(dir, "ratings.v2", verify.Selector{Alias: pointer.Latest})
			if err != nil {
				t.Fatal(err)
			}
			got := m.Contents()
			for name, pair := range map[string][2]any{
				"basis": {got.Basis, c.Basis}, "weights": {got.Weights, c.Weights}, "linear": {got.Linear, c.Linear},
				"bias":       {got.Bias, c.Bias},
				"vocabulary": {got.Vocabulary, c.Vocabulary}, "schema": {got.Schema, c.Schema}, "golden": {len(got.Golden), len(
					c.Golden)},
			} {
				if !reflect.DeepEqual(pair[0], pair[1]) {
					t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
				}
			}
			manifest := m.Manifest()
			if manifest.Digest != published.Digest || manifest.Version != 1 || manifest.Lambda != 0.5 ||
				!manifest.Created.Equal(snapshottest.Created) {
				t.Errorf("manifest %+v, published %+v", manifest, published)
			}
			if manifest.Objective == manifest.Objective {
				t.Errorf("objective %v, want NaN: it was not finite", manifest.Objective)
			}
			if digest, err := format.PayloadDigest(got); err != nil || digest != manifest.PayloadDigest {
				t.Errorf("PayloadDigest of what was read is %s, %v, the manifest has %s", digest, err,
					manifest.PayloadDigest)
			}
		})
	}
}

// Publishing what was read gives the same files but for version and origin.
func TestPublishIsDeterministic(t *testing.T) {
	store, dir := storeOf(t, 2)
	m, err := Open(dir, "m", verify.Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Publish(t.Context(), "m", m.Contents()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{disk.TensorsFile, disk.VocabularyFile, disk.GoldenFile} {
		first, err1 := os.ReadFile(filepath.Join(dir, "m", "1", name))
		for _, version := range []string{"2", "3"} {
			again, err2 := os.ReadFile(filepath.Join(dir, "m", version, name))
			if err := errors.Join(err1, err2); err != nil || string(first) != string(again) {
				t.Errorf("%s of version %s differs: %v", name, version, err)
			}
		}
	}
}

func TestVersionsAndAliases(t *testing.T) {
	store, dir := storeOf(t, 3)
	if _, err := Open(dir, "m", verify.Selector{}); !errors.Is(err, disk.ErrNotFound) || !strings.Contains(err.Error(),
		"latest") {
		t.Errorf("no champion yet: %v, want ErrNotFound that names the aliases there are", err)
	}
	if err := moveAlias(t, store, pointer.Champion, 0, 2); err != nil {
		t.Fatal(err)
	}
	if err := moveAlias(t, store, pointer.Champion, 1, 3); !errors.Is(err, disk.ErrConflict) {
		t.Errorf("swap from 1 while it is 2: %v, want ErrConflict", err)
	}
	if err := moveAlias(t, store, pointer.Champion, 0, 3); !errors.Is(err, disk.ErrConflict) {
		t.Errorf("swap from none while it is 2: %v, want ErrConflict", err)
	}
	if err := setAlias(t, store, pointer.Champion, 9); !errors.Is(err, disk.ErrNotFound) {
		t.Errorf("alias to version 9: %v, want ErrNotFound", err)
	}
	if err := setAlias(t, store, "../x", 1); !errors.Is(err, disk.ErrName) {
		t.Errorf("alias ../x: %v, want ErrName", err)
	}
	want := map[string]int64{pointer.Champion: 2, pointer.Latest: 3}
	if got, err := store.Aliases("m"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Aliases = %v, %v, want %v", got, err, want)
	}
	if m, err := Open(dir, "m", verify.Selector{}); err != nil || m.Manifest().Version != 2 {
		t.Errorf("champion: %v, want version 2", err)
	}
	if p, err := store.Alias("m", pointer.Champion); err != nil || p.Version != 2 {
		t.Errorf("Alias = %+v, %v, want 2", p, err)
	}
	if m, err := store.Manifest("m", 3); err != nil || m.Version != 3 {
		t.Errorf("Manifest: version %d, %v, want 3", m.Version, err)
	}
}

func TestVersionNumbersGrowOverGaps(t *testing.T) {
	store, dir := storeOf(t, 1)
	// half restored: no version, but its number is taken
	snapshottest.Must(t, os.Mkdir(filepath.Join(dir, "m", "7"), 0o755))
	snapshottest.Must(t, os.Mkdir(filepath.Join(dir, "m", "007"), 0o755))
	snapshottest.Must(t, os.Mkdir(filepath.Join(dir, "m", "notes"), 0o755))
	snapshottest.Must(t, os.WriteFile(filepath.Join(dir, "m", "20"), nil, 0o644)) // no version, whatever its name
	m, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	if err != nil || m.Version != 8 {
		t.Fatalf("version %d, %v, want 8", m.Version, err)
	}
	snapshottest.Must(t, os.RemoveAll(filepath.Join(dir, "m", "8"))) // "latest" remembers it
	if m, err = store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small)); err != nil ||
		m.Version != 9 {
		t.Errorf("version %d, %v, want 9", m.Version, err)
	}
	if _, err := Open(dir, "m", verify.Selector{Version: 7}); !errors.Is(err, disk.ErrNotFound) {
		t.Errorf("version without a manifest: %v, want ErrNotFound", err)
	}
}

func TestPrune(t *testing.T) {
	store, dir := storeOf(t, 6)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 2))
	removed, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 2})
	if want := []int64{1, 3, 4}; err != nil || !slices.Equal(removed, want) {
		t.Fatalf("removed %v, %v, want %v", removed, err, want)
	}
	if removed, err = store.Prune(t.Context(), "m", publish.Retention{Keep: 0}); err != nil ||
		!slices.Equal(removed, []int64{5}) {
		t.Errorf("keep 0 removed %v, %v, want 5 only: the newest stays", removed, err)
	}
	if v, err := store.Versions("m"); err != nil || !slices.Equal(v, []int64{2, 6}) {
		t.Errorf("Versions = %v, %v, want 2 and 6", v, err)
	}
	// which no writer made
	snapshottest.Must(t, os.WriteFile(filepath.Join(dir, "m", disk.AliasDir, "pinned"), []byte("6"), 0o644))
	if removed, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 1}); err != nil || len(removed) > 0 {
		t.Errorf("a stray file: removed %v, %v", removed, err)
	}
	snapshottest.Must(
		t,
		errors.Join(os.Remove(filepath.Join(dir, "m", "log.jsonl")),
			os.WriteFile(filepath.Join(dir, "m", disk.AliasDir, pointer.Champion), []byte("6"), 0o644)),
	)
	if _, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 1}); !errors.Is(err, disk.ErrFormat) {
		t.Errorf("unreadable alias: %v, want ErrFormat and nothing removed", err)
	}
}

// A publisher killed at any step leaves a staging directory that nobody sees and the next one removes, or a whole
// version.
func TestKilledPublisher(t *testing.T) {
	store, dir := storeOf(t, 2)
	for step, remains := range [][]string{{}, {disk.TensorsFile}, {disk.TensorsFile, disk.VocabularyFile, disk.GoldenFile},
		{disk.TensorsFile,
			disk.VocabularyFile, disk.GoldenFile, disk.ManifestFile}} {
		torn := filepath.Join(dir, "m", ".staging-3")
		snapshottest.Must(t, os.Mkdir(torn, 0o755))
		for _, name := range remains {
			b, err := os.ReadFile(filepath.Join(dir, "m", "2", name))
			snapshottest.Must(t, err)
			snapshottest.Must(t, os.WriteFile(filepath.Join(torn, name), b, 0o644))
		}
		snapshottest.Must(t, os.WriteFile(filepath.Join(dir, "m", disk.AliasDir, ".new"), []byte(`{"ver`), 0o644))
		want := []int64{1, 2}
		if v, err := store.Versions("m"); err != nil || !slices.Equal(v, want) {
			t.Errorf("step %d: Versions = %v, %v, want %v", step, v, err, want)
		}
		if m, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest}); err != nil || m.Manifest().Version != 2 {
			t.Errorf("step %d: latest: %v, want version 2", step, err)
		}
		if aliases, err := store.Aliases("m"); err != nil || len(aliases) != 1 {
			t.Errorf("step %d: Aliases = %v, %v, want latest only", step, aliases, err)
		}
		snapshottest.Must(t, setAlias(t, store, pointer.Latest, 2))
		if _, err := os.Lstat(torn); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("step %d: the staging directory is still there: %v", step, err)
		}
	}
	// Killed between the rename and the alias: the version exists and its number is not used again.
	snapshottest.Must(t, os.Rename(filepath.Join(dir, "m", "2"), filepath.Join(dir, "m", "3")))
	if m, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small)); err != nil ||
		m.Version != 4 {
		t.Errorf("version %d, %v, want 4", m.Version, err)
	}
}

func TestPublishCanceled(t *testing.T) {
	store, dir := storeOf(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Publish(ctx, "m", snapshottest.TestContents(snapshottest.Small)); !errors.Is(err,
		context.Canceled) {
		t.Errorf("Publish: %v, want context.Canceled", err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "m"))
	if err != nil || len(entries) != 4 { // 1, aliases, .lock, log.jsonl
		t.Errorf("%v, %v: something was left behind", entries, err)
	}
}

func TestNames(t *testing.T) {
	_, dir := storeOf(t, 1)
	for _, name := range []string{"", ".", "..", "../m", "m/1", "/etc", "a\x00b", "Ratings", "-m", ".lock", strings.Repeat(
		"a", 65), "ümlaut"} {
		if _, err := publish.NewStore(dir).Publish(t.Context(), name, snapshottest.TestContents(
			snapshottest.Small)); !errors.Is(err, disk.ErrName) {
			t.Errorf("Publish %q: %v, want ErrName", name, err)
		}
		if _, err := Open(dir, name, verify.Selector{Alias: pointer.Latest}); !errors.Is(err, disk.ErrName) {
			t.Errorf("Open model %q: %v, want ErrName", name, err)
		}
		if _, err := Open(dir, "m", verify.Selector{Alias: name}); name != "" && !errors.Is(err, disk.ErrName) {
			t.Errorf("Open alias %q: %v, want ErrName", name, err)
		}
	}
	for _, test := range []struct {
		dir, model string
		sel        verify.Selector
	}{{filepath.Join(dir, "none"), "m", verify.Selector{}}, {dir, "other", verify.Selector{}}, {dir, "m",
		verify.Selector{Version: 2}}, {dir,
		"m", verify.Selector{Version: -1}}} {
		if _, err := Open(test.dir, test.model, test.sel); !errors.Is(err, disk.ErrNotFound) {
			t.Errorf("Open(%v): %v, want ErrNotFound", test, err)
		}
	}
}

// Readers in a loop see whole versions only, and never an older one than before, while versions are published and
// pruned.
func TestReadersDuringPublishes(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 4 {
		wg.Go(func() {
			for last := int64(0); ctx.Err() == nil; {
				m, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest})
				if err != nil {
					errs <- err
					return
				}
				if v := m.Manifest().Version; v < last {
					errs <- fmt.Errorf("version %d after %d", v, last)
					return
				} else {
					last = v
				}
			}
		})
	}
	var publishers sync.WaitGroup
	for range 2 {
		publishers.Go(func() {
			for range 15 {
				_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
				if err == nil {
					_, err = store.Prune(t.Context(), "m", publish.Retention{Keep: 1})
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	publishers.Wait()
	stop()
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if v, err := store.Versions("m"); err != nil || !slices.Equal(v, []int64{31}) {
		t.Errorf("Versions = %v, %v, want 31 only", v, err)
	}
}

// A reader sees the old or the new alias, also when the two files have different lengths.
func TestReadersDuringAliasMoves(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 1)
	snapshottest.Must(t, os.Mkdir(filepath.Join(dir, "m", "1234567"), 0o755))
	_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if p, err := store.Alias("m", pointer.Latest); err != nil || p.Version != 1 && p.Version != 1234568 {
					t.Errorf("%+v, %v, want version 1 or 1234568", p, err)
					return
				}
			}
		})
	}
	for range 50 {
		snapshottest.Must(t, setAlias(t, store, pointer.Latest, 1))
		snapshottest.Must(t, setAlias(t, store, pointer.Latest, 1234568))
	}
	stop()
	wg.Wait()
}

// Of many that swap from the same version, one wins.
func TestOneSwapWins(t *testing.T) {
	store, dir := storeOf(t, 2)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		wg.Go(func() { results[i] = moveAlias(t, publish.NewStore(dir), pointer.Champion, 1, 2) })
	}
	wg.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
		} else if !errors.Is(err, disk.ErrConflict) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d swaps won, want 1", won)
	}
}

// setAlias moves an alias wherever it is, moveAlias only from a version.
func setAlias(t *testing.T, store *publish.Store, alias string, version int64) error {
	_, err := store.MoveAlias(t.Context(), "m", publish.Move{Alias: alias, To: version})
	return err
}

func moveAlias(t *testing.T, store *publish.Store, alias string, from, to int64) error {
	_, err := store.MoveAlias(t.Context(), "m", publish.Move{Alias: alias, From: &from, To: to})
	return err
}
