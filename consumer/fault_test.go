package consumer

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/consumer/internal/codec"
)

// synthetic makes the broker answer every fetch of a partition with the record set and log end that answer gives.
func synthetic(cluster *kfake.Cluster, answer func(from int64) (records []byte, end int64)) {
	cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		res := req.ResponseKind().(*kmsg.FetchResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition = p.Partition
				records, end := answer(p.FetchOffset)
				rp.RecordBatches, rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = records, end, end, 0
				rt.Partitions = append(rt.Partitions, rp)
			}
			res.Topics = append(res.Topics, rt)
		}
		return res, nil, true
	})
}

func TestDamagedBatchIsNeverDelivered(t *testing.T) {
	t.Parallel()
	const topic = "t"
	good := rawBatch{
		base:      0,
		lastDelta: 1,
		records:   []rawRecord{{value: []byte("a")}, {delta: 1, value: []byte("b")}},
	}.bytes(t)
	bad := rawBatch{base: 2, lastDelta: 0, records: []rawRecord{{value: []byte("c")}}}.bytes(t)
	flipped := slices.Clone(bad)
	flipped[len(flipped)-2] ^= 1

	t.Run("once", func(t *testing.T) {
		cluster := newCluster(t, kfake.SeedTopics(1, topic))
		var n atomic.Int32
		synthetic(cluster, func(from int64) ([]byte, int64) {
			switch {
			case from == 3:
				return nil, 3
			case n.Add(1) <= 2:
				return append(slices.Clone(good), flipped...), 3
			}
			return append(slices.Clone(good), bad...), 3
		})
		r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
		await(t, "all records", func() bool { return slices.Equal(r.got(tp(topic, 0)), []string{"a", "b", "c"}) })
		if r.haltText(tp(topic, 0)) != "" || r.metric(t, "refitd_consumer_crc_errors_total") != 2 {
			t.Errorf("halt %q", r.haltText(tp(topic, 0)))
		}
		await(t, "ready", func() bool { return r.Status().Ready })
	})
	t.Run("for ever", func(t *testing.T) {
		cluster := newCluster(t, kfake.SeedTopics(1, topic))
		var fetches atomic.Int32
		synthetic(cluster, func(from int64) ([]byte, int64) {
			fetches.Add(1)
			if from == 2 {
				return flipped, 3
			}
			return append(slices.Clone(good), flipped...), 3
		})
		r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
		await(t, "the halt", func() bool { return r.haltText(tp(topic, 0)) != "" })
		if text := r.haltText(tp(topic, 0)); !strings.Contains(text,
			"batch at offset 2: damaged record batch: its CRC") ||
			!strings.Contains(text, "fetched 5 times") {
			t.Errorf("text is %q", text)
		}
		equalValues(t, r.memory, tp(topic, 0), []string{"a", "b"})
		if n := fetches.Load(); n != 5 {
			t.Errorf("%d fetches, want 5", n)
		}
	})
	t.Run("bomb", func(t *testing.T) {
		cluster := newCluster(t, kfake.SeedTopics(2, topic))
		bomb := rawBatch{base: 2, attributes: codec.Zstd, records: []rawRecord{{value: make([]byte, 17<<20)}}}.bytes(t)
		synthetic(cluster, func(from int64) ([]byte, int64) { return append(slices.Clone(good), bomb...), 3 })
		r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
		await(t, "the halt", func() bool { return r.haltText(tp(topic, 0)) != "" })
		if text := r.haltText(tp(topic, 0)); text != "batch at offset 2: decompresses to more than 16777216 bytes, the "+
			"limit for one batch" {
			t.Errorf("text is %q", text)
		}
		equalValues(t, r.memory, tp(topic, 0), []string{"a", "b"})
	})
}

