package consumer

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/daemontest/liar"
)

// TestMembersOfAShareKnowWhatOthersFetched: batches that another member has fetched are not missing.
func TestMembersOfAShareKnowWhatOthersFetched(t *testing.T) {
	t.Parallel()
	const topic, rounds = "t", 300
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	share := new(Share)
	with := func(o *Options) { o.Share, o.MaxPartitionBytes = share, 300 }
	cl := newProducer(t, cluster.ListenAddrs())
	for i := range rounds {
		produce(t, cl, topic, 0, numbers(10*i, 10*i+10)...)
	}
	rigs := []*rig{
		newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic}, with),
		newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic}, with),
	}
	for _, r := range rigs {
		r.start(t)
	}
	await(t, "all records", func() bool { return rigs[0].total() == 10*rounds && rigs[1].total() == 10*rounds })
	for i, r := range rigs {
		fetches, asked := r.metric(t, "refitd_consumer_fetches_total"), r.metric(t, "refitd_consumer_confirmations_total")
		if asked > 0 {
			t.Errorf("member %d asked %g times more about %g fetches", i, asked, fetches)
		}
	}
}

// TestLongTransactions: one that is longer than an answer is asked about once, and one that ends shortly behind an
// answer costs no more than another answer.
func TestLongTransactions(t *testing.T) {
	const topic, transactions, batches = "t", 6, 40
	for name, others := range map[string]bool{"alone": false, "others between": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t, kfake.SeedTopics(1, topic))
			txn := newProducer(t, cluster.ListenAddrs(), kgo.TransactionalID("x"))
			plain := newProducer(t, cluster.ListenAddrs())
			var want []string
			for i := range transactions {
				if err := txn.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				for k := range batches {
					n := 20 * (i*batches + k)
					text, text2 := numbers(n, n+10), numbers(n+10, n+20)
					produce(t, txn, topic, 0, text...)
					if i%2 == 0 {
						want = append(want, text...)
					}
					if others {
						produce(t, plain, topic, 0, text2...)
						want = append(want, text2...)
					}
				}
				if err := txn.EndTransaction(t.Context(), kgo.TransactionEndTry(i%2 == 0)); err != nil {
					t.Fatal(err)
				}
			}
			r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.MaxPartitionBytes = 700 })
			await(t, "the end", func() bool { return r.total() >= len(want) && r.Status().Partitions[0].Lag == 0 })
			equalValues(t, r.memory, tp(topic, 0), want)
			asked, fetches := r.metric(t, "refitd_consumer_confirmations_total"), r.metric(t, "refitd_consumer_fetches_total")
			if asked < 1 || asked > 2*transactions {
				t.Errorf("%g confirmations of %g fetches of %d transactions", asked, fetches, transactions)
			}
		})
	}
}

// TestCutKeepsHalf: an answer of which the first transaction that does not end begins early is asked about, not cut.
func TestCutKeepsHalf(t *testing.T) {
	for early, cut := range map[int]bool{1: false, 8: true} { // of 10 batches
		var records []byte
		for i := range 10 {
			b := batchOf(t, int64(i), 7, 0, int32(i), uint16(map[bool]int{true: attrTransactional}[i >= early]))
			records = append(records, b...)
		}
		a, whole := partitionResponse{records: records}, len(records)
		o := a.decide(oddity{}, 0, nil)
		if cut != (o.kind == "" && len(a.records) == whole/10*early) || !cut != (o.kind == refusedAborted) {
			t.Errorf("a transaction behind %d of 10 batches: %q, %d of %d bytes", early, o.kind, len(a.records), whole)
		}
		a.records = records
		if o = a.decide(oddity{}, 0, map[int64]bool{7: false}); o.kind != "" {
			t.Errorf("a transaction that is known: %q", o.text)
		}
		if o = a.decide(oddity{}, 0, map[int64]bool{7: true}); o.kind != refusedAborted {
			t.Errorf("a transaction that is known to be aborted and is not on the list: %q", o.text)
		}
	}
}

// batchOf returns a batch of one offset with numbers, and no records that could be read.
func batchOf(t *testing.T, base, producer int64, epoch int16, sequence int32, attributes uint16) []byte {
	t.Helper()
	b := kmsg.RecordBatch{FirstOffset: base, Length: batchHeaderBytes - batchPrefixBytes, Magic: 2,
		CRC: int32(base*2654435761 + producer), Attributes: int16(attributes), ProducerID: producer, ProducerEpoch: epoch,
		FirstSequence: sequence}
	return b.AppendTo(nil)
}

