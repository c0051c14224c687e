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
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topic      = "ratings"
	modelName  = "ratings"
	partitions = 5
	brokers    = 2

	merge       = "merge" // the topic of a team
	undisturbed = "undisturbed.yaml"
)

// A world is brokers with what is produced to them, a directory, and who lives on them.
type world struct {
	t         *testing.T
	rng       *rand.Rand
	dir       string
	log       bytes.Buffer // of all lives
	pipes     *kfake.VirtualNetwork
	twins     *kfake.VirtualNetwork // the twin's
	cluster   *kfake.Cluster
	twin      *kfake.Cluster // has the same records, and no faults: what was read without any is compared with it
	clients   []*kgo.Client  // of both
	consumer  *snapshot.Watcher
	members   []*member
	publisher *member       // of them
	late      []*process    // that were taken for dead
	moves     int           // of members to another directory
	ended     chan struct{} // has something once a process has
	produced  [partitions][]produced

	grouped bool             // a group gives the shards to processes
	reached map[string]int64 // then: how far each of their states was, by lineage and partition

	version  int64           // the champion that was seen last
	cut      map[int32]int64 // its
	retained bool            // the brokers have lost the beginning of a log
	lost     bool            // the publisher has lost its state
	losing   bool            // the merge topic has lost something
	lived    time.Duration   // by all processes together
}

// newWorld makes brokers and configurations, of a daemon that is whole or of a team of shards, which a group gives to
// processes where there are any.
func newWorld(t *testing.T, seed uint64, shards, processes int) *world {
	w := &world{
		t:       t,
		rng:     rand.New(rand.NewPCG(seed, 1)),
		dir:     inMemory(t),
		pipes:   new(kfake.VirtualNetwork),
		twins:   new(kfake.VirtualNetwork),
		ended:   make(chan struct{}, 1),
		cut:     map[int32]int64{},
		reached: map[string]int64{},
		grouped: processes > 0,
	}
	start := func(pipes *kfake.VirtualNetwork) *kfake.Cluster {
		c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.Ports(9092, 9093),
			kfake.SeedTopics(partitions, topic), kfake.ListenFn(pipes.Listen))
		if err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(pipes.DialContext),
			kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.TransactionalID("producer"))
		if err != nil {
			t.Fatal(err)
		}
		w.clients = append(w.clients, client)
		// The broker asks for no client metrics.
		c.ControlKey(kmsg.GetTelemetrySubscriptions.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			none := r.ResponseKind().(*kmsg.GetTelemetrySubscriptionsResponse)
			none.ClientInstanceID, none.PushIntervalMillis = [16]byte{1}, 300_000
			return none, nil, true
		})
		return c
	}
	w.cluster, w.twin = start(w.pipes), start(w.twins)
	w.enlist(shards, processes)
	w.must(w.configure())
	var err error
	w.consumer, err = snapshot.Watch(snapshot.DirSource{Dir: filepath.Join(w.dir, "store")},
		snapshot.WatchOptions{Model: modelName, CheckDeltas: true})
	w.must(err)
	return w
}

// inMemory returns a directory for the test, in memory where the system has one: synchronising a disk takes most of the
// time else.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "simulation-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (w *world) isTeam() bool { return len(w.members) > 1 }

// configure writes the configurations: when to refit, and when to publish, is drawn.
func (w *world) configure() error {
	draw := func(of ...string) string { return of[w.rng.IntN(len(of))] }
	every, events, keep := draw("10m", "30m"), draw("0", "200"), draw("3", "20")
	between := fmt.Sprintf("update_every: %s, deltas: {every: %s}", draw("1m", "5m"), draw("0s", "10s"))
	size := 150
	if w.isTeam() {
		between, size = "update_every: 0s", 100
	}
	for _, m := range append(w.members, &member{config: filepath.Join(w.dir, undisturbed), name: "undisturbed"}) {
		store := "store"
		if m != w.publisher {
			store += "-" + m.name
		}
		text := fmt.Sprintf(`
kafka: {bootstrap_servers: ["localhost:9092"], group_id: g-%s, fetch_max_wait: 5s}
storage: {path: state-%s, min_free_bytes: 1MiB}
web: {listen_address: "127.0.0.1:0"}
%s
models:
  - name: %s
    input: {topics: [%s], start: earliest}
    schema: {task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]}
    sample: {size: %d, seed: 42, holdout: {fraction: 0.1}}
    train: {every: %s, every_events: %s, max_basis: 2, lambda: 3}
    evaluate: {window: 1000}
    publish: {store: %s, %s, gate: {min_rows: 5}, keep: %s}
`, m.name, m.name, m.role, modelName, topic, size, every, events, store, between, keep)
		if err := os.WriteFile(m.config, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) close() {
	living := w.late
	for _, m := range w.members {
		if m.process != nil {
			living = append(living, m.process)
		}
	}
	for _, p := range living {
		p.cancel()
		p.net.sever(true)
	}
	for _, p := range living {
		<-p.ended
		processes.Delete(p.label)
	}
	w.consumer.Close()
	_ = sketch.CloseAbandoned(w.dir) // nobody reads what they write
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
	for at, c := range w.clients {
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
		if at > 0 || !commit { // both clusters have them at the same offsets
			continue
		}
		for _, r := range records {
			w.produced[r.Partition] = append(w.produced[r.Partition],
				produced{r.Offset, r.Timestamp.UnixMilli(), r.Value})
		}
	}
	return nil
}

// look is a consumer's, which watches all the time: nothing that it was offered had to be refused, and nothing goes
// back, but from updates to the refit that they predict worse than, which has learned fewer events.
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
	again := at.Version > w.version && at.Sequence == 0 &&
		strings.HasPrefix(m.Manifest().Reason, "the last refit again")
	w.version = at.Version
	cut := map[int32]int64{}
	for _, c := range at.Cut {
		cut[c.Partition] = c.Next
	}
	for number, next := range w.cut {
		if cut[number] < next && !again {
			return fmt.Errorf("version %d, delta %d, is of %d records of partition %d, an earlier one of %d",
				at.Version, at.Sequence, cut[number], number, next)
		}
	}
	w.cut = cut
	return nil
}

// sleep lets time pass, with a look of a consumer every minute, or less of it if a process ends.
func (w *world) sleep(d time.Duration) error {
	for d > 0 {
		began := time.Now()
		select {
		case <-time.After(min(d, time.Minute)):
		case <-w.ended:
		}
		slept := time.Since(began)
		d -= slept
		for _, m := range w.members {
			if m.process == nil {
				continue
			}
			w.lived += slept
			if m.process.hasEnded() {
				d = 0
			}
		}
		if err := w.look(); err != nil {
			return err
		}
	}
	return nil
}
