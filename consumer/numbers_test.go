package consumer

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/daemontest/liar"
)

// movedBy returns batches whose base offsets are others.
func movedBy(by int64, batches ...[]byte) (out [][]byte) {
	for _, b := range batches {
		b = bytes.Clone(b)
		binary.BigEndian.PutUint64(b, uint64(int64(binary.BigEndian.Uint64(b))+by))
		out = append(out, b)
	}
	return out
}

// TestBatchesInPlaceOfOthers has a network that gives, in one answer, other batches of the log at offsets that leave no
// hole. Every record is delivered once all the same.
func TestBatchesInPlaceOfOthers(t *testing.T) {
	const topic, batches, each = "t", 100, 10
	for name, c := range map[string]struct {
		change func(b, early [][]byte) [][]byte
		plain  bool // also where the producer does not number its records
	}{
		"one left out, those behind it moved down": {change: func(b, _ [][]byte) [][]byte {
			return slices.Concat(b[:2], movedBy(-each, b[3:]...))
		}},
		"the first left out": {change: func(b, _ [][]byte) [][]byte { return movedBy(-each, b[1:]...) }},
		"one repeated, those behind it moved up": {plain: true, change: func(b, _ [][]byte) [][]byte {
			return slices.Concat(b[:2], movedBy(each, b[1:]...))
		}},
		"one in place of another": {plain: true, change: func(b, _ [][]byte) [][]byte {
			return slices.Concat(b[:3], movedBy(2*each, b[1]), b[4:])
		}},
		"two swapped": {change: func(b, _ [][]byte) [][]byte {
			return slices.Concat(b[:1], movedBy(-each, b[2]), movedBy(each, b[1]), b[3:])
		}},
		"an answer of before": {plain: true, change: func(b, early [][]byte) [][]byte {
			return movedBy(int64(binary.BigEndian.Uint64(b[0])-binary.BigEndian.Uint64(early[0])), early...)
		}},
	} {
		for _, plain := range []bool{false, true} {
			if plain && !c.plain {
				continue
			}
			if plain {
				name += ", not numbered"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var lies atomic.Int32
				var early [][]byte
				network := &liar.Network{Fetch: func(_ int, from int64, p *kmsg.FetchResponseTopicPartition) {
					b := liar.Batches(p)
					if len(b) < 5 {
						return
					}
					if from == 0 {
						early = b
					} else if lies.CompareAndSwap(0, 1) {
						p.RecordBatches = bytes.Join(c.change(b, early), nil)
					}
				}}
				cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.SeedTopics(1, topic))
				options := []kgo.Opt{}
				if plain {
					options = append(options, kgo.DisableIdempotentWrite())
				}
				cl := newProducer(t, cluster.ListenAddrs(), options...)
				for i := range batches {
					produce(t, cl, topic, 0, numbers(each*i, each*i+each)...)
				}
				m := newMemory()
				r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.MaxPartitionBytes = 2000 })
				await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) >= each*batches })
				equalValues(t, m, tp(topic, 0), numbers(0, each*batches))
				if n := r.metric(t, "refitd_consumer_answers_refused_total", "batch"); n != 1 || lies.Load() != 1 {
					t.Errorf("%g answers refused after %d lies", n, lies.Load())
				}
			})
		}
	}
}

// TestBatchesOfAnotherPartition has a network that answers for a partition with what another one has.
func TestBatchesOfAnotherPartition(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 60
	var lies atomic.Int32
	network := &liar.Network{Kinds: []kmsg.Key{kmsg.Fetch}, Answer: func(_ int, _ kmsg.Request, r kmsg.Response) {
		res := r.(*kmsg.FetchResponse)
		if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 2 {
			return
		}
		p := res.Topics[0].Partitions
		a, b := liar.Batches(&p[0]), liar.Batches(&p[1])
		if len(a) > 2 && len(b) > 2 && binary.BigEndian.Uint64(a[0]) > 100 &&
			binary.BigEndian.Uint64(a[0]) == binary.BigEndian.Uint64(b[0]) && lies.CompareAndSwap(0, 1) {
			p[0].RecordBatches, p[1].RecordBatches = p[1].RecordBatches, p[0].RecordBatches
		}
	}}
	cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.SeedTopics(2, topic))
	for p := range int32(2) {
		cl := newProducer(t, cluster.ListenAddrs())
		for i := range batches {
			produce(t, cl, topic, p, numbers(int(p)*10000+10*i, int(p)*10000+10*i+10)...)
		}
	}
	refused := 0.0
	for range 20 { // until an answer has both partitions at one place
		m := newMemory()
		r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.MaxPartitionBytes = 2000 })
		await(t, "all records", func() bool { return r.total() >= 2*10*batches })
		for p := range 2 {
			equalValues(t, m, tp(topic, int32(p)), numbers(p*10000, p*10000+10*batches))
		}
		if refused = r.metric(t, "refitd_consumer_answers_refused_total", "batch"); lies.Load() > 0 {
			break
		}
	}
	if refused < 1 || lies.Load() != 1 {
		t.Errorf("%g answers refused after %d lies", refused, lies.Load())
	}
}
