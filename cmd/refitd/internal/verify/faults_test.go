package verify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// apply reads what was written to a partition from the ledger's next to end, as the daemon does.
func (b *bench) apply(s *sketch.Store, partition int32, end int64) {
	b.t.Helper()
	next, ok := s.Position(topic, partition)
	if !ok {
		if err := s.Begin(topic, partition, 0); err != nil {
			b.t.Fatal(err)
		}
	}
	sink := ingest.New(b.model, s, nil)
	for _, batch := range b.batches(partition, end) {
		if batch.Next <= next {
			continue
		}
		if err := sink.Apply(b.context(), &batch); err != nil {
			b.t.Fatal(err)
		}
	}
}

// deleteRecords moves the start of a partition's log.
func (b *bench) deleteRecords(partition int32, to int64) {
	b.t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: to})
	if _, err := kadm.NewClient(b.producer()).DeleteRecords(b.context(), offsets); err != nil {
		b.t.Fatal(err)
	}
}

// recreate makes the topic anew, with settings.
func (b *bench) recreate(settings map[string]*string) {
	b.t.Helper()
	admin := kadm.NewClient(b.producer())
	if _, err := admin.DeleteTopics(b.context(), topic); err != nil {
		b.t.Fatal(err)
	}
	if _, err := admin.CreateTopics(b.context(), partitions, 1, settings, topic); err != nil {
		b.t.Fatal(err)
	}
	b.written, b.next = [partitions][]consumer.Record{}, [partitions]int64{}
}

// wantPartition fails unless a line says what is expected of partition 0, and the exit code follows.
func wantPartition(t *testing.T, r *Result, digest string, checkedFrom, unverifiable int64, ok bool) {
	t.Helper()
	p := r.Partitions[0]
	if p.Digest != digest || p.CheckedFrom != checkedFrom || p.Unverifiable != unverifiable || p.Lost+p.Double != 0 ||
		r.Summary.OK != ok {
		t.Errorf("%+v, ok %t; want digest %s from %d on, %d unverifiable, ok %t", p, r.Summary.OK, digest, checkedFrom,
			unverifiable, ok)
	}
}

// TestRetention: what the broker no longer holds is unverifiable, what lies behind the oldest checkpoint that it covers
// is proved.
func TestRetention(t *testing.T) {
	b := newBench(t)
	b.produce(b.producer(), 0, events(0, 170)...)
	b.withStoreOf(50, func(s *sketch.Store) { b.apply(s, 0, 170) }) // checkpoints at 50, 100 and 150
	wantPartition(t, b.verify(), digestOK, 0, 0, true)
	for _, c := range []struct {
		start, from, unverifiable int64
		digest                    string
		ok                        bool
	}{
		{1, 50, 50, digestOK, true}, {50, 50, 50, digestOK, true}, {51, 100, 100, digestOK, true}, {150, 150, 150, digestOK,
			true},
		{151, 151, 170, digestUnverifiable, false}, {170, 170, 170, digestUnverifiable, false},
	} {
		b.deleteRecords(0, c.start)
		r := b.verify()
		wantPartition(t, r, c.digest, c.from, c.unverifiable, c.ok)
		if r.Summary.RecomputedDigest != nil {
			t.Errorf("log from %d on: the sample was recomputed from a part of the log", c.start)
		}
	}
}

// TestRetentionHidesNothing: damage behind the first checkpoint that the log covers is found, and so are rows that are
// not what the log has where no account covers them.
func TestRetentionHidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		offset int64
		digest string
	}{"behind a checkpoint": {120, digestMismatch}, "before it": {20, digestOK}} {
		b := newBench(t)
		b.produce(b.producer(), 0, events(0, 170)...)
		b.written[0][c.offset].CRC++
		b.withStoreOf(50, func(s *sketch.Store) { b.apply(s, 0, 170) })
		b.deleteRecords(0, 60)
		if r := b.verify(); r.Partitions[0].Digest != c.digest || r.Summary.OK != (c.digest == digestOK) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	b := newBench(t)
	b.configure("{size: 1000, holdout: {fraction: 0.2, size: 100}}")
	b.produce(b.producer(), 0, events(0, 40)...)
	b.written[0][30].Value = event(3).Value
	b.store(b.next, nil)
	b.deleteRecords(0, 10)
	if r := b.verify(); r.Partitions[0].Digest != digestMismatch || r.Partitions[0].CheckedFrom != 10 || r.Summary.OK {
		t.Errorf("a row altered: %+v", r)
	}
}

