package consumer

import (
	"bytes"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/daemontest/liar"
)

// batchesOf writes batches of ten records to partition 0, one batch at a time, and returns the cluster behind a
// network.
func batchesOf(t *testing.T, topic string, batches int, network *liar.Network) *kfake.Cluster {
	t.Helper()
	cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.SeedTopics(1, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	for i := range batches {
		produce(t, cl, topic, 0, numbers(10*i, 10*i+10)...)
	}
	return cluster
}

// TestMovedBatchesAreRefused has a network that moves a batch in one answer. Its CRC is right all the same.
func TestMovedBatchesAreRefused(t *testing.T) {
	const topic, batches = "t", 300
	for _, c := range []struct {
		name   string
		index  int // of the batch in the answer
		by     int64
		when   func(from int64) bool
		start  int64
		reason string
	}{
		{name: "the first one up", index: 0, by: 1024, when: func(from int64) bool { return from == 0 }},
		{name: "up in the middle", index: 3, by: 1024, when: func(from int64) bool { return from == 0 }},
		{name: "past the log end", index: 0, by: 1 << 20, when: func(from int64) bool { return from == 0 }},
		{name: "past the log end in the middle", index: 7, by: 1 << 20, when: func(from int64) bool { return from == 0 }},
		{name: "down by much", index: 0, by: -1024, when: func(from int64) bool { return from >= 1500 }},
		{name: "down by one", index: 0, by: -1, when: func(from int64) bool { return from >= 1500 }},
		{name: "down by nine", index: 0, by: -9, when: func(from int64) bool { return from >= 1500 }},
		{name: "down in the middle", index: 2, by: -5, when: func(from int64) bool { return from >= 1500 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var lies atomic.Int32
			network := &liar.Network{}
			network.Fetch = func(_ int, from int64, p *kmsg.FetchResponseTopicPartition) {
				if c.when(from) && lies.Load() == 0 && liar.Move(p, c.index, c.by) {
					lies.Add(1)
				}
			}
			cluster := batchesOf(t, topic, batches, network)
			m := newMemory()
			r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.MaxPartitionBytes = 2000 })
			await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) >= 10*batches })
			await(t, "lag 0", func() bool { s := r.Status(); return s.Ready && s.Partitions[0].Lag == 0 })
			equalValues(t, m, tp(topic, 0), numbers(0, 10*batches))
			m.check(t)
			if lies.Load() != 1 {
				t.Fatalf("%d answers were altered, want 1", lies.Load())
			}
			if text := r.haltText(tp(topic, 0)); text != "" {
				t.Errorf("halted: %s", text)
			}
			if n := r.metric(t, "refitd_consumer_records_total", "hole") + r.metric(t,
				"refitd_consumer_missing_offsets_total"); n != 0 {
				t.Errorf("%g holes", n)
			}
			refused, damaged := r.metric(t, "refitd_consumer_answers_refused_total", "batch"), r.metric(t,
				"refitd_consumer_crc_errors_total")
			if refused+damaged < 1 {
				t.Errorf("%g answers refused, %g batches damaged, want one", refused, damaged)
			}
			line := `msg="answer of a broker refused" ` +
				`note="a second one on another connection contradicts it" topic=t partition=0 kind=batch`
			if refused > 0 && !strings.Contains(r.log.String(), line) {
				t.Errorf("log is %s", r.log.String())
			}
		})
	}
}

// TestOneConnectionLiesForEver has a network that moves batches in every answer of the first connection that fetches.
func TestOneConnectionLiesForEver(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 50
	network := &liar.Network{Fetch: func(conn int, _ int64, p *kmsg.FetchResponseTopicPartition) {
		if conn == 1 {
			liar.Move(p, 0, 100)
		}
	}}
	cluster := batchesOf(t, topic, batches, network)
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
	await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) >= 10*batches })
	equalValues(t, r.memory, tp(topic, 0), numbers(0, 10*batches))
	await(t, "ready", func() bool { return r.Status().Ready })
}

