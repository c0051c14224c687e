package verify

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic      = "ratings"
	partitions = 2
)

func startBroker(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(
		append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// bench is a topic, what is known to be in it, and a state directory.
type bench struct {
	t       testing.TB
	broker  *kfake.Cluster
	conf    *config.Config
	model   *config.Model
	dir     string
	written [partitions][]consumer.Record // by what was produced, not by what was read
	next    [partitions]int64
	open    map[*kgo.Client][]place // records of transactions that have not ended
}

type place struct {
	partition int32
	index     int
}

// newBench has a sample that is too small for the events, so that rows are evicted.
func newBench(t testing.TB, opts ...kfake.Opt) *bench {
	b := &bench{t: t, broker: startBroker(t, opts...), dir: t.TempDir(), open: make(map[*kgo.Client][]place)}
	b.configure("{size: 100, half_life: 30d, holdout: {fraction: 0.2, size: 20}}")
	return b
}

func (b *bench) configure(sample string) {
	b.t.Helper()
	text := fmt.Sprintf(`
kafka: {bootstrap_servers: [%q], group_id: g}
storage: {path: state}
models:
  - name: m
    input: {topics: [%s], max_event_bytes: 200B}
    schema: {task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]}
    sample: %s
    publish: {store: snapshots}
`, b.broker.ListenAddrs()[0], topic, sample)
	conf, err := config.Parse(filepath.Join(b.dir, "refitd.yaml"), []byte(text),
		func(string) (string, bool) { return "", false })
	if err != nil {
		b.t.Fatal(err)
	}
	b.conf, b.model = conf, &conf.Models[0]
}

func (b *bench) producer(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	client, err := kgo.NewClient(
		append([]kgo.Opt{kgo.SeedBrokers(b.broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.GzipCompression())}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.Close)
	return client
}

// produce writes one batch and remembers it as delivered.
func (b *bench) produce(client *kgo.Client, partition int32, records ...*kgo.Record) {
	b.t.Helper()
	for _, r := range records {
		r.Topic, r.Partition = topic, partition
	}
	results := client.ProduceSync(b.context(), records...)
	if err := results.FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	for _, r := range records {
		// The stamp as it was set: franz-go's own reading of late times is what milliseconds mends.
		at := r.Timestamp.UnixMilli()
		b.note(partition,
			consumer.Record{Offset: r.Offset, Timestamp: at, Key: r.Key, Value: r.Value, CRC: crc(r.Key, r.Value, at)})
		b.open[client] = append(b.open[client], place{partition, len(b.written[partition]) - 1})
	}
}

// end ends a transaction that wrote to partition 0 only.
func (b *bench) end(client *kgo.Client, commit kgo.TransactionEndTry) {
	b.t.Helper()
	if err := client.EndTransaction(b.context(), commit); err != nil {
		b.t.Fatal(err)
	}
	for _, p := range b.open[client] {
		if commit == kgo.TryAbort {
			r := &b.written[p.partition][p.index]
			*r = consumer.Record{Offset: r.Offset, Fate: consumer.Aborted}
		}
	}
	delete(b.open, client)
	b.note(0, consumer.Record{Offset: b.next[0], Fate: consumer.Control})
}

func (b *bench) note(partition int32, r consumer.Record) {
	b.t.Helper()
	if r.Offset != b.next[partition] {
		b.t.Fatalf("partition %d: offset %d was written where %d was expected", partition, r.Offset, b.next[partition])
	}
	b.written[partition] = append(b.written[partition], r)
	b.next[partition]++
}

func crc(key, value []byte, at int64) uint32 {
	all := append(append([]byte{}, key...), value...)
	return crc32.Checksum(binary.BigEndian.AppendUint64(all, uint64(at)), crc32.MakeTable(crc32.Castagnoli))
}

// batches returns what was written to a partition below an offset, in batches of seven offsets.
func (b *bench) batches(partition int32, to int64) []consumer.Batch {
	var out []consumer.Batch
	for base := int64(0); base < to; base += 7 {
		batch := consumer.Batch{Topic: topic, Partition: partition, Base: base, Next: min(base+7, to)}
		for _, r := range b.written[partition] {
			if r.Offset >= base && r.Offset < batch.Next {
				batch.Records = append(batch.Records, r)
			}
		}
		out = append(out, batch)
	}
	return out
}

// store fills the state directory as the daemon does, up to the given ends. change may alter a batch first; nil does
// not.
func (b *bench) store(ends [partitions]int64, change func(*consumer.Batch)) {
	b.t.Helper()
	b.withStore(func(s *sketch.Store) {
		sink := ingest.New(b.model, s, nil)
		for p := range int32(partitions) {
			for _, batch := range b.batches(p, ends[p]) {
				if change != nil {
					change(&batch)
				}
				if err := s.Begin(batch.Topic, batch.Partition, batch.Base); err != nil {
					b.t.Fatal(err)
				}
				if err := sink.Apply(b.context(), &batch); err != nil {
					b.t.Fatal(err)
				}
			}
		}
	})
}

func (b *bench) withStore(f func(*sketch.Store)) {
	b.t.Helper()
	b.withStoreOf(0, f)
}

// withStoreOf opens the state with checkpoints after so many records, 0 for as many as usual.
func (b *bench) withStoreOf(checkpoint int64, f func(*sketch.Store)) {
	b.t.Helper()
	b.withStoreTo(func(o *sketch.Options) { o.CheckpointEvery = checkpoint }, f)
}

// withStoreTo opens the state with other options.
func (b *bench) withStoreTo(edit func(*sketch.Options), f func(*sketch.Store)) {
	b.t.Helper()
	options := ingest.StoreOptions(b.model)
	options.Dir = b.conf.StatePath(b.model)
	edit(&options)
	s, err := sketch.Open(b.context(), options)
	if err != nil {
		b.t.Fatal(err)
	}
	f(s)
	if err := s.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) options() Options {
	return Options{
		Model: b.model,
		Dir:   b.conf.StatePath(b.model),
		Kafka: &b.conf.Kafka,
		Log:   slog.New(slog.DiscardHandler),
	}
}

func (b *bench) verify() *Result {
	b.t.Helper()
	result, err := Run(b.context(), b.options())
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// verifyOK fails unless the state is proved, and returns its partitions.
func (b *bench) verifyOK() []report.VerifyPartition {
	b.t.Helper()
	result := b.verify()
	s := result.Summary
	if !s.OK || s.Lost != 0 || s.Double != 0 || s.RecomputedDigest == nil || *s.RecomputedDigest != s.SampleDigest {
		b.t.Fatalf("summary %+v, partitions %+v", s, result.Partitions)
	}
	for _, p := range result.Partitions {
		if p.Digest != digestOK || p.Lost != 0 || p.Double != 0 || p.CheckedFrom != p.Start {
			b.t.Errorf("partition %+v", p)
		}
	}
	return result.Partitions
}

// event is a valid record.
func event(i int) *kgo.Record {
	return &kgo.Record{Key: []byte(strconv.Itoa(i % 9)), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)),
		Value: fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":%d}`, i%9, i%13, 1+i%5,
			1_700_000_000_000+int64(i)*3_600_000)}
}

func events(from, n int) []*kgo.Record {
	out := make([]*kgo.Record, n)
	for i := range out {
		out[i] = event(from + i)
	}
	return out
}
