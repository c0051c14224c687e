package verify

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/config/scalar"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// plain writes 150 events and 6 rejected records to partition 0 and 40 events to partition 1.
func (b *bench) plain() {
	client := b.producer()
	b.produce(client, 0, events(0, 100)...)
	b.produce(
		client,
		0,
		&kgo.Record{},
		&kgo.Record{Value: []byte{}},
		&kgo.Record{Value: []byte("rubbish")},
		&kgo.Record{Value: []byte(`{"user":"u"}`)},
		&kgo.Record{
			Value: []byte(`{"user":"u","item":"i","rating":9,"ts":1}`),
		},
		&kgo.Record{Value: []byte(strings.Repeat(" ", 201))},
	)
	b.produce(client, 0, events(100, 50)...)
	b.produce(client, 1, events(1000, 40)...)
}

func TestPlainTopic(t *testing.T) {
	b := newBench(t)
	b.plain()
	b.store([partitions]int64{156, 0}, nil) // partition 1 was never begun: it is not the state's
	p := b.verifyOK()
	if len(p) != 1 || p[0].Rejected != 6 || p[0].Next != 156 || p[0].Rows < 100 ||
		p[0].Rows > 120 { // of 150 some are held out
		t.Errorf("partitions %+v", p)
	}
	b.store(b.next, nil)
	// How many of the 190 events are held out is drawn: seldom fewer than the 20 that are kept.
	if p = b.verifyOK(); len(p) != 2 || p[0].Rows+p[1].Rows < 105 || p[0].Rows+p[1].Rows > 120 || p[1].Next != 40 {
		t.Errorf("partitions %+v", p)
	}
	b.store([partitions]int64{156, 33}, nil)
	b.produce(b.producer(), 1, event(5)) // what the daemon has not read yet is not lost
	b.verifyOK()
}

// TestLateTimes parses a record whose time stamp nanoseconds since 1970 cannot hold; no Go client writes one.
func TestLateTimes(t *testing.T) {
	const late = 253_402_300_799_000 // the end of the year 9999
	record := kmsg.NewRecord()
	record.Key, record.Value, record.TimestampDelta64 = []byte("k"), []byte("v"), 7
	body := record.AppendTo(nil)[1:] // without the length, which is one byte
	record.Length = int32(len(body))
	batch := kmsg.NewRecordBatch()
	batch.FirstOffset, batch.Magic, batch.ProducerID, batch.FirstTimestamp, batch.NumRecords, batch.Records = 4, 2, -1,
		late, 1, record.AppendTo(nil)
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	answer := kmsg.NewFetchResponseTopicPartition()
	answer.RecordBatches = raw
	r := &reader{decompressor: kgo.DefaultDecompressor()}
	b, err := r.batch(topic, &answer, 4, 9)
	if err != nil || len(b.Records) != 1 || b.Next != 5 || b.Records[0].Timestamp != late+7 ||
		b.Records[0].CRC != crc([]byte("k"), []byte("v"), late+7) {
		t.Errorf("batch %+v, %v", b, err)
	}
}

