package config

import (
	"errors"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"strings"
	"testing"
)

func TestTwoModels(t *testing.T) {
	second := smallest[strings.Index(smallest, "  - name"):]
	_, problems := parse(t, smallest+second)
	if len(problems) != 1 || problems[0].Key != "models[1].name" {
		t.Fatalf("problems %+v", problems)
	}
	c, problems := parse(t, smallest+strings.Replace(second, "name: ratings", "name: other", 1))
	if problems != nil {
		t.Fatal(problems)
	}
	if _, err := c.Model(""); err == nil || !strings.Contains(err.Error(), `["ratings" "other"]`) {
		t.Errorf("Model(\"\") = %v", err)
	}
	if m, err := c.Model("other"); err != nil || m.Name != "other" {
		t.Errorf("Model(other) = %v, %v", m, err)
	}
}

func TestHashes(t *testing.T) {
	base, _ := parse(t, smallest)
	for _, test := range []struct {
		old, new     string
		model, state bool // whether the hash of the model and that of the state change
	}{
		{"refitd-ratings", "other", false, false},
		{"path: state", "path: elsewhere", false, false},
		{"store: snapshots", "store: elsewhere", false, false},
		{"max_basis: 20", "max_basis: 19", true, false},
		{"max_basis: 20", "max_basis: 20, threads: 7, loss: binary_logistic", false, false},
		{"window: 20000", "window: 1000", true, false},
		{"every_events: 5000", "every_events: 4000, time_budget: 1m", false, false},
		{"update_every: 10s", "update_every: 1m, keep: 3, keep_for: 1h, gate: {tolerance: 0.1}", false, false},
		{"seed: 42", "seed: 43", true, true},
		{"fraction: 0.1", "fraction: 0.1, entities: 0.02", false, false},
		{"fraction: 0.1", "fraction: 0.1, entities: 0", true, false},
		{"fraction: 0.1", "fraction: 0.1, entities: 0.05", true, false},
		{"[user, item]", "[item, user]", true, true},
		{"topics: [ratings]", "topics: [a, b]", true, true},
	} {
		c, problems := parse(t, strings.Replace(smallest, test.old, test.new, 1))
		if problems != nil {
			t.Fatal(problems)
		}
		if got := c.Hash() != base.Hash(); got != test.model {
			t.Errorf("%s: model hash changes: %t", test.new, got)
		}
		if got := c.Models[0].SampleHash() != base.Models[0].SampleHash(); got != test.state {
			t.Errorf("%s: state hash changes: %t", test.new, got)
		}
	}
	m, other := &base.Models[0], base.Models[0]
	other.Train.MaxBasis++
	if !m.MadeFor(m.Hash()) || !m.MadeFor(m.hashWithSchedule()) || m.MadeFor(other.Hash()) ||
		m.MadeFor(other.hashWithSchedule()) {
		t.Error("a version is for the settings that it was made with, by either hash, and for no others")
	}
	if h := base.Hash(); !strings.HasPrefix(h, "sha256:") || len(h) != len("sha256:")+64 {
		t.Errorf("hash %q", h)
	}
}

func TestResolve(t *testing.T) {
	for _, test := range []struct {
		task                         string
		categorical, numeric         []string
		loss, kernel, augment, refit string
	}{
		{"regression", []string{"a", "b"}, nil, "squared", "anova", "false", "variational"},
		{"ordinal", []string{"a", "b"}, []string{"x"}, "binary_logistic", "anova", "false", "variational"},
		{"binary", []string{"a"}, nil, "binary_logistic", "anova", "false", "variational"},
		{"binary", nil, []string{"x"}, "binary_logistic", "homogeneous", "true", "output"},
		{"multiclass", nil, []string{"x"}, "mlogistic", "homogeneous", "true", "output"},
		{"multilabel", nil, []string{"x"}, "binary_logistic", "homogeneous", "true", "output"},
	} {
		m := DefaultModel()
		m.Name, m.Input.Topics = "m", []string{"t"}
		m.Schema.Task, m.Schema.Label, m.Schema.Categorical, m.Schema.Numeric = test.task, "y", test.categorical, test.numeric
		if test.task == "ordinal" {
			m.Schema.Levels = 3
		}
		m.Resolve()
		if got := m.Train; got.Loss != test.loss || got.Kernel != test.kernel || string(got.Augment) != test.augment ||
			got.Refit != test.refit {
			t.Errorf("%s %v %v: %s %s %s %s", test.task, test.categorical, test.numeric, got.Loss, got.Kernel,
				got.Augment, got.Refit)
		}
		if problems := m.Validate(); problems != nil {
			t.Errorf("%s: %+v", test.task, problems)
		}
	}
}

