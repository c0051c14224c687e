package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quickTraining makes a refit a matter of milliseconds: it is not what is tested.
const quickTraining = "max_basis: 2, lambda: 3"

// settings of a child; the zero value of all but brokers and topics is a quick model that publishes nothing by the
// clock.
type settings struct {
	brokers []string
	topics  []string
	group   string // a group for this configuration alone if empty
	size    int    // rows of the sample; 5,000 if 0
	schema  string // task, label and what belongs to it; levels if empty
	train   string // the keys of train
	publish string // further keys of publish
	gate    string // the keys of publish.gate
	input   string // further keys of input
	sample  string // further keys of sample
	kafka   string // further keys of kafka
	score   string // the keys of score; no scoring if empty
	team    string // the keys role and shard
}

// configure writes a configuration into a directory of the test and returns its path.
func configure(t *testing.T, name string, s settings) string {
	t.Helper()
	return configureIn(t, t.TempDir(), name, s)
}

func configureIn(t *testing.T, dir, name string, s settings) string {
	t.Helper()
	if s.group == "" {
		s.group = regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name()+"-"+name, "-")
	}
	if s.size == 0 {
		s.size = 5000
	}
	keys := func(list string) string {
		if list == "" {
			return ""
		}
		return ", " + list
	}
	score := ""
	if s.score != "" {
		score = fmt.Sprintf("    score: {%s}\n", s.score)
	}
	text := fmt.Sprintf(
		`
kafka: {bootstrap_servers: ["%s"], group_id: %s, fetch_max_wait: 100ms%s}
storage: {path: state-%s, min_free_bytes: 1MiB}
web: {listen_address: "127.0.0.1:0"}
%s
models:
  - name: ratings
    input: {topics: [%s], start: earliest%s}
    schema: {%s, time: ts, time_unit: ms, categorical: [user, item]}
    sample: {size: %d, seed: 42, holdout: {fraction: 0.1}%s}
    train: {%s}
    evaluate: {window: 1000}
    publish: {store: store-%s, gate: {%s}%s}
%s`,
		strings.Join(s.brokers, `", "`),
		s.group,
		keys(s.kafka),
		name,
		s.team,
		strings.Join(s.topics, ", "),
		keys(s.input),
		defaulted(s.schema, "task: ordinal, label: rating, levels: 5"),
		s.size,
		keys(s.sample),
		defaulted(s.train, "every: 0s, "+quickTraining),
		name,
		defaulted(s.gate, "min_rows: 20"),
		keys(defaulted(s.publish, "update_every: 0s")),
		score,
	)
	path := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil { // a child may read the one that there is
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func defaulted(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// statePath and storePath are what configure put into the file.
func statePath(config string) string { return siblingPath(config, "state-") }
func storePath(config string) string { return siblingPath(config, "store-") }

func siblingPath(config, prefix string) string {
	return filepath.Join(filepath.Dir(config), prefix+strings.TrimSuffix(filepath.Base(config), ".yaml"))
}
