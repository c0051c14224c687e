package evaluate

import (
	"fmt"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestEvalOfEveryLoss: a version is judged whatever loss it was fitted by, also those that the default algorithm does
// not minimise.
func TestEvalOfEveryLoss(t *testing.T) {
	others := 0
	for _, task := range []event.Task{event.Regression, event.Binary, event.Multiclass, event.Multilabel, event.Ordinal} {
		for _, loss := range config.Losses(task) {
			t.Run(fmt.Sprintf("%s/%s", task, loss), func(t *testing.T) {
				m := config.DefaultModel()
				m.Schema.Task, m.Train.Loss, m.Train.Algorithm = string(task), loss, config.AlgorithmWith(task, loss)
				if m.Train.Algorithm != config.ConditionalGradient {
					others++
				}
				o, err := m.Objective()
				if err != nil {
					t.Fatal(err)
				}
				c := &format.Contents{
					Schema: snapshot.Schema{
						Task:    string(task),
						Label:   "y",
						Numeric: []format.NumericField{{Name: "x", Scale: 1}},
					},
					Kernel:      format.ANOVA,
					Link:        o.Link,
					NumFeatures: 1,
					NumOutputs:  1,
					Vocabulary:  [][]string{},
					Golden:      []format.Golden{{Input: snapshot.Input{Numeric: []float64{1}}}},
					Meta: format.Meta{
						Writer:  "test",
						Kind:    "refit",
						Created: time.Unix(1700000000, 0),
						Loss:    loss,
					},
				}
				lines, want := "{\"x\":1,\"y\":1}\n{\"x\":2,\"y\":0}\n", 2.0
				switch {
				case task.HasClasses():
					c.Schema.Classes, c.NumOutputs = []string{"a", "b", "c", "d"}, 4
					lines = "{\"x\":1,\"y\":\"b\"}\n{\"x\":2,\"y\":\"a\"}\n"
					if task == event.Multilabel {
						lines = "{\"x\":1,\"y\":[\"b\"]}\n{\"x\":2,\"y\":[\"a\",\"c\"]}\n"
					}
				case task == event.Ordinal:
					if c.Schema.Levels = 3; o.Link == format.OrdinalLink {
						c.NumOutputs = 2
					}
					lines = "{\"x\":1,\"y\":1}\n{\"x\":2,\"y\":3}\n"
				}
				c.Linear, c.Bias = make([]float64, c.NumOutputs), make([]float64, c.NumOutputs)
				for i := range c.Linear {
					c.Linear[i] = float64(i) - 0.5
				}
				dir := t.TempDir()
				if _, err := publish.NewStore(dir).Publish(t.Context(), "m", c); err != nil {
					t.Fatal(err)
				}
				ref := offline.SnapshotRef{Versions: offline.Versions{Store: dir, Model: "m"}, Version: 1}
				out, err := offlinetest.Collect(t, func(out *report.Emitter) error {
					return Run(
						Options{
							Snapshot: ref,
							Data:     offlinetest.WriteFile(t, "d.jsonl", lines),
							Format:   dataset.JSONL,
							Now:      offlinetest.Clock,
						},
						out,
					)
				})
				if err != nil {
					t.Fatal(err)
				}
				s := offlinetest.Last(out)
				if n := offlinetest.Number(t, s, "metrics.n"); n != want {
					t.Errorf("%g of %g events judged", n, want)
				}
				if _, isRanked := s["metrics"].(map[string]any)["top3_error"]; isRanked != (task == event.Multiclass) {
					t.Errorf("top-3 error: %t", isRanked)
				}
			})
		}
	}
	if others < 7 {
		t.Errorf("%d losses of other algorithms alone", others)
	}
}
