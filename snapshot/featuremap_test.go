package snapshot

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// slowMapColumns is FeatureMap.Columns by its definition, one column at a time.
func slowMapColumns(m *FeatureMap, numeric []float64) []float64 {
	var out []float64
	z := make([]float64, len(numeric))
	present := 0
	for f, v := range numeric {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		present++
		z[f] = math.Max(-m.Clip, math.Min(m.Clip, (v-m.Scaling[f].Center)/m.Scaling[f].Scale))
	}
	switch m.Kind {
	case Products:
		out = append(out, z...)
		for i := range z {
			for j := range i + 1 {
				out = append(out, z[i]*z[j])
			}
		}
	case Fourier:
		for j := range m.Count {
			sum := m.Phases[j]
			for f := range numeric {
				sum += m.Frequencies[j*len(numeric)+f] * z[f]
			}
			out = append(out, 4*math.Sqrt(2/float64(m.Count))*math.Cos(sum))
		}
	default:
		for f, v := range numeric {
			bin := 0
			for e := range m.Count - 1 {
				if m.Edges[f*(m.Count-1)+e] <= z[f] {
					bin = e + 1
				}
			}
			for b := range m.Count {
				x := 0.0
				if b == bin && !math.IsNaN(v) && !math.IsInf(v, 0) {
					x = 1
				}
				out = append(out, x)
			}
		}
	}
	if present == 0 {
		clear(out)
	}
	return out
}

// someMaps returns a map of each kind over three fields of different scale.
func someMaps(random *rand.Rand) []*FeatureMap {
	scaling := []MapScaling{{0, 1}, {1e9, 50}, {-3, 1e-6}}
	values := make([][]float64, len(scaling))
	for f, s := range scaling {
		for range 501 {
			values[f] = append(values[f], s.Center+s.Scale*random.NormFloat64())
		}
	}
	return []*FeatureMap{
		NewFourier(37, 5, scaling),
		NewBins(16, scaling, values),
		NewBins(2, scaling, values),
		NewProducts(scaling),
	}
}

func TestFeatureMapColumns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, m := range someMaps(random) {
		if err := m.validateShape(3); err != nil {
			t.Fatal(err)
		}
		if err := m.validate(); err != nil {
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
					if m.Kind == Bins { // at an edge
						numeric[f] = s.Center + s.Scale*m.Edges[f*(m.Count-1)+random.IntN(m.Count-1)]
					}
				}
			}
			want := slowMapColumns(m, numeric)
			present := m.Columns(dst, numeric)
			if !closeTo(dst, want, 1e-12) {
				t.Fatalf("%s of %v: %v, want %v", m.Kind, numeric, dst, want)
			}
			if present != slices.ContainsFunc(numeric, isFinite) {
				t.Fatalf("%s of %v: columns reported as %t", m.Kind, numeric, present)
			}
		}
	}
}

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
		err := m.validateShape(2)
		if err == nil {
			err = m.validate()
		}
		if err == nil {
			t.Errorf("%s: a map that does not fit is accepted", name)
		}
	}
}