func TestTransactions(t *testing.T) {
	b := newBench(t)
	plain := b.producer()
	one, two := b.producer(kgo.TransactionalID("one")), b.producer(kgo.TransactionalID("two"))
	begin := func(client *kgo.Client) {
		t.Helper()
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	write := func(client *kgo.Client, count int) {
		b.produce(client, 0, events(n, count)...)
		n += count
	}
	for range 4 {
		begin(one)
		begin(two)
		write(one, 5)
		write(two, 3)
		write(plain, 2)
		delete(b.open, plain)
		write(one, 4)
		b.end(one, kgo.TryAbort)
		write(two, 1)
		b.end(two, kgo.TryCommit)
		begin(two)
		write(two, 2)
		b.end(two, kgo.TryAbort)
	}
	begin(one)
	write(one, 2)
	begin(two)
	write(two, 1)
	write(one, 1)
	b.end(one, kgo.TryAbort) // its marker and its last record are behind the open transaction's first record
	stable := b.next[0] - 3

	// Every prefix that read_committed could have seen is verifiable, also one that ends inside an aborted transaction.
	for _, to := range []int64{1, 7, 12, stable} {
		b.store([partitions]int64{to, 0}, nil)
		p := b.verifyOK()
		var control, aborted int64
		for _, r := range b.written[0][:to] {
			switch r.Fate {
			case consumer.Control:
				control++
			case consumer.Aborted:
				aborted++
			}
		}
		if p[0].Control != control || p[0].Aborted != aborted || p[0].Holes != 0 {
			t.Errorf("to %d: %d control, %d aborted records: %+v", to, control, aborted, p[0])
		}
	}
	if err := two.EndTransaction(b.context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

// TestCompactedTopic has holes in the middle and before the last batch.
func TestCompactedTopic(t *testing.T) {
	b := newBench(t)
	client := b.producer()
	admin := kadm.NewClient(client)
	if _, err := admin.DeleteTopics(b.context(), topic); err != nil {
		t.Fatal(err)
	}
	compact, forever := "compact", "-1" // the events are older than retention
	if _, err := admin.CreateTopics(b.context(), partitions, 1, map[string]*string{"cleanup.policy": &compact,
		"retention.ms": &forever}, topic); err != nil {
		t.Fatal(err)
	}
	first := event(0)
	first.Key = []byte("other") // the embedded broker would move the start of the log, which Kafka does not
	b.produce(client, 0, first)
	for i := range 12 {
		b.produce(client, 0, events(i*5, 5)...) // nine keys
	}
	b.broker.Compact()
	b.written[0] = b.survivors(0)
	holes := b.next[0] - int64(len(b.written[0]))
	if holes < 20 {
		t.Fatalf("compaction left %d of %d records", len(b.written[0]), b.next[0])
	}
	for _, to := range []int64{3, b.next[0] - 7, b.next[0]} { // the first two end in holes
		b.store([partitions]int64{to, 0}, nil)
		if p := b.verifyOK(); to == b.next[0] && p[0].Holes != holes || p[0].Next != to {
			t.Errorf("to %d, %d holes: the ledger has %+v", to, holes, p[0])
		}
	}
}

// survivors are the records that a consumer of the compacted partition sees.
func (b *bench) survivors(partition int32) []consumer.Record {
	b.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.broker.ListenAddrs()...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}}))
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	var out []consumer.Record
	for last := int64(-1); last < b.next[partition]-1; {
		fetches := client.PollFetches(b.context())
		if err := fetches.Err(); err != nil {
			b.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			last = r.Offset
			out = append(out, b.written[partition][r.Offset])
		})
	}
	return out
}

// TestDifferences alters what reaches the state and wants it noticed, in partition 0.
func TestDifferences(t *testing.T) {
	drop := func(offset int64) func(*consumer.Batch) {
		return func(batch *consumer.Batch) {
			var kept []consumer.Record
			for _, r := range batch.Records {
				if batch.Partition != 0 || r.Offset != offset {
					kept = append(kept, r)
				}
			}
			batch.Records = kept
		}
	}
	alter := func(offset int64, f func(*consumer.Record)) func(*consumer.Batch) {
		return func(batch *consumer.Batch) {
			for i := range batch.Records {
				if batch.Partition == 0 && batch.Records[i].Offset == offset {
					f(&batch.Records[i])
				}
			}
		}
	}
	both := func(f, g func(*consumer.Batch)) func(*consumer.Batch) {
		return func(batch *consumer.Batch) { f(batch); g(batch) }
	}
	valid := event(3).Value
	for name, c := range map[string]struct {
		change       func(*consumer.Batch)
		lost, double int64
	}{
		"an event skipped":             {drop(20), 1, 0},
		"the last event skipped":       {drop(155), 1, 0},
		"a rejected record applied":    {alter(102, func(r *consumer.Record) { r.Value = valid }), 0, 1},
		"an event rejected":            {alter(30, func(r *consumer.Record) { r.Value = []byte("{") }), 1, 0},
		"one event for another":        {both(drop(20), alter(102, func(r *consumer.Record) { r.Value = valid })), 0, 0},
		"a rejected record skipped":    {drop(102), 0, 0},
		"an event taken for aborted":   {alter(40, func(r *consumer.Record) { r.Fate = consumer.Aborted }), 1, 0},
		"another CRC":                  {alter(50, func(r *consumer.Record) { r.CRC++ }), 0, 0},
		"a rejected record as control": {alter(102, func(r *consumer.Record) { r.Fate = consumer.Control }), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.plain()
			b.store(b.next, c.change)
			r := b.verify()
			if r.Summary.OK || r.Summary.Lost != c.lost || r.Summary.Double != c.double ||
				r.Partitions[0].Lost != c.lost ||
				r.Partitions[0].Double != c.double {
				t.Errorf("lost %d, double %d: %+v", c.lost, c.double, r)
			}
			if r.Partitions[0].Digest != digestMismatch || r.Partitions[1].Digest != digestOK {
				t.Errorf("digests %s and %s", r.Partitions[0].Digest, r.Partitions[1].Digest)
			}
		})
	}
}

