package daemon_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// descriptors returns how many file descriptors this process has open, 0 where the system does not say.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// TestNothingGrows: F18. After a thousand reloads and a thousand versions, which the surface loads, the announcer sends
// and the trainer takes up, a daemon has as many goroutines and file descriptors as before. It runs alone: the process
// is counted.
func TestNothingGrows(t *testing.T) {
	rounds := tier.Size(50, 1000)
	b := daemontest.New(t)
	b.ProduceRatings(41, 800)
	path := b.Configure("z", "every_events: 0", "every_events: 400", "update_every: 0s",
		"update_every: 0s, topic: champions, inline_max: 1MiB")
	d, _, stop := startWith(b, path)
	defer stop()
	base := "http://" + d.Addr()
	metric := func(name string) float64 {
		_, text := daemontest.Get(t, base+"/metrics")
		return daemontest.Sum(t, text, name)
	}
	daemontest.Within(t, daemontest.Patience, "all events applied, and an announcement", func() bool {
		return metric("refitd_events_total") == 800 &&
			metric(`refitd_announcements_total{model="ratings",result="success"}`) > 0
	})
	dir := filepath.Join(b.Dir, "store-z")
	store := publish.NewStore(dir)
	m, err := snapshot.Open(dir, "ratings", snapshot.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	serves := func(version int64) bool {
		status, _ := daemontest.Get(t, fmt.Sprintf("%s/v1/models/ratings/versions/%d", base, version))
		return status == http.StatusOK
	}
	publish := func(n int) {
		t.Helper()
		for i := range n {
			manifest, err := store.Publish(t.Context(), "ratings", m.Contents(), publish.Move{Alias: pointer.Champion})
			if err != nil {
				t.Fatal(err)
			}
			if i%10 == 9 {
				if _, err := store.Prune(t.Context(), "ratings", publish.Retention{Keep: 3}); err != nil {
					t.Fatal(err)
				}
			}
			if i%50 == 49 && !serves(manifest.Version) {
				t.Fatalf("version %d is not served", manifest.Version)
			}
		}
	}
	reload := func(n int) {
		t.Helper()
		for range n {
			if status, body := post(t, base+"/-/reload"); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
		}
	}
	publish(rounds / 10)
	reload(rounds / 10)
	goroutines, files := runtime.NumGoroutine(), descriptors()
	publish(rounds)
	reload(rounds)
	const allowed = 5
	var nowGoroutines, nowFiles int
	daemontest.Within(t, daemontest.Patience, "goroutines and descriptors as before", func() bool {
		nowGoroutines, nowFiles = runtime.NumGoroutine(), descriptors()
		return nowGoroutines <= goroutines+allowed && nowFiles <= files+allowed
	})
	t.Logf("%d versions and %d reloads: goroutines %d, then %d; descriptors %d, then %d; announced %v times", rounds,
		rounds, goroutines, nowGoroutines, files, nowFiles,
		metric(`refitd_announcements_total{model="ratings",result="success"}`))
}
