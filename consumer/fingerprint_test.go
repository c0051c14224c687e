package consumer

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recreate deletes topic t of one partition and makes it anew with n other records.
func recreate(t *testing.T, cluster *kfake.Cluster, topic string, n int) {
	t.Helper()
	if err := cluster.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := cluster.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	if n > 0 {
		produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(1000, 1000+n)...)
	}
}

// TestRecreatedTopicHalts deletes a topic of which 20 records were applied and makes it anew, shorter, as long, and
// longer, while nobody reads, while a consumer reads, and before a run to the log ends. Nothing of the new topic may
// be applied. Another topic is still read.
func TestRecreatedTopicHalts(t *testing.T) {
	t.Parallel()
	const topic, other = "t", "other"
	for name, c := range map[string]struct {
		records int
		text    string
	}{
		"empty":         {0, "log end 0 is below our position 20"},
		"shorter":       {5, "log end 5 is below our position 20"},
		"ends at last":  {19, "log end 19 is below our position 20"},
		"as long":       {20, "fingerprint mismatch: the record at offset 19"},
		"longer":        {40, "fingerprint mismatch: the record at offset 19"},
		"longer by far": {3000, "fingerprint mismatch: the record at offset 19"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t, kfake.SeedTopics(1, topic, other))
			cl := newProducer(t, cluster.ListenAddrs())
			produce(t, cl, topic, 0, numbers(0, 20)...)
			produce(t, cl, other, 0, "a")
			m := newMemory()
			topics := []string{topic, other}
			r := start(t, m, cluster.ListenAddrs(), topics, nil)
			await(t, "all records",
				func() bool { return r.total() == 21 && r.metric(t, "refitd_consumer_lag_records") == 0 })

			check := func(t *testing.T, m *memory, halted func() string) {
				t.Helper()
				began := time.Now()
				await(t, "the halt", func() bool { return halted() != "" })
				if text := halted(); !strings.Contains(text, c.text) ||
					!strings.HasSuffix(text, "; look at the topic") {
					t.Errorf("text is %q, want %q", text, c.text)
				}
				if d := time.Since(began); d > 10*time.Second {
					t.Errorf("halted after %v", d)
				}
				equalValues(t, m, tp(topic, 0), numbers(0, 20))
			}
			awaitRest(t, r, tp(topic, 0)) // a shorter life than anewAfter cannot be detected
			recreate(t, cluster, topic, c.records)
			if c.records == 20 { // between two fetches it looks as before, until its next record
				produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, "next")
			}
			check(t, m, func() string { return r.haltText(tp(topic, 0)) })
			produce(t, cl, other, 0, "b")
			await(t, "the other topic", func() bool { return len(m.got(tp(other, 0))) == 2 })
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}

			clear(m.halts)
			again := start(t, m, cluster.ListenAddrs(), topics, nil)
			check(t, m, func() string { return again.haltText(tp(topic, 0)) })
			if err := again.stop(); err != nil {
				t.Fatal(err)
			}

			clear(m.halts)
			once := newRig(t, m, cluster.ListenAddrs(), topics, nil)
			ends, err := once.Ends(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			once.runUntil(t, ends)
			check(t, m, func() string { return once.haltText(tp(topic, 0)) })
		})
	}
}

// awaitRest waits until a partition had no record for a while.
func awaitRest(t *testing.T, r *rig, tp TopicPartition) {
	t.Helper()
	await(t, "a pause", func() bool {
		r.Consumer.mu.Lock()
		defer r.Consumer.mu.Unlock()
		p := r.parts[tp]
		return p != nil && p.rested()
	})
}

// TestRecreatedBetweenFetches: a topic that is made anew, longer than before, between two fetches over a connection
// that lives is noticed, too, if there was a pause.
func TestRecreatedBetweenFetches(t *testing.T) {
	t.Parallel()
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(0, 20)...)
	m := newMemory()
	r := start(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	await(t, "all records", func() bool { return r.total() == 20 && r.metric(t, "refitd_consumer_lag_records") == 0 })
	awaitRest(t, r, tp(topic, 0))
	held, anew := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held) })
	cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		hold()
		cluster.SleepControl(func() { <-anew })
		return nil, nil, false
	})
	<-held
	recreate(t, cluster, topic, 3000)
	close(anew)
	await(t, "the halt", func() bool { return r.haltText(tp(topic, 0)) != "" })
	if text := r.haltText(tp(topic, 0)); !strings.Contains(text, "fingerprint mismatch: the record at offset 19") {
		t.Errorf("text is %q", text)
	}
	equalValues(t, m, tp(topic, 0), numbers(0, 20))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}

