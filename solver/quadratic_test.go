package solver

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/loss"
)

// The bound, formed in blocks of columns, is Z'diag(w)Z times half the curvature in its upper triangle.
func TestDenseFitBound(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		d := newDensePart(MultinomialLogistic{}, 2*loss.FitTile+11, 3, 2*gamma.BoundColumns+5, weighted)
		f := d.fit(t.Context(), 2)
		got, width := f.Bound(), f.K+1
		var rows [][]float64
		for _, row := range d.rows {
			rows = append(rows, append(slices.Clone(row), 1))
		}
		for j := range width {
			for l := j; l < width; l++ {
				want := 0.0
				for i, z := range rows {
					want += d.p.Weight(i) * z[j] * z[l]
				}
				want *= 0.5 * d.p.Loss.Curvature(3)
				if math.Abs(got[j*width+l]-want) > 1e-9*(1+math.Abs(want)) {
					t.Fatalf("entry %d, %d is %g, want %g", j, l, got[j*width+l], want)
				}
			}
		}
	}
}
