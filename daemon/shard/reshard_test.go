package shard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
)

// TestReshard: another number of shards goes on where those before them were, by their topic alone: the log before is gone. What the new trainer has is what
// one process has that read everything. A topic that lacks a shard is refused.
func TestReshard(t *testing.T) {
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
		t.Errorf("a topic that there is none of: %v", out.Err)
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