// TestFingerprintAfterReconnect: after a failed request the last record is compared again, and reading continues if
// it is there.
func TestFingerprintAfterReconnect(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	produce(t, cl, topic, 0, numbers(0, 10)...)
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
	for round := range 3 {
		await(t, "all records", func() bool { // and the consumer to know that they are applied
			s := r.Status()
			return len(s.Partitions) == 1 && s.Partitions[0].Next == int64(10+round*10)
		})
		matches := r.metric(t, "refitd_consumer_fingerprints_total", "match")
		dropped := time.Time{}
		await(t, "a match", func() bool {
			if time.Since(dropped) > time.Second { // once more if that was between two requests
				r.source.drop()
				dropped = time.Now()
			}
			return r.metric(t, "refitd_consumer_fingerprints_total", "match") > matches
		})
		produce(t, cl, topic, 0, numbers(10+round*10, 20+round*10)...)
	}
	await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) == 40 })
	equalValues(t, r.memory, tp(topic, 0), numbers(0, 40))
}

// TestFingerprintThatIsGone: a record that retention or compaction took cannot be compared; that is counted, and
// reading continues.
func TestFingerprintThatIsGone(t *testing.T) {
	const topic = "t"
	t.Run("below the log start", func(t *testing.T) {
		cluster := newCluster(t, kfake.SeedTopics(1, topic))
		cl := newProducer(t, cluster.ListenAddrs())
		for i := range 4 {
			produce(t, cl, topic, 0, numbers(i*10, i*10+10)...)
		}
		if err := cluster.DeleteRecords(topic, 0, 20); err != nil {
			t.Fatal(err)
		}
		m := newMemory()
		m.next[tp(topic, 0)], m.last[tp(topic, 0)] = 20, fingerprint{19, 1}
		r := start(t, m, cluster.ListenAddrs(), []string{topic}, nil)
		await(t, "the rest", func() bool { return len(r.got(tp(topic, 0))) == 20 })
		equalValues(t, m, tp(topic, 0), numbers(20, 40))
		if r.metric(t, "refitd_consumer_fingerprints_total", "skipped") != 1 {
			t.Error("not counted")
		}
	})
	t.Run(
		"below the log start after a pause",
		func(t *testing.T) { // all that was read is gone when the next record comes
			cluster := newCluster(t, kfake.SeedTopics(1, topic))
			cl := newProducer(t, cluster.ListenAddrs())
			produce(t, cl, topic, 0, numbers(0, 20)...)
			r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
			await(t, "all records",
				func() bool { s := r.Status(); return len(s.Partitions) == 1 && s.Partitions[0].Next == 20 })
			for next := 20; next < 40; next += 10 {
				awaitRest(t, r, tp(topic, 0))
				if err := cluster.DeleteRecords(topic, 0, int64(next)); err != nil {
					t.Fatal(err)
				}
				produce(t, cl, topic, 0, numbers(next, next+10)...)
				await(t, "the next records", func() bool { return len(r.got(tp(topic, 0))) == next+10 })
			}
			equalValues(t, r.memory, tp(topic, 0), numbers(0, 40))
			if r.metric(t, "refitd_consumer_fingerprints_total", "skipped") != 2 {
				t.Error("not counted")
			}
		},
	)
	t.Run("compacted away", func(t *testing.T) {
		cluster := newCluster(t, kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "3600000"}))
		cl := newProducer(t, cluster.ListenAddrs())
		policy := "compact"
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy},
			topic); err != nil {
			t.Fatal(err)
		}
		for i, key := range []string{"stays", "a", "b", "a", "b", "c"} {
			rec := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(numbers(i, i+1)[0])}
			if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		cluster.Compact()
		m := newMemory()
		m.next[tp(topic, 0)], m.last[tp(topic, 0)] = 2, fingerprint{1, 1} // the first "a"
		r := start(t, m, cluster.ListenAddrs(), []string{topic}, nil)
		await(t, "the rest",
			func() bool { s := r.Status(); return len(s.Partitions) == 1 && s.Partitions[0].Next == 6 })
		equalValues(t, m, tp(topic, 0), numbers(3, 6))
		if r.metric(t, "refitd_consumer_fingerprints_total", "skipped") != 1 ||
			r.metric(t, "refitd_consumer_records_total", "hole") != 1 {
			t.Error("not counted")
		}
	})
	t.Run(
		"far below our position",
		func(t *testing.T) { // behind the last record only markers and aborted records were read
			cluster := newCluster(t, kfake.SeedTopics(1, topic))
			cl := newProducer(t, cluster.ListenAddrs())
			produce(t, cl, topic, 0, "kept")
			txn := newProducer(t, cluster.ListenAddrs(), kgo.TransactionalID("x"))
			for range 20 {
				if err := txn.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				produce(t, txn, topic, 0, numbers(0, 30)...)
				if err := txn.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
					t.Fatal(err)
				}
			}
			m := newMemory()
			small := func(o *Options) { o.MaxPartitionBytes = 300 }
			r := start(t, m, cluster.ListenAddrs(), []string{topic}, small)
			await(t, "the end",
				func() bool { s := r.Status(); return len(s.Partitions) == 1 && s.Partitions[0].Next == 1+20*31 })
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			produce(t, cl, topic, 0, "more")
			again := start(t, m, cluster.ListenAddrs(), []string{topic}, small)
			await(t, "the rest", func() bool { return len(m.got(tp(topic, 0))) == 2 })
			equalValues(t, m, tp(topic, 0), []string{"kept", "more"})
			if again.metric(t, "refitd_consumer_fingerprints_total", "match") == 0 {
				t.Error("not compared")
			}
		},
	)
}

