package consumer

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer/internal/codec"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/backoff"
)

// heapWatch measures how far the heap grows, with hardly any garbage in it: how much of that there is depends on what
// else the machine does.
type heapWatch struct {
	percent int // of garbage that the collector allows otherwise
	base    uint64
	peak    atomic.Uint64
	stop    context.CancelFunc
	done    chan struct{}
}

func watchHeap() *heapWatch {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	ctx, cancel := context.WithCancel(context.Background())
	w := &heapWatch{percent: debug.SetGCPercent(10), base: m.HeapAlloc, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for backoff.Sleep(ctx, time.Millisecond) == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			w.peak.Store(max(w.peak.Load(), m.HeapAlloc))
		}
	}()
	return w
}

// growth ends the watch.
func (w *heapWatch) growth() int64 {
	w.stop()
	<-w.done
	debug.SetGCPercent(w.percent)
	return int64(w.peak.Load()) - int64(w.base)
}

// zeros compresses so many MiB of zeros.
func zeros(t *testing.T, kind uint16, mib int) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch kind {
	case codec.Gzip:
		w = gzip.NewWriter(&out)
	case codec.LZ4:
		w = lz4.NewWriter(&out)
	case codec.Zstd:
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	case codec.Snappy: // one block
		return s2.EncodeSnappy(nil, make([]byte, mib<<20))
	}
	block := make([]byte, 1<<20)
	for range mib {
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestDecompressionBomb serves batches of 400 MiB in every codec: the partition halts, or with AcceptGap continues
// after the batch, and the heap grows by no more than the cap and 64 MiB.
func TestDecompressionBomb(t *testing.T) {
	const topic = "t"
	mib := tier.Size(128, 400)
	for name, codec := range map[string]uint16{"gzip": codec.Gzip, "snappy": codec.Snappy, "lz4": codec.LZ4,
		"zstd": codec.Zstd} {
		good := rawBatch{
			base:      0,
			lastDelta: 1,
			records:   []rawRecord{{value: []byte("a")}, {delta: 1, value: []byte("b")}},
		}.bytes(t)
		bomb := rawBatch{
			base:       2,
			lastDelta:  2,
			attributes: codec,
			records:    make([]rawRecord, 3),
		}.seal(zeros(t, codec, mib))
		after := rawBatch{base: 5, records: []rawRecord{{value: []byte("c")}}}.bytes(t)
		if len(bomb) > 64<<20 {
			t.Fatalf("a bomb of %d bytes", len(bomb))
		}
		serve := func(t *testing.T) *kfake.Cluster {
			cluster := newCluster(t, kfake.SeedTopics(1, topic))
			synthetic(cluster, func(from int64) ([]byte, int64) {
				switch {
				case from < 2:
					return append(bytes.Clone(good), bomb...), 6
				case from < 5:
					return bomb, 6
				case from < 6:
					return after, 6
				}
				return nil, 6
			})
			return cluster
		}
		check := func(t *testing.T, heap *heapWatch) {
			limit := int64(
				DefaultOptions().MaxDecompressedBytes + 64<<20 + 4*len(bomb),
			) // the broker is in this process
			if n := heap.growth(); n > limit {
				t.Errorf("the heap grew by %d MiB, the limit is %d", n>>20, limit>>20)
			}
		}
		t.Run(name+" halts", func(t *testing.T) {
			cluster, heap := serve(t), watchHeap()
			r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
			await(t, "the halt", func() bool { return r.haltText(tp(topic, 0)) != "" })
			check(t, heap)
			if text := r.haltText(tp(topic, 0)); text != "batch at offset 2: decompresses to more than 16777216 bytes, the "+
				"limit for one batch" {
				t.Errorf("text is %q", text)
			}
			equalValues(t, r.memory, tp(topic, 0), []string{"a", "b"})
		})
		t.Run(name+" is a gap", func(t *testing.T) {
			m := newMemory()
			cluster, heap := serve(t), watchHeap()
			r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.AcceptGap = m.AcceptGap })
			await(t, "the record behind", func() bool { return len(r.got(tp(topic, 0))) == 3 })
			check(t, heap)
			equalValues(t, m, tp(topic, 0), []string{"a", "b", "c"})
			if m.gaps[tp(topic, 0)] != 3 || !strings.Contains(r.log.String(), "decompresses to more than") {
				t.Errorf("a gap of %d, want 3", m.gaps[tp(topic, 0)])
			}
		})
	}
}

