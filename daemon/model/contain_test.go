package model

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// pair are two models, a and b, on one topic of 2000 ratings.
type pair struct {
	options part.Options // of both, but for Settings
	a, b    *Model
	seen    func(report.Version) // may be nil
}

// newPair makes a topic and the models that read it.
func newPair(t *testing.T, log io.Writer) *pair {
	t.Helper()
	return newPairOf(t, log, func(i int) int { return 1 + (i%50*(i%31))%5 })
}

// newPairOf is newPair with the rating of each event.
func newPairOf(t *testing.T, log io.Writer, rating func(i int) int) *pair {
	t.Helper()
	const topic = "ratings"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range 2000 {
		cl.Produce(t.Context(),
			&kgo.Record{Value: fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d}`, i%50, i%31, rating(i))}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	model := func(name, label string) string {
		return fmt.Sprintf(`
  - name: %s
    input: {topics: [%s], start: earliest}
    schema: {task: ordinal, label: %s, levels: 5, categorical: [user, item]}
    sample: {size: 20000, seed: 42}
    train: {every: 100ms, max_basis: 2}
    publish: {store: store, update_every: 100ms, gate: {min_rows: 20}}
`, name, topic, label)
	}
	text := fmt.Sprintf("kafka: {bootstrap_servers: [%q], group_id: g, fetch_max_wait: 100ms}\n"+
		"storage: {path: state, min_free_bytes: 1MiB}\nweb: {listen_address: '127.0.0.1:0'}\nmodels:%s%s",
		cluster.ListenAddrs()[0], model("a", "rating"), model("b", "rating"))
	conf, err := config.Parse(filepath.Join(t.TempDir(), "pair.yaml"), []byte(text),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{
		options: part.Options{
			Config:  conf,
			Share:   new(consumer.Share),
			Crashes: new(sync.Mutex),
			Out:     report.NewEmitter(io.Discard, true),
			Log:     slog.New(slog.NewTextHandler(log, nil)),
		},
	}
	p.open(t)
	return p
}

// open makes the models anew on the states they left. They are closed with the test.
func (p *pair) open(t *testing.T) {
	t.Helper()
	p.options.Metrics = metrics.New(prometheus.NewRegistry())
	p.options.OnVersion = func(v report.Version) {
		if p.seen != nil {
			p.seen(v)
		}
	}
	p.options.Siblings = func() []part.Sibling { return []part.Sibling{p.a, p.b} }
	for i, m := range []**Model{&p.a, &p.b} {
		o := p.options
		o.Settings, o.Registerer = &p.options.Config.Models[i], prometheus.NewRegistry()
		var err error
		if *m, err = New(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := (*m).Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// onVersion has f called with every version of either model. Call it before start.
func (p *pair) onVersion(f func(report.Version)) {
	p.seen = f
}

// run runs both models, as the daemon does, until ctx is done or one of them fails.
func (p *pair) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.a.Run(ctx) })
	group.Go(func() error { return p.b.Run(ctx) })
	return group.Wait()
}

// start runs both models until stop.
func (p *pair) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// until polls.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within a minute", what)
		case <-tick.C:
		}
	}
}

// TestTroubleOfOneModelIsItsOwn has the trainer of model a panic at first, then its publisher, then neither: the daemon
// stays up, model b learns and publishes all the while, and model a does once it can.
func TestTroubleOfOneModelIsItsOwn(t *testing.T) {
	t.Parallel()
	var log locked.Buffer
	p := newPair(t, &log)
	a, b := p.a, p.b
	fit, write := a.trainer.Fit, a.versions.Write
	var phase, fits, writes atomic.Int32
	a.trainer.Fit = func(ctx context.Context, s *encode.Sample) (*fitted.Fitted, error) {
		if phase.Load() == 0 {
			fits.Add(1)
			a.reader.Applied.Add(1) // as if more came, so that the next refit is due
			panic("fit")
		}
		return fit(ctx, s)
	}
	a.versions.Write = func(p *publish.Publication, ctx context.Context, ch *fitted.Fitted) error {
		if phase.Load() == 1 {
			writes.Add(1)
			a.reader.Applied.Add(1)
			panic("write")
		}
		return write(p, ctx, ch)
	}
	published := make(map[string]int)
	var mu sync.Mutex
	p.onVersion(func(v report.Version) {
		mu.Lock()
		defer mu.Unlock()
		published[v.Model]++
	})
	count := func(model string) int {
		mu.Lock()
		defer mu.Unlock()
		return published[model]
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	until(t, "panics of the trainer", func() bool { return fits.Load() >= 3 && count("b") >= 1 })
	phase.Store(1)
	until(t, "panics of the publisher", func() bool { return writes.Load() >= 3 })
	if n := count("a"); n > 0 {
		t.Errorf("model a published %d versions", n)
	}
	phase.Store(2)
	a.reader.Applied.Add(1)
	until(t, "a version of model a", func() bool {
		return count("a") >= 1 && a.reader.Applied.Load() >= 2000 && b.reader.Applied.Load() == 2000
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, text := range []string{`msg="refit failed" model=a error="panic: fit"`,
		`msg="publish failed" model=a kind=refit error="panic: write"`} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not say %s", text)
		}
	}
}

// TestStorageErrorOfOneModelEndsAll: what is in doubt on disk is not worked around.
func TestStorageErrorOfOneModelEndsAll(t *testing.T) {
	t.Parallel()
	p := newPair(t, io.Discard)
	if err := p.a.state.Close(); err != nil { // what comes to be stored is refused
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := p.run(ctx); report.CodeOf(err) != report.ExitState || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
}