// TestLogStartThatIsNot has a network that says of the log that it starts higher, in fetches or in answers about
// offsets.
func TestLogStartThatIsNot(t *testing.T) {
	const topic, batches = "t", 50
	for name, c := range map[string]struct {
		network func(lies *atomic.Int32) *liar.Network
		next    int64
		reason  string
	}{
		"in a fetch": {next: 10, reason: "log_start", network: func(lies *atomic.Int32) *liar.Network {
			return &liar.Network{Fetch: func(_ int, _ int64, p *kmsg.FetchResponseTopicPartition) {
				if lies.CompareAndSwap(0, 1) {
					p.LogStartOffset = 200
				}
			}}
		}},
		"in an answer about offsets": {next: 10, reason: "log_start", network: func(lies *atomic.Int32) *liar.Network {
			return &liar.Network{
				Fetch: func(conn int, _ int64, p *kmsg.FetchResponseTopicPartition) {
					if lies.Load() == 0 {
						p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.RecordBatches = 1, -1, -1, -1, nil
					}
				},
				Offsets: func(_ int, when int64, p *kmsg.ListOffsetsResponseTopicPartition) {
					if when == -2 && lies.CompareAndSwap(0, 1) {
						p.Offset = 200
					}
				}}
		}},
		"the log end": {next: 100, reason: "log_end", network: func(lies *atomic.Int32) *liar.Network {
			return &liar.Network{
				Fetch: func(conn int, _ int64, p *kmsg.FetchResponseTopicPartition) {
					if lies.Load() == 0 {
						p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.RecordBatches = 1, -1, -1, -1, nil
					}
				},
				Offsets: func(_ int, when int64, p *kmsg.ListOffsetsResponseTopicPartition) {
					if when == -1 && lies.CompareAndSwap(0, 1) {
						p.Offset = 20
					}
				}}
		}},
		"at the first start": {next: -1, network: func(lies *atomic.Int32) *liar.Network {
			return &liar.Network{Offsets: func(_ int, when int64, p *kmsg.ListOffsetsResponseTopicPartition) {
				if when == -2 && lies.CompareAndSwap(0, 1) {
					p.Offset = 200
				}
			}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lies atomic.Int32
			cluster := batchesOf(t, topic, batches, c.network(&lies))
			m := newMemory()
			from := max(c.next, 0)
			if c.next >= 0 {
				m.next[tp(topic, 0)] = c.next
			}
			r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.AcceptGap = m.AcceptGap })
			await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) >= 10*batches-int(from) })
			equalValues(t, m, tp(topic, 0), numbers(int(from), 10*batches))
			if lies.Load() != 1 || m.gaps[tp(topic, 0)] != 0 {
				t.Errorf("%d lies, a gap of %d accepted, want none", lies.Load(), m.gaps[tp(topic, 0)])
			}
			if c.reason != "" && r.metric(t, "refitd_consumer_answers_refused_total", c.reason) < 1 {
				t.Errorf("no answer was refused; log %s", r.log.String())
			}
		})
	}
}

// TestFingerprintThatIsNot has a network that moves the batch of the last applied record, once, after a restart.
func TestFingerprintThatIsNot(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 20
	var moves atomic.Bool
	network := &liar.Network{Fetch: func(_ int, from int64, p *kmsg.FetchResponseTopicPartition) {
		if from == 99 && moves.Load() && liar.Move(p, 0, 3) {
			moves.Store(false)
		}
	}}
	cluster := batchesOf(t, topic, batches, network)
	m := newMemory()
	first := newRig(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	first.runUntil(t, map[TopicPartition]int64{tp(topic, 0): 100})
	for _, by := range []int64{3, -3} {
		moves.Store(true)
		network.Fetch = func(_ int, from int64, p *kmsg.FetchResponseTopicPartition) {
			if from == 99 && moves.Load() && liar.Move(p, 0, by) {
				moves.Store(false)
			}
		}
		again := newMemory()
		again.next[tp(topic, 0)], again.last[tp(topic, 0)] = 100, m.last[tp(topic, 0)]
		r := newRig(t, again, cluster.ListenAddrs(), []string{topic}, nil)
		r.runUntil(t, map[TopicPartition]int64{tp(topic, 0): 200})
		equalValues(t, again, tp(topic, 0), numbers(100, 200))
		if moves.Load() || again.haltText(tp(topic, 0)) != "" {
			t.Errorf("moved by %d: not altered (%v), halt %q", by, moves.Load(), again.haltText(tp(topic, 0)))
		}
	}
}

// TestHighWatermarkOfBefore has answers with records that came after their high watermark was taken, as real brokers
// send: nothing is refused.
func TestHighWatermarkOfBefore(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 20
	var early atomic.Int32
	network := &liar.Network{Fetch: func(_ int, from int64, p *kmsg.FetchResponseTopicPartition) {
		if from == 0 && early.CompareAndSwap(0, 1) {
			p.HighWatermark, p.LastStableOffset = 50, 50
		}
	}}
	cluster := batchesOf(t, topic, batches, network)
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
	await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) >= 10*batches })
	equalValues(t, r.memory, tp(topic, 0), numbers(0, 10*batches))
	r.check(t) // it is delivered under the watermark of the second answer
	if early.Load() != 1 || r.metric(t, "refitd_consumer_answers_refused_total") != 0 ||
		r.metric(t, "refitd_consumer_confirmations_total") != 1 {
		t.Errorf("log is %s", r.log.String())
	}
}

