package backtest

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// degenerate are what a file may lack: events change every event that is drawn.
var degenerate = map[string]func(ev map[string]any, zero any){
	"all labels alike": func(ev map[string]any, zero any) { ev["y"] = zero },
	"all features alike": func(ev map[string]any, _ any) {
		ev["user"], ev["item"], ev["a"], ev["tags"] = "u", "i", 0,
			[]string{}
	},
	"all alike": func(ev map[string]any, zero any) {
		ev["user"], ev["item"], ev["a"], ev["tags"], ev["y"] = "u", "i", 0, []string{}, zero
	},
	"a constant number": func(ev map[string]any, _ any) { ev["a"] = 7 },
	"one user":          func(ev map[string]any, _ any) { ev["user"] = "u" },
	"empty lists":       func(ev map[string]any, _ any) { ev["tags"] = []string{} },
}

// labelled draws a line of JSON.
func labelled(r *rand.Rand, task event.Task, change func(map[string]any, any)) string {
	names := []string{"a", "b", "c"}
	x, user := r.NormFloat64(), r.IntN(20)
	class := names[min(max(int(x+1.5), 0), 2)]
	label, zero := any(x), any(0)
	switch task {
	case event.Binary:
		label = x > 0
	case event.Ordinal:
		label, zero = 1+r.IntN(3), 1
	case event.Multiclass:
		label, zero = class, "b"
	case event.Multilabel:
		label, zero = []string{class}, []string{}
	}
	ev := map[string]any{"user": user, "item": r.IntN(15), "a": x, "tags": names[:r.IntN(3)], "y": label}
	change(ev, zero)
	line, err := json.Marshal(ev)
	if err != nil {
		panic(err)
	}
	return string(line)
}

// TestDegenerateFiles: labels or features that are all alike, constant numbers, empty lists: backtest and fit train a
// model of every task, and it is promoted. Where features are all alike the mean label is the best prediction. The
// plain form has every task with every kind of field and with every file, and with each kind a quarter of them.
func TestDegenerateFiles(t *testing.T) {
	tier.NotUnderRace(t)
	schemas := map[string]config.Schema{
		"names":   {Categorical: []string{"user", "item"}},
		"numbers": {Numeric: []string{"a"}},
		"lists":   {Multi: []string{"tags"}},
		"all":     {Categorical: []string{"user"}, Numeric: []string{"a"}, Multi: []string{"tags"}},
	}
	combination := 0
	for _, task := range event.Tasks {
		for _, fields := range slices.Sorted(maps.Keys(schemas)) {
			for _, refit := range []string{"auto", "full"} {
				if refit == "full" && fields != "lists" {
					continue
				}
				m := config.DefaultModel()
				m.Name, m.Input.Topics, m.Schema = "m", []string{"m"}, schemas[fields]
				m.Schema.Task, m.Schema.Label, m.Schema.TimeUnit = string(task), "y", "ms"
				if task.HasClasses() {
					m.Schema.Classes = []string{"a", "b", "c"}
				} else if task == event.Ordinal {
					m.Schema.Levels = 3
				}
				m.Train.EveryEvents, m.Train.MaxBasis, m.Train.Refit, m.Train.Threads = 90, 2, refit, 1
				m.Resolve()
				if problems := m.Validate(); len(problems) > 0 {
					t.Fatal(problems)
				}
				whats := slices.Sorted(maps.Keys(degenerate))
				combination++
				for n, what := range whats {
					if !tier.Asked(tier.Long) && (combination+n)%4 != 0 {
						continue
					}
					change := degenerate[what]
					r, lines := rand.New(rand.NewPCG(8, 1)), make([]string, 200)
					for i := range lines {
						lines[i] = labelled(r, task, change)
					}
					checkDegenerate(t, strings.Join([]string{string(task), fields, refit, what}, ", "), &m,
						strings.Join(lines, "\n"))
				}
			}
		}
	}
}

func checkDegenerate(t *testing.T, name string, m *config.Model, lines string) {
	t.Helper()
	path := offlinetest.WriteFile(t, "events.jsonl", lines)
	o := Options{Model: m, Data: path, Format: dataset.JSONL, Order: dataset.FileOrder, Now: offlinetest.Clock}
	out, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
	if err != nil {
		t.Errorf("%s: backtest: %v", name, err)
	} else if offlinetest.Number(t, offlinetest.Last(out), "versions_promoted") < 1 {
		t.Errorf("%s: no version: %v", name, offlinetest.OfType(out, "version")[0]["reason"])
	}
	copied := *m
	f := fit.Options{
		Model:  &copied,
		Data:   path,
		Format: dataset.JSONL,
		Split:  dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25},
		Now:    offlinetest.Clock,
	}
	if _, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return fit.Run(t.Context(), f,
			out)
	}); err != nil {
		t.Errorf("%s: fit: %v", name, err)
	}
}

// TestAlmostConstantLabels: labels that are all alike, or all but one, get versions from every refit. Their mean
// predicts them without an error, so what a model rounds is not worse.
func TestAlmostConstantLabels(t *testing.T) {
	tier.NotUnderRace(t)
	const rows, odd = 2400, 700
	for name, test := range map[string]struct {
		task      event.Task
		algorithm string
		odd       bool
	}{
		"ordinal, all alike":    {event.Ordinal, "convex_fm", false},
		"regression, all alike": {event.Regression, "convex_fm", false},
		"ordinal, but for one":  {event.Ordinal, config.ConditionalGradient, true},
		"binary, but for one":   {event.Binary, config.ConditionalGradient, true},
	} {
		m := config.DefaultModel()
		m.Name, m.Input.Topics, m.Schema = "m", []string{
			"m",
		}, config.Schema{
			Categorical: []string{"user", "item"},
			Numeric:     []string{"a"},
		}
		m.Schema.Task, m.Schema.Label, m.Schema.TimeUnit = string(test.task), "y", "ms"
		if test.task == event.Ordinal {
			m.Schema.Levels = 5
		}
		m.Train.Algorithm, m.Train.EveryEvents, m.Train.MaxBasis, m.Train.Threads, m.Evaluate.BaselineBy = test.algorithm,
			800, 5, 1, "item"
		m.Resolve()
		if problems := m.Validate(); len(problems) > 0 {
			t.Fatal(problems)
		}
		r, lines := rand.New(rand.NewPCG(9, 1)), make([]string, rows)
		for i := range lines {
			lines[i] = labelled(r, test.task, func(ev map[string]any, _ any) {
				switch y := 3; {
				case test.task == event.Binary:
					ev["y"] = i == odd
				case test.odd && i == odd:
					ev["y"] = y + 1
				default:
					ev["y"] = y
				}
			})
		}
		o := Options{
			Model:  &m,
			Data:   offlinetest.WriteFile(t, "events.jsonl", strings.Join(lines, "\n")),
			Format: dataset.JSONL,
			Order:  dataset.FileOrder,
			Now:    offlinetest.Clock,
		}
		out, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		promoted := false
		for _, v := range offlinetest.OfType(out, "version") {
			promoted = promoted || v["decision"] == "promoted"
			if reason, _ := v["reason"].(string); v["decision"] == "kept" {
				t.Errorf("%s: kept back: %s", name, reason)
			}
		}
		if !promoted {
			t.Errorf("%s: no version", name)
		}
	}
}
