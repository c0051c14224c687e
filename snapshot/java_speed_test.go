package snapshot

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
)

// publishNames publishes a champion of n names in each of two fields, with k = 20.
func publishNames(t *testing.T, dir string, n int) {
	t.Helper()
	const k = 20
	rng := rand.New(rand.NewPCG(1, 2))
	c := &format.Contents{
		Schema: format.Schema{Task: format.Regression, Label: "y", Categorical: []string{"user", "item"}},
		Link:   format.Identity, Kernel: format.ANOVA, NumFeatures: 2 * n, NumOutputs: 1, NumBasis: k,
		Weights: make([]float64, k), Bias: []float64{1}, Linear: make([]float64, 2*n), Basis: make([]float64, 2*n*k),
		Meta: format.Meta{Writer: "test", Kind: "refit", Created: snapshottest.Created},
	}
	for _, list := range [][]float64{c.Weights, c.Linear, c.Basis} {
		for i := range list {
			list[i] = rng.NormFloat64()
		}
	}
	for _, letter := range []string{"u", "i"} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint(letter, i))
		}
		slices.Sort(names)
		c.Vocabulary = append(c.Vocabulary, names)
	}
	user, item, output := 0, n, 1.0 // the first name of each field
	for v := range k {
		output += c.Weights[v] * c.Basis[user*k+v] * c.Basis[item*k+v]
	}
	c.Golden = []format.Golden{{Input: format.Input{Categorical: []string{"u0", "i0"}},
		Outputs: []float64{output + c.Linear[user] + c.Linear[item]}}}
	store, name := publish.NewStore(dir), fmt.Sprint("n", n)
	_, err := store.Publish(t.Context(), name, c)
	snapshottest.Must(t, err)
	_, err = store.MoveAlias(t.Context(), name, publish.Move{Alias: pointer.Champion, To: 1})
	snapshottest.Must(t, err)
}

// TestJavaSpeed: a pair makes no garbage in the JVM. Its figures are said, for performance.md.
func TestJavaSpeed(t *testing.T) {
	classes, dir := snapshottest.JavaModule(t, "bench"), t.TempDir()
	publishNames(t, dir, 100)
	publishNames(t, dir, 100_000) // together 200,000
	results := filepath.Join(dir, "jmh.json")
	args, want := []string{"-Djmh.ignoreLock=true", "-cp", classes, "org.openjdk.jmh.Main", "-p", "store=" + dir,
		"-prof", "gc", "-rf", "json", "-rff", results}, 6
	if !tier.Asked(tier.Load) { // figures need an idle machine
		args, want = append(args, "-wi", "1", "-i", "1", "-p", "names=100"), 3
	}
	jmh := exec.CommandContext(t.Context(), "java", args...)
	if out, err := jmh.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	type metric struct {
		Score       float64            `json:"score"`
		Percentiles map[string]float64 `json:"scorePercentiles"`
	}
	var found []struct {
		Benchmark string            `json:"benchmark"`
		Mode      string            `json:"mode"`
		Params    map[string]string `json:"params"`
		Primary   metric            `json:"primaryMetric"`
		Secondary map[string]metric `json:"secondaryMetrics"`
	}
	b, err := os.ReadFile(results)
	snapshottest.Must(t, err, json.Unmarshal(b, &found))
	if len(found) != want {
		t.Errorf("%d results, want %d", len(found), want)
	}
	for _, r := range found {
		garbage := r.Secondary["gc.alloc.rate.norm"].Score
		t.Logf("%s of 2 × %s names, %s: %.0f ns, p50 %.0f ns, p99 %.0f ns, %.4f bytes of garbage", filepath.Ext(r.Benchmark),
			r.Params["names"], r.Mode, r.Primary.Score, r.Primary.Percentiles["50.0"], r.Primary.Percentiles["99.0"],
			garbage)
		if r.Mode == "avgt" && garbage >= 1 { // what JMH itself makes is spread over many pairs
			t.Errorf("%s: %g bytes of garbage a pair", r.Benchmark, garbage)
		}
	}
}