// TestAboveTheHighWatermark: a batch that ends above the high watermark of its answer, and of the second one, is not
// delivered before an answer covers it.
func TestAboveTheHighWatermark(t *testing.T) {
	t.Parallel()
	const topic, batches, covered, lies = "t", 20, 50, 6
	var answers atomic.Int32
	network := &liar.Network{Fetch: func(_ int, from int64, p *kmsg.FetchResponseTopicPartition) {
		if from <= covered && len(p.RecordBatches) > 0 && answers.Add(1) <= lies {
			p.HighWatermark, p.LastStableOffset = covered, covered
		}
	}}
	cluster := batchesOf(t, topic, batches, network)
	m := newMemory()
	r := newRig(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	r.runUntil(t, map[TopicPartition]int64{tp(topic, 0): covered})
	equalValues(t, m, tp(topic, 0), numbers(0, covered))
	if n := answers.Load(); n >= lies {
		t.Fatalf("%d answers to read what is covered", n)
	}
	r = newRig(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	r.runUntil(t, map[TopicPartition]int64{tp(topic, 0): 10 * batches})
	equalValues(t, m, tp(topic, 0), numbers(0, 10*batches))
	if n := answers.Load(); n <= lies {
		t.Errorf("records that no answer covers were delivered: %d answers, of which %d had the low watermark", n, lies)
	}
	if n := r.metric(t, "refitd_consumer_answers_refused_total", "batch"); n < 1 {
		t.Errorf("%g answers refused; log is %s", n, r.log.String())
	}
	m.check(t)
}

// TestEndsThatAreNot has a network that says of the log that it ends or starts elsewhere, in one answer or in all of a
// connection.
func TestEndsThatAreNot(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 50
	for name, c := range map[string]struct {
		when int64
		lie  int64
		lies func(conn, answer int) bool
	}{
		"a low end first":           {when: -1, lie: 20, lies: func(_, answer int) bool { return answer == 1 }},
		"a low end second":          {when: -1, lie: 20, lies: func(_, answer int) bool { return answer == 2 }},
		"a high end first":          {when: -1, lie: 1 << 40, lies: func(_, answer int) bool { return answer == 1 }},
		"a high end second":         {when: -1, lie: 1 << 40, lies: func(_, answer int) bool { return answer == 2 }},
		"a connection that lies":    {when: -1, lie: 20, lies: func(conn, _ int) bool { return conn == 1 }},
		"a high start first":        {when: -2, lie: 200, lies: func(_, answer int) bool { return answer == 1 }},
		"a high start second":       {when: -2, lie: 200, lies: func(_, answer int) bool { return answer == 2 }},
		"starts of a connection":    {when: -2, lie: 200, lies: func(conn, _ int) bool { return conn == 1 }},
		"a high end, the third one": {when: -1, lie: 1 << 40, lies: func(_, answer int) bool { return answer == 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers, lies := 0, 0
			network := &liar.Network{Offsets: func(conn int, when int64, p *kmsg.ListOffsetsResponseTopicPartition) {
				if when != c.when {
					return
				}
				if answers++; c.lies(conn, answers) {
					lies++
					p.Offset = c.lie
				} else if answers == 1 && when == -1 {
					p.Offset -= 10 // as if it was appended to after this answer
				}
			}}
			cluster := batchesOf(t, topic, batches, network)
			r := newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
			ask, least, most := r.Ends, int64(10*batches-10), int64(10*batches)
			if c.when == -2 {
				ask, least, most = r.Starts, 0, 0
			}
			found, err := ask(t.Context())
			if at := found[tp(topic, 0)]; err != nil || at < least || at > most || lies == 0 {
				t.Errorf("offset %d after %d lies in %d answers, %v; want %d to %d", at, lies, answers, err, least,
					most)
			}
		})
	}
}

// TestHolesOfUnknownPolicy: where the cleanup.policy of a topic may not be read, its holes are counted as such, and the
// log says so.
func TestHolesOfUnknownPolicy(t *testing.T) {
	t.Parallel()
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	cluster.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		res := kreq.ResponseKind().(*kmsg.DescribeConfigsResponse)
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ErrorCode, r.ResourceType, r.ResourceName = kerr.TopicAuthorizationFailed.Code, kmsg.ConfigResourceTypeTopic, topic
		res.Resources = append(res.Resources, r)
		return res, nil, true
	})
	batch := rawBatch{base: 0, lastDelta: 9, records: []rawRecord{{delta: 3, value: []byte("x")}}}.bytes(t)
	synthetic(cluster, func(int64) ([]byte, int64) { return batch, 10 })
	m := newMemory()
	r := newRig(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	r.runUntil(t, map[TopicPartition]int64{tp(topic, 0): 10})
	if n := r.metric(t, "refitd_consumer_missing_offsets_total", "unknown"); n != 9 {
		t.Errorf("%g offsets are counted as missing, want 9", n)
	}
	if !strings.Contains(r.log.String(), "its cleanup.policy cannot be read (ACL operation DescribeConfigs)") {
		t.Errorf("log is %s", r.log.String())
	}
}

// TestBatchesLostSwappedOrRepeated has a network that leaves out a batch of one answer, gives two in the wrong order or
// one twice: every record is delivered once, in order, and no hole is believed.
func TestBatchesLostSwappedOrRepeated(t *testing.T) {
	const topic, batches = "t", 100
	for name, change := range map[string]func(b [][]byte) [][]byte{
		"lost at the start":      func(b [][]byte) [][]byte { return b[1:] },
		"lost in the middle":     func(b [][]byte) [][]byte { return slices.Delete(b, 2, 4) },
		"swapped":                func(b [][]byte) [][]byte { b[1], b[2] = b[2], b[1]; return b },
		"the first one last":     func(b [][]byte) [][]byte { return append(b[1:], b[0]) },
		"repeated":               func(b [][]byte) [][]byte { return slices.Insert(b, 2, b[1]) },
		"repeated after another": func(b [][]byte) [][]byte { return slices.Insert(b, 3, b[1]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lies atomic.Int32
			network := &liar.Network{Fetch: func(_ int, _ int64, p *kmsg.FetchResponseTopicPartition) {
				if b := liar.Batches(p); len(b) > 4 && lies.CompareAndSwap(0, 1) {
					p.RecordBatches = bytes.Join(change(b), nil)
				}
			}}
			cluster := batchesOf(t, topic, batches, network)
			m := newMemory()
			r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.MaxPartitionBytes = 2000 })
			await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) >= 10*batches })
			equalValues(t, m, tp(topic, 0), numbers(0, 10*batches))
			m.check(t)
			holes := r.metric(t, "refitd_consumer_records_total", "hole") +
				r.metric(t, "refitd_consumer_missing_offsets_total")
			if lies.Load() != 1 || holes != 0 || r.haltText(tp(topic, 0)) != "" {
				t.Errorf("%d lies, %g holes, halted %q", lies.Load(), holes, r.haltText(tp(topic, 0)))
			}
		})
	}
}