// TestAddedPartitionStartsAtZero raises the partitions of a topic after the first records of the new ones are gone:
// that is a gap, and not a later start.
func TestAddedPartitionStartsAtZero(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(4, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	m := newMemory()
	for p := range int32(4) {
		produce(t, cl, topic, p, "old")
		m.next[tp(topic, p)] = 0
	}
	if _, err := kadm.NewClient(cl).CreatePartitions(t.Context(), 4, topic); err != nil {
		t.Fatal(err)
	}
	more := newProducer(t, cluster.ListenAddrs())
	for p := int32(4); p < 8; p++ {
		produce(t, more, topic, p, numbers(0, 10)...)
	}
	if err := cluster.DeleteRecords(topic, 7, 3); err != nil {
		t.Fatal(err)
	}
	r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.StartPolicy = Latest })
	await(t, "the new partitions", func() bool { return r.total() == 4+3*10 })
	await(t, "the gap", func() bool { return strings.Contains(r.haltText(tp(topic, 7)), "gap of 3 offsets") })
	for p := int32(4); p < 7; p++ {
		equalValues(t, m, tp(topic, p), numbers(0, 10))
	}
}

// TestPartitionsOfOthers: a partition that is added starts at 0 though this process has read none of the topic. One
// that others have given up starts as the policy says.
func TestPartitionsOfOthers(t *testing.T) {
	const topic = "t"
	for _, isAdded := range []bool{true, false} {
		cluster := newCluster(t, kfake.SeedTopics(2, topic))
		cl := newProducer(t, cluster.ListenAddrs())
		for p := range int32(2) {
			produce(t, cl, topic, p, "old")
		}
		m := newMemory()
		var first atomic.Int32
		first.Store(2)
		r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) {
			o.StartPolicy, o.RefreshEvery = Latest, 20*time.Millisecond
			o.Owns = func(_ string, partition int32) bool { return partition >= first.Load() }
		})
		await(t, "the first look", func() bool { return r.Status().Ready })
		at, want := tp(topic, 1), []string{"new"}
		if isAdded {
			at, want = tp(topic, 2), numbers(0, 10)
			if _, err := kadm.NewClient(cl).CreatePartitions(t.Context(), 1, topic); err != nil {
				t.Fatal(err)
			}
			cl = newProducer(t, cluster.ListenAddrs())
		} else {
			first.Store(1)
			await(t, "the partition", func() bool { return r.known(at) })
		}
		produce(t, cl, topic, at.Partition, want...)
		await(t, "its records", func() bool { return r.total() == len(want) })
		equalValues(t, m, at, want)
	}
}

// TestTopicWithFewerPartitions: partitions that a recreated topic no longer has are a reason, not silence.
func TestTopicWithFewerPartitions(t *testing.T) {
	cluster := newCluster(t, kfake.SeedTopics(2, "t"))
	m := newMemory()
	r := start(t, m, cluster.ListenAddrs(), []string{"t"}, nil)
	await(t, "ready", func() bool { return r.Status().Ready })
	recreate(t, cluster, "t", 1)
	await(t, "the reason", func() bool { return strings.Contains(r.reasons(), "t/1: the topic has 1 partitions now") })
	if r.Status().Ready {
		t.Error("ready")
	}
}
