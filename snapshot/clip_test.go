package snapshot

import (
	"errors"
	"math"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestNumbersAreClipped: a number beyond the limit of its field counts as the limit, when scored, explained and read
// back; only a version with a limit is of a format that builds without limits refuse.
func TestNumbersAreClipped(t *testing.T) {
	dir := t.TempDir()
	store := publish.NewStore(dir)
	for version, clip := range map[int]float64{1: 0, 2: 1.5} {
		c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity,
			Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""})
		for i := range c.Golden {
			c.Golden[i].Outputs = nil
		}
		c.Schema.Numeric[0].Clip = clip // age: (v − 40) / 20
		manifest, err := store.Publish(t.Context(), "m"+string(rune('0'+version)), c)
		if err != nil {
			t.Fatal(err)
		}
		if manifest.Format != version {
			t.Errorf("a limit of %g is written as format %d", clip, manifest.Format)
		}
		m, err := Open(dir, manifest.Model, verify.Selector{Version: 1})
		if err != nil {
			t.Fatal(err)
		}
		var s scorer.Scratch
		score := func(age float64) float64 {
			out := make([]float64, 1)
			m.Score(out, &format.Input{Categorical: []string{"u1", "i1"}, Numeric: []float64{age}}, &s)
			return out[0]
		}
		if clipped := score(1e15) == score(70) && score(-1e300) == score(10); clipped != (clip > 0) ||
			score(69) == score(70) {
			t.Errorf("limit %g: clipped %v: %g and %g", clip, clipped, score(1e15), score(70))
		}
		if v := score(math.Inf(1)); v != score(40) {
			t.Errorf("an infinite number gives %g, a missing one %g", v, score(40))
		}
	}
	c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA,
		K: 2, Linear: true, Mapped: ""})
	c.Schema.Numeric[0].Clip = -1
	if _, err := scorer.NewModel(c); !errors.Is(err, disk.ErrContents) {
		t.Errorf("error %v", err)
	}
}