// TestCompactionAfterReading: a record that was applied and then compacted away was not counted twice. Its stretch is
// unverifiable.
func TestCompactionAfterReading(t *testing.T) {
	compact, forever := "compact", "-1" // the events are older than retention
	settings := map[string]*string{"cleanup.policy": &compact, "retention.ms": &forever}
	fill := func(b *bench) {
		b.recreate(settings)
		client := b.producer()
		first := event(0)
		first.Key = []byte("other") // the embedded broker would move the start of the log, which Kafka does not
		b.produce(client, 0, first)
		for i := range 8 {
			b.produce(client, 0, events(i*5, 5)...) // nine keys
		}
	}
	b := newBench(t)
	fill(b)
	read := b.next[0]
	b.store([partitions]int64{read, 0}, nil)
	b.broker.Compact()
	r := b.verify()
	wantPartition(t, r, digestUnverifiable, 0, read, false)
	if r.Summary.Double != 0 || r.Summary.RecomputedDigest != nil {
		t.Errorf("summary %+v", r.Summary)
	}

	// With checkpoints the tail, which was not compacted, is proved.
	b = newBench(t)
	fill(b)
	b.withStoreOf(10, func(s *sketch.Store) { b.apply(s, 0, b.next[0]) })
	b.broker.Compact()
	before := b.next[0]
	r = b.verify()
	if p := r.Partitions[0]; p.Double != 0 || p.Digest == digestMismatch {
		t.Errorf("%+v", p)
	}
	b.produce(b.producer(), 0, events(100, 45)...)
	b.withStoreOf(10, func(s *sketch.Store) { b.apply(s, 0, b.next[0]) })
	r = b.verify()
	p := r.Partitions[0]
	if p.Digest != digestOK || p.CheckedFrom < 10 || p.CheckedFrom > before+10 || p.Unverifiable != p.CheckedFrom ||
		!r.Summary.OK {
		t.Errorf("%d of %d offsets were compacted: %+v", before, b.next[0], p)
	}

	// What the log still shows and the ledger does not count is lost, compaction or not.
	b = newBench(t)
	fill(b)
	b.written[0] = append(b.written[0][:read-2:read-2], b.written[0][read-1]) // the last but one was never seen
	b.store([partitions]int64{read, 0}, nil)
	if r := b.verify(); r.Partitions[0].Lost != 1 || r.Partitions[0].Digest != digestMismatch {
		t.Errorf("a record skipped: %+v", r.Partitions[0])
	}
}

// TestMarkersVanish: transaction markers that compaction took away, and only they, leave a state proved.
func TestMarkersVanish(t *testing.T) {
	begin := sketch.LedgerRow{Start: 0, Next: 0}
	have := sketch.LedgerRow{Next: 10, Applied: 6, Rejected: 1, Control: 2, Aborted: 1, LastOffset: 8}
	for name, c := range map[string]struct {
		change   func(l *sketch.LedgerRow) // of what the log gives
		compacts bool
		want     finding
	}{
		"the same":                    {func(*sketch.LedgerRow) {}, false, proved},
		"a marker gone":               {func(l *sketch.LedgerRow) { l.Control--; l.Holes++ }, true, proved},
		"an aborted record gone":      {func(l *sketch.LedgerRow) { l.Aborted--; l.Holes++ }, true, proved},
		"a marker gone, not compact":  {func(l *sketch.LedgerRow) { l.Control--; l.Holes++ }, false, different},
		"a marker for an aborted one": {func(l *sketch.LedgerRow) { l.Control--; l.Aborted++ }, true, different},
		"a marker from nowhere":       {func(l *sketch.LedgerRow) { l.Control++; l.Aborted-- }, true, different},
		"another digest":              {func(l *sketch.LedgerRow) { l.Digest[0]++ }, true, different},
		"an event gone":               {func(l *sketch.LedgerRow) { l.Applied--; l.Holes++; l.Digest[0]++ }, true, compacted},
		"an event gone, same digest":  {func(l *sketch.LedgerRow) { l.Applied--; l.Holes++ }, true, different},
		"an event for a rejected one": {func(l *sketch.LedgerRow) { l.Applied--; l.Rejected++; l.Digest[0]++ }, true,
			different},
		"events from nowhere": {func(l *sketch.LedgerRow) { l.Applied += 2; l.Control -= 2; l.Digest[0]++ }, true, different},
	} {
		count := tally{row: begin}
		count.row = have
		c.change(&count.row)
		if f, _, _ := count.judge(&have, c.compacts); f != c.want {
			t.Errorf("%s: finding %d, want %d", name, f, c.want)
		}
	}
}

