package consumer

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committedSum adds up the offsets of group g.
func committedSum(t *testing.T, cluster *kfake.Cluster) (sum int64) {
	t.Helper()
	offsets, err := kadm.NewClient(newProducer(t, cluster.ListenAddrs())).FetchOffsets(t.Context(), "g")
	if err != nil {
		return -1
	}
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	return sum
}

// TestForeignCommitsMoveNothing: whatever others do to the group, the consumer reads on from its own place, says so,
// and shows its place again as soon as that says something.
func TestForeignCommitsMoveNothing(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	admin := kadm.NewClient(cl)
	produce(t, cl, topic, 0, numbers(0, 10)...)
	var above kadm.Offsets
	above.AddOffset(topic, 0, 7000, -1)
	if err := admin.CommitAllOffsets(t.Context(), "g", above); err != nil {
		t.Fatal(err)
	}
	m := newMemory()
	r := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.GroupID = "g" })
	await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) == 10 })
	await(t, "the commit", func() bool { return committedSum(t, cluster) == 10 })
	await(t, "the foreign commit at the start",
		func() bool { return r.metric(t, "refitd_consumer_foreign_commits_total") == 1 })

	above.AddOffset(topic, 0, 9000, -1)
	if err := admin.CommitAllOffsets(t.Context(), "g", above); err != nil {
		t.Fatal(err)
	}
	await(t, "the foreign commit", func() bool { return r.metric(t, "refitd_consumer_foreign_commits_total") == 2 })
	if n := strings.Count(r.log.String(), "foreign commit"); n != 2 {
		t.Errorf("logged %d times:\n%s", n, r.log)
	}
	produce(t, cl, topic, 0, numbers(10, 20)...)
	await(t, "the commit", func() bool { return committedSum(t, cluster) == 20 })

	var back kadm.Offsets
	back.AddOffset(topic, 0, 3, -1)
	if err := admin.CommitAllOffsets(t.Context(), "g", back); err != nil {
		t.Fatal(err)
	}
	await(t, "the commit after a reset", func() bool { return committedSum(t, cluster) == 20 })

	var forget kadm.TopicsSet
	forget.Add(topic, 0)
	if _, err := admin.DeleteOffsets(t.Context(), "g", forget); err != nil {
		t.Fatal(err)
	}
	await(t, "the commit after a deletion", func() bool { return committedSum(t, cluster) == 20 })
	produce(t, cl, topic, 0, numbers(20, 30)...)
	await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) == 30 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	for _, at := range []int64{0, 12, 9000} { // and none of them is where a restart begins
		var set kadm.Offsets
		set.AddOffset(topic, 0, at, -1)
		if err := admin.CommitAllOffsets(t.Context(), "g", set); err != nil {
			t.Fatal(err)
		}
		again := start(t, m, cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.GroupID = "g" })
		await(t, "ready", func() bool { return again.Status().Ready })
		if err := again.stop(); err != nil {
			t.Fatal(err)
		}
	}
	equalValues(t, m, tp(topic, 0), numbers(0, 30))
}

// TestStoppedWhileItLooks: a consumer that is stopped while the group does not answer commits once more, and again
// where that connection is closed under it. It neither counts nor logs a failure.
func TestStoppedWhileItLooks(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(0, 10)...)
	asked := make(chan struct{}, 1)
	cluster.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		asked <- struct{}{}
		return nil, nil, true // one is never answered
	})
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("one connection is closed"), true
	})
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) { o.GroupID = "g" })
	await(t, "all records", func() bool { return len(r.got(tp(topic, 0))) == 10 })
	<-asked
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if at := committedSum(t, cluster); at != 10 {
		t.Errorf("the group shows %d at the end", at)
	}
	if failed := r.metric(t, "refitd_consumer_commit_errors_total"); failed != 0 ||
		strings.Contains(r.log.String(), "not shown") {
		t.Errorf("%v failures counted, or one logged:\n%s", failed, r.log)
	}
}

// TestCommitsAreNeverAhead stops the sink in the middle of a batch, as a crash would: the group shows what was
// stored.
func TestCommitsAreNeverAhead(t *testing.T) {
	const topic = "t"
	cluster := newCluster(t, kfake.SeedTopics(1, topic))
	produce(t, newProducer(t, cluster.ListenAddrs()), topic, 0, numbers(0, 100)...)
	m := newMemory()
	hold := make(chan struct{})
	slow := &gate{memory: m, hold: hold}
	c := newRig(t, m, cluster.ListenAddrs(), []string{topic},
		func(o *Options) { o.GroupID = "h"; o.MaxBatchRecords = 10 })
	c.Consumer.sink = slow
	done := make(chan error, 1)
	go func() { done <- c.RunUntil(t.Context(), map[TopicPartition]int64{tp(topic, 0): 100}) }()
	await(t, "the first batch", slow.waiting)
	admin := kadm.NewClient(newProducer(t, cluster.ListenAddrs()))
	at := func() int64 {
		offsets, err := admin.FetchOffsets(t.Context(), "h")
		if err != nil {
			return -1
		}
		o, _ := offsets.Lookup(topic, 0)
		return o.At
	}
	await(t, "a commit", func() bool { return at() >= 0 })
	if got := at(); got != 0 {
		t.Errorf("the group shows %d while nothing is stored", got)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := at(); got != 100 {
		t.Errorf("the group shows %d at the end", got)
	}
}
