package daemon_test

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/refitd/refitd/"

// goList runs go list and returns the fields of each line.
func goList(t *testing.T, args ...string) (lines [][]string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// under reports whether path is the package root or below it.
func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// TestImportRule: nothing imports cmd; consumer, sketch, solver and snapshot know neither each other nor daemon, but for three leaves of the standard
// library below snapshot, and the learning cycle neither Kafka, storage nor metrics; they bring along no more than they should.
func TestImportRule(t *testing.T) {
	t.Parallel()
	const (
		gonum  = "gonum.org/v1/gonum"
		kafka  = "github.com/segmentio/kafka-go"
		badger = "github.com/dgraph-io/badger"

		prometheus = "github.com/prometheus"
	)
	rules := []struct {
		root string
		less string   // a folder of root with another rule
		only []string // if not nil, nothing but these and the standard library, at any depth
		own  []string // other packages of this module that it may bring along
		not  []string
	}{
		{root: "solver", only: []string{gonum}, not: []string{gonum + "/mat"}}, // it would link a megabyte more
		{root: "snapshot", less: "snapshot/metrics", only: []string{}},
		{root: "snapshot/metrics", own: []string{"snapshot"}, not: []string{kafka, badger, gonum}},
		{root: "sketch", own: []string{"snapshot/durable", "snapshot/failpoint"}, not: []string{kafka, gonum}},
		{root: "consumer", own: []string{"snapshot/backoff", "snapshot/failpoint"}, not: []string{badger, gonum}},
		{root: "consumer/event", not: []string{kafka, badger, prometheus}},
		{root: "daemon/cycle", own: []string{"consumer/event", "daemon", "snapshot", "solver"}, not: []string{kafka, badger, prometheus}},
	}
	for _, r := range rules {
		args := []string{"-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`}
		for _, p := range goList(t, module+r.root+"/...") {
			if r.less == "" || !under(p[0], module+r.less) {
				args = append(args, p[0])
			}
		}
		lines := goList(t, args...)
		for _, d := range lines {
			if len(d) == 0 || under(d[0], module+r.root) {
				continue
			}
			allowed := r.only == nil && !strings.HasPrefix(d[0], module)
			for _, o := range r.only {
				allowed = allowed || under(d[0], o)
			}
			for _, o := range r.own {
				allowed = allowed || under(d[0], module+o)
			}
			for _, n := range r.not {
				allowed = allowed && !under(d[0], n)
			}
			if !allowed {
				t.Errorf("%s brings along %s; apart from the standard library it may use %v, not %v", r.root, d[0], r.only, r.not)
			}
		}
	}
	for _, p := range goList(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...") {
		for _, d := range p[1:] {
			if under(d, module+"cmd") && !under(p[0], module+"cmd") {
				t.Errorf("%s imports %s", p[0], d)
			}
		}
	}
}
