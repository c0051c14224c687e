package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TestAnotherListWeight: under another weight of the names of lists the sample and the accounts continue, and the
// next version is of that weight; derived lists count as they did.
func TestAnotherListWeight(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	r := rand.New(rand.NewPCG(5, 6))
	produce := func(n int) {
		for range n {
			word := r.IntN(40)
			b.Produce(
				fmt.Appendf(nil, `{"user":"u%d","item":"i%d","words":["w%d","w%d"],"rating":%d,"ts":1700000000000}`,
					r.IntN(30), r.IntN(20), word, r.IntN(40), 1+word/8),
			)
		}
	}
	configure := func(list string) string {
		return b.Configure(
			"lists",
			append([]string{"categorical: [user, item]", "categorical: [user, item], multi: [" + list + "], " +
				"derived: [{name: seen, kind: last, of: user, field: item, k: 3}]"}, daemontest.Simple...)...)
	}
	var versions []int64
	for i, c := range []struct {
		list    string
		weights []string
	}{{"words", nil}, {"{name: words, weight: sqrt}", []string{format.WeightSqrt, format.WeightMean}},
		{"{name: words, weight: mean}", nil}} {
		produce(600)
		o := b.Run(configure(c.list))
		if o.Err != nil || daemontest.Balanced(t, o.State(t)) != int64(600*(i+1)) {
			t.Fatalf("%s: %v", c.list, o.Err)
		}
		m, err := snapshot.Open(filepath.Join(b.Dir, "store-lists"), "ratings",
			snapshot.Selector{Alias: snapshot.Latest})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Schema().MultiWeights; !slices.Equal(got, c.weights) {
			t.Errorf("%s: version %d has weights %v", c.list, m.Manifest().Version, got)
		}
		versions = append(versions, m.Manifest().Version)
	}
	if !slices.IsSorted(versions) || len(slices.Compact(versions)) != 3 {
		t.Errorf("versions %v", versions)
	}
}
