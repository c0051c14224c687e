package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestJavaFlink: ML_PREDICT in Flink scores a stream while two versions are promoted and one is rolled back. Each row
// names its version and is that of the library.
func TestJavaFlink(t *testing.T) {
	classes := snapshottest.JavaModule(t, "flink")
	type move struct {
		Version int64  `json:"version"`
		Alias   string `json:"alias"` // the file
	}
	var want struct {
		Store   string                 `json:"store"`
		Key     string                 `json:"key"`
		Events  int                    `json:"events"`
		Moves   []move                 `json:"moves"`
		Answers map[string][][]float64 `json:"answers"` // by version: of event id modulo 84 prediction and outputs
	}
	store, dir, keys := publishSigned(t, 0)
	want.Store, want.Key, want.Events = dir, snapshottest.KeyFile(t, t.TempDir(), 1), tier.Size(40_000, 1_000_000)
	want.Answers = map[string][][]float64{}
	for i, k := range []int{1, 5, 3} {
		_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Shape{Task: format.Ordinal,
			Link: format.OrdinalLink, Kernel: format.ANOVA, K: k, Linear: true}))
		snapshottest.Must(t, err)
		m, err := verify.Trust{Keys: keys}.Open(dir, "m", verify.Selector{Version: int64(i + 1)})
		snapshottest.Must(t, err)
		for id := range 84 {
			p, err := m.Predict(&format.Input{Categorical: []string{fmt.Sprint("u", 1+id%4), fmt.Sprint("i", 1+id%3)},
				Numeric: []float64{float64(id % 7)}, Multi: [][]string{{"a", "zzz"}}})
			snapshottest.Must(t, err)
			version := fmt.Sprint(i + 1)
			want.Answers[version] = append(want.Answers[version], append([]float64{p.Value}, p.Outputs...))
		}
	}
	for _, to := range []int64{1, 2, 3, 2} {
		snapshottest.Must(t, setAlias(t, store, pointer.Champion, to))
		text, err := os.ReadFile(filepath.Join(dir, "m", "aliases", pointer.Champion))
		snapshottest.Must(t, err)
		want.Moves = append(want.Moves, move{to, string(text)})
	}
	snapshottest.RunJava(t, classes, "io.github.refitd.flink.FlinkTest", want,
		"--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED")
}
