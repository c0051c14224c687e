package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
)

// readiness is what /-/ready answers.
type readiness struct {
	Ready   bool
	Reasons []string
	Models  []struct {
		Model   string
		Ready   bool
		Reasons []string
	}
}

// askReady returns the status and the answer of /-/ready. They, its models and the metrics say the same.
func askReady(t *testing.T, base, query string) (status int, r readiness) {
	t.Helper()
	status, body := daemontest.Get(t, base+"/-/ready"+query)
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if r.Ready != (status == http.StatusOK) || r.Ready != (len(r.Reasons) == 0) {
		t.Errorf("%d with %s", status, body)
	}
	all := true
	for _, m := range r.Models {
		if all = all && m.Ready; m.Ready != (len(m.Reasons) == 0) {
			t.Errorf("%s: ready %t for %q", m.Model, m.Ready, m.Reasons)
		}
	}
	if all != r.Ready {
		t.Errorf("of the models: %s", body)
	}
	return status, r
}

// notReadyFor waits until a model is not ready for a reason, in the answer as in the metrics.
func notReadyFor(t *testing.T, base, model, cause, text string) {
	t.Helper()
	daemontest.Within(t, daemontest.Patience, "not ready: "+cause, func() bool {
		status, r := askReady(t, base, "?model="+model)
		_, metrics := daemontest.Get(t, base+"/metrics")
		return status == http.StatusServiceUnavailable && len(r.Models) == 1 &&
			strings.Contains(strings.Join(r.Models[0].Reasons, "\n"), text) &&
			strings.Contains(metrics, fmt.Sprintf("refitd_model_not_ready{model=%q,reason=%q} 1", model, cause)) &&
			strings.Contains(metrics, fmt.Sprintf("refitd_model_ready{model=%q} 0", model))
	})
}

// startHalting runs a configuration, of which partitions halt, until stop.
func startHalting(b *daemontest.Bench, path string) (base string, stop func()) {
	b.T.Helper()
	conf, err := config.Load(path)
	if err != nil {
		b.T.Fatal(err)
	}
	d, err := daemon.New(b.T.Context(),
		daemon.Options{Config: conf, Out: report.NewEmitter(io.Discard, true), Log: daemontest.Quiet()})
	if err != nil {
		b.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.T.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return "http://" + d.Addr(), func() {
		b.T.Helper()
		cancel()
		if err := <-done; report.CodeOf(err) != report.ExitHalted {
			b.T.Error(err)
		}
	}
}

// TestReadyOfHaltedModel: a model of which every partition has halted is not ready, and with it the daemon; the other
// model is. One halted partition of several is a separate alert.
func TestReadyOfHaltedModel(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), "others", 1, 0); err != nil {
		t.Fatal(err)
	}
	b.ProduceTo("others", []byte(`{"user":"u1","item":"i1","rating":3,"ts":1700000000000}`))
	b.ProduceRatings(61, 400)
	path := b.Configure("h")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, model, _ := strings.Cut(string(text), "models:\n")
	model = strings.NewReplacer("name: ratings", "name: others", "topics: [ratings]", "topics: [others]").Replace(model)
	if err := os.WriteFile(path, append(text, model...), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := b.Run(path); o.Err != nil {
		t.Fatal(o.Err)
	}
	b.ProduceRatings(62, 400)
	_, ends := daemontest.LogRange(t, daemontest.Client(t, b.Addr), daemontest.Topic, 4)
	remove := func(partitions ...int32) {
		t.Helper()
		cut := kadm.Offsets{}
		for _, p := range partitions {
			cut.Add(kadm.Offset{Topic: daemontest.Topic, Partition: p, At: ends[p] - 10})
		}
		if _, err := kadm.NewClient(b.Kafka).DeleteRecords(t.Context(), cut); err != nil {
			t.Fatal(err)
		}
	}
	remove(0)
	base, stop := startHalting(b, path)
	daemontest.Within(t, daemontest.Patience, "one partition halted, and ready", func() bool {
		_, metrics := daemontest.Get(t, base+"/metrics")
		status, _ := askReady(t, base, "")
		return status == http.StatusOK && daemontest.Sum(t, metrics, "refitd_consumer_halted_partitions") == 1
	})
	stop()
	b.ProduceRatings(63, 400)
	_, ends = daemontest.LogRange(t, daemontest.Client(t, b.Addr), daemontest.Topic, 4)
	remove(0, 1, 2, 3)
	base, stop = startHalting(b, path)
	defer stop()
	notReadyFor(t, base, "ratings", "halted", "halted: each of its 4 partitions")
	daemontest.Within(t, daemontest.Patience, "the other model", func() bool {
		status, r := askReady(t, base, "?model=others")
		return status == http.StatusOK && len(r.Models) == 1
	})
	if status, r := askReady(t, base, ""); status != http.StatusServiceUnavailable || len(r.Models) != 2 ||
		r.Models[0].Ready ||
		!r.Models[1].Ready ||
		!strings.HasPrefix(r.Reasons[0], "ratings: halted") {
		t.Errorf("%d %+v", status, r)
	}
	if status, _ := daemontest.Get(t, base+"/-/ready?model=none"); status != http.StatusNotFound {
		t.Errorf("no such model: %d", status)
	}
}

// TestReadyOfLostStore: a store that does not take versions makes the model not ready, until it takes one.
func TestReadyOfLostStore(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(64, 1500)
	d, _, stop := startWith(b, b.Configure("l", daemontest.Simple...))
	defer stop()
	base := "http://" + d.Addr()
	refit := func() {
		t.Helper()
		if status, body := post(t, base+"/-/refit?model=ratings"); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, body)
		}
	}
	daemontest.Within(t, daemontest.Patience, "all events, and ready", func() bool {
		_, metrics := daemontest.Get(t, base+"/metrics")
		status, _ := askReady(t, base, "")
		return status == http.StatusOK && daemontest.Sum(t, metrics, "refitd_events_total") == 1500
	})
	refit()
	daemontest.Within(t, daemontest.Patience, "a champion", func() bool {
		status, _ := daemontest.Get(t, base+"/v2/health/ready")
		return status == http.StatusOK
	})
	store := filepath.Join(b.Dir, "store-l")
	if err := os.Rename(store, store+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refit()
	notReadyFor(t, base, "ratings", "store", "store: ")
	if err := os.Remove(store); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(store+".away", store); err != nil {
		t.Fatal(err)
	}
	daemontest.Within(t, daemontest.Patience, "ready again", func() bool {
		status, _ := askReady(t, base, "")
		return status == http.StatusOK
	})
}

// TestReadyWhileRenewed: a version that would have expired without events is renewed, and its model stays ready.
func TestReadyWhileRenewed(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(65, 1500)
	const life = 2 * time.Second
	d, _, stop := startWith(b, b.Configure("w", append(daemontest.Simple, "every_events: 0", "every_events: 1000",
		"update_every: 0s", "update_every: 0s, expires_after: 2s")...))
	defer stop()
	base := "http://" + d.Addr()
	daemontest.Within(t, daemontest.Patience, "a champion", func() bool {
		status, _ := daemontest.Get(t, base+"/v2/health/ready")
		return status == http.StatusOK
	})
	daemontest.Throughout(t, 2*life, func() {
		if status, r := askReady(t, base, ""); status != http.StatusOK {
			t.Fatalf("%d %q", status, r.Reasons)
		}
	})
}
