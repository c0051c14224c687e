package consumer

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer/signin"
)

func tp(topic string, number int32) TopicPartition { return TopicPartition{topic, number} }

// TestKafkaGoIsTheOneThisWasBuiltOn guards the trick of fetch.go: look at it again before changing the version.
func TestKafkaGoIsTheOneThisWasBuiltOn(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/segmentio/kafka-go v0.4.51\n") {
		t.Error("go.mod names another kafka-go than v0.4.51, with which fetch.go was tested")
	}
	if lo, hi := protocol.Fetch.MinVersion(), protocol.Fetch.MaxVersion(); lo != 0 || hi != 11 {
		t.Errorf("Fetch versions are %d to %d, fetchResponse knows 0 to 11", lo, hi)
	}
}

func TestReadsEverythingInEveryCodec(t *testing.T) {
	const topic, partitions, each = "t", 8, 2000
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t, kfake.SeedTopics(partitions, topic))
			producer := newProducer(t, cluster.ListenAddrs(), kgo.ProducerBatchCompression(codec))
			for p := range int32(partitions) {
				produce(t, producer, topic, p, numbers(0, each)...)
			}
			r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic},
				func(o *Options) { o.MaxBatchRecords, o.MaxPartitionBytes = 300, 5000 })
			await(t, "all records", func() bool { return r.total() >= partitions*each })
			for p := range int32(partitions) {
				equalValues(t, r.memory, tp(topic, p), numbers(0, each))
			}
			await(t, "ready", func() bool { return r.Status().Ready })
			await(t, "all records in the metric",
				func() bool { return r.metric(t, "refitd_consumer_records_total", "delivered") >= partitions*each })
			if got := r.metric(t, "refitd_consumer_records_total", "delivered"); got != partitions*each {
				t.Errorf("%g delivered by the metric", got)
			}
			await(t, "lag 0", func() bool { return r.metric(t, "refitd_consumer_lag_records") == 0 })
		})
	}
}

func TestAbortedTransactionsAreNotDelivered(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	plain := newProducer(t, cluster.ListenAddrs())
	txn := newProducer(t, cluster.ListenAddrs(), kgo.TransactionalID("x"))
	var want []string
	aborted, markers := 0, 0
	for round := range 12 {
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		commit := round%3 != 1
		for k := range 5 { // several batches a transaction, with others between them
			text := numbers(round*1000+k*20, round*1000+k*20+20)
			produce(t, txn, topic, 0, text...)
			other := numbers(100000+round*100+k*3, 100000+round*100+k*3+3)
			produce(t, plain, topic, 0, other...)
			if commit {
				want = append(want, text...)
			} else {
				aborted += len(text)
			}
			want = append(want, other...)
		}
		if err := txn.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			t.Fatal(err)
		}
		markers++
	}
	// A response holds a few hundred bytes, so that transactions straddle fetches.
	small := func(o *Options) { o.MaxPartitionBytes = 300 }
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, small)
	await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) >= len(want) })
	await(t, "the last marker", func() bool { return r.Status().Partitions[0].Lag == 0 })
	equalValues(t, r.memory, tp(topic, 0), want)
	if n := r.metric(t, "refitd_consumer_answers_refused_total"); n != 0 {
		t.Errorf("%g answers were refused", n)
	}
	if got := r.fates[tp(topic, 0)]; got != [3]int{len(want), markers, aborted} {
		t.Errorf("fates are %v, want %d delivered, %d control, %d aborted", got, len(want), markers, aborted)
	}

	t.Run("restart anywhere", func(t *testing.T) {
		end := r.memory.next[tp(topic, 0)]
		for from := int64(1); from < end; from += 97 {
			m := newMemory()
			m.next[tp(topic, 0)] = from
			c := newRig(t, m, cluster.ListenAddrs(), []string{topic}, small)
			c.runUntil(t, map[TopicPartition]int64{tp(topic, 0): end})
			got := m.got(tp(topic, 0))
			if !slices.Equal(got, want[len(want)-len(got):]) {
				t.Fatalf("from %d: not the end of what was read before", from)
			}
			if f := m.fates[tp(topic, 0)]; int64(f[0]+f[1]+f[2]) != end-from {
				t.Fatalf("from %d: %v, want %d offsets", from, f, end-from)
			}
		}
	})

	t.Run("open transaction", func(t *testing.T) {
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, txn, topic, 0, "open")
		produce(t, plain, topic, 0, "behind it")
		await(t, "the lag", func() bool { return r.Status().Partitions[0].Lag == 2 })
		ends, err := newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil).Ends(t.Context())
		if s := r.Status().Partitions[0]; err != nil || ends[tp(topic, 0)] != s.LastStable ||
			s.HighWatermark-s.LastStable != 2 {
			t.Errorf("ends %v, %v; status %+v", ends, err, s)
		}
		if err := txn.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		await(t, "the rest", func() bool { return len(r.got(tp(topic, 0))) == len(want)+2 })
	})
}

