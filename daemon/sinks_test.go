package daemon_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/kafkasource"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// announced reads the whole topic of announcements.
func announced(b *daemontest.Bench, topic string) (list []*kafkasource.Announcement) {
	b.T.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		b.T.Fatal(err)
	}
	defer reader.Close()
	ends, err := kadm.NewClient(reader).ListEndOffsets(b.T.Context(), topic)
	if err != nil {
		b.T.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0) // announcements have one partition
	for next := int64(0); next < end.Offset; {
		fetches := reader.PollFetches(b.T.Context())
		if err := fetches.Err(); err != nil {
			b.T.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			a, err := kafkasource.Read(r)
			if err != nil {
				b.T.Fatal(err)
			}
			list, next = append(list, a), r.Offset+1
		})
	}
	return list
}

// TestStoreAway: E12. While the store of versions cannot be written to, reading continues, consumers keep what they
// have and the topic announces nothing that the store does not hold. Once it can be written to, the same refit is
// published without another event, and announced.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(31, 1500)
	d, log, stop := startWith(
		b,
		b.Configure("w", "every_events: 0", "every_events: 500", "update_every: 0s",
			"update_every: 0s, topic: champions"),
	)
	base := "http://" + d.Addr()
	metric := func(name string) float64 {
		_, text := daemontest.Get(t, base+"/metrics")
		return daemontest.Sum(t, text, name)
	}
	caught := func(n int) { // every refit that is due has ended
		t.Helper()
		daemontest.Within(t, daemontest.Patience, fmt.Sprint(n, " events applied"),
			func() bool { return metric("refitd_events_total") == float64(n) })
	}
	caught(1500)
	daemontest.Within(t, daemontest.Patience, "an announcement",
		func() bool { return metric(`refitd_announcements_total{model="ratings",result="success"}`) > 0 })
	serves := func() bool { status, _ := daemontest.Get(t, base+"/v2/health/ready"); return status == http.StatusOK }
	daemontest.Within(t, daemontest.Patience, "the champion loaded", serves)
	model := filepath.Join(b.Dir, "store-w", "ratings")
	if err := os.Rename(model, model+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(model, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := len(announced(b, "champions"))
	b.ProduceRatings(32, 600)
	failures := `refitd_publish_total{model="ratings",result="failure"}`
	daemontest.Within(t, daemontest.Patience, "a failure", func() bool { return metric(failures) > 0 })
	caught(2100)
	if !serves() {
		t.Error("without the store the daemon does not serve the champion that it has")
	}
	daemontest.Within(t, daemontest.Patience, "a daemon that says that its store is away", func() bool {
		status, text := daemontest.Get(t, base+"/-/ready")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "store")
	})
	if n := len(announced(b, "champions")); n != before {
		t.Errorf("%d announcements while the store was away", n-before)
	}
	daemontest.Within(t, daemontest.Patience, "another attempt", func() bool { return metric(failures) > 1 })

	if err := os.Remove(model); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(model+".away", model); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	store := publish.NewStore(filepath.Join(b.Dir, "store-w"))
	latest := func() snapshot.Pointer {
		p, err := store.Alias("ratings", snapshot.Latest)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	was := latest().Version
	daemontest.Within(t, daemontest.Patience, "the version that waited", func() bool { return latest().Version > was })
	daemontest.Within(t, daemontest.Patience, "a daemon that is ready again", func() bool {
		status, _ := daemontest.Get(t, base+"/-/ready")
		return status == http.StatusOK
	})
	t.Logf("published %v after the store was back (bar 60s)", time.Since(back))
	stop()
	list, versions := announced(b, "champions"), map[int64]string{}
	for _, a := range list {
		m, err := store.Manifest("ratings", a.Version)
		if err != nil {
			t.Errorf("version %d was announced and is not in the store: %v", a.Version, err)
			continue
		}
		if known, ok := versions[a.Version]; ok && known != a.Digest || m.PayloadDigest != a.Digest {
			t.Errorf("version %d has several payloads: %s, %s, %s", a.Version, known, a.Digest, m.PayloadDigest)
		}
		versions[a.Version] = a.Digest
	}
	champion, err := store.Alias("ratings", pointer.Champion)
	if err != nil || len(list) == 0 || list[len(list)-1].ManifestDigest != champion.ManifestDigest {
		t.Errorf("the champion %+v (%v) is not the one announced last, of %d", champion, err, len(list))
	}
	if !strings.Contains(log.String(), "publish failed") {
		t.Error("the failure was not logged")
	}
}
