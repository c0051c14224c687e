package sketch

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// levelZero is how many tables of the size of a memory table Badger lets wait for compaction, and one that is being
// merged.
const levelZero = 5 + 1

// TestDiskDoesNotGrow (B20, shortened): a sample that changes with every event takes at most three times its rows on
// disk and what the database lets wait for compaction, however much was written.
func TestDiskDoesNotGrow(t *testing.T) {
	const rows, n = 5000, 5000
	events := tier.Size(int64(100_000), 400_000)
	o := Options{
		Dir:             t.TempDir(),
		Size:            rows,
		HoldoutSize:     500,
		HoldoutFraction: 0.1,
		Seed:            1,
		HalfLife:        rows * 1e6 / 4,
	} // a row a millisecond
	s := mustOpen(t, o)
	must(t, s.Begin("ratings", 3, 0))
	most := int64(0)
	for p := benchPart(0, n); p.Next <= events; advance(p) {
		must(t, s.Apply(p, nil))
		most = max(most, blocksOf(t, o.Dir))
	}
	count, live := s.Size()
	must(t, s.Check(), s.Close())
	limit := 3*live + levelZero*DefaultMemTableBytes
	t.Logf("%d events of %d bytes into %d rows of %d bytes: %d bytes on disk at most, allowed are %d", events,
		len(benchPayload), count[Train]+count[Select]+count[Gate], live, most, limit)
	if most > limit {
		t.Errorf("%d bytes on disk for %d bytes of rows: at most %d", most, live, limit)
	}
}

// blocksOf returns what the files of a directory take on disk.
func blocksOf(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil // compacted away
		}
		if err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	}))
	return bytes
}
