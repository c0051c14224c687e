package consumer

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/daemontest/liar"
)

// TestAbortedListThatIsNot has a network that alters, in one answer, which transactions are said to be aborted: what is
// delivered does not change.
func TestAbortedListThatIsNot(t *testing.T) {
	const topic, rounds, whole = "t", 30, 2000
	type list = []kmsg.FetchResponseTopicPartitionAbortedTransaction
	first := func(p *kmsg.FetchResponseTopicPartition) (h header) {
		h, _ = parseHeader(p.RecordBatches)
		return h
	}
	for name, change := range map[string]func(p *kmsg.FetchResponseTopicPartition) (done bool){
		"none is aborted": func(p *kmsg.FetchResponseTopicPartition) bool {
			had := len(p.AbortedTransactions) > 0
			p.AbortedTransactions = nil
			return had
		},
		"all are aborted": func(p *kmsg.FetchResponseTopicPartition) bool {
			p.AbortedTransactions = nil
			for _, b := range liar.Batches(p) {
				if h, err := parseHeader(b); err == nil && h.attributes&attrControl == 0 {
					p.AbortedTransactions = append(p.AbortedTransactions,
						kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: h.producer, FirstOffset: h.base})
				}
			}
			return true
		},
		"the first one is": func(p *kmsg.FetchResponseTopicPartition) bool {
			h := first(p)
			p.AbortedTransactions = append(list{{ProducerID: h.producer, FirstOffset: 0}}, p.AbortedTransactions...)
			return true
		},
		"they begin later": func(p *kmsg.FetchResponseTopicPartition) bool {
			for i := range p.AbortedTransactions {
				p.AbortedTransactions[i].FirstOffset += 5
			}
			return len(p.AbortedTransactions) > 0
		},
		"of another producer": func(p *kmsg.FetchResponseTopicPartition) bool {
			for i := range p.AbortedTransactions {
				p.AbortedTransactions[i].ProducerID++
			}
			return len(p.AbortedTransactions) > 0
		},
	} {
		for size, most := range map[string]int{"some transactions": whole, "a part of one": 200} {
			t.Run(name+", "+size, func(t *testing.T) {
				t.Parallel()
				var lies atomic.Int32
				network := &liar.Network{Fetch: func(_ int, from int64, p *kmsg.FetchResponseTopicPartition) {
					if from > 20 && len(liar.Batches(p)) > 0 && lies.Load() == 0 && change(p) {
						lies.Add(1)
					}
				}}
				cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.SeedTopics(1, topic))
				txn := newProducer(t, cluster.ListenAddrs(), kgo.TransactionalID("x"))
				var want []string
				for round := range rounds {
					if err := txn.BeginTransaction(); err != nil {
						t.Fatal(err)
					}
					for k := range 3 {
						text := numbers(round*100+10*k, round*100+10*k+10)
						produce(t, txn, topic, 0, text...)
						if round%3 != 1 {
							want = append(want, text...)
						}
					}
					if err := txn.EndTransaction(t.Context(), kgo.TransactionEndTry(round%3 != 1)); err != nil {
						t.Fatal(err)
					}
				}
				m := newMemory()
				r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.MaxPartitionBytes = most })
				await(t, "the end", func() bool {
					s := r.Status()
					return len(s.Partitions) == 1 && s.Partitions[0].Next == 31*rounds
				})
				equalValues(t, m, tp(topic, 0), want)
				if lies.Load() != 1 {
					t.Errorf("%d lies", lies.Load())
				}
				asked, fetches := r.metric(t, "refitd_consumer_confirmations_total"),
					r.metric(t, "refitd_consumer_fetches_total")
				if most == whole && asked > fetches/2 {
					t.Errorf("%g confirmations of %g fetches of whole transactions", asked, fetches)
				}
			})
		}
	}
}

// TestAbortedListOfReadUncommitted: who reads what is aborted, too, is not kept from it by a list.
func TestAbortedListOfReadUncommitted(t *testing.T) {
	t.Parallel()
	network := &liar.Network{Fetch: func(_ int, _ int64, p *kmsg.FetchResponseTopicPartition) {
		for _, b := range liar.Batches(p) {
			if h, err := parseHeader(b); err == nil {
				p.AbortedTransactions = append(p.AbortedTransactions,
					kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: h.producer, FirstOffset: h.base})
			}
		}
	}}
	cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.SeedTopics(1, "t"))
	txn := newProducer(t, cluster.ListenAddrs(), kgo.TransactionalID("x"))
	if err := txn.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, txn, "t", 0, numbers(0, 10)...)
	if err := txn.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	m := newMemory()
	r := start(t, m, cluster.ListenAddrs(), []string{"t"}, func(o *Options) { o.Isolation = ReadUncommitted })
	await(t, "all records", func() bool { return r.Status().Partitions != nil && r.Status().Partitions[0].Next == 11 })
	equalValues(t, m, tp("t", 0), numbers(0, 10))
}
