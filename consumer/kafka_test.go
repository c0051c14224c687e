package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/refitd/refitd/daemon/daemontest/locked"
)

// patience bounds every wait of these tests for what a quiet machine does within a second.
const patience = 2 * time.Minute

// newCluster starts a broker that ends with the test.
func newCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newProducer returns a producer to the partition that each record names.
func newProducer(t *testing.T, addrs []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func saslPlain(user, password string) kgo.Opt {
	return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())
}

// newTransactional returns a producer of transactions.
func newTransactional(t *testing.T, cluster *kfake.Cluster) *kgo.Client {
	t.Helper()
	return newProducer(t, cluster.ListenAddrs(), kgo.TransactionalID("x"))
}

// abort ends the transaction of cl.
func abort(t *testing.T, cl *kgo.Client) {
	t.Helper()
	if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

// produce writes values[i] to a partition, in order, and waits for the acknowledgements.
func produce(t *testing.T, cl *kgo.Client, topic string, number int32, values ...string) {
	t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: number, Value: []byte(v)}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// numbers returns the decimal numbers in [from, to).
func numbers(from, to int) []string {
	out := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

// memory is a sink that checks what every sink relies on and remembers what it got.
type memory struct {
	mu     sync.Mutex
	next   map[TopicPartition]int64
	values map[TopicPartition][]string
	fates  map[TopicPartition][3]int
	halts  map[TopicPartition]string
	last   map[TopicPartition]fingerprint
	gaps   map[TopicPartition]int64
	calls  int
	wrong  []string
	fail   error // returned by the next Apply
}

func newMemory() *memory {
	return &memory{
		next:   make(map[TopicPartition]int64),
		values: make(map[TopicPartition][]string),
		fates:  make(map[TopicPartition][3]int),
		halts:  make(map[TopicPartition]string),
		last:   make(map[TopicPartition]fingerprint),
		gaps:   make(map[TopicPartition]int64),
	}
}

func (m *memory) Apply(_ context.Context, b *Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.calls++
	tp := TopicPartition{b.Topic, b.Partition}
	if next, ok := m.next[tp]; !ok || b.Base != next || b.Next <= b.Base {
		m.wrong = append(m.wrong, fmt.Sprintf("%s: batch [%d, %d) after %d (begun: %v)", tp, b.Base, b.Next, next, ok))
	}
	if b.Next > b.HighWatermark {
		text := fmt.Sprintf("%s: a batch up to %d is above the high watermark %d", tp, b.Next, b.HighWatermark)
		m.wrong = append(m.wrong, text)
	}
	at := b.Base
	for _, r := range b.Records {
		if r.Offset < at || r.Offset >= b.Next {
			m.wrong = append(m.wrong, fmt.Sprintf("%s: offset %d out of order", tp, r.Offset))
		}
		at = r.Offset + 1
		fates := m.fates[tp]
		fates[r.Fate]++
		m.fates[tp] = fates
		if r.Fate == Delivered {
			m.values[tp] = append(m.values[tp], string(r.Value))
			m.last[tp] = fingerprint{r.Offset, r.CRC}
			if r.CRC != recordCRC(&r, new([8]byte)) {
				m.wrong = append(m.wrong, fmt.Sprintf("%s: CRC of offset %d", tp, r.Offset))
			}
		} else if r.CRC != 0 || r.Key != nil || r.Value != nil {
			m.wrong = append(m.wrong, fmt.Sprintf("%s: bytes in offset %d, which was not delivered", tp, r.Offset))
		}
	}
	m.next[tp] = b.Next
	return nil
}

func (m *memory) Begin(topic string, number int32, offset int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	tp := TopicPartition{topic, number}
	if _, ok := m.next[tp]; ok {
		m.wrong = append(m.wrong, tp.String()+" begun twice")
	}
	m.next[tp] = offset
	return nil
}

func (m *memory) Start(topic string, number int32) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, ok := m.next[TopicPartition{topic, number}]
	return next, ok
}

func (m *memory) LastRecord(topic string, number int32) (int64, uint32, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.last[TopicPartition{topic, number}]
	return last.offset, last.crc, ok
}

func (m *memory) AcceptGap(topic string, number int32, until int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gaps[TopicPartition{topic, number}] += until - m.next[TopicPartition{topic, number}]
	m.next[TopicPartition{topic, number}] = until
	return nil
}

func (m *memory) OnHalt(topic string, number int32, offset int64, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tp := TopicPartition{topic, number}
	if m.next[tp] != offset {
		m.wrong = append(m.wrong, fmt.Sprintf("%s halted at %d, applied to %d", tp, offset, m.next[tp]))
	}
	m.halts[tp] = reason
}

func (m *memory) got(tp TopicPartition) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.values[tp])
}

