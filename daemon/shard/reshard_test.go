package shard_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// TestReshard: another number of shards continues where those before them were, by their topic alone: the log before
// is gone. What the new trainer has is what one process has that read everything. A topic that lacks a shard is
// refused.
func TestReshard(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	whole := configure(b, "whole", "")
	shardOf := func(team string, number, count int, keys, topic string) string {
		role := fmt.Sprintf(`role: shard, count: %d, index: "%d"%s`, count, number, keys)
		return configureOn(b, topic, fmt.Sprint(team, number), role)
	}
	run := func(path string) daemontest.Outcome {
		t.Helper()
		out := b.Run(path)
		if out.Err != nil {
			t.Fatalf("%s: %v", path, out.Err)
		}
		return out
	}
	b.ProduceRatings(1, 2000)
	b.Produce([]byte("no event"), []byte(`{"user":"u1","item":"i1","rating":9,"ts":1}`))
	for i := range 3 {
		run(shardOf("old", i, 3, "", merge))
	}
	run(configure(b, "trainer", "role: trainer, count: 3"))
	run(whole)
	forget(t, b)
	b.ProduceRatings(2, 700)
	for i := range 2 {
		out := run(shardOf("new", i, 2, ", from: {topic: "+merge+", count: 3}", "merge-2"))
		if s := out.State(t); len(s.Partitions) != 2 {
			t.Errorf("shard %d has %d partitions", i, len(s.Partitions))
		}
	}
	trainer := configureOn(b, "merge-2", "trainer-2", "role: trainer, count: 2")
	compare(t, "other shards", run(trainer), run(whole))
	b.ProduceRatings(3, 300)
	for i := range 2 { // again, with from still there
		run(shardOf("new", i, 2, ", from: {topic: "+merge+", count: 3}", "merge-2"))
	}
	compare(t, "started again", run(trainer), run(whole))

	out := b.Run(shardOf("wrong", 0, 2, ", from: {topic: "+merge+", count: 4}", "merge-3"))
	if out.Err == nil || !strings.Contains(out.Err.Error(), "shard.from") {
		t.Errorf("a topic of three shards for one of four: %v", out.Err)
	}
	out = b.Run(shardOf("nowhere", 0, 2, ", from: {topic: nowhere, count: 3}", "merge-3"))
	if out.Err == nil || !strings.Contains(out.Err.Error(), "nothing of shard 0 of 3") {
		t.Errorf("a topic that does not exist: %v", out.Err)
	}
}

// forget has the brokers delete what the topic has.
func forget(t *testing.T, b *daemontest.Bench) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(t.Context(), daemontest.Topic)
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := admin.DeleteRecords(t.Context(), ends.Offsets())
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReshardLacks: a shard of another team is not taken up where its topic has lost rows, also below a gap, which
// compaction may have made.
func TestReshardLacks(t *testing.T) {
	for _, lost := range []bool{false, true} {
		r := rig{t, daemontest.New(t)}
		var edit func(*shard.SenderOptions)
		if lost {
			edit = r.lossy(false)
		}
		old := [2]*sketch.Store{}
		for i := range old {
			old[i] = store(t, sketch.Options{Seed: 7, Mirror: true})
			r.send(i, old[i], nil)
		}
		r.keepsLast(0)
		for i := range old {
			apply(t, old[i], int32(i), 10)
			r.send(i, old[i], map[int]func(*shard.SenderOptions){0: edit}[i])
		}
		fresh := store(t, sketch.Options{Seed: 7, Mirror: true})
		receiver := r.receiver(fresh, 2)
		receiver.Only = func(_ string, partition int32) bool { return partition == 0 }
		_, err := receiver.TakeUp(t.Context())
		if rows, _ := fresh.Size(); !lost && (err != nil || rows[sketch.Train] != 10) {
			t.Errorf("%d rows, %v", rows[sketch.Train], err)
		}
		if lost && (!errors.Is(err, shard.ErrTopic) || !strings.Contains(err.Error(), "shard 0 of 2: 10 of the rows")) {
			t.Errorf("rows that were lost: %v", err)
		}
	}
}

// TestReshardAfterAGap: what the old shards had declared lost is in the accounts of the new ones.
func TestReshardAfterAGap(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	member := func(name, topic, role string) string {
		role, keys, _ := strings.Cut(role, ", ")
		if keys != "" {
			role += "\nshard: {" + keys + ", topic: " + topic + "}\nmodels:"
		}
		return b.Configure(
			name,
			append(
				[]string{
					"group_id: g-" + name,
					"group_id: g-" + name[:1],
					"size: 20000",
					"size: 300",
					"start: earliest",
					"start: earliest, on_gap: record",
					"models:",
					role,
				},
				daemontest.Simple...)...)
	}
	whole, trainer := member("whole", merge, "models:"), member("trainer", merge, "role: trainer, count: 3")
	run := func(path string) daemontest.Outcome {
		t.Helper()
		out := b.Run(path)
		if out.Err != nil {
			t.Fatalf("%s: %v", path, out.Err)
		}
		return out
	}
	olds := func() {
		for i := range 3 {
			run(member(fmt.Sprint("old", i), merge, fmt.Sprintf("role: shard, count: 3, index: %d", i)))
		}
	}
	b.ProduceRatings(1, 1000)
	olds()
	run(whole)
	b.ProduceRatings(2, 400)
	forget(t, b)
	b.ProduceRatings(3, 400)
	olds()
	compare(t, "the old shards", run(trainer), run(whole))
	forget(t, b)
	b.ProduceRatings(4, 300)
	for i := range 2 {
		run(
			member(fmt.Sprint("new", i), "merge-2",
				fmt.Sprintf("role: shard, count: 2, index: %d, from: {topic: %s, count: 3}", i, merge)),
		)
	}
	one := run(whole)
	compare(t, "other shards", run(member("trainer-2", "merge-2", "role: trainer, count: 2")), one)
	gap := int64(0)
	for _, p := range one.State(t).Partitions {
		gap += p.Gap
	}
	if gap == 0 {
		t.Error("nothing was declared lost")
	}
}
