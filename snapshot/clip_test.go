package snapshot

import (
	"errors"
	"math"
	"testing"
)

// TestNumbersAreClipped: a number beyond the limit of its field counts as the limit, when scored, explained and read
// back; only a version with a limit is of a format that builds without limits refuse.
func TestNumbersAreClipped(t *testing.T) {
	dir := t.TempDir()
	store := NewStore(dir)
	for version, clip := range map[int]float64{1: 0, 2: 1.5} {
		c := testContents(shape{Regression, Identity, ANOVA, 2, true, ""})
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
		m, err := Open(dir, manifest.Model, Selector{Version: 1})
		if err != nil {
			t.Fatal(err)
		}
		var s Scratch
		score := func(age float64) float64 {
			out := make([]float64, 1)
			m.Score(out, &Input{Categorical: []string{"u1", "i1"}, Numeric: []float64{age}}, &s)
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
	c := testContents(shape{Regression, Identity, ANOVA, 2, true, ""})
	c.Schema.Numeric[0].Clip = -1
	if _, err := NewModel(c); !errors.Is(err, ErrContents) {
		t.Errorf("error %v", err)
	}
}
