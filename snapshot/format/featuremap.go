package format

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// The kinds of a FeatureMap.
const (
	Fourier  = "fourier"
	Bins     = "bins"
	Products = "products"
)

// FeatureMap makes further columns of the numeric fields together. They have linear weights alone (Contents.MapWeights)
// and no part in the kernel. A field becomes z = (value − Center) / Scale within ±Clip. Over p fields the columns are
//
//	fourier  φ_j = 4 √(2/D) cos(Σ_f Frequencies[j,f] z_f + Phases[j]), j < D: random Fourier features (Rahimi and Recht 2007)
//	bins     φ_(f·B+b) = 1 for b = the number of edges of field f that are at most z_f, else 0
//	products φ = z_0 … z_(p−1), z_0 z_0, z_1 z_0, z_1 z_1, z_2 z_0, …: a polynomial of degree 2
//
// A field that an event lacks counts as z = 0 in cosines and products and has no bin; an event without any of the
// fields has no column. A map is read-only once built and safe for concurrent use.
type FeatureMap struct {
	Kind    string       `json:"kind"`    // fourier, bins or products
	Count   int          `json:"count"`   // D of fourier, B of bins, at least 2; the degree of products, 2
	Clip    float64      `json:"clip"`    // positive
	Scaling []MapScaling `json:"scaling"` // per numeric field, in the order of the schema

	Frequencies []float64 `json:"-"` // D×p, row-major; only of fourier
	Phases      []float64 `json:"-"` // D; only of fourier
	Edges       []float64 `json:"-"` // p×(B−1), not decreasing for each field; only of bins
}

// MapScaling is where the values of a field lie. Scale is positive.
type MapScaling struct {
	Center float64 `json:"center"`
	Scale  float64 `json:"scale"`
}

// mapClip is the Clip of the maps that this build makes, productClip that of products, which grow with the square.
const (
	mapClip     = 6
	productClip = 3
)

// mapNorm is the length of the columns of an event under a fourier map, on average.
const mapNorm = 4

// fourierScales multiply the frequencies of columns 0, 1, 2, 3, 4, … in turn; each is normal with a deviation of
// fourierScale/√p times that. Few data sets say beforehand how fast their borders bend, and weights choose among
// several scales.
var fourierScales = []float64{0.5, 1, 2, 4}

const fourierScale = 1.5

// NewFourier returns random Fourier features of the given number over fields with the given scaling. They are a
// function of the arguments: frequencies and phases are drawn from PCG of seed and 0x6d6170.
func NewFourier(count int, seed uint64, scaling []MapScaling) *FeatureMap {
	p := len(scaling)
	m := &FeatureMap{
		Kind:        Fourier,
		Count:       count,
		Clip:        mapClip,
		Scaling:     scaling,
		Frequencies: make([]float64, count*p),
		Phases:      make([]float64, count),
	}
	random := rand.New(rand.NewPCG(seed, 0x6d6170)) // "map": apart from other uses of the seed
	for j := range count {
		scale := fourierScale * fourierScales[j%len(fourierScales)] / math.Sqrt(float64(max(1, p)))
		for f := range p {
			m.Frequencies[j*p+f] = float64(float32(scale * random.NormFloat64())) // the same in files of F32
		}
		m.Phases[j] = float64(float32(2 * math.Pi * random.Float64()))
	}
	return m
}

// NewBins returns indicators of count bins for each field, which part the given values of the field, finite and in any
// order, into about equal numbers. Equal values share a bin, so bins may stay empty.
func NewBins(count int, scaling []MapScaling, values [][]float64) *FeatureMap {
	m := &FeatureMap{
		Kind:    Bins,
		Count:   count,
		Clip:    mapClip,
		Scaling: scaling,
		Edges:   make([]float64, 0, len(scaling)*(count-1)),
	}
	for f, list := range values {
		z := make([]float64, len(list))
		for i, v := range list {
			z[i] = m.scaled(f, v)
		}
		slices.Sort(z)
		for b := 1; b < count; b++ {
			edge := 0.0
			if n := len(z); n > 0 {
				edge = z[b*n/count]
			}
			m.Edges = append(m.Edges, float64(float32(edge))) // the same in files of F32
		}
	}
	return m
}

// NewProducts returns the numbers and their squares and products, of fields with the given scaling.
func NewProducts(scaling []MapScaling) *FeatureMap {
	return &FeatureMap{Kind: Products, Count: productDegree, Clip: productClip, Scaling: scaling}
}

const productDegree = 2

// NumColumns returns the number of columns: D of fourier, p·B of bins, p·(p+3)/2 of products.
func (m *FeatureMap) NumColumns() int { return MapColumns(m.Kind, m.Count, len(m.Scaling)) }

// MapColumns returns how many columns a map of a kind and count makes of a number of fields.
func MapColumns(kind string, count, fields int) int {
	switch kind {
	case Bins:
		return fields * count
	case Products:
		return fields * (fields + 3) / 2
	}
	return count
}

// scaled returns z of a finite number.
func (m *FeatureMap) scaled(f int, v float64) float64 {
	s := &m.Scaling[f]
	return min(max((v-s.Center)/s.Scale, -m.Clip), m.Clip)
}

