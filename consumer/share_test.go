package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bytesFetched is what the consumers of a share got from brokers.
func bytesFetched(t *testing.T, rigs ...*rig) (sum float64) {
	t.Helper()
	for _, r := range rigs {
		sum += r.metric(t, "refitd_consumer_fetch_bytes_total")
	}
	return sum
}

// TestShare has three consumers read together: two from the start, one that begins far behind and joins them. What one
// costs in bytes, three cost once they are level.
func TestShare(t *testing.T) {
	const topic, partitions = "t", 4
	cluster := newCluster(t, kfake.SeedTopics(partitions, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	sent := 0
	send := func(n int) {
		for p := range int32(partitions) {
			produce(t, cl, topic, p, numbers(sent, sent+n)...)
		}
		sent += n
	}
	share := new(Share)
	with := func(o *Options) { o.Share, o.GroupID = share, "g" }
	send(1000)
	rigs := []*rig{
		start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, with),
		start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, with),
	}
	level := func() bool {
		for _, r := range rigs {
			if r.total() != sent*partitions || !r.Status().Ready {
				return false
			}
		}
		return true
	}
	await(t, "the backlog", level)
	rigs = append(rigs, start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, with))
	await(t, "the late one", level)
	before := bytesFetched(t, rigs...)
	alone := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
	await(t, "the one alone", func() bool { return alone.total() == sent*partitions })
	lone := bytesFetched(t, alone)
	for range 50 {
		send(20)
		await(t, "some records", level)
	}
	await(t, "the one alone", func() bool { return alone.total() == sent*partitions })
	together, single := bytesFetched(t, rigs...)-before, bytesFetched(t, alone)-lone
	if together > 1.5*single {
		t.Errorf("three fetched %.0f bytes, one alone %.0f", together, single)
	}
	for _, r := range rigs {
		for p := range int32(partitions) {
			equalValues(t, r.memory, tp(topic, p), numbers(0, sent))
		}
	}
	await(t, "the commits", func() bool { return committedSum(t, cluster) == int64(sent*partitions) })
	for _, r := range rigs {
		if r.metric(t, "refitd_consumer_foreign_commits_total") > 0 {
			t.Error("a member takes another's commit for a foreign one")
		}
	}
	t.Logf("three fetched %.2f times the bytes of one", together/single)
}

// TestShareIsolates: a member that fails, waits or halts does not reach the others, and the group shows the one that is
// behind.
func TestShareIsolates(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	produce(t, cl, topic, 0, numbers(0, 100)...)
	share := new(Share)
	with := func(o *Options) { o.Share, o.GroupID = share, "g" }
	good := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, with)
	await(t, "records", func() bool { return good.total() == 100 })

	m := newMemory()
	hold := make(chan struct{})
	stuck := newRig(t, m, cluster.ListenAddrs(), []string{topic}, with)
	slow := &gate{memory: m, hold: hold}
	stuck.Consumer.sink = slow
	stuck.start(t)
	await(t, "the slow one", slow.waiting)

	halts := newMemory()
	halts.next[tp(topic, 0)], halts.last[tp(topic, 0)] = 50, fingerprint{49, 1}
	bad := start(t, halts, cluster.ListenAddrs(), []string{topic}, with)
	await(t, "the halt", func() bool { return bad.haltText(tp(topic, 0)) != "" })

	fails := newMemory()
	fails.fail = errors.New("disk full")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := newRig(t, fails, cluster.ListenAddrs(), []string{topic}, with).Run(ctx); !errors.Is(err, fails.fail) {
		t.Errorf("error %v", err)
	}

	for i := range 20 {
		produce(t, cl, topic, 0, numbers(100+i, 101+i)...)
		await(t, "a record", func() bool { return good.total() == 101+i })
	}
	await(t, "the commit", func() bool { return committedSum(t, cluster) == 0 })
	close(hold)
	await(t, "the slow one", func() bool { return stuck.total() == 120 })
	equalValues(t, good.memory, tp(topic, 0), numbers(0, 120))
	equalValues(t, m, tp(topic, 0), numbers(0, 120))
}

// TestShareWithHungMember: who waits for an answer that another member never gets, asks for itself.
func TestShareWithHungMember(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	share := new(Share)
	with := func(o *Options) { o.Share, o.RequestTimeout = share, 500*time.Millisecond }
	one := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, with)
	two := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, with)
	await(t, "ready", func() bool { return one.Status().Ready && two.Status().Ready })
	cluster.ControlKey(
		int16(kmsg.Fetch),
		func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true },
	) // one fetch is never answered
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(0, 10)...)
	await(t, "records", func() bool { return one.total() == 10 && two.total() == 10 })
}
