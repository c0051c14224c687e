package format

import (
	"math"
	"slices"
	"testing"
)

// A fourier map is a function of its arguments, with rows of the length that its comment says and frequencies at four
// scales.
func TestFourierScales(t *testing.T) {
	scaling := []MapScaling{{0, 1}, {2, 3}}
	m := NewFourier(4000, 7, scaling)
	if again := NewFourier(4000, 7, scaling); !slices.Equal(m.Frequencies, again.Frequencies) ||
		!slices.Equal(m.Phases, again.Phases) {
		t.Error("two maps of the same seed differ")
	}
	if other := NewFourier(4000, 8, scaling); slices.Equal(m.Frequencies, other.Frequencies) {
		t.Error("maps of two seeds are the same")
	}
	dst := make([]float64, 4000)
	m.Columns(dst, []float64{0.3, -1})
	norm := 0.0
	for _, x := range dst {
		norm += x * x
	}
	if math.Abs(math.Sqrt(norm)-mapNorm) > 0.1 {
		t.Errorf("length of the columns %g, want about %d", math.Sqrt(norm), mapNorm)
	}
	for s, scale := range fourierScales {
		square := 0.0
		for j := s; j < m.Count; j += len(fourierScales) {
			square += m.Frequencies[2*j]*m.Frequencies[2*j] + m.Frequencies[2*j+1]*m.Frequencies[2*j+1]
		}
		got, want := math.Sqrt(square/2000), scale*1.5/math.Sqrt2
		if math.Abs(got/want-1) > 0.07 {
			t.Errorf("scale %d: frequencies deviate by %g, want %g", s, got, want)
		}
	}
}

// Bins part distinct values evenly; values that are all equal share one.
func TestBinsAreEven(t *testing.T) {
	values := make([]float64, 1600)
	for i := range values {
		values[i] = float64(i * i)
	}
	m := NewBins(16, []MapScaling{{1e6, 5e5}, {7, 1}}, [][]float64{values, {7, 7, 7}})
	counts, dst := make([]int, 16), make([]float64, 32)
	for _, v := range values {
		m.Columns(dst, []float64{v, 7})
		counts[slices.Index(dst[:16], 1)]++
		if dst[31] != 1 {
			t.Fatalf("equal values are not in the last bin: %v", dst[16:])
		}
	}
	for b, n := range counts {
		if n < 98 || n > 102 {
			t.Errorf("bin %d has %d of 1600 values", b, n)
		}
	}
}

func TestFeatureMapRefused(t *testing.T) {
	for name, spoil := range map[string]func(*FeatureMap){
		"kind":        func(m *FeatureMap) { m.Kind = "wavelets" },
		"count":       func(m *FeatureMap) { m.Count = 1 },
		"large":       func(m *FeatureMap) { m.Count = maxMapColumns },
		"clip":        func(m *FeatureMap) { m.Clip = math.Inf(1) },
		"fields":      func(m *FeatureMap) { m.Scaling = m.Scaling[:1] },
		"scale":       func(m *FeatureMap) { m.Scaling = []MapScaling{{0, 0}, {0, 1}} },
		"short":       func(m *FeatureMap) { m.Frequencies = m.Frequencies[1:] },
		"not finite":  func(m *FeatureMap) { m.Phases[1] = math.NaN() },
		"other kind":  func(m *FeatureMap) { m.Kind = Bins },
		"edges sink":  func(m *FeatureMap) { *m = *NewBins(3, m.Scaling, [][]float64{{1, 2, 3}, {1, 2, 3}}); m.Edges[0] = 5 },
		"degree":      func(m *FeatureMap) { *m = *NewProducts(m.Scaling); m.Count = 3 },
		"long phases": func(m *FeatureMap) { m.Phases = append(m.Phases, 1) },
	} {
		m := NewFourier(8, 1, []MapScaling{{0, 1}, {0, 1}})
		spoil(m)
		err := m.ValidateShape(2)
		if err == nil {
			err = m.Validate()
		}
		if err == nil {
			t.Errorf("%s: a map that does not fit is accepted", name)
		}
	}
}