// TestDeclaredGap: what was declared lost is neither lost nor double, and verification begins behind it.
func TestDeclaredGap(t *testing.T) {
	b := newBench(t)
	b.produce(b.producer(), 0, events(0, 100)...)
	b.withStore(func(s *sketch.Store) { b.apply(s, 0, 40) })
	b.deleteRecords(0, 61)
	wantPartition(t, b.verify(), digestUnverifiable, 40, 40, false)
	b.withStore(func(s *sketch.Store) {
		if err := s.AcceptGap(topic, 0, 61); err != nil {
			t.Fatal(err)
		}
		b.apply(s, 0, 100)
	})
	r := b.verify()
	wantPartition(t, r, digestOK, 61, 61, true)
	if p := r.Partitions[0]; p.Gap != 21 || r.Summary.Gap != 21 || p.Start != 0 || p.Next != 100 {
		t.Errorf("%+v", p)
	}
}

// TestRecreatedTopic: after the operator accepted a topic that was made anew, the accounts of the new one are proved
// exactly.
func TestRecreatedTopic(t *testing.T) {
	b := newBench(t)
	b.configure("{size: 1000, holdout: {fraction: 0.2, size: 100}}") // rows of the old topic stay
	b.produce(b.producer(), 0, events(0, 60)...)
	b.store(b.next, nil)
	b.recreate(nil)
	b.produce(b.producer(), 0, events(500, 80)...)
	if r := b.verify(); r.Summary.OK || r.Partitions[0].Digest != digestMismatch {
		t.Errorf("not accepted: %+v", r)
	}
	b.withStore(func(s *sketch.Store) {
		if err := s.RaiseIncarnation(topic, map[int32]int64{0: 0}); err != nil {
			t.Fatal(err)
		}
		b.apply(s, 0, 80)
	})
	r := b.verify()
	wantPartition(t, r, digestOK, 0, 60, true)
	if p := r.Partitions[0]; p.Next != 80 || r.Summary.RecomputedDigest != nil ||
		!strings.Contains(r.Summary.NotRecomputed, "made anew") {
		t.Errorf("%+v, %+v", p, r.Summary)
	}
}

// TestHaltedIsShown: a halted partition is verified as far as it was read, and says why it stopped.
func TestHaltedIsShown(t *testing.T) {
	b := newBench(t)
	b.produce(b.producer(), 0, events(0, 60)...)
	b.withStore(func(s *sketch.Store) {
		b.apply(s, 0, 35)
		if err := s.Halt(topic, 0, "because"); err != nil {
			t.Fatal(err)
		}
	})
	r := b.verify()
	wantPartition(t, r, digestOK, 0, 0, true)
	var text strings.Builder
	if err := r.Partitions[0].WriteText(&text); err != nil || r.Partitions[0].Halted == nil ||
		!strings.Contains(text.String(), "halted: because\n") {
		t.Errorf("%+v: %s", r.Partitions[0], text.String())
	}
}

