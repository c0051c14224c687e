package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/daemontest/published"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/part"
	publishing "github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A network whose connections can be made to hang: nothing is written or read any more, and nothing fails.
type network struct {
	mu   sync.Mutex
	hung chan struct{} // closed when it answers again
}

func (n *network) hang() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hung = make(chan struct{})
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hung != nil {
		close(n.hung)
		n.hung = nil
	}
}

func (n *network) wait() {
	n.mu.Lock()
	hung := n.hung
	n.mu.Unlock()
	if hung != nil {
		<-hung
	}
}

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.wait()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return hangingConn{conn, n}, err
}

type hangingConn struct {
	net.Conn
	n *network
}

func (c hangingConn) Write(b []byte) (int, error) {
	c.n.wait()
	return c.Conn.Write(b)
}

func (c hangingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.wait()
	return n, err
}

// trainers are a shard and two trainers of a model, on a broker in memory and one store of versions.
type trainers struct {
	*testing.T
	dir     string
	addr    string
	kafka   *kgo.Client
	shard   *Model
	models  [2]*Model
	configs map[string]*config.Config // by process
	nets    [2]*network
	log     locked.Buffer
	events  int
}

const standbyFor = 3 * time.Second // less than that a busy machine does not answer within, now and then

func newTrainers(t *testing.T) *trainers {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "ratings"),
		kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	tr := &trainers{T: t, configs: make(map[string]*config.Config), dir: t.TempDir(), addr: cluster.ListenAddrs()[0]}
	if tr.kafka, err = kgo.NewClient(kgo.SeedBrokers(tr.addr), kgo.DefaultProduceTopic("ratings")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.kafka.Close)
	tr.produce(1000)
	tr.shard = tr.open("shard", "shard", ", index: 0", nil)
	for i := range tr.models {
		tr.nets[i] = new(network)
		tr.models[i] = tr.open(fmt.Sprint("trainer", i), "trainer", fmt.Sprintf(", standby: %v", standbyFor),
			tr.nets[i])
	}
	return tr
}