func TestMemoryBudget(t *testing.T) {
	used := func(c *Config) Memory {
		return Memory{
			BudgetBytes: int64(c.MemoryBudget),
			TotalBytes:  150 << 20,
			Parts: map[string]int64{"ratings.fetch": 20 << 20, "ratings.variational": 100 << 20,
				"ratings.refit": 1, "ratings.models": 30<<20 - 1},
		}
	}
	load := func(budget string) error {
		_, err := parseWith("f.yaml", []byte("memory_budget: "+budget+"\n"+smallest), noEnv, Exceptions{Memory: used})
		return err
	}
	for _, enough := range []string{"0", "150MiB", "4GiB"} {
		if err := load(enough); err != nil {
			t.Errorf("%s: %v", enough, err)
		}
	}
	bad, ok := errors.AsType[*strictyaml.FileError](load("100MiB"))
	if !ok || len(bad.Problems) != 1 {
		t.Fatalf("error %v", bad)
	}
	const want = "at least 150MiB, or make the largest parts smaller: " +
		"ratings.variational 100MiB (train.max_features, train.max_basis and train.variational_basis), " +
		"ratings.models 30MiB (train.max_features and train.max_basis), ratings.fetch 20MiB (kafka.max_partition_fetch_bytes)"
	if p := bad.Problems[0]; p.Line != 1 || p.Key != "memory_budget" || !strings.Contains(p.Message, want) {
		t.Errorf("problem %+v", p)
	}
}

func TestListenAddress(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:0": true, "[::1]:80": true, "localhost:80": true,
		"0.0.0.0:80": false, ":80": false,
		"127.0.0.1": false, "": false, "host:80": false} {
		if err := (&Web{ListenAddress: address}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	if err := (&Web{ListenAddress: ":80", ConfigFile: "web.yaml"}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestTrainCap: what is learned is capped by the field of the sample's cap, else by the first field that forgets, and
// not where there are no names. The cap changes no refit: it is no part of the hash of a model, so that versions from
// before there was one are continued.
func TestTrainCap(t *testing.T) {
	of := func(change func(m *Model)) *Model {
		m := DefaultModel()
		m.Name, m.Schema = "m", Schema{
			Task:        "ordinal",
			Label:       "rating",
			Levels:      5,
			TimeUnit:    "ms",
			Categorical: []string{"shop", "user", "item"},
		}
		change(&m)
		m.Resolve()
		return &m
	}
	for want, m := range map[string]*Model{
		"shop":  of(func(*Model) {}),
		"user":  of(func(m *Model) { m.Train.FoldIn.By = []string{"user", "item"} }),
		"item":  of(func(m *Model) { m.Train.FoldIn.By, m.Sample.Cap = []string{"user"}, Cap{By: "item", Share: 0.1} }),
		"shop ": of(func(m *Model) { m.Train.Cap, m.Sample.Cap = Cap{By: "shop", Share: 0.1}, Cap{By: "item", Share: 0.1} }),
		"":      of(func(m *Model) { m.Schema.Categorical, m.Schema.Numeric = nil, []string{"x"} }),
	} {
		if got := m.Train.Cap; got.By != strings.TrimSpace(want) || (got.Share > 0) != (want != "") {
			t.Errorf("cap %+v, want one by %q", got, want)
		}
	}
	with, without := of(func(*Model) {}), of(func(m *Model) { m.Train.Cap.Share = 0 })
	if with.Hash() != without.Hash() || !with.MadeFor(without.hashWithSchedule()) {
		t.Error("the cap changes the hash of a model")
	}
}
