package faults_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// TestTransactions (C20): three of ten transactions are aborted, some stay open while the daemon or the broker is
// killed. No aborted record is applied, and the accounts of aborted records and markers are exact.
func TestTransactions(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	a := admin(t, k.addr())
	makeTopic(t, a, "transactions", 2, 1)
	config := configure(t, "transactions", settings{brokers: k.addr(), topics: []string{"transactions"}})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	client, err := kgo.NewClient(kgo.SeedBrokers(k.addr()...), kgo.DefaultProduceTopic("transactions"),
		kgo.TransactionalID("faults"), kgo.TransactionTimeout(time.Minute),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	plain := newProducer(t, k.addr(), "transactions") // records between those of the transactions

	var committed, aborted, markers int64
	value := ratings(seed, 0)
	send := func(n int) map[int32]bool {
		touched := map[int32]bool{}
		for i := range n {
			res := client.ProduceSync(t.Context(), &kgo.Record{Value: value(i)})
			if err := res.FirstErr(); err != nil {
				t.Fatal(err)
			}
			touched[res[0].Record.Partition] = true
		}
		return touched
	}
	d := run(t, refitd, config, nil)
	d.ready(20 * time.Second)
	rounds := tier.Size(30, 200)
	for i := range rounds {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		n := 1 + r.IntN(20)
		touched := send(n)
		switch i % (rounds / 5) {
		case 1: // the transaction straddles a kill of the daemon
			d.kill()
			d = run(t, refitd, config, nil)
			d.ready(20 * time.Second)
		case 2: // and of the broker
			if i < rounds/2 {
				k.restart(t, nil)
			}
		}
		plain.fill(1+r.IntN(5), value)
		more := 1 + r.IntN(5)
		for p := range send(more) {
			touched[p] = true
		}
		n += more
		end := kgo.TryCommit
		if i%10 >= 7 {
			end = kgo.TryAbort
			aborted += int64(n)
		} else {
			committed += int64(n)
		}
		markers += int64(len(touched))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if err := client.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	d.caughtUp(20*time.Second, "transactions", ends(t, a, "transactions"))
	s := d.stopClean()
	balanced(t, s)
	var sum report.PartitionState
	for _, l := range s.Partitions {
		sum.Applied += l.Applied
		sum.Aborted += l.Aborted
		sum.Control += l.Control
		sum.Rejected += l.Rejected
		sum.Holes += l.Holes
	}
	want := report.PartitionState{Applied: committed + plain.total(), Aborted: aborted, Control: markers}
	if sum != want {
		t.Errorf("accounts %+v, want %+v", sum, want)
	}
	p := proved(t, config)
	t.Logf("%d records committed, %d plain, %d aborted, %d markers; verify %+v", committed, plain.total(), aborted,
		markers, p.summary)
}