// TestReasonsDiffer rejects a record for another reason: accounts, digests and rows are the same.
func TestReasonsDiffer(t *testing.T) {
	b := newBench(t)
	b.plain()
	b.store(b.next, func(batch *consumer.Batch) {
		for i := range batch.Records {
			if r := &batch.Records[i]; batch.Partition == 0 && r.Offset == 102 {
				r.Value = []byte("[]")
			}
		}
	})
	if r := b.verify(); r.Summary.OK || r.Partitions[0].Digest != digestOK || r.Summary.Lost+r.Summary.Double > 0 {
		t.Errorf("result %+v", r)
	}
}

// TestRowsDiffer has the accounts right and the rows wrong.
func TestRowsDiffer(t *testing.T) {
	b := newBench(t)
	b.plain()
	b.store(b.next, func(batch *consumer.Batch) {
		for i := range batch.Records { // three years older than they are: forgotten, where others should be
			if r := &batch.Records[i]; batch.Partition == 0 && r.Offset >= 80 && r.Offset < 96 {
				r.Value = []byte(`{"user":"u1","item":"i1","rating":1,"ts":1600000000000}`)
			}
		}
	})
	r := b.verify()
	p := r.Partitions[0]
	if r.Summary.OK || p.Digest != digestMismatch || r.Summary.RecomputedDigest == nil ||
		*r.Summary.RecomputedDigest == r.Summary.SampleDigest {
		t.Errorf("result %+v", r)
	}
	if r.Summary.Lost == 0 || r.Summary.Lost != r.Summary.Double || p.Lost < r.Partitions[1].Lost {
		t.Errorf("the sample is full, so that each lost row has left its place to one that should not be there: %+v", r)
	}
}

// TestUnverifiable takes from the topic what the ledger covers.
func TestUnverifiable(t *testing.T) {
	b := newBench(t)
	b.plain()
	b.store(b.next, nil)
	admin := kadm.NewClient(b.producer())
	if _, err := admin.DeleteRecords(b.context(), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0,
		At: 10}}}); err != nil {
		t.Fatal(err)
	}
	r := b.verify()
	if p := r.Partitions; p[0].Digest != digestUnverifiable || p[0].CheckedFrom != 10 || p[1].Digest != digestOK {
		t.Errorf("partitions %+v", p)
	}
	if s := r.Summary; s.OK || s.RecomputedDigest != nil || s.Lost+s.Double != 0 {
		t.Errorf("summary %+v", s)
	}

	if _, err := admin.DeleteTopics(b.context(), topic); err != nil {
		t.Fatal(err)
	}
	if r = b.verify(); r.Summary.OK || r.Partitions[0].Digest != digestUnverifiable ||
		r.Partitions[1].Digest != digestUnverifiable {
		t.Errorf("deleted: %+v", r)
	}
	if _, err := admin.CreateTopics(b.context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	if r = b.verify(); r.Summary.OK || r.Partitions[0].Digest != digestUnverifiable ||
		r.Partitions[1].Digest != digestUnverifiable {
		t.Errorf("created again: %+v", r)
	}
}

