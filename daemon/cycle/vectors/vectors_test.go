package vectors

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// planted returns vectors of five directions with noise, far from the origin.
func planted(n, d int) [][]float32 {
	r := rand.New(rand.NewPCG(3, 3))
	axes := make([]float64, 5*d)
	for i := range axes {
		axes[i] = r.NormFloat64()
	}
	all := make([][]float32, n)
	for i := range all {
		v := make([]float64, d)
		for a := range 5 {
			floats.AddScaled(v, r.NormFloat64()/float64(1+a), axes[a*d:(a+1)*d])
		}
		all[i] = make([]float32, d)
		for c := range v {
			all[i][c] = float32(v[c] + 0.01*r.NormFloat64() + 7)
		}
	}
	return all
}

// TestProjection: coordinates have mean 0 and variance 1, are uncorrelated, and keep the planted directions; and they
// do not depend on the number of processors.
func TestProjection(t *testing.T) {
	all := planted(1500, 60)
	p := project(all)
	if p == nil || len(p.Axes) != mostCoordinates {
		t.Fatalf("projection %+v", p)
	}
	columns := make([][]float64, len(p.Axes))
	z, work, left := make([]float64, len(p.Axes)), make([]float64, 60), 0.0
	for _, v := range all {
		p.coordinates(z, v, work)
		for c := range columns {
			columns[c] = append(columns[c], z[c])
		}
		for _, axis := range p.Axes[:5] { // what the planted directions explain: an axis of length 1/σ counts z·σ along it
			floats.AddScaled(work, -floats.Dot(axis, work)/floats.Dot(axis, axis), axis)
		}
		left += floats.Dot(work, work)
	}
	if limit := 1500 * 60 * 0.01 * 0.01 * 1.1; left > limit {
		t.Errorf("%g is left without the planted directions, at most %g is noise", left, limit)
	}
	for c := range columns {
		mean, variance := stat.MeanVariance(columns[c], nil)
		if math.Abs(mean) > 1e-9 || math.Abs(variance-1) > 0.01 || c > 0 &&
			math.Abs(stat.Correlation(columns[c], columns[c-1], nil)) > 1e-6 {
			t.Errorf("coordinate %d: mean %g, variance %g", c, mean, variance)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	again := project(all)
	for c := range p.Axes {
		if !floats.Equal(p.Axes[c], again.Axes[c]) {
			t.Fatalf("axis %d differs with another number of processors", c)
		}
	}
	if project(all[:1]) != nil || project([][]float32{all[0], all[0], all[0]}) != nil {
		t.Error("equal vectors have a projection")
	}
	if few := project(all[:3]); few == nil || len(few.Axes) != 2 {
		t.Errorf("three vectors have the projection %+v", few)
	}
}
