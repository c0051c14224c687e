package config

import (
	"errors"
	"fmt"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// smallest is the smallest configuration of the command-line contract, word for word.
const smallest = `kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: refitd-ratings}
storage: {path: state}
web: {listen_address: "127.0.0.1:0"}
models:
  - name: ratings
    input: {topics: [ratings], format: json, start: earliest}
    schema: {task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]}
    sample: {size: 200000, seed: 42, half_life: 0s, holdout: {fraction: 0.1}}
    train: {every: 5s, every_events: 5000, max_basis: 20, penalty: l1linf, lambda: auto, solver: hybrid, fold_in: {by: [user]}}
    evaluate: {window: 20000, baseline_by: item}
    publish: {store: snapshots, update_every: 10s}
`

func noEnv(string) (string, bool) { return "", false }

func parse(t *testing.T, text string) (*Config, []strictyaml.Problem) {
	t.Helper()
	c, err := Parse("dir/ratings.yaml", []byte(text), noEnv)
	if err == nil {
		return c, nil
	}
	bad, ok := errors.AsType[*strictyaml.FileError](err)
	if !ok {
		t.Fatalf("error %v is no *FileError", err)
	}
	return nil, bad.Problems
}

func TestSmallestConfiguration(t *testing.T) {
	c, problems := parse(t, smallest)
	if problems != nil {
		t.Fatalf("problems: %+v", problems)
	}
	m, err := c.Model("")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(42)
	want := DefaultModel()
	want.Name = "ratings"
	want.Input.Topics = []string{"ratings"}
	want.Schema = Schema{
		Task:        "ordinal",
		Label:       "rating",
		Levels:      5,
		Time:        "ts",
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	want.Sample = Sample{
		Size:     200000,
		MaxBytes: 200000 * 1280,
		Seed:     &seed,
		Holdout:  Holdout{Fraction: 0.1, Size: 20000, Entities: 0.02},
	}
	want.Train.Every, want.Train.EveryEvents = Duration(5*time.Second), 5000
	want.Train.Loss, want.Train.Kernel, want.Train.Augment, want.Train.Refit = "binary_logistic", "anova", "false",
		"variational"
	want.Train.FoldIn.By, want.Train.FeatureMap = []string{"user"}, ""
	want.Train.Cap = Cap{By: "user", Share: 0.01}
	want.Evaluate = Evaluate{Window: 20000, BaselineBy: "item"}
	want.Publish.Store = filepath.Join("dir", "snapshots")
	if !reflect.DeepEqual(*m, want) {
		t.Errorf("model\n%+v\nwant\n%+v", *m, want)
	}
	if got := c.StatePath(m); got != filepath.Join("dir", "state", "ratings") {
		t.Errorf("state path %s", got)
	}
	if m.Schema.Outputs() != 4 || m.Schema.Event().Levels != 5 {
		t.Errorf("%d outputs, schema %+v", m.Schema.Outputs(), m.Schema.Event())
	}
}

func TestExamplesLoad(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "configs", "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("examples %v, %v", files, err)
	}
	for _, f := range files {
		if _, err := Load(f); err != nil {
			t.Error(err)
		}
	}
	c, err := Load(filepath.Join(root, "configs", "ratings.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	contract, _ := parse(t, smallest)
	if c.Hash() != contract.Hash() {
		t.Error("configs/ratings.yaml is not the smallest configuration of the contract any more")
	}
}

// TestDefaultsFile checks that the printed file has every key, and each at its default.
func TestDefaultsFile(t *testing.T) {
	c, err := Parse("defaults.yaml", []byte(DefaultsYAML()), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Kafka.BootstrapServers, want.Kafka.GroupID = []string{"127.0.0.1:9092"}, "refitd"
	m := DefaultModel()
	m.Name, m.Input.Topics = "ratings", []string{"ratings"}
	m.Schema = Schema{
		Task:         "ordinal",
		Label:        "rating",
		Levels:       5,
		TimeUnit:     "ms",
		Classes:      []string{},
		Categorical:  []string{"user", "item"},
		Numeric:      []string{},
		Multi:        []string{},
		Cross:        [][]string{},
		Derived:      []Derived{},
		EventWeights: []EventWeight{},
	}
	m.Tables = []Table{}
	m.Input.Outcomes.Topics, m.Input.Outcomes.Values = []string{}, []OutcomeValue{}
	m.Sample.Quotas, m.Publish.TrustedKeys, m.Score.Input = []Quota{}, []string{}, []string{}
	m.Resolve()
	want.Models = []Model{m}
	want.file, want.directory = "defaults.yaml", "."
	if !reflect.DeepEqual(c, want) {
		t.Errorf("defaults file gives\n%+v\nwant\n%+v", c, want)
	}

	d := strictyaml.NewDecoder(reflect.TypeFor[Config](), noEnv)
	d.Decode([]byte(DefaultsYAML()), Default())
	var walk func(typ reflect.Type, path string)
	walk = func(typ reflect.Type, path string) {
		for i, key := range strictyaml.Keys(typ) {
			child := strictyaml.Join(path, key)
			if !d.Has(child) {
				t.Errorf("defaults file does not have %s", child)
			}
			switch f := typ.Field(i).Type; {
			case f.Kind() == reflect.Struct:
				walk(f, child)
			case f.Kind() == reflect.Slice && f.Elem().Kind() == reflect.Struct:
				if d.Has(child+"[0]") || f.Elem() == reflect.TypeFor[Model]() { // an empty list has no keys
					walk(f.Elem(), child+"[0]")
				}
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
}

// TestFewRowsHeldOut: a hundredth of the smallest sample is a row for each half of what is held out.
func TestFewRowsHeldOut(t *testing.T) {
	m := &Model{Sample: Sample{Size: 100, Holdout: Holdout{Fraction: 0.01}}}
	if m.resolveSample(); m.Sample.Holdout.Size != 2 {
		t.Errorf("%d rows are held out", m.Sample.Holdout.Size)
	}
}

func TestMistakes(t *testing.T) {
	for _, test := range []struct {
		name, old, new string // a change to the smallest configuration
		want           string // line:column key | part of the message | suggestion
	}{
		{"deltas without updates", "update_every: 10s", "update_every: 0s, deltas: {every: 1s}",
			`11:47 models[0].publish.update_every | deltas follow updates | `},
		{"deltas as rare as updates", "update_every: 10s", "update_every: 10s, deltas: {every: 10s}",
			`11:68 models[0].publish.deltas.every | less than publish.update_every | `},
		{"deltas too often", "update_every: 10s", "update_every: 10s, deltas: {every: 1ms}",
			`11:68 models[0].publish.deltas.every | 10ms to 1h | `},
		{"deltas of no row", "update_every: 10s", "update_every: 10s, deltas: {max_rows: 0}",
			`11:71 models[0].publish.deltas.max_rows | 1 to 10000000 | `},
		{"learning capped by no field", "max_basis: 20", "max_basis: 20, cap: {by: country}",
			`9:69 models[0].train.cap.by | one of the categorical fields | `},
		{"learning without events", "max_basis: 20", "max_basis: 20, cap: {share: 1}",
			`9:72 models[0].train.cap.share | write a number between 0 and 1 | `},
		{"unknown key", "max_basis: 20", "max_bases: 20",
			`9:44 models[0].train.max_bases | unknown key "max_bases" under models[0].train | max_basis`},
		{"dotted", "bootstrap_servers:", "bootstrap.servers:",
			`1:9 kafka.bootstrap.servers | unknown key | bootstrap_servers`},
		{"dotted with unit", "group_id: refitd-ratings", "group_id: g, fetch.max.wait.ms: 5",
			`1:61 kafka.fetch.max.wait.ms | unknown key | fetch_max_wait`},
		{"camel case", "group_id:", "groupId:", `1:48 kafka.groupId | unknown key | group_id`},
		{"misplaced", "evaluate: {", "evaluate: {half_life: 1s, ",
			`10:16 models[0].evaluate.half_life | unknown key | models[].sample.half_life`},
		{"misplaced from the top", "evaluate: {", "shard: {count: 4}\n    evaluate: {",
			`10:5 models[0].shard | unknown key "shard" under models[0] | shard at the top of the file`},
		{"top level", "storage:", "storrage:", `2:1 storrage | unknown key "storrage" at the top of the file | storage`},
		{"duplicate", "storage: {path: state}", "storage: {path: state, path: other}",
			`2:24 storage.path | is written twice, first in line 2 | `},
		{"duplicate section", "storage: {path: state}", "storage: {path: state}\nstorage: {path: b}",
			`3:1 storage | is written twice, first in line 2 | `},
		{"text for number", "window: 20000", "window: many",
			`10:24 models[0].evaluate.window | this is text, expected a whole number | `},
		{"fraction for whole", "size: 200000", "size: 2.5",
			`8:20 models[0].sample.size | this is a number, expected a whole number | `},
		{"number for text", "group_id: refitd-ratings", "group_id: 7",
			`1:58 kafka.group_id | this is a whole number, expected text | `},
		{"scalar for list", "topics: [ratings]", "topics: ratings", `6:21 models[0].input.topics | expected a list | `},
		{"list for mapping", "web: {listen_address: \"127.0.0.1:0\"}", "web: [a]",
			`3:6 web | this is a list, expected a mapping of keys: listen_address, config_file | `},
		{"no unit", "every: 5s", "every: 5",
			`9:20 models[0].train.every | "5" is not a duration: write a number with a unit | `},
		{"negative seed", "seed: 42", "seed: -1", `8:34 models[0].sample.seed | negative | `},
		{"events too large to keep", "topics: [ratings]", "topics: [ratings], max_event_bytes: 1MiB",
			`6:49 models[0].input.max_event_bytes | is 1MiB: write a size from 16 to 256KiB | `},
		{"null", "path: state", "path:", `2:11 storage.path | has no value | `},
		{"infinite", "fraction: 0.1", "fraction: .inf",
			`8:73 models[0].sample.holdout.fraction | expected a finite number | `},
		{"one row held out", "holdout: {", "holdout: {size: 1, ",
			`8:69 models[0].sample.holdout.size | at least 2, one row to choose on and one for the gate | `},
		{"quota of no class", "holdout: {", "quotas: [{class: 6, share: 0.1}], holdout: {",
			`8:70 models[0].sample.quotas[0].class | is "6": write one of 1, 2, 3, 4, 5 | 1`},
		{"quotas above the whole", "holdout: {", "quotas: [{class: 1, share: 0.6}, {class: 2, share: 0.6}], holdout: {",
			`8:61 models[0].sample.quotas | shares add up to 1.2 | `},
		{"quota of nothing", "holdout: {", "quotas: [{class: 1, share: 0}], holdout: {",
			`8:80 models[0].sample.quotas[0].share | above 0 and at most 1 | `},
		{"quotas and cap", "holdout: {", "quotas: [{class: 1, share: 0.6}], cap: {by: user, share: 0.1}, holdout: {",
			`8:61 models[0].sample.quotas | cannot be combined with sample.cap | `},
		{"cap without a share", "holdout: {", "cap: {by: user}, holdout: {",
			`8:58 models[0].sample.cap.share | is 0: write a number between 0 and 1 | `},
		{"cap by no field", "holdout: {", "cap: {by: country, share: 0.1}, holdout: {",
			`8:63 models[0].sample.cap.by | one of the categorical fields | `},
		{"cap without a field", "holdout: {", "cap: {share: 0.1}, holdout: {",
			`8:58 models[0].sample.cap.by | one of the categorical fields | `},
		{"cap and identity", "categorical: [user, item]}\n    sample: {size: 200000,",
			"categorical: [user, item], identity: id}\n    sample: {size: 200000, cap: {by: user, share: 0.1},",
			`8:38 models[0].sample.cap.by | cannot be combined with schema.identity | `},
		{"entities", "fraction: 0.1", "entities: 0.9",
			`8:73 models[0].sample.holdout.entities | is 0.9: write a number from 0 to 0.2 | `},
		{"range", "fraction: 0.1", "fraction: 0.9",
			`8:73 models[0].sample.holdout.fraction | is 0.9: write a number from 0 to 0.5 | `},
		{"label range", "task: ordinal, label: rating, levels: 5", "task: regression, label: rating, label_max: 1.0e+12",
			`7:58 models[0].schema.label_max | is 1e+12: write a number from -1e+09 to 1e+09 | `},
		{"enum", "penalty: l1linf", "penalty: l1lin",
			`9:68 models[0].train.penalty | is "l1lin": write one of l1, l1l2, l1linf | l1linf`},
		{"missing", "label: rating, ", "",
			`7:13 models[0].schema.label | is missing: write the name of the field with the label | `},
		{"missing section", "    input: {topics: [ratings], format: json, start: earliest}\n", "",
			`5:5 models[0].input.topics | is missing: write a list | `},
		{"model name", "name: ratings", "name: ../ratings", `5:11 models[0].name | is "../ratings" | `},
		{"field twice", "[user, item]", "[user, user]",
			`7:100 models[0].schema.categorical[1] | a field that models[0].schema.categorical[0] does not use | `},
		{"entry of a field", "[user, item]", "[user, {name: item, optionl: true}]",
			`7:113 models[0].schema.categorical[1].optionl | unknown key "optionl" under models[0].schema.categorical[1] | optional`},
		{"entry without a name", "[user, item]", "[user, {optional: true}]",
			`7:100 models[0].schema.categorical[1] | is missing: write the name of a field | `},
		{"another weight", "[user, item]", "[user, item], multi: [tags, {name: words, weight: sqr}]",
			`7:143 models[0].schema.multi[1].weight | is "sqr": write one of mean, sqrt | sqrt`},
		{"empty weight", "[user, item]", "[user, item], multi: [{name: words, weight: ''}]",
			`7:137 models[0].schema.multi[0].weight | is missing: write one of mean, sqrt | `},
		{"weight that is a list", "[user, item]", "[user, item], multi: [{name: words, weight: [sqrt]}]",
			`7:137 models[0].schema.multi[0].weight | expected text; | `},
		{"weight of a name", "[user, item]", "[user, {name: item, weight: mean}]",
			`7:121 models[0].schema.categorical[1].weight | is "mean": write no value: names of lists alone, in multi, have a weight | `},
		{"weight of a number", "[user, item]", "[user, item], numeric: [{name: price, weight: sqrt}]",
			`7:139 models[0].schema.numeric[0].weight | is "sqrt": write no value: names of lists alone, in multi, have a weight | `},
		{"optional by a word", "[user, item]", "[user, {name: item, optional: maybe}]",
			`7:123 models[0].schema.categorical[1].optional | expected true or false | `},
		{"derived of an unknown entity", "[user, item]", "[user, item], derived: [{name: before, kind: previous_label, " +
			"of: usr}]",
			`7:158 models[0].schema.derived[0].of | is "usr": write one of the categorical fields ["user" "item"] | user`},
		{"derived of nothing", "[user, item]", "[user, item], derived: [{name: n, kind: count}]",
			`7:117 models[0].schema.derived[0].of | is missing: write one of the categorical fields | `},
		{"derived of a derived field", "[user, item]", "[user, item], derived: [{name: a, kind: count, of: user}, {name: " +
			"b, kind: count, of: a}]",
			`7:178 models[0].schema.derived[1].of | is "a": write one of the categorical fields ["user" "item"] | `},
		{"derived of another kind", "[user, item]", "[user, item], derived: [{name: n, kind: counts, of: user}]",
			`7:133 models[0].schema.derived[0].kind | is "counts": write one of previous_label, time_bin, age, count, last | count`},
		{"derived with a taken name", "[user, item]", "[user, item], derived: [{name: item, kind: count, of: user}]",
			`7:124 models[0].schema.derived[0].name | a field that models[0].schema.categorical[1] does not use | `},
		{"derived twice", "[user, item]", "[user, item], derived: [{name: n, kind: count, of: user}, {name: n, kind: " +
			"count, of: item}]",
			`7:158 models[0].schema.derived[1].name | a field that models[0].schema.derived[0].name does not use | `},
		{"derived without a name", "[user, item]", "[user, item], derived: [{kind: count, of: user}]",
			`7:117 models[0].schema.derived[0].name | is missing: write the name of a field | `},
		{"derived with a sign of crosses", "[user, item]", "[user, item], derived: [{name: a×b, kind: count, of: user}]",
			`7:124 models[0].schema.derived[0].name | a name without × | `},
		{"time bin of another unit", "[user, item]", "[user, item], derived: [{name: n, kind: time_bin, unit: hours}]",
			`7:149 models[0].schema.derived[0].unit | is "hours": write one of hour, weekday, day, month | hour`},
		{"time bin of an entity", "[user, item]", "[user, item], derived: [{name: n, kind: time_bin, unit: hour, of: user}]",
			`7:159 models[0].schema.derived[0].of | no value: a derived field of kind time_bin has none, leave it out | `},
		{"age without a unit", "[user, item]", "[user, item], derived: [{name: n, kind: age, of: user}]",
			`7:117 models[0].schema.derived[0].unit | is missing: write one of day, hour, minute, second, week | `},
		{"age without a time", "time: ts, time_unit: ms, categorical: [user, item]",
			"categorical: [user, item], derived: [{name: n, kind: age, of: user, unit: day}]",
			`7:13 models[0].schema.time | is missing: write the field with the time of events: derived field "n" is of that | `},
		{"count with a unit", "[user, item]", "[user, item], derived: [{name: n, kind: count, of: user, unit: day}]",
			`7:156 models[0].schema.derived[0].unit | of kind count has none | `},
		{"last without a field", "[user, item]", "[user, item, shop], derived: [{name: n, kind: last, of: user, k: 3}]",
			`7:123 models[0].schema.derived[0].field | is missing: write one of the categorical fields | `},
		{"last without a number", "[user, item]", "[user, item], derived: [{name: n, kind: last, of: user, field: item}]",
			`7:117 models[0].schema.derived[0].k | is 0: write a whole number from 1 to 100 | `},
		{"previous label with a number", "[user, item]", "[user, item], derived: [{name: n, kind: previous_label, of: " +
			"user, k: 3}]",
			`7:162 models[0].schema.derived[0].k | of kind previous_label has none | `},
		{"hold-out by a derived field", "holdout: {", "holdout: {by: n, ",
			`8:67 models[0].sample.holdout.by | is "n": write one of the categorical fields | `},
		{"previous number without bins", "task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: " +
			"[user, item]",
			"task: regression, label: rating, categorical: [user, item], derived: [{name: n, kind: previous_label, of: user, " +
				"k: 5}]",
			`7:100 models[0].schema.derived[0].kind | schema.label_min and label_max with it | `},
		{"cross of an unknown field", "[user, item]", "[user, item], cross: [[user, itm]]",
			`7:122 models[0].schema.cross[0][1] | is "itm": write one of the categorical fields ["user" "item"] | item`},
		{"cross of one", "[user, item]", "[user, item], cross: [[user]]",
			`7:115 models[0].schema.cross[0] | write a list of 2 to 4 categorical fields, such as [user, item] | `},
		{"cross with itself", "[user, item]", "[user, item], cross: [[user, user]]",
			`7:122 models[0].schema.cross[0][1] | each field of a cross once | `},
		{"cross twice", "[user, item]", "[user, item], cross: [[user, item], [item, user]]",
			`7:129 models[0].schema.cross[1] | cross[0] has the same fields | `},
		{"cross with a taken name", "[user, item]", "[user, item], numeric: [user×item], cross: [[user, item]]",
			`7:137 models[0].schema.cross[0] | a field that models[0].schema.numeric[0] does not use | `},
		{"cross that is no list", "[user, item]", "[user, item], cross: [user, item]",
			`7:115 models[0].schema.cross[0] | this is text, expected a list | `},
		{"of an unknown field", "[user, item]", "[user, {name: item, of: usr}]",
			`7:117 models[0].schema.categorical[1].of | is "usr": write one of the categorical fields ["user" "item"] | user`},
		{"of each other", "[user, item]", "[{name: user, of: item}, {name: item, of: user}]",
			`7:111 models[0].schema.categorical[0].of | is "item": write a field that is not itself of user | `},
		{"optional hold-out", "[user, item]}\n    sample: {size: 200000, seed: 42, half_life: 0s, holdout: {",
			"[{name: user, optional: true}, item]}\n    sample: {size: 200000, seed: 42, half_life: 0s, holdout: {by: user, ",
			`8:67 models[0].sample.holdout.by | a field that every event has: this one is optional | `},
		{"optional identity", "[user, item]", "[{name: user, optional: true}, item], identity: user",
			`7:141 models[0].schema.identity | a field that every event has | `},
		{"optional cap", "[user, item]}\n    sample: {", "[{name: user, optional: true}, item]}\n    sample: {cap: {by: " +
			"user, share: 0.1}, ",
			`8:24 models[0].sample.cap.by | a field that every event has | `},
		{"unknown field", "fold_in: {by: [user]}", "fold_in: {by: [usr]}",
			`9:121 models[0].train.fold_in.by[0] | one of the categorical fields ["user" "item"] | `},
		{"environment", "path: state", "path: \"${HOME}\"", `2:17 storage.path | environment is read for secrets only | `},
		{"open to the network", "127.0.0.1:0", "0.0.0.0:80", `3:23 web.listen_address | loopback address | `},
		{"bad broker", "127.0.0.1:9092", "localhost", `1:29 kafka.bootstrap_servers[0] | host:port | `},
		{"half-life of the held-out", "holdout: {fraction: 0.1}", "holdout: {fraction: 0.1, half_life: 9h}", ``},
		{"variational", "solver: hybrid", "solver: hybrid, refit: variational, kernel: homogeneous",
			`9:113 models[0].train.refit | needs kernel anova | `},
		{"anchor", "path: state", "path: &a state", `2:17 storage.path | anchors, aliases and merge keys are not read | `},
		{"tag", "path: state", "path: !!str state", `2:17 storage.path | tags are not read | `},
		{"no yaml", "storage: {path: state}", "storage: {path: state", ` | not YAML | `},
		{"two documents", "storage: {path: state}", "---\nstorage: {path: state}", `1:1  | has 2 documents | `},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(smallest, test.old, test.new, 1)
			if text == smallest {
				t.Fatal("the change changes nothing")
			}
			_, problems := parse(t, text)
			if test.want == "" {
				if problems != nil {
					t.Errorf("problems %+v, want none", problems)
				}
				return
			}
			want := strings.Split(test.want, " | ")
			for _, p := range problems {
				place := fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Key)
				if (want[0] == "" || place == want[0]) && strings.Contains(p.Message, want[1]) &&
					p.Suggestion == want[2] {
					return
				}
			}
			t.Errorf("problems %+v\nwant %s", problems, test.want)
		})
	}
}

// TestEveryMistakeAtOnce checks the list and its text.
func TestEveryMistakeAtOnce(t *testing.T) {
	text := strings.NewReplacer("bootstrap_servers:", "bootstrap.servers:", "levels: 5", "levels: 1", "every: 5s",
		"every: soon",
		"window: 20000", "window: 0").
		Replace(smallest)
	_, err := Parse("r.yaml", []byte(text), noEnv)
	bad, ok := errors.AsType[*strictyaml.FileError](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	var got []string
	for _, p := range bad.Problems {
		got = append(got, fmt.Sprintf("%d %s", p.Line, p.Key))
	}
	want := []string{
		"1 kafka.bootstrap.servers",
		"7 models[0].schema.levels",
		"9 models[0].train.every",
		"10 models[0].evaluate.window",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
	const first = `r.yaml:1:9: kafka.bootstrap.servers: unknown key "bootstrap.servers" under kafka: ` +
		`known are bootstrap_servers, group_id, client_id, tls, sasl, schema_registry, fetch_max_wait, max_partition_fetch_bytes
     1 | kafka: {bootstrap.servers: ["127.0.0.1:9092"], group_id: refitd-ratings}
       |         ^
       = did you mean bootstrap_servers?
`
	if !strings.Contains(err.Error(), first) {
		t.Errorf("text\n%s\nwithout\n%s", err, first)
	}
}