func TestCompactedTopic(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "3600000"}))
	cl := newProducer(t, cluster.ListenAddrs())
	policy := "compact"
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy},
		topic); err != nil {
		t.Fatal(err)
	}
	for round := range 10 {
		for k := range 20 {
			key := byte(k)
			if round == 0 && k == 0 {
				key = 255 // stays, and with it the start of the log
			}
			rec := &kgo.Record{Topic: topic, Key: []byte{key}, Value: []byte(numbers(round*20+k, round*20+k+1)[0])}
			if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cluster.Compact()
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
	await(t, "the end", func() bool { s := r.Status(); return len(s.Partitions) == 1 && s.Partitions[0].Next == 200 })
	got := r.got(tp(topic, 0))
	if n := len(got); n == 200 || n == 0 || got[n-1] != "199" {
		t.Errorf("%d values of a compacted topic, the last %q", n, got[max(n-1, 0):])
	}
	await(t, "metrics", func() bool {
		return r.metric(t, "refitd_consumer_records_total", "hole") == float64(200-len(got))
	})
	if n := r.metric(t, "refitd_consumer_answers_refused_total") + r.metric(t,
		"refitd_consumer_missing_offsets_total"); n != 0 {
		t.Errorf("%g answers refused, or offsets missing", n)
	}
	if asked, fetches := r.metric(t, "refitd_consumer_confirmations_total"), r.metric(t,
		"refitd_consumer_fetches_total"); asked < 1 ||
		asked > fetches {
		t.Errorf("%g confirmations of %g fetches", asked, fetches)
	}
}

func TestGapHaltsOrIsAccepted(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(2, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	produce(t, cl, topic, 0, numbers(0, 100)...)
	produce(t, cl, topic, 1, numbers(0, 100)...)
	var to kadm.Offsets
	to.AddOffset(topic, 0, 60, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	m := newMemory()
	m.next[tp(topic, 0)], m.next[tp(topic, 1)] = 10, 0
	r := start(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	await(t, "the halt", func() bool { return r.haltText(tp(topic, 0)) != "" })
	if text := r.haltText(tp(topic, 0)); !strings.Contains(text, "gap of 50 offsets: the log starts at 60") ||
		!strings.HasSuffix(text, "; accept it") {
		t.Errorf("text is %q", text)
	}
	await(t, "the other partition", func() bool { return len(r.got(tp(topic, 1))) == 100 })
	if got := r.got(tp(topic, 0)); len(got) > 0 {
		t.Errorf("%d records of the halted partition", len(got))
	}
	if !strings.Contains(r.reasons(), "t/0 halted at offset 10: gap of 50") ||
		r.metric(t, "refitd_consumer_halted_partitions") != 1 {
		t.Errorf("reasons %q", r.reasons())
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.AcceptGap = m.AcceptGap })
	await(t, "records after the gap", func() bool { return len(m.got(tp(topic, 0))) == 40 })
	equalValues(t, m, tp(topic, 0), numbers(60, 100))
	if m.gaps[tp(topic, 0)] != 50 {
		t.Errorf("gap of %d, want 50", m.gaps[tp(topic, 0)])
	}
}

func TestLogStartOvertakesWhileReading(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	for i := range 10 {
		produce(t, cl, topic, 0, numbers(i*10, i*10+10)...)
	}
	m := newMemory()
	hold := make(chan struct{})
	slow := &gate{memory: m, hold: hold}
	r := newRig(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.MaxPartitionBytes = 1 })
	r.Consumer.sink = slow
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	await(t, "the first batch", slow.waiting)
	var to kadm.Offsets
	to.AddOffset(topic, 0, 80, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	close(hold)
	await(t, "the halt", func() bool { return r.haltText(tp(topic, 0)) != "" })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	m.check(t)
	got := m.got(tp(topic, 0))
	if n := len(got); n == 0 || n >= 80 || !slices.Equal(got, numbers(0, n)) {
		t.Errorf("%d records were delivered, want a beginning of the log that ends before 80", n)
	}
}

// gate is a sink that waits in its first call.
type gate struct {
	*memory
	hold    chan struct{}
	entered bool
}

func (g *gate) Apply(ctx context.Context, b *Batch) error {
	g.mu.Lock()
	g.entered = true
	g.mu.Unlock()
	<-g.hold
	return g.memory.Apply(ctx, b)
}

func (g *gate) waiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entered
}

func TestLogEndBelowPositionHalts(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(0, 15)...)
	m := newMemory()
	m.next[tp(topic, 0)] = 20
	r := start(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	await(t, "the halt", func() bool { return r.haltText(tp(topic, 0)) != "" })
	if text := r.haltText(tp(topic, 0)); !strings.Contains(text, "log end 15 is below our position 20") {
		t.Errorf("text is %q", text)
	}

	t.Run("until the end", func(t *testing.T) {
		m := newMemory()
		m.next[tp(topic, 0)] = 20
		c := newRig(t, m, cluster.ListenAddrs(), []string{topic}, nil)
		ends, err := c.Ends(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.runUntil(t, ends); !strings.Contains(m.haltText(tp(topic, 0)), "log end 15 is below our position 20") {
			t.Errorf("halt %q", m.haltText(tp(topic, 0)))
		}
	})
}

func TestUntilTheEnd(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(3, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	produce(t, cl, topic, 0, numbers(0, 500)...)
	produce(t, cl, topic, 1, numbers(0, 7)...) // and nothing in 2
	m := newMemory()
	r := newRig(t, m, cluster.ListenAddrs(), []string{topic},
		func(o *Options) { o.MaxBatchRecords = 64; o.GroupID = "g" })
	ends, err := r.Ends(t.Context())
	if err != nil || len(ends) != 3 || ends[tp(topic, 0)] != 500 || ends[tp(topic, 2)] != 0 {
		t.Fatalf("ends %v, %v", ends, err)
	}
	produce(t, cl, topic, 0, numbers(500, 600)...) // comes too late
	r.runUntil(t, ends)
	equalValues(t, m, tp(topic, 0), numbers(0, 500))
	equalValues(t, m, tp(topic, 1), numbers(0, 7))
	if next, ok := m.Start(topic, 2); !ok || next != 0 {
		t.Errorf("the empty partition was not begun: %d, %v", next, ok)
	}
	committed, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := committed.Lookup(topic, 0); at.At != 500 {
		t.Errorf("the group shows %d, want 500", at.At)
	}

	again := newRig(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	again.runUntil(t, ends)
	equalValues(t, m, tp(topic, 0), numbers(0, 500))
}

func TestNewPartitionsAndStartPolicies(t *testing.T) {
	t.Parallel()
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	produce(t, cl, topic, 0, numbers(0, 10)...)
	m := newMemory()
	r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.StartPolicy = Latest })
	await(t, "the begin", func() bool { next, ok := m.Start(topic, 0); return ok && next == 10 })
	produce(t, cl, topic, 0, "new")
	await(t, "the new record", func() bool { return slices.Equal(r.got(tp(topic, 0)), []string{"new"}) })

	if _, err := kadm.NewClient(cl).CreatePartitions(t.Context(), 1, topic); err != nil {
		t.Fatal(err)
	}
	other := newProducer(t, cluster.ListenAddrs())
	produce(t, other, topic, 1, "a", "b")
	await(t, "the new partition, from its first offset",
		func() bool { return slices.Equal(r.got(tp(topic, 1)), []string{"a", "b"}) })
}

func TestSinkErrorEndsRun(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(2, topic))
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, "x")
	m := newMemory()
	m.fail = errors.New("disk full")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := newRig(t, m, cluster.ListenAddrs(), []string{topic}, nil).Run(ctx)
	if !errors.Is(err, m.fail) || !strings.Contains(err.Error(), "t/0 from 0 to 1") {
		t.Errorf("error %v", err)
	}
}

func TestOptionsValidate(t *testing.T) {
	var zero Options
	err := zero.Validate()
	for _, field := range []string{"Brokers", "Topics", "StartPolicy", "Isolation", "MaxWait", "CommitEvery",
		"RefreshEvery", "RequestTimeout",
		"StallTimeout", "MaxPartitionBytes", "MaxBatchRecords", "MaxDecompressedBytes"} {
		if err == nil || !strings.Contains(err.Error(), "consumer: "+field+" is ") {
			t.Errorf("no complaint about %s in: %v", field, err)
		}
	}
	o := DefaultOptions()
	o.Brokers, o.Topics = []string{"localhost:9092"}, []string{"t"}
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	for _, s := range []signin.Credentials{
		{Mechanism: "OAUTHBEARER", Username: "u", Password: "secret"}, {Mechanism: "PLAIN", Username: "u"},
	} {
		o.SASL = s
		if err := o.Validate(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	o.SASL, o.MaxWait = signin.Credentials{}, time.Microsecond
	if err := o.Validate(); err == nil {
		t.Error("MaxWait of 1µs is accepted")
	}
}

// count is a sink that only counts.
type count struct{ n int }

func (c *count) Apply(_ context.Context, b *Batch) error { c.n += len(b.Records); return nil }

// BenchmarkRun reads a topic of 8 partitions to its end, with the broker in the same process.
func BenchmarkRun(b *testing.B) {
	const topic, partitions, each = "t", 8, 50000
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(1e6), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	value := []byte(strings.Repeat("x", 100))
	for i := range partitions * each {
		cl.Produce(context.Background(), &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: value}, nil)
	}
	if err := cl.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		o := DefaultOptions()
		o.Brokers, o.Topics = cluster.ListenAddrs(), []string{topic}
		o.Logger, o.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
		sink := new(count)
		c, err := New(o, sink)
		if err != nil {
			b.Fatal(err)
		}
		ends, err := c.Ends(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		if err := c.RunUntil(context.Background(), ends); err != nil || sink.n != partitions*each {
			b.Fatal(err, sink.n)
		}
	}
	b.ReportMetric(float64(b.N)*partitions*each/b.Elapsed().Seconds(), "records/s")
}
