package backtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestOutcomesOfFiles: events and their outcomes in two files are played together, by time, and joined with the rows of
// a table. Losses are those of the events whose label is final. What is learned is close to what a file that has the
// labels gives.
func TestOutcomesOfFiles(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 1))
	const n = 4000
	var seen, labelled, clicks, items strings.Builder
	items.WriteString("id,genre\n")
	clicks.WriteString("of,ts\n")
	genre := make([]int, 60)
	for i := range genre {
		genre[i] = r.IntN(2)
		fmt.Fprintf(&items, "i%d,g%d\n", i, genre[i])
	}
	start := int64(1_700_000_000_000)
	newest, want := start+(n-1)*1000, int64(0)
	for k := range int64(n) {
		u, i, at, click := r.IntN(40), r.IntN(60), start+k*1000, 0
		if r.Float64() < []float64{0.1, 0.7}[(u+genre[i])%2] {
			click = 1
			delay := int64(r.ExpFloat64() * 60_000)
			fmt.Fprintf(&clicks, "e%d,%d\n", k, at+delay)
			newest = max(newest, at+delay)
		}
		fmt.Fprintf(&seen, `{"id":"e%d","user":"u%d","item":"i%d","ts":%d}`+"\n", k, u, i, at)
		fmt.Fprintf(&labelled, `{"id":"e%d","user":"u%d","item":"i%d","ts":%d,"click":%d}`+"\n", k, u, i, at, click)
	}
	for name, text := range map[string]string{"seen": seen.String(), "labelled": labelled.String(),
		"clicks.csv": clicks.String(), "items.csv": items.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for k := range int64(n) {
		if start+k*1000+300_000 <= newest {
			want++
		}
	}
	run := func(name, input, identity string, outcomes ...string) (of report.BacktestSummary) {
		c, err := config.Parse("a.yaml", []byte(`
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
- name: m
  input: {topics: [t]`+input+`}
  tables: [{name: items, topics: [items], of: item, key: id, categorical: [genre]}]
  schema: {task: binary, label: click, time: ts, time_unit: ms, categorical: [user, item], cross: [[user, genre]]`+identity+`}
  sample: {seed: 1}
  train: {every: 0s, every_events: 1000, max_basis: 2, lambda: 3}
  publish: {update_every: 1s}
`), nil)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(t.Context(), Options{Model: &c.Models[0], Data: filepath.Join(dir, name), Format: dataset.JSONL,
				Outcomes: outcomes, Order: dataset.FileOrder, Seed: 1, Now: offlinetest.Clock,
				Files: offline.TableFiles{Table: map[string]string{"items": filepath.Join(dir, "items.csv")}}}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(offlinetest.Last(lines))
		if err == nil {
			err = json.Unmarshal(b, &of)
		}
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	joined := run("seen", ", outcomes: {topics: [c], key: {impression: id, outcome: of}, window: 5m}", "",
		filepath.Join(dir, "clicks.csv"))
	whole := run("labelled", "", ", identity: id")
	if joined.Events != n || joined.Progressive.N != want || joined.UpdatesPublished == 0 {
		t.Errorf("%d events, %d judged, %d updates", joined.Events, joined.Progressive.N, joined.UpdatesPublished)
	}
	loss := func(of report.BacktestSummary) (live, published, baseline float64) {
		w := of.LastTenth
		return float64(*w.Live.Loss), float64(*w.Published.Loss), float64(*w.Baselines.Majority.Loss)
	}
	live, published, majority := loss(joined)
	best, _, _ := loss(whole)
	t.Logf("live %.4f, published %.4f, majority %.4f; with every label at once live %.4f", live, published, majority, best)
	if !(live < 1.04*best) || !(published < 0.9*majority) {
		t.Errorf("live %.4f, published %.4f, majority %.4f; with every label at once live %.4f", live, published, majority,
			best)
	}
}

// TestOutcomesOfSeveralTopics: outcomes in a file for each topic have the values of their topics. Files that join no
// event, or of which nothing says the topic, are refused.
func TestOutcomesOfSeveralTopics(t *testing.T) {
	dir := t.TempDir()
	start := int64(1_700_000_000_000)
	files := map[string]*strings.Builder{}
	for _, name := range []string{"seen", "click", "buy", "points"} {
		files[name] = new(strings.Builder)
	}
	for k := range int64(900) {
		at := start + k*1000
		fmt.Fprintf(files["seen"], `{"id":%d,"item":"i%d","ts":%d}`+"\n", k, k%3, at)
		fmt.Fprintf(files["points"], `{"of":"%d.0","ts":%d}`+"\n", k, at)
		if k%3 > 0 {
			fmt.Fprintf(files["click"], `{"of":%d,"ts":%d}`+"\n", k, at+10)
		}
		if k%3 > 1 {
			fmt.Fprintf(files["buy"], `{"of":"%d","ts":%d}`+"\n", k, at+5)
		}
	}
	fmt.Fprintln(files["buy"], `{"of":"1","ts":"soon"}`)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Parse("a.yaml", []byte(`
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
- name: m
  input:
    topics: [t]
    outcomes: {topics: [clicks, buys], values: [{topic: buys, value: 5}], key: {impression: id, outcome: of}, window: 1m, reward: max}
  schema: {task: regression, label: worth, time: ts, time_unit: ms, categorical: [item]}
  sample: {seed: 1}
  train: {every: 0s, every_events: 300}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	run := func(files ...string) ([]offlinetest.Line, error) {
		for i, file := range files {
			if topic, name, ok := strings.Cut(file, "="); ok {
				files[i] = topic + "=" + filepath.Join(dir, name)
			} else {
				files[i] = filepath.Join(dir, file)
			}
		}
		return offlinetest.Collect(t, func(out *report.Emitter) error {
			m := c.Models[0]
			return Run(t.Context(), Options{Model: &m, Data: filepath.Join(dir, "seen"), Format: dataset.JSONL,
				Outcomes: files, Order: dataset.FileOrder, Seed: 1, Now: offlinetest.Clock}, out)
		})
	}
	lines, err := run("clicks=click", "buys=buy")
	if err != nil {
		t.Fatal(err)
	}
	var of report.BacktestSummary
	b, err := json.Marshal(offlinetest.Last(lines))
	if err == nil {
		err = json.Unmarshal(b, &of)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(of.Dropped) != 1 || of.Dropped[0].Count != 1 || of.Dropped[0].Path != filepath.Join(dir, "buy") {
		t.Errorf("%+v was dropped", of.Dropped)
	}
	// Labels are 0, 1 and 5, each of a third of the events.
	if mean := float64(*of.Progressive.Baselines.GlobalMean.RMSE); mean < 2.1 || mean > 2.3 {
		t.Errorf("the mean label is off by %.3f, want about 2.16", mean)
	}
	for want, files := range map[string][]string{
		"write TOPIC=FILE":          {"click"},
		"a topic has one file":      {"clicks=click", "clicks=buy"},
		`is of "0.0", the first`:    {"clicks=points"},
		"model has the topics of o": {"carts=buy"},
	} {
		if _, err := run(files...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", files, err, want)
		}
	}
}
