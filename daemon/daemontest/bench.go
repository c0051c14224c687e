// Package daemontest runs models of the daemon on an embedded broker, for the tests of the daemon and of the verbs.
package daemontest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/broker"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// Quiet is a log that nobody reads.
func Quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Bench is an embedded broker with one topic of four partitions, and a directory for configurations and states.
type Bench struct {
	T      *testing.T
	Dir    string
	Addr   string
	Broker *broker.Broker
	Kafka  *kgo.Client
}

// Topic is the topic of a bench.
const Topic = "ratings"

// New starts a bench, which ends with the test.
func New(t *testing.T) *Bench {
	t.Helper()
	b := &Bench{T: t, Dir: t.TempDir()}
	b.StartBroker("127.0.0.1:0")
	return b
}

// StartBroker starts the broker and makes the topic.
func (b *Bench) StartBroker(listen string) {
	b.T.Helper()
	b.Broker = StartBroker(b.T, filepath.Join(b.Dir, "broker"), listen)
	b.Addr = b.Broker.Addr()
	var err error
	if err = b.Broker.CreateTopic(b.T.Context(), Topic, 4, 0); err != nil {
		b.T.Fatal(err)
	}
	if b.Kafka, err = kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.DefaultProduceTopic(Topic)); err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(b.Kafka.Close)
}

// Rating is a record with planted structure: the level depends on a product of user and item traits.
func Rating(r *rand.Rand) []byte {
	u, v := r.IntN(60), r.IntN(40)
	trait := func(n int) float64 { return float64(n%7)/3 - 1 }
	level := 3 + int(2.4*trait(u)*trait(v*3)+0.5*r.NormFloat64())
	return fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":%d}`, u, v, min(max(level, 1), 5),
		1700000000000+int64(r.IntN(1e6)))
}

// Produce sends values to the topic, spread over its partitions.
func (b *Bench) Produce(values ...[]byte) {
	b.T.Helper()
	b.ProduceTo(Topic, values...)
}

// ProduceTo is Produce to another topic.
func (b *Bench) ProduceTo(topic string, values ...[]byte) {
	b.T.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: v, Key: fmt.Append(nil, len(records))})
	}
	for some := range slices.Chunk(records, 400) { // small batches: a fetch holds at least one whole
		if err := b.Kafka.ProduceSync(b.T.Context(), some...).FirstErr(); err != nil {
			b.T.Fatal(err)
		}
	}
}

// ProduceRatings produces n values of Rating, drawn from a seed.
func (b *Bench) ProduceRatings(seed uint64, n int) {
	b.T.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	values := make([][]byte, n)
	for i := range values {
		values[i] = Rating(r)
	}
	b.Produce(values...)
}

// Configure writes a configuration with its own state and store and returns its path. edit may replace parts of the
// text.
func (b *Bench) Configure(name string, edit ...string) string {
	b.T.Helper()
	text := fmt.Sprintf(`
kafka: {bootstrap_servers: [%q], group_id: g-%s, fetch_max_wait: 100ms}
storage: {path: state-%s, min_free_bytes: 1MiB}
web: {listen_address: "127.0.0.1:0"}
models:
  - name: ratings
    input: {topics: [%s], start: earliest}
    schema: {task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]}
    sample: {size: 20000, seed: 42, holdout: {fraction: 0.1}}
    train: {every: 0s, every_events: 0, max_basis: 4, lambda: auto}
    evaluate: {window: 1000}
    publish: {store: store-%s, update_every: 0s, gate: {min_rows: 20}}
`, b.Addr, name, name, Topic, name)
	path := filepath.Join(b.Dir, name+".yaml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer(edit...).Replace(text)), 0o644); err != nil {
		b.T.Fatal(err)
	}
	return path
}

// Simple are the edits of a configuration whose refits are quick.
var Simple = []string{"lambda: auto", "lambda: 3", "max_basis: 4", "max_basis: 2"}

// Outcome is what a run printed.
type Outcome struct {
	Lines   []map[string]any
	Summary report.RunSummary
	Err     error
}

// Run runs a configuration to the log ends in this process.
func (b *Bench) Run(path string) Outcome {
	b.T.Helper()
	conf, err := config.Load(path)
	if err != nil {
		b.T.Fatal(err)
	}
	var out bytes.Buffer
	d, err := daemon.New(b.T.Context(),
		daemon.Options{Config: conf, UntilEnd: true, Out: report.NewEmitter(&out, true), Log: Quiet()})
	if err == nil {
		err = d.Run(b.T.Context())
	}
	return Parse(b.T, out.Bytes(), err)
}

// Start runs a configuration in this process until stop is called, which fails the test if the run ended in an error.
func (b *Bench) Start(path string) (d *daemon.Daemon, stop func()) {
	b.T.Helper()
	conf, err := config.Load(path)
	if err != nil {
		b.T.Fatal(err)
	}
	if d, err = daemon.New(b.T.Context(), daemon.Options{Config: conf, Out: report.NewEmitter(io.Discard, true),
		Log: Quiet()}); err != nil {
		b.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.T.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return d, func() {
		b.T.Helper()
		cancel()
		if err := <-done; err != nil {
			b.T.Fatal(err)
		}
	}
}

// Parse reads the JSON Lines that a run printed, and keeps the error that it ended with.
func Parse(t *testing.T, out []byte, err error) Outcome {
	t.Helper()
	o := Outcome{Err: err}
	for line := range bytes.Lines(out) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if o.Lines = append(o.Lines, m); m["type"] == "summary" {
			if err := json.Unmarshal(line, &o.Summary); err != nil {
				t.Fatal(err)
			}
		}
	}
	return o
}

// Count returns how many lines have a type.
func (o *Outcome) Count(kind string) (n int) {
	for _, l := range o.Lines {
		if l["type"] == kind {
			n++
		}
	}
	return n
}

// State is the STATE of the first model, without what differs between two copies.
func (o *Outcome) State(t *testing.T) report.State {
	t.Helper()
	if len(o.Summary.Models) == 0 {
		t.Fatalf("no summary: %v", o.Err)
	}
	s := o.Summary.Models[0].State
	s.Lineage = ""
	return s
}

// Patience is how long a test waits for what happens within a second on a machine that does nothing else.
const Patience = 2 * time.Minute

// Within calls f until it returns true, and fails the test if it does not in time.
func Within(t *testing.T, limit time.Duration, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
		<-tick.C
	}
}

// Throughout calls f again and again for as long as it says: f ends the test where something is not as it should be.
func Throughout(t *testing.T, span time.Duration, f func()) {
	t.Helper()
	end := time.After(span)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		f()
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// Load is a configuration and its model.
func Load(t *testing.T, path string) (*config.Config, *config.Model, string) {
	t.Helper()
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return conf, &conf.Models[0], conf.StatePath(&conf.Models[0])
}

// Balanced checks the accounting identity of every partition and returns the sum of applied.
func Balanced(t *testing.T, s report.State) (applied int64) {
	t.Helper()
	for _, p := range s.Partitions {
		if p.Applied+p.Rejected+p.Control+p.Aborted+p.Holes+p.Gap != p.Next-p.Start {
			t.Errorf("partition %d does not add up: %+v", p.Partition, p)
		}
		applied += p.Applied
	}
	return applied
}
