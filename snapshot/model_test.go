package snapshot

import (
	"testing"

	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

func BenchmarkOpen(b *testing.B) {
	for name, users := range map[string]int{"names=100k": 50_000, "names=1M": 500_000} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			if _, err := publish.NewStore(dir).Publish(b.Context(), "m", snapshottest.UserItem(users, 20, 1)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Open(dir, "m", verify.Selector{Version: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
