package daemon_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
)

// J3: on a stream that has gone quiet a version lives on for as long as the daemon does, over HTTP and for a consumer
// with the key, and not much longer; the publish log does not grow.
func TestIdleStreamDoesNotExpire(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	const life = 3 * time.Second
	b, err := os.ReadFile(a.path)
	if err == nil {
		err = os.WriteFile(a.path,
			[]byte(strings.Replace(string(b), "update_every: 50ms", "update_every: 50ms, expires_after: 3s", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := snapshot.Watch(snapshot.DirSource{Dir: a.dir}, snapshot.WatchOptions{Model: "ratings", Trust: a.trust})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	a.start()
	a.ProduceRatings(1, 600)
	daemontest.Within(t, daemontest.Patience, "a champion",
		func() bool { version, _ := a.served(); return number(version) > 0 && w.Model() != nil })
	version := int64(0)
	daemontest.Within(t, daemontest.Patience, "the last update", func() bool {
		before := version
		version = a.champion().Version
		return version == before && time.Since(a.champion().Created) > life // which it has outlived
	})
	log := func() string {
		b, err := os.ReadFile(filepath.Join(a.dir, "ratings", "log.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := log()
	daemontest.Throughout(t, 3*life, func() {
		if v, status := a.served(); status != http.StatusOK || number(v) != version {
			t.Fatalf("status %d, version %s, want %d, %v after it was made", status, v, version,
				time.Since(w.Status().Created))
		}
		if answer, err := http.Get("http://" + a.daemon.Addr() + "/-/ready"); err != nil ||
			answer.Body.Close() != nil ||
			answer.StatusCode != http.StatusOK {
			t.Fatalf("ready: %+v, %v", answer, err)
		}
		if m := w.Model(); m == nil {
			t.Fatalf("the consumer has no model: %+v", w.Status())
		}
	})
	if s := w.Status(); time.Since(s.Renewed) > life || s.Loads > version {
		t.Errorf("status %+v", s)
	}
	if log() != before {
		t.Error("the publish log has grown")
	}
	a.stop()
	daemontest.Within(t, daemontest.Patience, "the end of its life without the daemon",
		func() bool { return w.Model() == nil && w.Status().Expired })
	if _, err := a.trust.Open(a.dir, "ratings", snapshot.Selector{}); !errors.Is(err, snapshot.ErrExpired) {
		t.Errorf("opened: %v, want ErrExpired", err)
	}
}
