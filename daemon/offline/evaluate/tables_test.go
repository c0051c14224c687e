package evaluate

import (
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestEvalWithTables: what a version's tables fill in is not absent, what neither they nor the event know is.
func TestEvalWithTables(t *testing.T) {
	c := &format.Contents{Kernel: format.ANOVA, Link: format.Identity, NumOutputs: 1, NumFeatures: 4,
		Schema: snapshot.Schema{Task: format.Regression, Label: "y", Categorical: []string{"item", "genre"},
			Optional: []string{"genre"}},
		Vocabulary: [][]string{{"i1", "i2"}, {"drama", "news"}}, Linear: []float64{0, 0, 3, 5}, Bias: []float64{1}}
	c.Tables = []*format.Table{format.NewTable("items", "item", []string{"genre"}, nil, nil,
		[]*format.TableRow{{Name: "i1", Categorical: []string{"drama"}}})}
	c.Meta = format.Meta{Writer: "test", Kind: "refit", Created: time.Unix(1700000000, 0), Decision: "promoted",
		Loss: "squared"}
	c.Golden = []format.Golden{{Input: snapshot.Input{Categorical: []string{"i1", ""}}}}
	ref := offline.SnapshotRef{Versions: offline.Versions{Store: t.TempDir(), Model: "toy"}, Version: 1}
	if _, err := publish.NewStore(ref.Store).Publish(t.Context(), "toy", c); err != nil {
		t.Fatal(err)
	}
	data := offlinetest.WriteFile(t, "events.jsonl", `{"item":"i1","y":4}
{"item":"i1","genre":"news","y":6}
{"item":"i2","y":1}
`)
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(Options{Snapshot: ref, Data: data, Format: dataset.JSONL, Now: offlinetest.Clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := offlinetest.Last(lines)
	if loss, genre := offlinetest.Number(t, s, "metrics.rmse"), offlinetest.Number(t, s, "absent.genre"); loss > 1e-12 ||
		genre != 1 {
		t.Errorf("RMSE %g, %g events without genre; want 0 and the one whose item has no row: %v", loss, genre, s)
	}
}