// headerOf is the header of batchOf.
func headerOf(t *testing.T, base, producer int64, epoch int16, sequence int32) *header {
	t.Helper()
	h, err := parseHeader(batchOf(t, base, producer, epoch, sequence, 0))
	if err != nil {
		t.Fatal(err)
	}
	return &h
}

// TestNumbersBehindHoles: where compaction or retention took batches, numbers that are missing are no other log.
func TestNumbersBehindHoles(t *testing.T) {
	for name, jump := range map[string]func(n *Numbers){
		"none":       func(*Numbers) {},
		"compaction": func(n *Numbers) { n.noteAll(batchOf(t, 50, 2, 0, 0, 0), 1) },
		"retention":  func(n *Numbers) { n.begin(50); n.noteAll(batchOf(t, 50, 2, 0, 0, 0), 50) },
	} {
		n := new(Numbers)
		n.note(headerOf(t, 0, 1, 0, 0))
		if name == "none" {
			n.note(headerOf(t, 1, 2, 0, 0))
		}
		jump(n)
		if text, again := n.unlike(headerOf(t, n.end, 1, 0, 9)); text == "" || again != (name == "none") {
			t.Errorf("%s: %q, what was read is in doubt: %t", name, text, again)
		}
	}
}

// TestNumbersOfManyProducers: those that come and go do not make one unknown that stays, and of more than are
// remembered not every batch is asked about.
func TestNumbersOfManyProducers(t *testing.T) {
	n, odd, unknown, base := new(Numbers), 0, 0, int64(0)
	next := make(map[int64]int32)
	write := func(producer int64) {
		h := headerOf(t, base, producer, 0, next[producer])
		if text, _ := n.unlike(h); text != "" {
			odd++
		}
		if _, ok := n.producers[producer]; !ok && next[producer] > 0 {
			unknown++
		}
		n.note(h)
		next[producer]++
		base++
	}
	for i := range int64(50 * maxProducers) {
		write(1000 + i)
		if i%10 == 0 {
			write(i / 10 % 50)
		}
	}
	if odd > 0 || unknown > maxProducers {
		t.Errorf("with producers that come and go %d batches are asked about, and %d were of one that is forgotten", odd,
			unknown)
	}
	odd = 0
	for i := range int64(20 * maxProducers) {
		write(1_000_000 + i%(3*maxProducers))
	}
	if odd > 100 {
		t.Errorf("%d batches asked about with three times as many producers as are remembered", odd)
	}
}

// TestConfirmedUnderQuota has a broker that answers with nothing, for some time, after each answer with records.
func TestConfirmedUnderQuota(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 30
	var mu sync.Mutex
	used := false
	network := &liar.Network{Kinds: []kmsg.Key{kmsg.Fetch}, Answer: func(_ int, _ kmsg.Request, r kmsg.Response) {
		mu.Lock()
		defer mu.Unlock()
		res := r.(*kmsg.FetchResponse)
		if used {
			res.Topics, res.ThrottleMillis, used = nil, 20, false
			return
		}
		for _, t := range res.Topics {
			used = used || len(t.Partitions) > 0 && len(t.Partitions[0].RecordBatches) > 0
		}
	}}
	cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.SeedTopics(1, topic))
	txn := newProducer(t, cluster.ListenAddrs(), kgo.TransactionalID("x"))
	if err := txn.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for i := range batches {
		produce(t, txn, topic, 0, numbers(10*i, 10*i+10)...)
	}
	if err := txn.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.MaxPartitionBytes = 400 })
	await(t, "all records", func() bool { return r.total() == 10*batches })
	equalValues(t, r.memory, tp(topic, 0), numbers(0, 10*batches))
}

// TestPartitionThatWaitsItsTurn has answers that leave a partition out, as full ones do, and say how far it goes.
func TestPartitionThatWaitsItsTurn(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 20
	var mu sync.Mutex
	var first time.Time
	network := &liar.Network{Fetch: func(_ int, from int64, p *kmsg.FetchResponseTopicPartition) {
		mu.Lock()
		defer mu.Unlock()
		if from == 0 && first.IsZero() {
			return // all but the last batches
		}
		if first.IsZero() {
			first = time.Now()
		}
		if time.Since(first) < 3*time.Second {
			p.RecordBatches = nil
		}
	}}
	cluster := batchesOf(t, topic, batches, network)
	r := newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
		o.StallTimeout, o.MaxWait, o.MaxPartitionBytes = 800*time.Millisecond, 100*time.Millisecond, 1000
	})
	r.lookEvery = 200 * time.Millisecond
	r.start(t)
	await(t, "all records", func() bool { return r.total() == 10*batches })
	if n := r.metric(t, "refitd_consumer_answers_refused_total"); n > 0 {
		t.Errorf("%g honest answers refused", n)
	}
}
