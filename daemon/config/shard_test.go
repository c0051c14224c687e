package config

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestShardKeys: what shard may say, that the merge topic is a model's own, and that no role is in the digests of what
// is learned.
func TestShardKeys(t *testing.T) {
	t.Parallel()
	const text = `
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
role: shard
shard: {count: 4, index: 3, topic: "merge-{model}"}
models:
  - name: a
    input: {topics: [ratings], dead_letter: {topic: dead}}
    schema: {task: binary, label: y, categorical: [user], time: ts}
    sample: {seed: 7}
  - name: b
    input: {topics: [ratings]}
    schema: {task: binary, label: y, categorical: [user]}
    sample: {seed: 8}
`
	c, err := Parse("c.yaml", []byte(text), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	a, b := &c.Models[0], &c.Models[1]
	if n, err := a.Shard.Number(); err != nil || n != 3 || !a.Shard.IsShard() || a.Shard.IsTrainer() {
		t.Errorf("shard %d, %v: %+v", n, err, a.Shard)
	}
	if a.Shard.Topic != "merge-a" || b.Shard.Topic != "merge-b" {
		t.Errorf("topics %q, %q", a.Shard.Topic, b.Shard.Topic)
	}
	for p, want := range []bool{false, false, false, true, false, false, false, true} {
		if a.Shard.Owns(3, int32(p)) != want {
			t.Errorf("partition %d is of shard 3: %t", p, !want)
		}
	}
	whole := *a
	whole.Shard = Shard{Role: RoleAll}
	if whole.Hash() != a.Hash() || whole.SampleHash() != a.SampleHash() {
		t.Error("the role is in the digest of the settings, or of the sample's")
	}
	const topic, of, live = `topic: "merge-{model}"}`, `topic: "merge-{model}", from: {`,
		`topic: "merge-{model}", live_topic: `
	for _, bad := range []struct{ from, to, key string }{
		{"role: shard", "role: worker", "role"},
		{"role: shard", "role: all", "role"},
		{"count: 4", "count: 0", "shard.count"},
		{"count: 4", "count: 1001", "shard.count"},
		{"index: 3", "index: 4", "shard.index"},
		{"index: 3", "index: one", "shard.index"},
		{"index: 3", "index: [3]", "shard.index"},
		{"index: 3, ", "", "shard.index"},
		{"role: shard", "role: trainer", "shard.index"},
		{topic, "topic: merge}", "shard.topic"},
		{topic, `topic: "{model}-{name}"}`, "shard.topic"},
		{", " + topic, "}", "shard.topic"},
		{"dead_letter: {topic: dead}", "dead_letter: {topic: merge-b}", "shard.topic"},
		{"topics: [ratings]}", "topics: [merge-a]}", "shard.topic"},
		{topic, of + `topic: "merge-{model}", count: 2}}`, "shard.from.topic"},
		{topic, of + "topic: old, count: 2}}", "shard.from.topic"},
		{topic, of + "count: 2}}", "shard.from.topic"},
		{topic, of + `topic: "old-{model}"}}`, "shard.from.count"},
		{topic, of + `topic: "old-{model}", count: 1001}}`, "shard.from.count"},
		{"role: shard\nshard: {count: 4, index: 3, " + topic, "role: trainer\nshard: {count: 4, " + of +
			`topic: "old-{model}", count: 2}}`, "shard.from.topic"},
		{topic, `topic: "merge-{model}", standby: 6s}`, "shard.standby"},
		{"role: shard\nshard: {count: 4, index: 3, " + topic, `role: trainer` + "\n" +
			`shard: {count: 4, topic: "merge-{model}", standby: 10ms}`, "shard.standby"},
		{"role: shard\nshard: {count: 4, index: 3, " + topic, `role: trainer` + "\n" +
			`shard: {count: 4, topic: "merge-{model}", standby: 1h}`, "shard.standby"},
		{"{seed: 7}", "{size: 100}", "models[0].sample.seed"},
		{"time: ts}", "time: ts, derived: [{name: last, kind: last, by: user, field: user, n: 1}]}", "role"},
		{"sample: {seed: 7}", "sample: {seed: 7}\n    serve: {live: true}", "shard.live_topic"},
		{topic, live + `"merge-{model}"}`, "shard.live_topic"},
		{topic, live + "live}", "shard.live_topic"},
		{"sample: {seed: 7}", "sample: {seed: 7}\n    score: {topic: scores}", "role"},
		{"sample: {seed: 7}", "sample: {seed: 7}\n    shard: {count: 2}", "models[0].shard"},
	} {
		changed := strings.Replace(text, bad.from, bad.to, 1)
		_, err := Parse("c.yaml", []byte(changed), noEnv)
		if changed == text || err == nil || !strings.Contains(err.Error(), " "+bad.key+":") {
			t.Errorf("%s for %s: %v, want a mistake of %s", bad.to, bad.from, err, bad.key)
		}
	}
}

// TestGroup: a group takes the place of the index, has its count and its session, and is neither the group of offsets
// nor another topic.
func TestGroup(t *testing.T) {
	t.Parallel()
	const text = `
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
storage: {path: /state}
role: shard
shard: {group: shards, topic: merge, instance_id: me}
models:
  - name: a
    input: {topics: [ratings]}
    schema: {task: binary, label: y, categorical: [user]}
    sample: {seed: 7}
`
	c, err := Parse("c.yaml", []byte(text), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Models[0].Shard; s.Count != 12 || s.Session.Std() != 10*time.Second || !s.IsGiven() {
		t.Errorf("shard %+v", s)
	}
	dynamic := strings.Replace(text, ", instance_id: me", "", 1)
	if c, err := Parse("c.yaml", []byte(dynamic), noEnv); err != nil ||
		c.Models[0].Shard.Session.Std() != 6*time.Second {
		t.Errorf("without an instance_id: %v, want a session of 2 s", err)
	}
	own := c.OfShard(7)
	if n, err := own.Models[0].Shard.Number(); err != nil || n != 7 ||
		own.StatePath(&own.Models[0]) != "/state/shard-7/a" ||
		c.Models[0].Shard.Index != "" {
		t.Errorf("shard %d, %v, in %s; the process has index %q", n, err, own.StatePath(&own.Models[0]),
			c.Models[0].Shard.Index)
	}
	for name, want := range map[string]string{"": "", "me": "me"} {
		if got, err := (&Shard{Instance: name}).Member(); err != nil || got != want {
			t.Errorf("member %q, %v, want %q", got, err, want)
		}
	}
	if host, err := os.Hostname(); err == nil {
		if got, err := (&Shard{Instance: HostName}).Member(); err != nil || got != host {
			t.Errorf("member %q, %v, want the host's name", got, err)
		}
	}
	trainer := strings.NewReplacer("role: shard", "role: trainer", ", instance_id: me", "").Replace(text)
	if c, err := Parse("c.yaml", []byte(trainer), noEnv); err != nil || c.Models[0].Shard.Count != 12 ||
		c.Models[0].Shard.IsGiven() {
		t.Errorf("a trainer of a group: %v", err)
	}
	const group = "group: shards"
	for _, bad := range []struct{ from, to, key string }{
		{group, group + ", index: 1", "shard.index"},
		{group, "group: g", "shard.group"},
		{group, "group: merge", "shard.group"},
		{group, "group: ratings", "shard.group"},
		{group, `group: "a b"`, "shard.group"},
		{group, group + ", session: 10ms", "shard.session"},
		{group, group + ", session: 1h", "shard.session"},
		{"instance_id: me", `instance_id: "{}"`, "shard.instance_id"},
		{group, "count: 4, index: 1", "shard.instance_id"},
		{group + ", topic: merge, instance_id: me", "count: 4, index: 1, topic: merge, session: 6s", "shard.session"},
	} {
		changed := strings.Replace(text, bad.from, bad.to, 1)
		_, err := Parse("c.yaml", []byte(changed), noEnv)
		if changed == text || err == nil || !strings.Contains(err.Error(), " "+bad.key+":") {
			t.Errorf("%s for %s: %v, want a mistake of %s", bad.to, bad.from, err, bad.key)
		}
	}
}

// TestLiveTopic: models that are learned between refits by several processes may have deltas, and need fold-in.
func TestLiveTopic(t *testing.T) {
	t.Parallel()
	const text = `
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
role: trainer
shard: {count: 4, topic: "merge-{model}", live_topic: "live-{model}"}
models:
  - name: a
    input: {topics: [ratings]}
    schema: {task: ordinal, label: y, levels: 5, categorical: [user, item]}
    sample: {seed: 7}
    publish: {store: versions, deltas: {every: 1s}}
`
	c, err := Parse("c.yaml", []byte(text), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if topic := c.Models[0].Shard.LiveTopic; topic != "live-a" {
		t.Errorf("live topic %q", topic)
	}
	for _, bad := range []struct{ from, to, key string }{
		{"deltas: {every: 1s}}", "deltas: {every: 1s}}\n    train: {fold_in: {enabled: false}}", "shard.live_topic"},
		{"topics: [ratings]", "topics: [live-a]", "shard.live_topic"},
	} {
		if _, err := Parse("c.yaml", []byte(strings.Replace(text, bad.from, bad.to, 1)), noEnv); err == nil ||
			!strings.Contains(err.Error(), " "+bad.key+":") {
			t.Errorf("%s for %s: %v, want a mistake of %s", bad.to, bad.from, err, bad.key)
		}
	}
}

// TestOrdinal: the number of a shard may be that at the end of the host's name.
func TestOrdinal(t *testing.T) {
	t.Parallel()
	s := Shard{Role: RoleShard, Count: 4, Index: Ordinal}
	for host, want := range map[string]int{"refitd-0": 0, "refitd-3": 3, "my-refitd-2.headless.ns.svc": 2, "refitd-4": -1,
		"refitd": -1, "r2d2": -1, "": -1} {
		n, err := s.numberOn(host)
		if want < 0 && (err == nil || !strings.Contains(err.Error(), "shard.index")) ||
			want >= 0 && (err != nil || n != want) {
			t.Errorf("host %q: shard %d, %v, want %d", host, n, err, want)
		}
	}
}
