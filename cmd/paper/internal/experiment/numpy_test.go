package experiment

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// TestNumpyRandom compares with numpy's RandomState(3): normal numbers, an odd count of them, uniform and multinomial
// ones and a kept normal number.
func TestNumpyRandom(t *testing.T) {
	r := newNumpyRandom(3)
	equal := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-15*math.Abs(want) {
			t.Errorf("%s: %v, numpy %v", what, got, want)
		}
	}
	for _, want := range []float64{1.7886284734303186, 0.43650985051198943, 0.09649746807200862} {
		equal("normal", r.normal(), want)
	}
	for _, want := range []float64{0.8929469543476547, 0.8962930889334381} {
		equal("uniform", r.uniform(), want)
	}
	p := []float64{0.7, 0.1, 0.4, 0.3}
	floats.Scale(1/floats.Sum(p), p)
	for i, want := range [][]float64{{1, 0, 4, 0}, {2, 0, 2, 1}, {3, 0, 1, 1}, {3, 0, 1, 1}, {2, 0, 2, 1}, {3, 0, 2, 0}} {
		if got := r.multinomial(5, p); !slices.Equal(got, want) {
			t.Errorf("multinomial %d: %v, numpy %v", i, got, want)
		}
	}
	equal("normal kept", r.normal(), -1.8634927033644908)
	for i, want := range [][]float64{{0, 4, 1}, {0, 5, 0}, {0, 4, 1}} { // by the complement
		if got := r.multinomial(5, []float64{0.05, 0.9, 0.05}); !slices.Equal(got, want) {
			t.Errorf("multinomial of a likely outcome %d: %v, numpy %v", i, got, want)
		}
	}
	equal("uniform", r.uniform(), 0.9759954224729338)
}

// TestDraw compares generated data with the reference's in numpy, dense and sparse, with and without the diagonal.
func TestDraw(t *testing.T) {
	for _, c := range []struct {
		row                      int
		seed                     uint32
		first, features, targets float64
		last, train              float64
	}{
		{1, 0, -0.11757479298341039, -189.40903744574146, 1050.1841508901475, -21.13183459392937, -16.931578502330392},
		{6, 2, 0, 3750, -360.46287923969754, 12.648469900858332, -0.09213304002463438},
	} {
		s := generations[c.row].draw(c.seed)
		features := 0.0
		for i := range s.fold {
			features += floats.Sum(s.x[i])
		}
		got := []float64{s.x[0][0], features, floats.Sum(s.y[:len(s.fold)]), s.y[len(s.y)-1], s.y[len(s.fold)-1]}
		if want := []float64{c.first, c.features, c.targets, c.last, c.train}; !floats.EqualApprox(got, want, 1e-9) {
			t.Errorf("%s: %v, numpy %v", generations[c.row].String(), got, want)
		}
	}
	s := generations[0].draw(0)
	if got := fmt.Sprint(s.fold[:8]); got != "[0 1 0 2 2 2 1 0]" {
		t.Errorf("folds %s", got)
	}
	if n := len(s.rows(0, true)) + len(s.rows(0, false)); n != 750 || len(s.rows(-1, false)) != 750 ||
		len(s.test()) != 250 {
		t.Errorf("%d rows in and out of a fold", n)
	}
}
