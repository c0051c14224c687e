package publish

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// BenchmarkPublishIntoMany measures a publish into a model with that many versions, without syncs where the system has
// a directory in memory.
func BenchmarkPublishIntoMany(b *testing.B) {
	for _, versions := range []int{1, 1000, 10000} {
		b.Run(fmt.Sprint("versions=", versions), func(b *testing.B) {
			dir := b.TempDir()
			if memory, err := os.MkdirTemp("/dev/shm", "publish-"); err == nil {
				dir = memory
				b.Cleanup(func() { _ = os.RemoveAll(memory) })
			}
			store, c := NewStore(dir), snapshottest.TestContents(snapshottest.Small)
			for v := range versions { // of which a writer looks at the names alone
				if err := os.MkdirAll(filepath.Join(dir, "m", fmt.Sprint(v+1)), 0o755); err != nil {
					b.Fatal(err)
				}
			}
			for range 300 { // records of the log
				if _, err := store.Publish(b.Context(), "m", c); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				m, err := store.Publish(b.Context(), "m", c)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.RemoveAll(filepath.Join(dir, "m", fmt.Sprint(m.Version))); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