func TestOffline(t *testing.T) {
	b := newBench(t)
	b.plain()
	b.store(b.next, nil)
	b.broker.Close()
	o := b.options()
	o.Kafka = nil
	r, err := Run(b.context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Summary.OK || r.Summary.RecomputedDigest != nil || len(r.Partitions) != 2 ||
		r.Partitions[0].Digest != digestOK {
		t.Errorf("result %+v", r)
	}
}

// TestCutShortTakeUp: a shard has merged what others had been, but not taken it as its own. verify says that the next
// start continues. After that start the state is as good as any.
func TestCutShortTakeUp(t *testing.T) {
	b := newBench(t)
	b.plain()
	b.model.Shard.Role = config.RoleShard
	options := ingest.StoreOptions(b.model)
	options.Seed, options.DrawSeed, options.Mirror = 7, false, true
	old, err := sketch.NewMemory(options)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	for p := range int32(partitions) {
		b.apply(old, p, b.next[p])
	}
	e, err := old.Excerpt(1<<20, nil, true)
	if err != nil || e.Head == nil {
		t.Fatal(e, err)
	}
	b.withStoreTo(func(o *sketch.Options) { o.Seed, o.DrawSeed, o.Merges = 7, false, true }, func(s *sketch.Store) {
		if _, err := s.Merge(&sketch.Share{Pairs: e.Pairs, Head: e.Head, Only: func(_ string,
			partition int32) bool {
			return partition == 0
		}}); err != nil {
			t.Fatal(err)
		}
	})
	o := b.options()
	o.Kafka = nil
	if _, err := Run(b.context(), o); report.CodeOf(err) != report.ExitNo ||
		!strings.Contains(err.Error(), "start the shard again") {
		t.Errorf("a take-up that was cut short: %v", err)
	}
	b.withStoreTo(func(o *sketch.Options) { o.Seed, o.DrawSeed, o.Merges = 7, false, true }, func(s *sketch.Store) {
		if err := s.Taken(); err != nil {
			t.Fatal(err)
		}
	})
	if r, err := Run(b.context(), o); err != nil || !r.Summary.OK || len(r.Partitions) != 1 ||
		r.Partitions[0].Next != b.next[0] {
		t.Errorf("taken up: %+v, %v", r, err)
	}
}

func TestExitCodes(t *testing.T) {
	b := newBench(t)
	wantCode := func(name string, o Options, ctx context.Context, code int) {
		t.Helper()
		if r, err := Run(ctx, o); report.CodeOf(err) != code || err == nil {
			t.Errorf("%s: %+v, %v; want exit code %d", name, r, err, code)
		}
	}
	wantCode("no state", b.options(), b.context(), report.ExitState)
	b.produce(b.producer(), 0, events(0, 20)...)
	b.store(b.next, nil)
	b.withStore(func(*sketch.Store) { wantCode("locked", b.options(), b.context(), report.ExitState) })
	done, cancel := context.WithCancel(context.Background())
	cancel()
	wantCode("stopped", b.options(), done, report.ExitNo)

	o := b.options()
	o.Kafka = &config.Kafka{BootstrapServers: []string{"127.0.0.1:1"}, ClientID: "c"}
	wantCode("no broker", o, b.context(), report.ExitBroker)
	o.Kafka = &config.Kafka{
		BootstrapServers: b.conf.Kafka.BootstrapServers,
		TLS:              config.TLS{Enabled: true, CAFile: b.dir + "/none"},
	}
	wantCode("no CA file", o, b.context(), report.ExitUsage)
	b.configure("{size: 101, half_life: 30d, holdout: {fraction: 0.2, size: 20}}")
	wantCode("another configuration", b.options(), b.context(), report.ExitUsage)
}

func TestSignIn(t *testing.T) {
	b := newBench(t)
	b.produce(b.producer(), 0, events(0, 5)...)
	b.store(b.next, nil)
	secured := startBroker(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "p", "pw"),
		kfake.Superuser("SCRAM-SHA-256", "s", "pw"), kfake.Superuser("SCRAM-SHA-512", "x", "pw"))
	for _, c := range []struct {
		mechanism, user, password string
		code                      int
	}{{"plain", "p", "pw", report.ExitDone}, {"scram-sha-256", "s", "pw", report.ExitDone}, {"scram-sha-512", "x", "pw",
		report.ExitDone},
		{"scram-sha-512", "x", "wrong", report.ExitBroker}, {"none", "", "", report.ExitBroker}} {
		o := b.options()
		o.Kafka = &config.Kafka{BootstrapServers: secured.ListenAddrs(), ClientID: "c",
			SASL: config.SASL{Mechanism: c.mechanism, Username: c.user, Password: scalar.NewSecret(c.password)}}
		if r, err := Run(b.context(), o); report.CodeOf(
			err,
		) != c.code { // the other broker's topic is empty, so that nothing is proved
			t.Errorf("%s with %q: %+v, %v; want exit code %d", c.mechanism, c.password, r, err, c.code)
		}
	}
}

