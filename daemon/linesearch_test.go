package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// TestLineSearchTrains: a model whose weights move by line search alone trains and publishes, cold and warm, with a
// certified gap.
func TestLineSearchTrains(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	r := rand.New(rand.NewPCG(5, 29))
	edits := []string{"lambda: auto", "lambda: 3, refit: line_search", "max_basis: 4", "max_basis: 6"}
	for run := range 2 {
		for range 900 {
			user, item := r.IntN(12), r.IntN(9)
			rating := 1 + (user%3+item%3)%3 + r.IntN(2)
			b.Produce(
				fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":1700000000000}`, user, item, rating))
		}
		o := b.Run(b.Configure("steps", edits...))
		if o.Err != nil || daemontest.Balanced(t, o.State(t)) != int64(900*(run+1)) {
			t.Fatalf("run %d: %v", run, o.Err)
		}
		m, err := snapshot.Open(filepath.Join(b.Dir, "store-steps"), "ratings",
			snapshot.Selector{Alias: pointer.Champion})
		if err != nil {
			t.Fatal(err)
		}
		x := m.Manifest()
		if x.Kind != "refit" || x.Form != format.FormConvex || x.Solver != "algorithm1:line_search" ||
			x.NumBasis == 0 || x.NumBasis > 6 {
			t.Errorf("run %d: %s of form %s by %s with %d vectors", run, x.Kind, x.Form, x.Solver, x.NumBasis)
		}
		if x.GapLimit != "weights" && x.GapLimit != "vectors" {
			t.Errorf("run %d: the gap %v is limited by %q", run, x.GapRelative, x.GapLimit)
		}
		if x.GapKind != "certified" || x.Gap == nil || *x.Gap > x.Objective || x.Gate == nil || x.Warm != (run > 0) {
			t.Errorf("run %d: %s gap %v of %v, warm %t", run, x.GapKind, x.Gap, x.Objective, x.Warm)
		}
	}
}