// TestTampered alters what is stored, with good checksums, and wants it noticed: as a mismatch of its partition, or as
// damage where the state contradicts itself or its witness.
func TestTampered(t *testing.T) {
	const ledgerInts = 4 + 4 + 32
	number := func(b []byte, i int, by int64) {
		at := b[ledgerInts+8*i:]
		binary.BigEndian.PutUint64(at, uint64(int64(binary.BigEndian.Uint64(at))+by))
	}
	const applied, rejected, control, aborted, holes, watermark, eligibleTrain, eligibleSelect, rowsTrain = 2, 3, 4, 5, 6,
		9, 10, 11, 13
	for name, c := range map[string]struct {
		prefix byte
		change func(b []byte) []byte // of the first value with the prefix, which is of partition 0; nil deletes
		code   int
	}{
		"the digest":   {'l', func(b []byte) []byte { b[8] ^= 1; return b }, report.ExitState},
		"the last CRC": {'l', func(b []byte) []byte { b[7] ^= 1; return b }, report.ExitNo},
		"control for aborted": {'l', func(b []byte) []byte { number(b, control, 1); number(b, aborted, -1); return b },
			report.ExitNo},
		"control for holes": {'l', func(b []byte) []byte { number(b, control, 1); number(b, holes, -1); return b },
			report.ExitNo},
		"the watermark": {'l', func(b []byte) []byte { number(b, watermark, 1); return b }, report.ExitNo},
		"an event among the roles": {'l', func(b []byte) []byte {
			number(b, eligibleTrain, 1)
			number(b, eligibleSelect,
				-1)
			return b
		}, report.ExitNo},
		"applied for rejected": {'l', func(b []byte) []byte {
			number(b, applied, 1)
			number(b, eligibleTrain, 1)
			number(b, rejected, -1)
			return b
		}, report.ExitState},
		"applied alone":       {'l', func(b []byte) []byte { number(b, applied, 1); return b }, report.ExitState},
		"a row fewer counted": {'l', func(b []byte) []byte { number(b, rowsTrain, -1); return b }, report.ExitState},
		"a row's payload":     {'r', func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, report.ExitNo},
		"a row lost":          {'r', nil, report.ExitState},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.produce(b.producer(), 0, events(0, 150)...)
			b.produce(b.producer(), 0, &kgo.Record{Value: []byte("rubbish")})
			b.produce(b.producer(), 1, events(1000, 40)...)
			b.store(b.next, nil)
			tamper(t, filepath.Join(b.conf.StatePath(b.model), "rows"), c.prefix, c.change)
			r, err := Run(b.context(), b.options())
			code := report.CodeOf(err)
			if err == nil && !r.Summary.OK {
				code = report.ExitNo
				mismatches := 0
				for _, p := range r.Partitions {
					if p.Digest == digestMismatch {
						mismatches++
					}
				}
				if mismatches != 1 || c.prefix == 'l' && r.Partitions[0].Digest != digestMismatch {
					t.Errorf("partitions %+v", r.Partitions)
				}
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d: %+v, %v", code, c.code, r, err)
			}
		})
	}
}

// tamper changes the first value under a prefix and gives it the checksum that it should have: a CRC-32C over key and
// value.
func tamper(t *testing.T, dir string, prefix byte, change func(b []byte) []byte) {
	t.Helper()
	db, err := badger.Open(
		badger.DefaultOptions(dir).WithLogger(nil).WithCompression(options.None).WithBlockCacheSize(0).
			WithMemTableSize(16 << 20).WithValueLogFileSize(16 << 20),
	)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefix}, PrefetchValues: true, PrefetchSize: 1})
		defer it.Close()
		if it.Rewind(); !it.Valid() {
			return fmt.Errorf("no key %c", prefix)
		}
		key := it.Item().KeyCopy(nil)
		value, err := it.Item().ValueCopy(nil)
		if err != nil {
			return err
		}
		if change == nil {
			return txn.Delete(key)
		}
		value = change(value[:len(value)-4])
		sum := crc32.Checksum(append(append([]byte{}, key...), value...), crc32.MakeTable(crc32.Castagnoli))
		return txn.Set(key, binary.BigEndian.AppendUint32(value, sum))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