func (m *memory) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.values {
		n += len(v)
	}
	return n
}

func (m *memory) haltText(tp TopicPartition) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.halts[tp]
}

// check fails the test if the sink saw anything that it must not see.
func (m *memory) check(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.wrong {
		t.Error(w)
	}
}

// rig is a running consumer.
type rig struct {
	*Consumer
	*memory
	log  *locked.Buffer
	stop func() error
	reg  *prometheus.Registry
}

// newRig makes a consumer with the times of a test.
func newRig(t *testing.T, m *memory, addrs []string, topics []string, change func(*Options)) *rig {
	t.Helper()
	r := &rig{memory: m, log: new(locked.Buffer), reg: prometheus.NewRegistry()}
	o := DefaultOptions()
	o.Advice = map[Cause]string{CauseGap: "accept it", CauseOtherLog: "look at the topic", CauseGroupID: "take another"}
	o.Brokers, o.Topics = addrs, topics
	o.Start, o.LastRecord, o.Begin, o.OnHalt = m.Start, m.LastRecord, m.Begin, m.OnHalt
	o.MaxWait, o.RefreshEvery, o.CommitEvery, o.RequestTimeout = 50*time.Millisecond, 200*time.Millisecond,
		50*time.Millisecond, 5*time.Second
	o.Logger, o.Registerer = slog.New(slog.NewTextHandler(r.log, nil)), r.reg
	if change != nil {
		change(&o)
	}
	var err error
	if r.Consumer, err = New(o, m); err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs a consumer until stop is called or the test ends.
func start(t *testing.T, m *memory, addrs []string, topics []string, change func(*Options)) *rig {
	t.Helper()
	r := newRig(t, m, addrs, topics, change)
	r.start(t)
	return r
}

func (r *rig) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			return errors.New("Run does not return")
		}
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		r.memory.check(t)
		if t.Failed() {
			t.Logf("log:\n%.4000s\nreasons:\n%.1000s", r.log, r.reasons())
		}
	})
}

// await waits until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("timed out waiting for %s", what)
		case <-tick.C:
		}
	}
}

// metric returns the sum of a metric over its labels that contain want.
func (r *rig) metric(t *testing.T, name string, want ...string) (sum float64) {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			labels := make(map[string]bool)
			for _, l := range m.Label {
				labels[l.GetValue()] = true
			}
			if slices.ContainsFunc(want, func(w string) bool { return !labels[w] }) {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

func (r *rig) reasons() string { return strings.Join(r.Status().Reasons, "\n") }

func equalValues(t *testing.T, m *memory, tp TopicPartition, want []string) {
	t.Helper()
	got := m.got(tp)
	if slices.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Errorf("%s: %d values, want %d; they differ from %d on", tp, len(got), len(want), at)
}

// runUntil runs r to ends and fails the test if that takes too long.
func (r *rig) runUntil(t *testing.T, ends map[TopicPartition]int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.RunUntil(ctx, ends); err != nil || ctx.Err() != nil {
		t.Fatalf("error %v, context %v, status %+v", err, ctx.Err(), r.Status())
	}
	r.memory.check(t)
}