// Columns stores the values of the columns for the numbers of an event, which are not finite where the event lacks a
// field, in dst. It reports whether there are any: false leaves dst zero. It panics unless dst has length NumColumns
// and numeric one number for each field.
func (m *FeatureMap) Columns(dst, numeric []float64) bool {
	if len(dst) != m.NumColumns() || len(numeric) != len(m.Scaling) {
		panic(
			fmt.Sprintf("snapshot: %d columns and %d numbers for a feature map of %d and %d", len(dst), len(numeric),
				m.NumColumns(), len(m.Scaling)),
		)
	}
	clear(dst)
	present := false
	if m.Kind == Bins {
		for f, v := range numeric {
			if IsFinite(v) {
				dst[f*m.Count+m.bin(f, v)], present = 1, true
			}
		}
		return present
	}
	if m.Kind == Products {
		return m.products(dst, numeric)
	}
	p := len(numeric)
	for f, v := range numeric {
		if !IsFinite(v) {
			continue
		}
		present = true
		if z := m.scaled(f, v); z != 0 {
			for j := range dst {
				dst[j] += z * m.Frequencies[j*p+f]
			}
		}
	}
	if !present {
		return false
	}
	amplitude := m.Amplitude()
	for j, phase := range m.Phases {
		dst[j] = amplitude * rowmath.Cosine(dst[j]+phase)
	}
	return true
}

// products is Columns of a map of products.
func (m *FeatureMap) products(dst, numeric []float64) (present bool) {
	z, at := dst[:len(numeric)], len(numeric)
	for f, v := range numeric {
		if IsFinite(v) {
			z[f], present = m.scaled(f, v), true
		}
	}
	for i, x := range z {
		for j, y := range z[:i+1] {
			dst[at+j] = x * y
		}
		at += i + 1
	}
	return present
}

// Amplitude returns the factor 4 √(2/D) of the cosines of a fourier map, which gives the columns of an event a length
// of about 4.
func (m *FeatureMap) Amplitude() float64 { return mapNorm * math.Sqrt(2/float64(m.Count)) }

// bin returns the bin of a finite number.
func (m *FeatureMap) bin(f int, v float64) int {
	z, edges := m.scaled(f, v), m.Edges[f*(m.Count-1):(f+1)*(m.Count-1)]
	return sort.Search(len(edges), func(b int) bool { return edges[b] > z })
}

// maxMapColumns bounds what a map may have, so that shapes do not overflow.
const maxMapColumns = 1 << 20

// ValidateShape checks all but the tables, which stand in another file.
func (m *FeatureMap) ValidateShape(fields int) error {
	switch {
	case m.Kind != Fourier && m.Kind != Bins && m.Kind != Products:
		return fmt.Errorf("schema.feature_map: kind %q is not fourier, bins or products", m.Kind)
	case fields == 0 || len(m.Scaling) != fields:
		return fmt.Errorf("schema.feature_map: scaling of %d fields, the schema has %d numeric ones", len(m.Scaling),
			fields)
	case m.Count < 2 || m.Count > maxMapColumns/fields:
		return fmt.Errorf("schema.feature_map: count is %d, a map of %d fields has 2 to %d", m.Count, fields,
			maxMapColumns/fields)
	case m.Kind == Products && (m.Count != productDegree || fields > maxMapColumns/fields):
		return fmt.Errorf(
			"schema.feature_map: products of degree %d of %d fields, this build reads degree %d and at most %d columns",
			m.Count, fields, productDegree, maxMapColumns)
	case !IsFinite(m.Clip) || m.Clip <= 0:
		return fmt.Errorf("schema.feature_map: clip %g has to be positive", m.Clip)
	}
	for f, s := range m.Scaling {
		if !IsFinite(s.Center) || !IsFinite(s.Scale) || s.Scale <= 0 {
			return fmt.Errorf("schema.feature_map: numeric field %d: center %g has to be finite and scale %g positive",
				f, s.Center, s.Scale)
		}
	}
	return nil
}

// Validate checks the tables of a map whose shape is sound.
func (m *FeatureMap) Validate() error {
	for _, t := range m.tables() {
		if int64(len(*t.values)) != t.size() {
			return fmt.Errorf("%s has %d numbers, want %d", t.name, len(*t.values), t.size())
		}
		for i, v := range *t.values {
			if !IsFinite(v) {
				return fmt.Errorf("%s[%d] is %g: it has to be finite", t.name, i, v)
			}
		}
	}
	for i := range m.Edges {
		if i%(m.Count-1) > 0 && m.Edges[i] < m.Edges[i-1] {
			return fmt.Errorf("map_edges[%d] is %g, less than the one before", i, m.Edges[i])
		}
	}
	return nil
}

// table is one tensor.
type table struct {
	name   string
	values *[]float64
	shape  []int
}

// size returns how many numbers there are.
func (t *table) size() int64 {
	n := int64(1)
	for _, s := range t.shape {
		n *= int64(s)
	}
	return n
}

// tables lists the tensors of the map, in the order of the file.
func (m *FeatureMap) tables() []table {
	p := len(m.Scaling)
	if m.Kind == Bins {
		return []table{{"map_edges", &m.Edges, []int{p, m.Count - 1}}}
	}
	if m.Kind == Products {
		return nil
	}
	return []table{{"map_frequencies", &m.Frequencies, []int{m.Count, p}}, {"map_phases", &m.Phases, []int{m.Count}}}
}