// sizes is a sink that remembers how long values are.
type sizes struct {
	*memory
	lengths []int
}

func (s *sizes) Apply(_ context.Context, b *Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range b.Records {
		s.lengths = append(s.lengths, len(r.Value))
	}
	s.next[TopicPartition{b.Topic, b.Partition}] = b.Next
	return nil
}

// TestLargeMessages reads messages that are larger than what is asked for at a time, with small ones around them.
func TestLargeMessages(t *testing.T) {
	const topic = "t"
	want := []int{1, 1 << 20, 1, 8 << 20, 1, 64 << 20, 1}
	if !tier.Asked(tier.Long) {
		want = want[:5]
	}
	cluster := newCluster(t, kfake.SeedTopics(1, topic),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "100000000"}))
	cl := newProducer(t, cluster.ListenAddrs(), kgo.ProducerBatchMaxBytes(90<<20), kgo.BrokerMaxWriteBytes(100<<20),
		kgo.MaxBufferedBytes(200<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for _, n := range want {
		produce(t, cl, topic, 0, strings.Repeat("x", n))
	}
	cl.Close()
	heap := watchHeap()
	sink := &sizes{memory: newMemory()}
	r := newRig(t, sink.memory, cluster.ListenAddrs(), []string{topic}, nil)
	r.Consumer.sink = sink
	r.runUntil(t, map[TopicPartition]int64{tp(topic, 0): int64(len(want))})
	if n, limit := heap.growth(), int64(6*want[len(want)-2]); n > limit { // the broker is in this process
		t.Errorf("the heap grew by %d MiB, the limit is %d", n>>20, limit>>20)
	}
	for i, n := range want {
		if sink.lengths[i] != n {
			t.Errorf("message %d has %d bytes, want %d", i, sink.lengths[i], n)
		}
	}
}

// TestBodyGrowsOnce (D4): a response is read into memory of exactly its size, however small its pieces are. A
// response that announces more than the limit is not waited for.
func TestBodyGrowsOnce(t *testing.T) {
	body := func(l layout, sizes ...int) []byte {
		b := binary.BigEndian.AppendUint32(nil, 1)
		b = append(binary.BigEndian.AppendUint16(b, 1), 't')
		b = binary.BigEndian.AppendUint32(b, uint32(len(sizes)))
		for p, n := range sizes {
			b = binary.BigEndian.AppendUint32(b, uint32(p))
			b = append(b, make([]byte, 2+8+8)...)
			if l.logStart {
				b = append(b, make([]byte, 8)...)
			}
			b = binary.BigEndian.AppendUint32(b, 1)
			b = append(b, make([]byte, 16)...)
			if l.replica {
				b = append(b, make([]byte, 4)...)
			}
			b = binary.BigEndian.AppendUint32(b, uint32(n))
			b = append(b, bytes.Repeat([]byte{byte(1 + p)}, n)...)
		}
		return b
	}
	for _, l := range []layout{layoutV4, layoutV5, layoutV11} {
		in := body(l, 10, 30<<20, 0, 17)
		var r rawTopics
		bodies = sync.Pool{New: bodies.New}
		latest.Store(0)
		n, err := r.read(iotest.DataErrReader(bytes.NewReader(in)), l)
		if err != nil || int(n) != len(in) || !bytes.Equal(*r.body, in) {
			t.Fatalf("%+v: %d of %d bytes, %v", l, n, len(in), err)
		}
		if c := cap(*r.body); c > len(in)+2*bodySpare {
			t.Errorf("%+v: %d bytes in a buffer of %d", l, len(in), c)
		}
		if next := cap(*bodies.New().(*[]byte)); next < maxResponseBytes || next > maxResponseBytes+bodySpare {
			t.Errorf("%+v: the next buffer is of %d bytes", l, next)
		}
		latest.Store(0)
		lie := body(l, 100<<10)
		at := bytes.Index(lie, binary.BigEndian.AppendUint32(nil, 100<<10))
		binary.BigEndian.PutUint32(lie[at:], maxBodyBytes)
		if _, err := new(rawTopics).read(bytes.NewReader(lie), l); !errors.Is(err, errTooLong) {
			t.Errorf("%+v: %v", l, err)
		}
		for cut := range 60 {
			l.need(in[:cut]) // does not panic
		}
	}
}
