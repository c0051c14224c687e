package snapshot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// residentBytes is the resident memory of this process, 0 where the system does not show it.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// E1: eight readers in a loop, four opening and four watching, see whole versions only and never an older one, while
// versions are published and pruned; memory and files stay flat.
func TestReadersDuringManyPublishes(t *testing.T) {
	publishes := tier.Size(60, 500)
	if tier.Asked(tier.Load) {
		publishes = 10_000
	}
	store, dir := storeOf(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var reads atomic.Int64
	errs := make(chan error, 8)
	read := func(last *int64, m *scorer.Model) error {
		v := m.Manifest().Version
		if v < *last {
			return fmt.Errorf("version %d after %d", v, *last)
		}
		*last = v
		reads.Add(1)
		return nil
	}
	for range 4 {
		wg.Go(func() {
			for last := int64(0); backoff.Sleep(ctx, often) == nil; { // or the readers would leave the publisher no processor
				m, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest})
				if err == nil {
					err = read(&last, m)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
		w := watchOf(t, DirSource{dir, often}, WatchOptions{})
		wg.Go(func() {
			in, s := snapshottest.TestInputs()[0], new(scorer.Scratch)
			dst := make([]float64, 4)
			for last := int64(0); backoff.Sleep(ctx, often/4) == nil; {
				m := w.Model()
				if m == nil {
					continue
				}
				m.Score(dst, &in, s)
				if err := read(&last, m); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	var warm int64
	for i := range publishes {
		if _, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small)); err != nil {
			t.Fatal(err)
		}
		if i%5 == 4 {
			if _, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 3}); err != nil {
				t.Fatal(err)
			}
		}
		if i == publishes/5 { // the heap has found its size
			warm = residentBytes()
		}
		if len(errs) > 0 {
			break
		}
	}
	now := residentBytes()
	stop()
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if now > warm+32<<20 {
		t.Errorf("resident memory grew from %d to %d MiB", warm>>20, now>>20)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "m"))
	snapshottest.Must(t, err)
	if len(entries) > 12 {
		t.Errorf("%d entries in the model's directory", len(entries))
	}
	t.Logf("%d publishes, %d reads, resident %d MiB after a fifth, %d MiB at the end", publishes, reads.Load(),
		warm>>20, now>>20)
}

// E14: what a reader has open can be read to its end after the version was pruned.
func TestOpenFilesOutliveAPrune(t *testing.T) {
	store, dir := storeOf(t, 3)
	source := DirSource{Dir: dir}
	f, err := source.File(t.Context(), "m", 1, disk.TensorsFile)
	snapshottest.Must(t, err)
	defer f.Close()
	removed, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 1})
	snapshottest.Must(t, err)
	if len(removed) != 2 {
		t.Errorf("removed %v, want 1 and 2", removed)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "m", "3", disk.TensorsFile))
	snapshottest.Must(t, err)
	if b, err := disk.ReadAtMost(f, disk.TensorsFile, format.MaxModelBytes); err != nil || string(b) != string(kept) {
		t.Errorf("%d bytes, %v, want %d", len(b), err, len(kept))
	}
}
