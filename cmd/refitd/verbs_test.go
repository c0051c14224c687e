package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// operated are models whose versions and states operators work on: every task, kernel and algorithm, numbers, groups
// of fields, lists and crosses. Each is a schema and what is added to the keys of train.
var operated = []struct{ name, schema, train string }{
	{"two fields", "task: ordinal, label: rating, levels: 5, categorical: [user, item]", "max_basis: 3"},
	{"groups", "task: ordinal, label: rating, levels: 5, categorical: [user, item, age, year]", "max_basis: 3"},
	{
		"lists and a cross",
		"task: regression, label: rating, categorical: [user, item], cross: [[user, item]], multi: [tags]",
		"max_basis: 3",
	},
	{"numbers", "task: binary, label: liked, numeric: [a, b]", "max_basis: 3"},
	{"a feature map", "task: regression, label: rating, numeric: [a, b]", "max_basis: 3, feature_map: 'fourier:20'"},
	{"names and numbers", "task: binary, label: liked, categorical: [user, item], numeric: [a]", "max_basis: 3"},
	{
		"the output layer, augmented",
		"task: binary, label: liked, categorical: [user, item]",
		"max_basis: 3, refit: output, augment: 'true'",
	},
	{
		"full refits",
		"task: regression, label: rating, categorical: [user, item], numeric: [a]",
		"max_basis: 3, refit: full, solver: fista",
	},
	{"degree 3", "task: regression, label: rating, numeric: [a, b]", "max_basis: 3, degree: 3, kernel: homogeneous"},
	{
		"classes",
		"task: multiclass, label: kind, classes: [low, middle, high], categorical: [user, item]",
		"max_basis: 3",
	},
	{
		"margins of classes",
		"task: multiclass, label: kind, classes: [low, middle, high], categorical: [user, item], numeric: [a], " +
			"cross: [[user, item]]",
		"max_basis: 3, loss: squared_hinge",
	},
	{
		"smoothed margins of classes",
		"task: multiclass, label: kind, classes: [low, middle, high], categorical: [user, item]",
		"max_basis: 3, loss: smoothed_hinge",
	},
	{
		"several labels",
		"task: multilabel, label: kinds, classes: [low, middle, high], categorical: [user, item]",
		"max_basis: 3",
	},
	{"choices", "task: implicit, categorical: [user, item]", "max_basis: 3"},
	{
		"convex_fm",
		"task: regression, label: rating, categorical: [user, item, age]",
		"max_basis: 3, algorithm: convex_fm",
	},
	{
		"coordinate_descent",
		"task: regression, label: rating, categorical: [user, item, age]",
		"max_basis: 3, algorithm: coordinate_descent",
	},
	{
		"a support vector machine",
		"task: multiclass, label: kind, classes: [low, middle, high], categorical: [user, item]",
		"algorithm: frank_wolfe_svm",
	},
	{
		"a support vector machine over basis vectors",
		"task: multiclass, label: kind, classes: [low, middle, high], numeric: [a, b]",
		"algorithm: frank_wolfe_svm, features: basis, max_basis: 3",
	},
}

// operatedRecord draws an event that has every field.
func operatedRecord(r *rand.Rand) []byte {
	u, v, a, b := r.IntN(60), r.IntN(40), r.NormFloat64(), r.NormFloat64()
	trait := func(n int) float64 { return float64(n%7)/3 - 1 }
	level := min(max(3+int(2.4*trait(u)*trait(v*3)+a*b+0.5*r.NormFloat64()), 1), 5)
	kind := []string{"low", "low", "middle", "high", "high"}[level-1]
	text, err := json.Marshal(
		map[string]any{
			"user": fmt.Sprint("u", u),
			"item": fmt.Sprint("i", v),
			"age":  fmt.Sprint("a", u%7),
			"year": fmt.Sprint("y", v%5),
			"tags": []string{
				fmt.Sprint("t", v%4),
				fmt.Sprint("t", 4+v%3),
			},
			"a":      a,
			"b":      b,
			"rating": level,
			"liked":  level > 3,
			"kind":   kind,
			"kinds":  []string{kind},
		},
	)
	if err != nil {
		panic(err)
	}
	return text
}

