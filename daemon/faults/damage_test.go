package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// smallBatches fills a topic's only partition with batches of ten records.
func smallBatches(t *testing.T, k *lone, topic string, seed uint64, records int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.addr()...), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	value := ratings(seed, 0)
	for range records / 10 {
		ten := make([]*kgo.Record, 10)
		for i := range ten {
			ten[i] = &kgo.Record{Value: value(i)}
		}
		if err := client.ProduceSync(t.Context(), ten...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedSegment (C22): one bit of a batch is inverted in the broker's file, and the broker serves it. The
// partition halts at that batch after a few tries, nothing of it is applied, and when the disk is right again the rest
// is read.
func TestDamagedSegment(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	makeTopic(t, admin(t, k.addr()), "damaged", 1, 1)
	smallBatches(t, k, "damaged", 1, 200)
	base := k.flip(t, "damaged", 105)
	config := configure(t, "damaged", settings{brokers: k.addr(), topics: []string{"damaged"}})
	code, c := toTheEnd(t, config, time.Minute)
	if code != report.ExitHalted {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	h := c.halted(time.Second)
	if h.Offset != base || !strings.Contains(strings.ToLower(h.Reason), "crc") {
		t.Errorf("halt %+v, want offset %d and a word of the CRC", h, base)
	}
	if l := one(t, inspect(t, config), "damaged"); l.Applied != base || l.Next != base {
		t.Errorf("%+v, want all before offset %d and nothing after", l, base)
	}
	proved(t, config)
	k.flip(t, "damaged", 105)
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("repaired: exit code %d, %+v", code, c.failure)
	}
	if l := one(t, inspect(t, config), "damaged"); l.Applied != 200 || l.Gap != 0 {
		t.Errorf("repaired: %+v", l)
	}
	proved(t, config)
}

// TestLogTruncated (C11): after an unclean stop the broker finds a damaged batch and cuts its log there, below what the
// daemon has applied. The partition halts; it halts, too, when the log has grown past the position again with other
// records.
func TestLogTruncated(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	a := admin(t, k.addr())
	for _, regrown := range []bool{false, true} {
		t.Run(fmt.Sprintf("regrown=%v", regrown), func(t *testing.T) {
			topic := fmt.Sprintf("truncated-%v", regrown)
			makeTopic(t, a, topic, 1, 1)
			smallBatches(t, k, topic, 1, 200)
			config := configure(t, "truncated", settings{brokers: k.addr(), topics: []string{topic}})
			d := run(t, refitd, config, nil)
			d.ready(20 * time.Second)
			d.caughtUp(10*time.Second, topic, map[int32]int64{0: 200})
			if regrown {
				d.stopClean()
			}
			var base int64
			k.restart(t, func() { base = k.flip(t, topic, 105) })
			if end := ends(t, a, topic)[0]; end != base {
				t.Fatalf("the broker's log ends at %d, want it cut at %d", end, base)
			}
			text := fmt.Sprintf("log end %d is below our position 200", base)
			if regrown {
				smallBatches(t, k, topic, 2, 200)
				text = ""
				d = run(t, refitd, config, nil)
			}
			haltedWith(t, d, 20*time.Second, topic, 200, text)
			d.oneHalted()
			if code, _ := d.stop(); code != report.ExitHalted {
				t.Errorf("exit code %d", code)
			}
			if l := one(t, inspect(t, config), topic); l.Next != 200 || l.Applied != 200 {
				t.Errorf("%+v", l)
			}
		})
	}
}

// TestCompacted (C23): the real cleaner leaves holes, batches without their last records and empty batches at the ends
// of segments. They are holes, not gaps; nothing waits or spins at them; tombstones are rejected as null values.
func TestCompacted(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	a := admin(t, k.addr())
	const topic = "compacted"
	makeTopic(t, a, topic, 1, 1, "cleanup.policy", "compact", "internal.segment.bytes", "20000",
		"min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "3600000", "segment.ms", "2000")
	value := ratings(1, 0)
	total := int64(0)
	// as a new producer id: the cleaner keeps the last batch of each, empty if need be
	send := func(records ...*kgo.Record) {
		t.Helper()
		client, err := kgo.NewClient(kgo.SeedBrokers(k.addr()...), kgo.DefaultProduceTopic(topic))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		total += int64(len(records))
	}
	record := func(key string) *kgo.Record { return &kgo.Record{Key: []byte(key), Value: value(0)} }
	for i := range tier.Size(40, 100) { // batches that will lose their tails
		var twenty []*kgo.Record
		for j := range 20 {
			key := "often"
			if j < 10 {
				key = fmt.Sprint("once-", i, "-", j)
			}
			twenty = append(twenty, record(key))
		}
		send(twenty...)
	}
	for range tier.Size(300, 600) { // batches that will be empty, more than fit into a segment
		send(record("often"))
	}
	send(&kgo.Record{Key: []byte("once-0-0")}) // a tombstone
	for i := range 20 {                        // new segments: the last one is never cleaned
		var twenty []*kgo.Record
		for j := range 20 {
			twenty = append(twenty, record(fmt.Sprint("last-", i, "-", j)))
		}
		send(twenty...)
	}
	send(record("often"))
	before := [3]int{}
	since := time.Now()
	within(t, 90*time.Second, func() error { // until the cleaner has done both and come to rest
		lostTail, empty, atEnd := isCleaned(k.batchesOf(t, topic))
		now := [3]int{lostTail, empty, atEnd}
		if now != before {
			before, since = now, time.Now()
		}
		if lostTail == 0 || empty == 0 || atEnd == 0 || time.Since(since) < 4*time.Second {
			return fmt.Errorf("%d batches without tail, %d empty, %d of them at the end of a segment", lostTail, empty,
				atEnd)
		}
		return nil
	})
	t.Logf("of %d records: %d batches lost their tail, %d are empty, %d of those at the end of a segment", total,
		before[0], before[1], before[2])

	config := configure(t, "compacted", settings{brokers: k.addr(), topics: []string{topic}})
	d := run(t, refitd, config, nil)
	d.ready(20 * time.Second)
	d.caughtUp(20*time.Second, topic, map[int32]int64{0: total})
	fetches, err := d.metric("refitd_consumer_fetches_total")
	if err != nil {
		t.Fatal(err)
	}
	pause(t, 2*time.Second)
	after, err := d.metric("refitd_consumer_fetches_total")
	if err != nil {
		t.Fatal(err)
	}
	if after-fetches > 40 { // one each fetch_max_wait of 100 ms, and some
		t.Errorf("%g fetches in 2 s with nothing to read", after-fetches)
	}
	s := d.stopClean()
	balanced(t, s)
	l := one(t, s, topic)
	if l.Holes == 0 || l.Gap != 0 || l.Rejected != 1 || s.RejectedByReason["null_value"] != 1 {
		t.Errorf("%+v, rejected %v", l, s.RejectedByReason)
	}
	proved(t, config)
	t.Logf("%d applied, %d holes, %g fetches to read it", l.Applied, l.Holes, fetches)
}
