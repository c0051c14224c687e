package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
)

const clicksConfig = `
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: clicks}
storage: {path: state}
models:
  - name: clicks
    input: {topics: [clicks]}
    schema: {task: binary, label: click, positive: "yes", categorical: [user], multi: [tags], numeric: [price]}
    sample: {seed: 1}
    train: {every_events: 100}
    publish: {store: snapshots}
`

// TestStreams compares one short stream with a program in place of vw, which knows the probability of one setting: it
// answers 0.75 for that, else 0.5. Without the program there is no figure of it.
func TestStreams(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("clicks.yaml", clicksConfig, 0o600)
	var lines strings.Builder
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range 400 {
		click := "no"
		if i%4 > 0 {
			click = "yes"
		}
		fmt.Fprintf(&lines, `{"user":"u %d","tags":["a:b","c"],"price":%d,"click":%q}`+"\n", rng.IntN(9), rng.IntN(7), click)
	}
	write("clicks-1.jsonl", lines.String(), 0o600)
	o := Options{Data: dir, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }}

	t.Setenv("PATH", "")
	r, err := Streams(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if row := r.Tables[0].Rows[0]; row[0] != "clicks" || row[5] != "–" || row[6] != "" || row[1] == "–" || row[4] == "–" {
		t.Errorf("row %q without vw", row)
	}

	write("vw", `#!/bin/sh
p=0.5
case "$*" in *--coin*) case "$*" in *::*) ;; *) p=0.75 ;; esac ;; esac
while read -r line; do echo $p; done < events > predictions
while read -r line; do echo "$line"; done < events > "`+dir+`/seen"
`, 0o700)
	t.Setenv("PATH", dir)
	if r, err = Streams(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want := -(0.75*math.Log(0.75) + 0.25*math.Log(0.25))
	if row := r.Tables[0].Rows[0]; row[5] != (pair{want, want}).String() || row[6] != "`--coin`" {
		t.Errorf("row %q, want %.4f of --coin", row, want)
	}
	seen, err := os.ReadFile(filepath.Join(dir, "seen"))
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(string(seen), "\n"); !strings.HasPrefix(first, "-1 |a u_") ||
		!strings.Contains(first, " |b a_b c |c price:") {
		t.Errorf("vw reads %q", first)
	}
	if notes := r.Tables[0].Notes; len(notes) != 1 {
		t.Errorf("notes %q", notes)
	}
}

// TestLossOfLine: probabilities of a binary label and of classes, and numbers.
func TestLossOfLine(t *testing.T) {
	for _, c := range []struct {
		task, line  string
		label, want float64
	}{
		{"binary", "0.25", 1, -math.Log(0.25)}, {"binary", "0.25", 0, -math.Log(0.75)}, {"binary", "0", 1, 34.54},
		{"multiclass", "1:0.2 2:0.8", 1, -math.Log(0.8)}, {"regression", "2.5", 4, 2.25},
	} {
		m := modelSchema(c.task)
		if got, err := lossOfLine(c.line, m, c.label); err != nil || math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s %q: %g, %v, want %g", c.task, c.line, got, err, c.want)
		}
	}
	if _, err := lossOfLine("", modelSchema("binary"), 0); err == nil {
		t.Error("an empty line has a loss")
	}
}

func modelSchema(task string) *config.Schema { return &config.Schema{Task: task} }