// TestBatchesWithoutRecords shows answers in which only lastOffsetDelta leads on: an empty batch, a batch that lost its
// tail, a marker.
func TestBatchesWithoutRecords(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	sets := map[int64][]byte{
		0:  rawBatch{base: 0, lastDelta: 9}.bytes(t),
		10: rawBatch{base: 10, lastDelta: 9, records: []rawRecord{{delta: 3, value: []byte("x")}}}.bytes(t),
		20: rawBatch{base: 20, attributes: attrControl | attrTransactional, records: marker(true)}.bytes(t),
		21: rawBatch{base: 300000, records: []rawRecord{{value: []byte("y")}}}.bytes(t),
	}
	var fetches atomic.Int32
	synthetic(cluster, func(from int64) ([]byte, int64) { fetches.Add(1); return sets[from], 300001 })
	m := newMemory()
	r := newRig(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	r.runUntil(t, map[TopicPartition]int64{tp(topic, 0): 300001})
	equalValues(t, m, tp(topic, 0), []string{"x", "y"})
	if n := fetches.Load(); n != 4+1 {
		t.Errorf("%d fetches, want one for each batch and one that confirms the hole", n)
	}
	if n := r.metric(t, "refitd_consumer_missing_offsets_total", "delete"); n != 300001-3 {
		t.Errorf("%g offsets of a topic that is not compacted are counted as missing", n)
	}
	if got := r.metric(t, "refitd_consumer_records_total", "hole"); got != 300001-3 {
		t.Errorf("%g holes", got)
	}
}

func TestBrokerRestarts(t *testing.T) {
	const topic, partitions = "t", 4
	dir := t.TempDir()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.SeedTopics(partitions, topic))
	if err != nil {
		t.Fatal(err)
	}
	addrs := cluster.ListenAddrs()
	_, portText, _ := net.SplitHostPort(addrs[0])
	var port int
	fmt.Sscan(portText, &port)

	r := start(t, newMemory(), addrs, []string{topic}, nil)
	sent := 0
	for range 4 {
		cl := newProducer(t, addrs)
		for p := range int32(partitions) {
			produce(t, cl, topic, p, numbers(sent, sent+500)...)
		}
		sent += 500
		await(t, "some records", func() bool { return r.total() > (sent-400)*partitions })
		cl.Close()
		cluster.Close()
		await(t, "not ready", func() bool { return !r.Status().Ready })
		if cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.Ports(port)); err != nil {
			t.Fatal(err)
		}
	}
	defer cluster.Close()
	await(t, "all records", func() bool { return r.total() >= sent*partitions })
	await(t, "ready", func() bool { return r.Status().Ready })
	for p := range int32(partitions) {
		equalValues(t, r.memory, tp(topic, p), numbers(0, sent))
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}

func TestLeaderMoves(t *testing.T) {
	const topic, partitions = "t", 6
	cluster := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(partitions, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
	sent := 0
	for range 5 {
		for p := range int32(partitions) {
			produce(t, cl, topic, p, numbers(sent, sent+100)...)
		}
		sent += 100
		cluster.ShufflePartitionLeaders()
	}
	await(t, "all records", func() bool { return r.total() >= sent*partitions })
	for p := range int32(partitions) {
		equalValues(t, r.memory, tp(topic, p), numbers(0, sent))
	}
}

func TestRetriableErrors(t *testing.T) {
	const topic = "t"
	for _, code := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition,
		kerr.ReplicaNotAvailable, kerr.FencedLeaderEpoch, kerr.KafkaStorageError, kerr.OffsetOutOfRange,
		kerr.UnknownServerError} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t, kfake.SeedTopics(1, topic))
			produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(0, 10)...)
			var answers atomic.Int32
			cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				if answers.Add(1) > 2 {
					return nil, nil, false
				}
				cluster.KeepControl()
				req := kreq.(*kmsg.FetchRequest)
				res := req.ResponseKind().(*kmsg.FetchResponse)
				rt := kmsg.NewFetchResponseTopic()
				rt.Topic = topic
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.ErrorCode, rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = code.Code, -1, -1, -1 // as a real broker
				rt.Partitions = append(rt.Partitions, rp)
				res.Topics = append(res.Topics, rt)
				return res, nil, true
			})
			r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
			await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) == 10 })
			await(t, "ready", func() bool { return r.Status().Ready })
			equalValues(t, r.memory, tp(topic, 0), numbers(0, 10))
		})
	}
}