func (tr *trainers) produce(n int) {
	tr.Helper()
	for range n {
		i := tr.events
		tr.events++
		tr.kafka.Produce(
			tr.Context(),
			&kgo.Record{
				Value: fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d}`, i%50, i%31, 1+(i%50*(i%31))%5),
			},
			nil,
		)
	}
	if err := tr.kafka.Flush(tr.Context()); err != nil {
		tr.Fatal(err)
	}
}

func (tr *trainers) open(name, role, keys string, through *network) *Model {
	tr.Helper()
	text := fmt.Sprintf(`
kafka: {bootstrap_servers: [%q], group_id: %s, fetch_max_wait: 100ms}
storage: {path: state-%s, min_free_bytes: 1MiB}
role: %s
shard: {count: 1, topic: merge%s}
models:
  - name: m
    input: {topics: [ratings], start: earliest}
    schema: {task: ordinal, label: rating, levels: 5, categorical: [user, item]}
    sample: {size: 300, seed: 42, holdout: {fraction: 0.1}}
    train: {every: 100ms, max_basis: 2, lambda: 3}
    publish: {store: store, update_every: 0s, gate: {min_rows: 10}}
`, tr.addr, name, name, role, keys)
	conf, err := config.Parse(filepath.Join(tr.dir, name+".yaml"), []byte(text),
		func(string) (string, bool) { return "", false })
	if err != nil {
		tr.Fatal(err)
	}
	tr.configs[name] = conf
	if through != nil {
		conf.Kafka.Dial = through.dial
	}
	m, err := New(
		tr.Context(),
		part.Options{
			Config:     conf,
			Settings:   &conf.Models[0],
			Crashes:    new(sync.Mutex),
			Metrics:    metrics.New(prometheus.NewRegistry()),
			Registerer: prometheus.NewRegistry(),
			Out:        report.NewEmitter(new(locked.Buffer), true),
			Log:        slog.New(slog.NewTextHandler(&tr.log, nil)).With("process", name),
		},
	)
	if err != nil {
		tr.Fatal(err)
	}
	tr.Cleanup(func() {
		if err := m.Close(); err != nil {
			tr.Error(err)
		}
	})
	return m
}

// run runs a model until stop.
func (tr *trainers) run(m *Model) (stop func()) {
	ctx, cancel := context.WithCancel(tr.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return sync.OnceFunc(func() {
		tr.Helper()
		cancel()
		if err := <-done; err != nil {
			tr.Error(err)
		}
	})
}

// leader waits until exactly one trainer leads, and returns which.
func (tr *trainers) leader() (leader, other int) {
	tr.Helper()
	until(tr.T, "one trainer", func() bool {
		a, b := tr.models[0].role.Leads(), tr.models[1].role.Leads()
		if leader, other = 0, 1; b {
			leader, other = 1, 0
		}
		return a != b
	})
	return leader, other
}

// versions returns the manifests of all versions.
func (tr *trainers) versions() (list []snapshot.Manifest) {
	tr.Helper()
	store := publish.NewStore(filepath.Join(tr.dir, "store"))
	numbers, err := store.Versions("m")
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		tr.Fatal(err)
	}
	for _, v := range numbers {
		manifest, err := store.Manifest("m", v)
		if err != nil {
			tr.Fatal(err)
		}
		list = append(list, manifest)
	}
	return list
}

// check fails the test unless versions have the numbers from 1 on, in epochs that never fall, all are in the log, each
// once, and each alias was only moved forward.
func (tr *trainers) check() {
	tr.Helper()
	logged := func() (n int64) {
		for r, err := range publish.NewStore(filepath.Join(tr.dir, "store")).Log("m") {
			if err != nil {
				tr.Fatal(err)
			}
			n = r.Version
		}
		return n
	}
	until(tr.T, "the last version in the log", func() bool { return logged() == int64(len(tr.versions())) })
	versions := tr.versions()
	for i, v := range versions {
		if v.Version != int64(i+1) || i > 0 && v.Epoch < versions[i-1].Epoch {
			tr.Errorf("version %d of epoch %d after %d versions", v.Version, v.Epoch, i)
		}
	}
	published.Forward(tr.T, publish.NewStore(filepath.Join(tr.dir, "store")), "m")
}

// same waits until both trainers have the same sample, of everything produced.
func (tr *trainers) same() {
	tr.Helper()
	until(tr.T, "the same sample in both", func() bool {
		var digests [2]string
		for i, m := range tr.models {
			s, err := m.state.Store.State()
			if err != nil {
				tr.Fatal(err)
			}
			applied := int64(0)
			for _, l := range m.state.Store.Ledger() {
				applied += l.Applied
			}
			if applied != int64(tr.events) {
				return false
			}
			digests[i] = s.SampleDigest.String()
		}
		return digests[0] == digests[1]
	})
}

// TestStandby: one of two trainers trains and publishes, the other says so and follows. When the one that trains is
// cut off from the brokers in the midst of a refit, that refit is called off and the other one publishes within the
// session and 15 s; back again, the first is on standby with the same sample. A publication that was under way at the
// takeover comes to nothing. A trainer that ends gives way at once.
func TestStandby(t *testing.T) {
	t.Parallel()
	tr := newTrainers(t)
	var blocks [2]atomic.Bool
	calledOff, refitting := make(chan int, 10), make(chan int, 10)
	paused, goOn := make(chan int, 10), make(chan struct{})
	var pauses [2]atomic.Bool
	for i, m := range tr.models {
		fit, write := m.trainer.Fit, m.versions.Write
		m.trainer.Fit = func(ctx context.Context, s *encode.Sample) (*fitted.Fitted, error) {
			if blocks[i].Load() {
				refitting <- i
				<-ctx.Done()
				calledOff <- i
				return nil, ctx.Err()
			}
			return fit(ctx, s)
		}
		m.versions.Write = func(p *publishing.Publication, ctx context.Context, ch *fitted.Fitted) error {
			if pauses[i].Swap(false) {
				paused <- i
				<-goOn
				ctx = context.WithoutCancel(ctx) // as where nobody has looked at the clock yet
			}
			return write(p, ctx, ch)
		}
	}
	defer tr.run(tr.shard)()
	stops := [2]func(){tr.run(tr.models[0]), tr.run(tr.models[1])}
	defer func() { stops[0](); stops[1]() }()
	published := func(more int) {
		t.Helper()
		n := len(tr.versions())
		until(t, "versions", func() bool { return len(tr.versions()) >= n+more })
	}
	published(1)
	tr.produce(100)
	published(1)
	first, second := tr.leader()
	collected := NewCollector(tr.models[second:second+1], tr.configs[fmt.Sprint("trainer", second)])
	if err := testutil.CollectAndCompare(collected, strings.NewReader(`
# HELP refitd_trainer_leader With shard.standby: 1 if this trainer is the one that trains and publishes, 0 while another one is.
# TYPE refitd_trainer_leader gauge
refitd_trainer_leader{model="m"} 0
`), "refitd_trainer_leader"); err != nil {
		t.Error(err)
	}
	if got := tr.models[second].Status().Standby; !strings.HasPrefix(got, "standby: ") ||
		!strings.HasSuffix(got, " trains") {
		t.Errorf("the page says %q", got)
	}
	if err := tr.models[second].Refit(); err == nil || !strings.Contains(err.Error(), " trains: ask that one") {
		t.Errorf("a refit asked of a standby: %v", err)
	}
	if err := tr.shard.Refit(); err == nil || !strings.Contains(err.Error(), "ask the trainer") {
		t.Errorf("a refit asked of a shard: %v", err)
	}
	if list := tr.models[second].NotReady(); len(list) > 0 {
		t.Errorf("a standby is not ready: %v", list)
	}
	tr.same()

	// In the midst of a refit.
	blocks[first].Store(true)
	tr.produce(100)
	<-refitting
	n := len(tr.versions())
	tr.nets[first].hang()
	began := time.Now()
	until(t, "a version of the other", func() bool { return len(tr.versions()) > n })
	took := time.Since(began)
	t.Logf("the other published %v after the first was cut off, of a session of %v", took, standbyFor)
	if took > standbyFor+15*time.Second {
		t.Errorf("the other took %v", took)
	}
	select {
	case i := <-calledOff:
		if i != first {
			t.Errorf("trainer %d was called off", i)
		}
	case <-time.After(time.Minute):
		t.Error("the refit was not called off")
	}
	blocks[first].Store(false)
	if leader, _ := tr.leader(); leader != second {
		t.Errorf("trainer %d leads", leader)
	}
	tr.nets[first].heal()
	tr.produce(100)
	published(1)
	tr.same()
	until(t, "the champion of the other in the first", func() bool {
		a, b := tr.models[0].Status().Champion, tr.models[1].Status().Champion
		return a.Version == b.Version
	})
	if leader, _ := tr.leader(); leader != second {
		t.Errorf("trainer %d leads after the first came back", leader)
	}
	tr.check()

	// A publication under way.
	first, second = second, first
	pauses[first].Store(true)
	tr.produce(100)
	<-paused
	tr.nets[first].hang()
	published(1)
	close(goOn)
	tr.nets[first].heal()
	tr.produce(100)
	published(1)
	if leader, _ := tr.leader(); leader != second {
		t.Errorf("trainer %d leads after the second takeover", leader)
	}
	tr.same()
	tr.check()

	// At its end.
	began = time.Now()
	stops[second]()
	until(t, "the first again", tr.models[first].role.Leads)
	if took := time.Since(began); took > standbyFor {
		t.Logf("a trainer that ended was followed after %v: it had left the group", took)
	}
	tr.produce(100)
	published(1)
	tr.check()
	if log := tr.log.String(); !strings.Contains(log, "this trainer trains from now on") ||
		!strings.Contains(log, "this trainer is on standby from now on") {
		t.Error("the log does not say who trains")
	}
}

// TestStandbyForgets: subjects that were forgotten at one trainer, while it was stopped, are found by the other in
// the store of the versions: it ends, and takes them out when it starts again, before it trains; then it sends them
// to the shards.
func TestStandbyForgets(t *testing.T) {
	t.Parallel()
	tr := newTrainers(t)
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- tr.shard.Run(ctx) }()
	stops := [2]func(){tr.run(tr.models[0]), nil}
	until(t, "a version", func() bool { return len(tr.versions()) > 0 })
	running := make(chan error, 1)
	go func() { running <- tr.models[1].Run(ctx) }()
	tr.same()
	stops[0]()
	if _, err := tr.models[0].state.Store.ForgetSubject("user", []byte("u7")); err != nil {
		t.Fatal(err)
	}
	forgotten := func(m *Model) ingest.Forgotten {
		return ingest.Forgotten{Dir: m.state.Dir, Model: m.state.Settings, Log: m.log}
	}
	f := forgotten(tr.models[0])
	if err := f.Keep(tr.models[0].state.Store); err != nil {
		t.Fatal(err)
	}
	if err := <-running; report.CodeOf(err) != report.ExitState ||
		!strings.Contains(err.Error(), "subjects were forgotten") {
		t.Fatalf("the other trainer ended with %v", err)
	}
	if err := tr.models[1].Close(); err != nil {
		t.Fatal(err)
	}
	again := tr.open("trainer1", "trainer", fmt.Sprintf(", standby: %v", standbyFor), tr.nets[1])
	if f := forgotten(again); !f.Known(again.state.Store) || again.state.Store.Unfinished() {
		t.Error("it was started, and the subject's rows are not out")
	}
	defer tr.run(again)()
	if err := <-ended; report.CodeOf(err) != report.ExitState ||
		!strings.Contains(err.Error(), "subjects were forgotten") {
		t.Errorf("the shard ended with %v", err)
	}
}
