package consumer

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/daemontest/liar"
)

// fewer and more alter the partitions of the first topic of an answer about metadata.
func fewer(res *kmsg.MetadataResponse) { res.Topics[0].Partitions = res.Topics[0].Partitions[:2] }

func more(number int32) func(*kmsg.MetadataResponse) {
	return func(res *kmsg.MetadataResponse) {
		p := res.Topics[0].Partitions[0]
		p.Partition = number
		res.Topics[0].Partitions = append(res.Topics[0].Partitions, p)
	}
}

// metadataLiar alters the answers about metadata that are chosen; those with topics alone are counted, from 1.
func metadataLiar(lies *atomic.Int32, lie func(*kmsg.MetadataResponse), chosen func(answer int) bool) *liar.Network {
	answers := 0
	return &liar.Network{Kinds: []kmsg.Key{kmsg.Metadata}, Answer: func(_ int, _ kmsg.Request, r kmsg.Response) {
		res := r.(*kmsg.MetadataResponse)
		if len(res.Topics) == 0 || len(res.Topics[0].Partitions) < 4 {
			return
		}
		if answers++; chosen(answers) {
			lies.Add(1)
			lie(res)
		}
	}}
}

// TestPartitionsThatAreNot has a network that says, in one answer, that a topic has other partitions than it has: none
// begins that there is not, and where the others begin does not change.
func TestPartitionsThatAreNot(t *testing.T) {
	const topic, partitions = "t", 4
	for name, c := range map[string]struct {
		lie    func(*kmsg.MetadataResponse)
		answer int
		later  bool // once all partitions have begun
	}{
		"fewer at first":          {fewer, 1, false},
		"fewer in the second":     {fewer, 2, false},
		"fewer later":             {fewer, 1, true},
		"one more at first":       {more(partitions), 1, false},
		"one more later":          {more(partitions), 1, true},
		"a far one later":         {more(9), 1, true},
		"a negative one later":    {more(-1), 1, true},
		"one twice, and at first": {more(1), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lies, armed atomic.Int32
			var looks atomic.Int32
			network := metadataLiar(&lies, c.lie, func(int) bool {
				return armed.Load() == 1 && looks.Add(1) == int32(c.answer)
			})
			cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.SeedTopics(partitions, topic))
			cl := newProducer(t, cluster.ListenAddrs())
			for p := range int32(partitions) {
				produce(t, cl, topic, p, "before")
			}
			if !c.later {
				armed.Store(1)
			}
			m := newMemory()
			var mu sync.Mutex
			began := map[TopicPartition]int64{}
			r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) {
				o.StartPolicy = Latest
				o.Begin = func(topic string, partition int32, offset int64) error {
					mu.Lock()
					defer mu.Unlock()
					began[tp(topic, partition)] = offset
					return m.Begin(topic, partition, offset)
				}
			})
			begun := func() int { mu.Lock(); defer mu.Unlock(); return len(began) }
			await(t, "the partitions", func() bool { return begun() >= partitions })
			if c.later {
				armed.Store(1)
				r.source.forget()
			}
			await(t, "the lie", func() bool { return lies.Load() == 1 })
			if c.later {
				await(t, "what is made of it", func() bool {
					return begun() > partitions || strings.Contains(r.log.String(), "kafka trouble")
				})
			}
			for p := range int32(partitions) {
				produce(t, cl, topic, p, "after")
			}
			await(t, "what came after", func() bool { return m.total() >= partitions && r.Status().Ready })
			mu.Lock()
			defer mu.Unlock()
			for p := range int32(partitions) {
				if began[tp(topic, p)] != 1 {
					t.Errorf("partition %d began at %d, want 1", p, began[tp(topic, p)])
				}
			}
			if len(began) != partitions || m.total() != partitions {
				t.Errorf("%v began, %d records, want %d of both; log %s", began, m.total(), partitions, r.log)
			}
		})
	}
}

// TestEndsOfFewerPartitions: the ends that a run reads to are those of all partitions, though an answer names two.
func TestEndsOfFewerPartitions(t *testing.T) {
	t.Parallel()
	for _, answer := range []int{1, 2} {
		var lies atomic.Int32
		network := metadataLiar(&lies, fewer, func(n int) bool { return n == answer })
		cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.SeedTopics(4, "t"))
		r := newRig(t, newMemory(), cluster.ListenAddrs(), []string{"t"}, nil)
		if ends, err := r.Ends(t.Context()); err != nil || len(ends) != 4 || lies.Load() != 1 {
			t.Errorf("%v, %v after %d lies, want four ends", ends, err, lies.Load())
		}
	}
}

// TestOffsetsOfOthers has a network that answers about a partition that was not asked about. kafka-go panics on that
// where the answer has a time.
func TestOffsetsOfOthers(t *testing.T) {
	t.Parallel()
	for _, time := range []int64{-1, 5} {
		var lies atomic.Int32
		network := &liar.Network{Kinds: []kmsg.Key{kmsg.ListOffsets, kmsg.OffsetFetch},
			Answer: func(_ int, _ kmsg.Request, r kmsg.Response) {
				switch res := r.(type) {
				case *kmsg.ListOffsetsResponse:
					if lies.CompareAndSwap(0, 1) {
						other := res.Topics[0].Partitions[0]
						other.Partition, other.Timestamp, other.Offset = 7, time, 3
						res.Topics[0].Partitions = append(res.Topics[0].Partitions, other)
					}
				case *kmsg.OffsetFetchResponse:
					if len(res.Topics) > 0 && lies.CompareAndSwap(1, 2) {
						other := res.Topics[0].Partitions[0]
						other.Partition, other.Offset = 8, 3
						res.Topics[0].Partitions = append(res.Topics[0].Partitions, other)
					}
				}
			}}
		cluster := batchesOf(t, "t", 3, network)
		r := newRig(t, newMemory(), cluster.ListenAddrs(), []string{"t"}, func(o *Options) { o.GroupID = "g" })
		ends, err := r.Ends(t.Context())
		if err != nil || len(ends) != 1 || ends[tp("t", 0)] != 30 || lies.Load() != 1 {
			t.Fatalf("%v, %v after %d lies, want one end", ends, err, lies.Load())
		}
		r.start(t)
		await(t, "the commit", func() bool { return lies.Load() == 2 && committedSum(t, cluster) == 30 })
		if strings.Contains(r.log.String(), "foreign commit") {
			t.Errorf("log is %s", r.log)
		}
	}
}