// TestNewLeaderThatDoesNotKnowItsEnd has a leader that at first says that the log ends below what was read, which must
// not halt.
func TestNewLeaderThatDoesNotKnowItsEnd(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(0, 20)...)
	const wrong = maxBeyond - 1
	var fetches, lists atomic.Int32
	cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		if fetches.Add(1) > wrong {
			return nil, nil, false
		}
		cluster.KeepControl()
		res := kreq.ResponseKind().(*kmsg.FetchResponse)
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.ErrorCode = kerr.OffsetOutOfRange.Code
		res.Topics = []kmsg.FetchResponseTopic{{Topic: topic, Partitions: []kmsg.FetchResponseTopicPartition{rp}}}
		return res, nil, true
	})
	cluster.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		if lists.Add(1) > 2*wrong {
			return nil, nil, false
		}
		cluster.KeepControl()
		res := kreq.ResponseKind().(*kmsg.ListOffsetsResponse)
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.Offset = 0
		res.Topics = []kmsg.ListOffsetsResponseTopic{
			{Topic: topic, Partitions: []kmsg.ListOffsetsResponseTopicPartition{rp}},
		}
		return res, nil, true
	})
	m := newMemory()
	m.next[tp(topic, 0)] = 10
	r := start(t, m, cluster.ListenAddrs(), []string{topic}, nil)
	await(t, "the rest", func() bool { return len(r.got(tp(topic, 0))) == 10 })
	if lists.Load() < 2*wrong || r.haltText(tp(topic, 0)) != "" {
		t.Errorf("%d questions, halt %q", lists.Load(), r.haltText(tp(topic, 0)))
	}
}

func TestBrokerUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	r := start(t, newMemory(), []string{addr}, []string{"t"}, nil)
	await(t, "the reason", func() bool { return strings.Contains(r.reasons(), "cannot reach a broker at "+addr) })
	if r.Status().Ready {
		t.Error("ready without a broker")
	}
	_, port, _ := net.SplitHostPort(addr)
	var number int
	fmt.Sscan(port, &number)
	cluster := newCluster(t, kfake.Ports(number), kfake.SeedTopics(1, "t"))
	await(t, "ready", func() bool { return r.Status().Ready })
	_ = cluster

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := newRig(t, newMemory(), []string{"127.0.0.1:1"}, []string{"t"}, nil).Ends(ctx); err == nil ||
		!strings.Contains(err.Error(), "cannot reach") {
		t.Errorf("Ends: %v", err)
	}
}

func TestMissingTopicIsAReason(t *testing.T) {
	cluster := newCluster(t, kfake.SeedTopics(1, "here"))
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{"here", "missing"}, nil)
	await(t, "the reason", func() bool { return strings.Contains(r.reasons(), "topic missing: ") })
	produce(t, newProducer(t, cluster.ListenAddrs()), "here", 0, "x")
	await(t, "the other topic", func() bool { return len(r.got(tp("here", 0))) == 1 })
}

// TestHungBroker has a broker that accepts and never answers, at first.
func TestHungBroker(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(0, 10)...)
	var hangs atomic.Bool
	hangs.Store(true)
	cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		if hangs.Load() {
			cluster.KeepControl()
			return nil, nil, true // no answer
		}
		return nil, nil, false
	})
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
		o.StallTimeout, o.RequestTimeout = 300*time.Millisecond, time.Minute // so that only the watchdog can help
	})
	await(t, "the watchdog", func() bool { return r.metric(t, "refitd_consumer_stalls_total") >= 1 })
	if r.Status().Ready {
		t.Error("ready although nothing was ever fetched")
	}
	hangs.Store(false)
	await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) == 10 })
}

func TestCommitFailureIsOnlyCounted(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return nil, io.ErrUnexpectedEOF, true
	})
	cl := newProducer(t, cluster.ListenAddrs(), kgo.MaxBufferedRecords(100))
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.GroupID = "g" })
	produce(t, cl, topic, 0, numbers(0, 5)...)
	await(t, "a failed commit", func() bool { return r.metric(t, "refitd_consumer_commit_errors_total") >= 2 })
	produce(t, cl, topic, 0, numbers(5, 10)...)
	await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) == 10 })
}
