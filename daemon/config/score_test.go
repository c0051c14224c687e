package config

import (
	"strings"
	"testing"
)

// TestScoreKeys: what score may say, and that its topic and group are its own.
func TestScoreKeys(t *testing.T) {
	t.Parallel()
	const text = `
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
  - name: a
    input: {topics: [ratings], dead_letter: {topic: dead}}
    schema: {task: binary, label: y, categorical: [user]}
    publish: {topic: champions}
    score: {topic: scores, input: [shown]}
  - name: b
    input: {topics: [clicks]}
    schema: {task: binary, label: y, categorical: [user]}
    score: {topic: scores-b}
`
	c, err := Parse("c.yaml", []byte(text), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	a, b := &c.Models[0], &c.Models[1]
	if got := strings.Join(a.ScoreInput(), ",") + " " + c.ScoreGroup(a) + " " + strings.Join(b.ScoreInput(), ",") + " " +
		c.ScoreGroup(b); got !=
		"shown g-score-a clicks g-score-b" {
		t.Errorf("topics and groups %s", got)
	}
	without, err := Parse("c.yaml",
		[]byte(strings.ReplaceAll(text, "score: {topic: scores, input: [shown]}", "serve: {max_items: 5}")), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if m := &without.Models[0]; m.Hash() != a.Hash() || m.SampleHash() != a.SampleHash() {
		t.Error("where scores go is in the digest of the settings, or of the sample's")
	}
	for _, bad := range []struct{ from, to, key string }{
		{"topic: scores,", "topic: 'a b',", "models[0].score.topic"},
		{"topic: scores, ", "", "models[0].score.topic"},
		{"topics: [clicks]", "topics: [clicks], mapping: {envelope: debezium}", "models[1].score.input"},
		{"topics: [clicks]", "topics: [clicks], mapping: {fields: [{name: user, path: u.id}]}", "models[1].score.input"},
		{"topics: [clicks]", "topics: [clicks], format: avro, schema_file: x.avsc", "models[1].score.input"},
		{"topic: scores,", "topic: shown,", "models[0].score.topic"},
		{"topic: scores,", "topic: clicks,", "models[0].score.topic"},
		{"topic: scores,", "topic: dead,", "models[0].score.topic"},
		{"topic: scores,", "topic: champions,", "models[0].score.topic"},
		{"[shown]", "[shown, shown]", "models[0].score.input[1]"},
		{"[shown]", "['?']", "models[0].score.input[0]"},
		{"[shown]", "[dead]", "models[0].input.dead_letter.topic"},
		{"[shown]", "[shown], start: newest", "models[0].score.start"},
		{"[shown]", "[shown], transactions: maybe", "models[0].score.transactions"},
		{"[shown]", "[shown], group: g", "models[0].score.group"},
		{"scores-b", "scores-b, group: g-score-a", "models[1].score.group"},
	} {
		_, err := Parse("c.yaml", []byte(strings.Replace(text, bad.from, bad.to, 1)), noEnv)
		if err == nil || !strings.Contains(err.Error(), bad.key+":") {
			t.Errorf("%s for %s: %v, want a mistake of %s", bad.to, bad.from, err, bad.key)
		}
	}
	if _, err := Parse("c.yaml", []byte(strings.Replace(text, "scores-b", "scores", 1)), noEnv); err != nil {
		t.Errorf("two models with one topic of scores: %v", err)
	}
}