// TestBrokerTroubles answers fetches with errors that pass and with one that does not.
func TestBrokerTroubles(t *testing.T) {
	b := newBench(t)
	b.plain()
	b.store(b.next, nil)
	fail := func(times int, code int16) {
		for range times {
			b.broker.ControlKey(kmsg.Fetch.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
				asked := request.(*kmsg.FetchRequest)
				answer := asked.ResponseKind().(*kmsg.FetchResponse)
				for _, t := range asked.Topics {
					p := kmsg.NewFetchResponseTopicPartition()
					p.Partition, p.ErrorCode, p.LastStableOffset = t.Partitions[0].Partition, code, math.MaxInt64
					answer.Topics = append(
						answer.Topics,
						kmsg.FetchResponseTopic{
							Topic:      t.Topic,
							TopicID:    t.TopicID,
							Partitions: []kmsg.FetchResponseTopicPartition{p},
						},
					)
				}
				return answer, nil, true
			})
		}
	}
	fail(2, kerr.NotLeaderForPartition.Code)
	b.verifyOK()
	fail(fetchAttempts-1, 0) // nothing there, so often as not to be believed
	b.verifyOK()
	fail(1, kerr.TopicAuthorizationFailed.Code)
	if _, err := Run(b.context(), b.options()); report.CodeOf(err) != report.ExitBroker {
		t.Errorf("refused: %v", err)
	}
	b.broker.ControlKey(kmsg.Fetch.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		answer := request.ResponseKind().(*kmsg.FetchResponse)
		answer.ErrorCode = kerr.OffsetOutOfRange.Code // of no partition
		return answer, nil, true
	})
	if _, err := Run(b.context(), b.options()); report.CodeOf(err) != report.ExitBroker {
		t.Errorf("answer without partitions: %v", err)
	}
	fail(1, kerr.OffsetOutOfRange.Code) // a second answer says otherwise
	b.verifyOK()
	fail(2, kerr.OffsetOutOfRange.Code)
	if r := b.verify(); r.Summary.OK || r.Partitions[0].Digest != digestUnverifiable {
		t.Errorf("retention overtook: %+v", r)
	}
}

// TestNothingRead verifies a state that has read nothing.
func TestNothingRead(t *testing.T) {
	b := newBench(t)
	b.withStore(func(*sketch.Store) {})
	if p := b.verifyOK(); len(p) != 0 {
		t.Errorf("partitions %+v", p)
	}
	b.withStore(func(s *sketch.Store) {
		if err := s.Begin(topic, 1, 0); err != nil {
			t.Fatal(err)
		}
	})
	if p := b.verifyOK(); len(p) != 1 {
		t.Errorf("partitions %+v", p)
	}
}

func TestMilliseconds(t *testing.T) {
	for _, want := range []int64{0, 1, -1, 1_700_000_000_123, 9_223_372_036_855, 253_402_300_799_999, -62_135_596_800_000,
		1<<57 - 1, -1 << 57} {
		if got := milliseconds(time.Unix(0, want*1e6)); got != want {
			t.Errorf("%d became %d", want, got)
		}
	}
}

func TestBelow(t *testing.T) {
	batch := func(base byte, magic byte) []byte {
		b := make([]byte, 40)
		b[7], b[11], b[16] = base, 28, magic
		return b
	}
	two := append(batch(5, 2), batch(9, 2)...)
	for _, c := range []struct {
		batches []byte
		offset  int64
		want    int
	}{{nil, 3, 0}, {two, 5, 0}, {two, 6, 40}, {two, 9, 40}, {two, 10, 80}, {two[:70], 9, 40}, {two[:50], 9, 50}, {batch(5,
		1), 3, 40}, {batch(5, 2)[:20], 3, 0}} {
		if got := len(below(c.batches, c.offset)); got != c.want {
			t.Errorf("%d bytes below %d of %d bytes, want %d", got, c.offset, len(c.batches), c.want)
		}
	}
}