// TestVerbsOnEveryModel: the verbs of an operator work on versions and states of every task, kernel and algorithm,
// and a daemon whose champion an operator moved refits again.
func TestVerbsOnEveryModel(t *testing.T) {
	tier.NotUnderRace(t)
	program := os.Args[0]
	os.Args[0] = "refitd" // as which verify starts this binary once more: see TestMain
	t.Cleanup(func() { os.Args[0] = program })
	bench := daemontest.New(t)
	r := rand.New(rand.NewPCG(1, 1))
	records := make([][]byte, 600)
	for i := range records {
		records[i] = operatedRecord(r)
	}
	bench.Produce(records...)
	labelled := filepath.Join(bench.Dir, "labelled.jsonl")
	if err := os.WriteFile(labelled, append(bytes.Join(records[:50], []byte("\n")), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, c := range operated {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("operated-", i)
			path := bench.Configure(name,
				"task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]", c.schema,
				"every_events: 0, max_basis: 4", "every_events: 200, "+c.train, "update_every: 0s",
				"update_every: 0s, keep_sample: true")
			o := &operator{t: t, config: path, dir: t.TempDir()}
			first := bench.Run(path)
			if first.Err != nil || first.Summary.Models[0].Champion == nil {
				t.Fatalf("the first run: %v, %+v", first.Err, first.Summary)
			}
			for _, v := range slices.Compact([]string{"1", fmt.Sprint(*first.Summary.Models[0].Champion)}) {
				o.does("inspect", "--version", v)
				o.does("inspect", "--bom", "--version", v)
				o.does("versions", "diff", "1", v)
				o.does("versions", "reproduce", "--version", v)
				o.does("versions", "export", "onnx", "--version", v, "--output", filepath.Join(o.dir, "model.onnx"))
				o.does("score", "--input", labelled, "--version", v)
				if c.name != "choices" {
					o.does("eval", "--data", labelled, "--format", "jsonl", "--version", v)
				}
			}
			o.does("versions", "log")
			o.does("versions", "log", "--at", "2999-01-01T00:00:00Z")
			o.does("versions", "promote")
			o.does("versions", "promote", "--version", "1", "--why", "a test")
			o.damage(filepath.Join(bench.Dir, "store-"+name, "ratings", "aliases", "champion"))
			o.does("versions", "alias", "--repair")
			o.does("versions", "prune", "--keep", "1", "--dry-run")
			o.does("state", "inspect")
			o.does("state", "verify")
			o.does("versions", "export", "jsonl", "--output", filepath.Join(o.dir, "sample.jsonl"))
			o.does("versions", "export", "libsvm", "--output", filepath.Join(o.dir, "sample.libsvm"))
			o.does("state", "backup", "--output", filepath.Join(o.dir, "backup"))
			o.does("state", "restore", "--input", filepath.Join(o.dir, "backup"))
			if strings.Contains(c.schema, "user") {
				o.does("state", "forget", "--field", "user", "--value", "u7")
			}
			o.refitsAgain(bench.Run(path), 1)
			o.does("versions", "rollback")
			o.refitsAgain(bench.Run(path), 0)
			o.does("versions", "prune", "--keep", "1")
			o.does("versions", "alias")
			o.does("versions", "list")
		})
	}
}

// operator gives commands about the model of a configuration.
type operator struct {
	t      *testing.T
	config string
	dir    string
}

// does runs a verb, which has to end with 0.
func (o *operator) does(verb ...string) {
	o.t.Helper()
	var stdout, stderr bytes.Buffer
	args := append(verb[:len(verb):len(verb)], "--config.file", o.config, "--json")
	if code := run(o.t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != report.ExitDone {
		o.t.Errorf("refitd %s: exit code %d\n%.2000s%.2000s", strings.Join(verb, " "), code, stdout.String(),
			stderr.String())
	}
}

// damage empties a file.
func (o *operator) damage(path string) {
	o.t.Helper()
	if err := os.Truncate(path, 0); err != nil {
		o.t.Fatal(err)
	}
}

// refitsAgain checks that a run after a move of the champion to a version, 0 for any, refitted.
func (o *operator) refitsAgain(run daemontest.Outcome, to int64) {
	o.t.Helper()
	if run.Err != nil || run.Count("version") == 0 {
		o.t.Errorf("the run after the champion was moved: %v, %d versions", run.Err, run.Count("version"))
		return
	}
	if v := run.Summary.Models[0]; to > 0 && v.VersionsPromoted == 0 && (v.Champion == nil || *v.Champion != to) {
		o.t.Errorf("champion %v, moved to %d: %+v", v.Champion, to, v)
	}
}
