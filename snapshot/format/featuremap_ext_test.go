package format_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestFeatureMapColumns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, m := range someMaps(random) {
		if err := m.ValidateShape(3); err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		dst := make([]float64, m.NumColumns())
		for range 300 {
			numeric := make([]float64, 3)
			for f, s := range m.Scaling {
				switch numeric[f] = s.Center + s.Scale*4*random.NormFloat64(); random.IntN(6) {
				case 0:
					numeric[f] = math.NaN()
				case 1:
					numeric[f] = math.MaxFloat64 * float64(random.IntN(3)-1)
				case 2:
					numeric[f] = math.Inf(1)
				case 3:
					if m.Kind == format.Bins { // at an edge
						numeric[f] = s.Center + s.Scale*m.Edges[f*(m.Count-1)+random.IntN(m.Count-1)]
					}
				}
			}
			want := snapshottest.SlowMapColumns(m, numeric)
			present := m.Columns(dst, numeric)
			if !rowmath.CloseTo(dst, want, 1e-12) {
				t.Fatalf("%s of %v: %v, want %v", m.Kind, numeric, dst, want)
			}
			if present != slices.ContainsFunc(numeric, format.IsFinite) {
				t.Fatalf("%s of %v: columns reported as %t", m.Kind, numeric, present)
			}
		}
	}
}

// someMaps returns a map of each kind over three fields of different scale.
func someMaps(random *rand.Rand) []*format.FeatureMap {
	scaling := []format.MapScaling{{Center: 0, Scale: 1}, {Center: 1e9, Scale: 50}, {Center: -3, Scale: 1e-6}}
	values := make([][]float64, len(scaling))
	for f, s := range scaling {
		for range 501 {
			values[f] = append(values[f], s.Center+s.Scale*random.NormFloat64())
		}
	}
	return []*format.FeatureMap{
		format.NewFourier(37, 5, scaling),
		format.NewBins(16, scaling, values),
		format.NewBins(2, scaling, values),
		format.NewProducts(scaling),
	}
}
