package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// TestOutcomes: events with outcomes are known by their key and have no label, and what cannot be joined is refused
// with its place.
func TestOutcomes(t *testing.T) {
	load := func(outcomes, schema, more string) (*Config, error) {
		return Parse("f.yaml", []byte(`kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
  - name: m
    input: {topics: [t]`+outcomes+`}
    schema: {`+schema+`}
`+more), os.LookupEnv)
	}
	const schema = "task: binary, label: clicked, time: ts, categorical: [user, item]"
	outcomes := func(more string) string {
		return ", outcomes: {topics: [c], key: {impression: id, outcome: of}, window: 1h" + more + "}"
	}
	c, err := load(outcomes(""), schema, "")
	if err != nil {
		t.Fatal(err)
	}
	m := &c.Models[0]
	o := &m.Input.Outcomes
	if m.Schema.Identity != "id" || m.Schema.Event().Label != "" || m.Schema.LabelField() != "clicked" ||
		o.Reward != RewardFirst || o.Time != "ts" || o.Window.Std() != time.Hour || o.ValueOf("c") != 1 ||
		len(m.AllTopics()) != 2 {
		t.Errorf("%+v of %+v", o, m.Schema)
	}
	of := m.OutcomeModel()
	if s := of.Schema.Event(); s.Time != "ts" || s.Categorical[0] != "of" || len(s.Numeric) != 0 || of.Mapping() != nil {
		t.Errorf("outcomes are %+v", s)
	}
	for _, same := range []string{", default: 1", ", window: 2h", ", reward: max"} {
		other, err := load(strings.Replace(outcomes(same), "window: 1h, window", "window", 1), schema, "")
		if err != nil || other.Models[0].SampleHash() != m.SampleHash() || other.Models[0].Hash() == m.Hash() {
			t.Errorf("%s: the state is the same and the versions are not (%v)", same, err)
		}
	}
	if other, err := load(outcomes(", reward: last"), schema, ""); err != nil ||
		other.Models[0].SampleHash() == m.SampleHash() {
		t.Errorf("another reward: not another state (%v)", err)
	}
	plain, err := load("", schema, "")
	if err != nil || plain.Models[0].Schema.LabelLater || plain.Models[0].Schema.Event().Label != "clicked" {
		t.Errorf("without outcomes: %v", err)
	}
	if c, err = load(strings.Replace(outcomes(", label: stars"), "outcome: of", "outcome: 'record:key'", 1), schema,
		""); err != nil {
		t.Fatal(err)
	}
	of = c.Models[0].OutcomeModel()
	if s := of.Schema.Event(); s.Categorical[0] != outcomeKeyField || s.Numeric[0] != "stars" || of.Mapping() == nil {
		t.Errorf("outcomes are %+v", s)
	}
	for _, bad := range []struct{ outcomes, schema, want string }{
		{", outcomes: {topics: [c], key: {impression: id, outcome: of}}", schema, "input.outcomes.window"},
		{", outcomes: {topics: [c], key: {impression: id}, window: 1h}", schema, "input.outcomes.key.outcome"},
		{", outcomes: {topics: [c], key: {outcome: of}, window: 1h}", schema, "input.outcomes.key.impression"},
		{", outcomes: {key: {impression: id, outcome: of}, window: 1h}", schema, "input.outcomes.topics"},
		{", outcomes: {topics: [t], key: {impression: id, outcome: of}, window: 1h}", schema, "input.outcomes.topics[0]"},
		{", outcomes: {window: 1h}", schema, "input.outcomes.topics"},
		{outcomes(", reward: mean"), schema, "input.outcomes.reward"},
		{outcomes(", default: 2"), schema, "input.outcomes.default"},
		{outcomes(", values: [{topic: x, value: 1}]"), schema, "input.outcomes.values[0].topic"},
		{outcomes(", values: [{topic: c, value: 1}], label: v"), schema, "input.outcomes.values"},
		{outcomes(", values: [{topic: c, value: 1e12}]"), schema, "input.outcomes.values[0].value"},
		{outcomes(", label: of"), schema, "input.outcomes.label"},
		{outcomes(", default: 1, reward: sum"), "task: ordinal, levels: 3, label: y, categorical: [u]",
			"input.outcomes.reward"},
		{outcomes(", default: 1, values: [{topic: c, value: 9}]"), "task: ordinal, levels: 3, label: y, categorical: [u]",
			"input.outcomes.values[0].value"},
		{outcomes(""), "task: implicit, categorical: [user, item]", "input.outcomes"},
		{outcomes(""), "task: multiclass, classes: [a, b], label: y, categorical: [u]", "input.outcomes"},
		{outcomes(""), schema + ", identity: other", "schema.identity"},
		{outcomes(""), schema + ", derived: [{name: n, kind: previous_label, of: user}]", "schema.derived[0].kind"},
	} {
		_, err := load(bad.outcomes, bad.schema, "")
		if file, ok := errors.AsType[*strictyaml.FileError](err); !ok || file.Problems[0].Key != "models[0]."+bad.want {
			t.Errorf("%s %s: %v, want %s", bad.outcomes, bad.schema, err, bad.want)
		}
	}
	for _, key := range []string{"schema_file: a.avsc, format: avro", "key_format: avro"} {
		if _, err := load(outcomes("")+", "+key, schema, ""); err == nil || !strings.Contains(err.Error(), "input.outcomes") {
			t.Errorf("%s: %v", key, err)
		}
	}
	for more, want := range map[string]string{
		"    sample: {quotas: [{class: 1, share: 0.5}]}\n":                                   "models[0].sample.quotas",
		"    sample: {cap: {by: user, share: 0.1}}\n":                                        "models[0].sample.cap.by",
		"    sample: {holdout: {by: user}}\n":                                                "models[0].sample.holdout.by",
		"    publish: {topic: c}\n":                                                          "models[0].publish.topic",
		"    sample: {seed: 1}\nrole: trainer\nshard: {count: 2, topic: m, live_topic: l}\n": "shard.live_topic",
	} {
		_, err := load(outcomes(""), schema, more)
		file, ok := errors.AsType[*strictyaml.FileError](err)
		found := false
		for i := 0; ok && i < len(file.Problems); i++ {
			found = found || file.Problems[i].Key == want && (want == "models[0].publish.topic" ||
				strings.Contains(file.Problems[i].Message, "input.outcomes"))
		}
		if !found {
			t.Errorf("%s: %v, want %s", more, err, want)
		}
	}
}
