package publish

import (
	"testing"

	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func BenchmarkPublish(b *testing.B) {
	c, store := snapshottest.UserItem(50_000, 20, 4), NewStore(b.TempDir())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.Publish(b.Context(), "m", c); err != nil {
			b.Fatal(err)
		}
		if _, err := store.Prune(b.Context(), "m", Retention{Keep: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
