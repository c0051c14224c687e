package daemon_test

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
	"go.uber.org/goleak"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/quickstart"
	"github.com/refitd/refitd/daemon/report"
)

// childConfig names the configuration that a child process runs to the log ends or, with childEndless, until it is killed.
const (
	childConfig  = "REFITD_TEST_CONFIG"
	childEndless = "REFITD_TEST_ENDLESS"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childConfig); path != "" {
		os.Exit(child(path))
	}
	if dir := os.Getenv(childBroker); dir != "" {
		os.Exit(serve(dir))
	}
	goleak.VerifyTestMain(m)
}

// child is `refitd run [--until end] --json`.
func child(path string) int {
	conf, err := config.Load(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return report.ExitUsage
	}
	d, err := daemon.New(context.Background(), daemon.Options{Config: conf, UntilEnd: os.Getenv(childEndless) == "", Out: report.NewEmitter(os.Stdout, true), Log: quiet()})
	if err == nil {
		err = d.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return report.CodeOf(err)
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// bench is an embedded broker with one topic of four partitions, and a directory for configurations and states.
type bench struct {
	t      *testing.T
	dir    string
	addr   string
	broker *quickstart.Broker
	kafka  *kgo.Client
}

const topic = "ratings"

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	b.startBroker("127.0.0.1:0")
	return b
}

// startBroker starts the broker and makes the topic.
func (b *bench) startBroker(listen string) {
	b.t.Helper()
	var err error
	if b.broker, err = quickstart.StartBroker(quickstart.BrokerOptions{Dir: filepath.Join(b.dir, "broker"), Listen: listen, Logger: quiet()}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.broker.Close)
	b.addr = b.broker.Addr()
	if err := b.broker.CreateTopic(b.t.Context(), topic, 4, 0); err != nil {
		b.t.Fatal(err)
	}
	if b.kafka, err = kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.DefaultProduceTopic(topic)); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.kafka.Close)
}

// rating is a record with planted structure: the level depends on a product of user and item traits.
func rating(r *rand.Rand) []byte {
	u, v := r.IntN(60), r.IntN(40)
	trait := func(n int) float64 { return float64(n%7)/3 - 1 }
	level := 3 + int(2.4*trait(u)*trait(v*3)+0.5*r.NormFloat64())
	return fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":%d}`, u, v, min(max(level, 1), 5), 1700000000000+int64(r.IntN(1e6)))
}

// produce sends values to the topic, spread over its partitions.
func (b *bench) produce(values ...[]byte) {
	b.t.Helper()
	b.produceTo(topic, values...)
}

func (b *bench) produceTo(topic string, values ...[]byte) {
	b.t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: v, Key: fmt.Append(nil, len(records))})
	}
	for some := range slices.Chunk(records, 400) { // small batches: a fetch holds at least one whole
		if err := b.kafka.ProduceSync(b.t.Context(), some...).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) produceRatings(seed uint64, n int) {
	b.t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	values := make([][]byte, n)
	for i := range values {
		values[i] = rating(r)
	}
	b.produce(values...)
}

// configure writes a configuration with its own state and store and returns its path. edit may replace parts of the text.
func (b *bench) configure(name string, edit ...string) string {
	b.t.Helper()
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
`, b.addr, name, name, topic, name)
	path := filepath.Join(b.dir, name+".yaml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer(edit...).Replace(text)), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// outcome is what a run printed.
type outcome struct {
	lines   []map[string]any
	summary report.RunSummary
	err     error
}

// run runs a configuration to the log ends in this process.
func (b *bench) run(path string) outcome {
	b.t.Helper()
	conf, err := config.Load(path)
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	d, err := daemon.New(b.t.Context(), daemon.Options{Config: conf, UntilEnd: true, Out: report.NewEmitter(&out, true), Log: quiet()})
	if err == nil {
		err = d.Run(b.t.Context())
	}
	return parse(b.t, out.Bytes(), err)
}

// start runs a configuration in this process until stop is called, which fails the test if the run ended in an error.
func (b *bench) start(path string) (d *daemon.Daemon, stop func()) {
	b.t.Helper()
	conf, err := config.Load(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if d, err = daemon.New(b.t.Context(), daemon.Options{Config: conf, Out: report.NewEmitter(io.Discard, true), Log: quiet()}); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return d, func() {
		b.t.Helper()
		cancel()
		if err := <-done; err != nil {
			b.t.Fatal(err)
		}
	}
}

func parse(t *testing.T, out []byte, err error) outcome {
	t.Helper()
	o := outcome{err: err}
	for line := range bytes.Lines(out) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if o.lines = append(o.lines, m); m["type"] == "summary" {
			if err := json.Unmarshal(line, &o.summary); err != nil {
				t.Fatal(err)
			}
		}
	}
	return o
}

func (o *outcome) count(kind string) (n int) {
	for _, l := range o.lines {
		if l["type"] == kind {
			n++
		}
	}
	return n
}

// state is the STATE of the first model, without what differs between two copies.
func (o *outcome) state(t *testing.T) report.State {
	t.Helper()
	if len(o.summary.Models) == 0 {
		t.Fatalf("no summary: %v", o.err)
	}
	s := o.summary.Models[0].State
	s.Lineage = ""
	return s
}

// within calls f until it returns true, and fails the test if it does not in time.
func within(t *testing.T, limit time.Duration, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
		<-tick.C
	}
}
