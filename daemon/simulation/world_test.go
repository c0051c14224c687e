//go:build failpoint && simulation

package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/failpoint"
)

const (
	topic      = "ratings"
	modelName  = "ratings"
	partitions = 3
	brokers    = 2
)

// A world is a daemon's: brokers with what is produced to them, a directory, and the process that is alive.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	dir      string
	config   string
	log      bytes.Buffer // of all lives
	pipes    *kfake.VirtualNetwork
	twins    *kfake.VirtualNetwork // the twin's
	cluster  *kfake.Cluster
	twin     *kfake.Cluster // has the same records, and no faults: what was read without any is compared with it
	clients  []*kgo.Client  // of both
	consumer *snapshot.Watcher
	process  *process
	dieAfter int64 // durable steps of the next life; negative: it does not die of them

	next    map[int32]int64 // of each partition, as the last life left it
	version int64           // the champion that was seen last
	cut     map[int32]int64 // its
	events  int
}

// newWorld makes brokers and a configuration.
func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), pipes: new(kfake.VirtualNetwork), twins: new(kfake.VirtualNetwork),
		dieAfter: -1, next: map[int32]int64{}, cut: map[int32]int64{}}
	start := func(pipes *kfake.VirtualNetwork) *kfake.Cluster {
		c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.Ports(9092, 9093), kfake.SeedTopics(partitions, topic), kfake.ListenFn(pipes.Listen))
		if err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(pipes.DialContext), kgo.DefaultProduceTopic(topic),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("producer"))
		if err != nil {
			t.Fatal(err)
		}
		w.clients = append(w.clients, client)
		return c
	}
	w.cluster, w.twin = start(w.pipes), start(w.twins)
	w.config = filepath.Join(w.dir, "refitd.yaml")
	w.must(w.configure())
	var err error
	w.consumer, err = snapshot.Watch(snapshot.DirSource{Dir: filepath.Join(w.dir, "store")}, snapshot.WatchOptions{Model: modelName, CheckDeltas: true})
	w.must(err)
	return w
}

// configure writes a configuration: when to refit, and when to publish, is drawn.
func (w *world) configure() error {
	draw := func(of ...string) string { return of[w.rng.IntN(len(of))] }
	text := fmt.Sprintf(`
kafka: {bootstrap_servers: ["localhost:9092"], group_id: g, fetch_max_wait: 5s}
storage: {path: state, min_free_bytes: 1MiB}
web: {listen_address: "127.0.0.1:0"}
models:
  - name: %s
    input: {topics: [%s], start: earliest}
    schema: {task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]}
    sample: {size: 150, seed: 42, holdout: {fraction: 0.1}}
    train: {every: %s, every_events: %s, max_basis: 2, lambda: 3}
    evaluate: {window: 1000}
    publish: {store: store, update_every: %s, deltas: {every: %s}, gate: {min_rows: 5}, keep: %s}
`, modelName, topic, draw("10m", "30m"), draw("0", "200"), draw("1m", "5m"), draw("0s", "10s"), draw("3", "20"))
	return os.WriteFile(w.config, []byte(text), 0o600)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) close() {
	if w.process != nil {
		w.process.cancel()
		<-w.process.ended
		failpoint.Intercept(nil)
	}
	w.consumer.Close()
	_ = sketch.CloseAbandoned() // nobody reads what they write
	for _, c := range w.clients {
		c.Close()
	}
	w.cluster.Close()
	w.twin.Close()
}

// listen makes the HTTP listener of a life: nobody asks, but the real one would keep the clock from moving.
func (w *world) listen(kind, _ string) (net.Listener, error) {
	return new(kfake.VirtualNetwork).Listen(kind, "localhost:8080")
}

// produce writes n records to both clusters, in a transaction, which is aborted or committed.
func (w *world) produce(n int, commit bool) error {
	var values [][]byte
	var numbers []int32
	for range n {
		value := daemontest.Rating(w.rng)
		if w.rng.IntN(20) == 0 {
			value = value[:w.rng.IntN(len(value))] // which is no event
		}
		values, numbers = append(values, value), append(numbers, int32(w.rng.IntN(partitions)))
	}
	now := time.Now()
	for _, c := range w.clients {
		if err := c.BeginTransaction(); err != nil {
			return err
		}
		var records []*kgo.Record
		for i := range values {
			records = append(records, &kgo.Record{Value: values[i], Partition: numbers[i], Timestamp: now})
		}
		if err := c.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
			return err
		}
		if err := c.EndTransaction(context.Background(), kgo.TransactionEndTry(commit)); err != nil {
			return err
		}
	}
	if commit {
		w.events += n
	}
	return nil
}

// left looks at what a life leaves: a state that is whole and has not gone back, and versions of nothing that the state has not.
func (w *world) left() error {
	s, err := sketch.OpenExisting(context.Background(), filepath.Join(w.dir, "state", modelName), nil)
	if err != nil {
		return fmt.Errorf("the state that was left: %w", err)
	}
	if err := s.Check(); err != nil {
		return errors.Join(err, s.Close())
	}
	for _, l := range s.Ledger() {
		if l.Next < w.next[l.Partition] {
			return fmt.Errorf("partition %d went from %d back to %d", l.Partition, w.next[l.Partition], l.Next)
		}
		w.next[l.Partition] = l.Next
	}
	if err := s.Close(); err != nil {
		return err
	}
	if err := w.look(); err != nil {
		return err
	}
	for number, next := range w.cut {
		if next > w.next[number] {
			return fmt.Errorf("version %d is of %d records of partition %d, the state of %d", w.version, next, number, w.next[number])
		}
	}
	return nil
}

// look is a consumer's, which watches all the time: nothing that it was offered had to be refused, and nothing goes back.
func (w *world) look() error {
	m, status := w.consumer.Model(), w.consumer.Status()
	if status.Refused > 0 || status.DeltasRefused > 0 {
		return fmt.Errorf("a consumer refused a version or a delta: %w", errors.Join(status.Err, status.DeltaErr))
	}
	if m == nil {
		return nil
	}
	at := m.Position()
	if at.Version < w.version {
		return fmt.Errorf("the champion went from version %d back to %d", w.version, at.Version)
	}
	w.version = at.Version
	for _, c := range at.Cut {
		if c.Next < w.cut[c.Partition] {
			return fmt.Errorf("version %d, delta %d, is of %d records of partition %d, an earlier one of %d", at.Version, at.Sequence, c.Next, c.Partition,
				w.cut[c.Partition])
		}
		w.cut[c.Partition] = c.Next
	}
	return nil
}

// sleep lets time pass, with a look of a consumer every minute.
func (w *world) sleep(d time.Duration) error {
	for d > 0 {
		part := min(d, time.Minute)
		select {
		case <-time.After(part):
		case <-w.process.ended:
			return nil
		}
		if err := w.look(); err != nil {
			return err
		}
		d -= part
	}
	return nil
}
