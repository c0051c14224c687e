package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"
)

// postScore asks a model of a running daemon for the score of one pair.
func postScore(t *testing.T, base, version, user, item string) (status int, answer struct {
	Version    int64
	AgeSeconds float64   `json:"age_seconds"`
	Watermark  time.Time `json:"event_time_watermark"`
	Live       *struct{ Signed, Gated bool }

	Predictions []struct {
		Outputs []float64
		Unseen  []string
	}
	Error string
}) {
	t.Helper()
	r, err := http.Post(
		base+"/v1/models/ratings"+version+"/score",
		"application/json",
		strings.NewReader(fmt.Sprintf(`{"events":[{"user":%q,"item":%q}]}`, user,
			item)),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return r.StatusCode, answer
}

// TestServeLive: with serve.live the live model is there by its name, knows what the version does not, and a reload
// turns it off.
func TestServeLive(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	edits := []string{"every_events: 0", "every_events: 1000", "evaluate:", "serve: {live: true}\n    evaluate:"}
	path := b.Configure("live", append(edits, daemontest.Simple...)...)
	d, _, stop := startWith(b, path)
	defer stop()
	base := "http://" + d.Addr()
	if status, a := postScore(t, base, "/versions/live", "u1", "i1"); status != http.StatusNotFound ||
		strings.Contains(a.Error, "serve.live") {
		t.Errorf("before the first version: %d %s", status, a.Error)
	}
	b.ProduceRatings(31, 1500)
	daemontest.Within(t, daemontest.Patience, "a version", func() bool {
		status, _ := postScore(t, base, "", "u1", "i1")
		return status == http.StatusOK
	})
	b.Produce([]byte(`{"user":"nobody","item":"i1","rating":5,"ts":1700009000000}`))
	daemontest.Within(t, daemontest.Patience, "what was learned, in the live model", func() bool {
		status, a := postScore(t, base, "/versions/live", "nobody", "i1")
		if status == http.StatusNotFound { // the version is installed after it is published
			return false
		}
		if status != http.StatusOK || a.Version != 0 || a.Live == nil || a.Live.Signed || a.Live.Gated ||
			a.AgeSeconds > 30 {
			t.Fatalf("%d %+v", status, a)
		}
		return len(a.Predictions[0].Unseen) == 0 && a.Watermark.UnixMilli() == 1700009000000
	})
	if _, a := postScore(t, base, "", "nobody", "i1"); len(a.Predictions[0].Unseen) != 1 || a.Version == 0 ||
		a.Live != nil {
		t.Errorf("the version: %+v", a)
	}
	edit(t, path, "live: true", "live: false")
	if status, body := post(t, base+"/-/reload"); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, body)
	}
	if status, a := postScore(t, base, "/versions/live", "u1", "i1"); status != http.StatusNotFound ||
		!strings.Contains(a.Error, "serve.live: true") {
		t.Errorf("turned off: %d %s", status, a.Error)
	}
}
