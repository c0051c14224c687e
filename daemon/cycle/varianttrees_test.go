package cycle

import (
	"math"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// TestAskedAgainLessAndLess: consumers that are far behind trees ask for an update, each time after twice as many
// events; with trees, or without a difference, they do not.
func TestAskedAgainLessAndLess(t *testing.T) {
	var b treesBehind
	s := &updates.Score{}
	s.Published.Loss, s.Forms[mixture.FormTrees] = 0.7, math.NaN()
	var asked []int
	for i := range 2000 {
		if i >= 200 {
			s.Forms[mixture.FormTrees] = 0.2 + 0.2*math.Sin(float64(i))
		}
		if b.add(s, false); b.asks(mixture.FormFoldIn) {
			asked = append(asked, i)
		}
	}
	if len(asked) < 3 || len(asked) > 6 || asked[0] < 220 || asked[0] > 300 {
		t.Errorf("asked at events %v", asked)
	}
	for i := 2; i < len(asked); i++ {
		if asked[i]-asked[i-1] != 2*(asked[i-1]-asked[i-2]) {
			t.Errorf("asked at events %v", asked)
		}
	}
	if b.asks(mixture.FormTrees) || b.wait != firstWait {
		t.Errorf("asked with trees; the next wait is %g", b.wait)
	}
}
