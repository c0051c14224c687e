package scorer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// The terms add up to the outputs, and each is what the formula says of its features alone.
func TestExplainAddsUp(t *testing.T) {
	for _, s := range snapshottest.Shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := snapshottest.TestContents(s)
			m, err := NewModel(c)
			snapshottest.Must(t, err)
			for i, in := range snapshottest.TestInputs() {
				e, err := m.Explain(&in)
				snapshottest.Must(t, err)
				p, err := m.Predict(&in)
				snapshottest.Must(t, err)
				if !slices.Equal(e.Outputs, p.Outputs) || e.Value != p.Value || !slices.Equal(e.Unseen, p.Unseen) {
					t.Errorf("event %d: %+v, Predict says %+v", i, e.Prediction, p)
				}
				sum := make([]float64, m.NumOutputs())
				for at, term := range e.Terms {
					for o, v := range term.Contribution {
						sum[o] += v
					}
					if at > 0 && rowmath.Largest(term.Contribution) > rowmath.Largest(e.Terms[at-1].Contribution) {
						t.Errorf("event %d: term %d is larger than the one before", i, at)
					}
				}
				if !rowmath.CloseTo(sum, e.Outputs, goldenTolerance) {
					t.Errorf("event %d: terms add up to %v, outputs are %v", i, sum, e.Outputs)
				}
			}
		})
	}
}

func TestExplainTerms(t *testing.T) {
	for _, kernel := range []string{format.ANOVA, format.Homogeneous} {
		c := snapshottest.TestContents(snapshottest.Shape{Task: format.Binary, Link: format.Logistic, Kernel: kernel, K: 2,
			Linear: true, Mapped: ""})
		m, err := NewModel(c)
		snapshottest.Must(t, err)
		in := format.Input{Categorical: []string{"u2", ""}, Numeric: []float64{60}, Multi: [][]string{{"a", "x"}}}
		e, err := m.Explain(&in)
		snapshottest.Must(t, err)
		const user, tag, age = 1, 5, 8 // columns; values 1, ½ and (60−40)/20
		pair := func(i, j int) (v float64) {
			for r := range 2 {
				v += c.Weights[r] * c.Basis[i*2+r] * c.Basis[j*2+r]
			}
			return v
		}
		factor := 1.0
		if kernel == format.Homogeneous {
			factor = 2
		}
		want := map[string]float64{
			"[]": c.Bias[0], "[user=u2]": c.Linear[user], "[tags=a]": c.Linear[tag] / 2, "[age]": c.Linear[age],
			"[(constant)]": c.Linear[9],
			"[user=u2 tags=a]": factor * pair(user,
				tag) / 2, "[user=u2 age]": factor * pair(user, age), "[tags=a age]": factor * pair(tag, age) / 2,
			"[user=u2 (constant)]": factor * pair(user,
				9), "[tags=a (constant)]": factor * pair(tag, 9) / 2, "[age (constant)]": factor * pair(age, 9),
		}
		if kernel == format.Homogeneous {
			want["[user=u2 user=u2]"], want["[tags=a tags=a]"] = pair(user, user), pair(tag, tag)/4
			want["[age age]"], want["[(constant) (constant)]"] = pair(age, age), pair(9, 9)
		}
		for _, term := range e.Terms {
			name := fmt.Sprint(term.Features)
			if v, ok := want[name]; !ok || math.Abs(term.Contribution[0]-v) > 1e-12 {
				t.Errorf("%s: %s is %g, want %g (%t)", kernel, name, term.Contribution[0], v, ok)
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Errorf("%s: no terms %v", kernel, want)
		}
		if want := []string{"tags=x"}; !slices.Equal(e.Unseen, want) {
			t.Errorf("Unseen = %v, want %v", e.Unseen, want)
		}
	}
}

// Triples are named, and what the formula says of them: a name, a list's name of value ½, a number and the constant.
func TestExplainTriples(t *testing.T) {
	for _, kernel := range []string{snapshottest.Anova3, snapshottest.Homogeneous3} {
		c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: kernel,
			K: 2, Linear: true, Mapped: ""})
		m, err := NewModel(c)
		snapshottest.Must(t, err)
		in := format.Input{Categorical: []string{"u2", ""}, Numeric: []float64{60}, Multi: [][]string{{"a", "x"}}}
		e, err := m.Explain(&in)
		snapshottest.Must(t, err)
		columns, names, x := []int{1, 5, 8, 9}, []string{"user=u2", "tags=a", "age", Constant}, []float64{1, 0.5, 1, 1}
		want := map[string]float64{}
		for i := range columns {
			for j := range columns {
				for l := range columns {
					if c.Kernel == format.ANOVA && (i >= j || j >= l) {
						continue
					}
					places := []int{i, j, l}
					slices.Sort(places)
					v := 0.0
					for r := range 2 {
						v += c.Weights[r] * c.Basis[columns[i]*2+r] * c.Basis[columns[j]*2+r] * c.Basis[columns[l]*2+r]
					}
					want[fmt.Sprint([]string{names[places[0]], names[places[1]], names[places[2]]})] += v * x[i] * x[j] * x[l]
				}
			}
		}
		triples := 0
		for _, term := range e.Terms {
			if len(term.Features) != 3 {
				continue
			}
			triples++
			name := fmt.Sprint(term.Features)
			if v, ok := want[name]; !ok || math.Abs(term.Contribution[0]-v) > 1e-12 {
				t.Errorf("%s: %s is %g, want %g (%t)", kernel, name, term.Contribution[0], v, ok)
			}
		}
		if triples != len(want) {
			t.Errorf("%s: %d triples, want %d", kernel, triples, len(want))
		}
	}
}

func TestExplainRefuses(t *testing.T) {
	m, err := NewModel(snapshottest.TestContents(snapshottest.Shapes[0]))
	snapshottest.Must(t, err)
	if _, err := m.Explain(&format.Input{Numeric: []float64{1, 2}}); !errors.Is(err, disk.ErrInput) {
		t.Errorf("another shape: %v, want ErrInput", err)
	}
	c := &format.Contents{
		Schema:     format.Schema{Task: format.Regression, Multi: []string{"tags"}},
		Kernel:     format.ANOVA,
		Link:       format.Identity,
		NumOutputs: 1,
		Bias:       []float64{1},
		Vocabulary: [][]string{nil},
	}
	for i := range MaxExplained + 1 {
		c.Vocabulary[0] = append(c.Vocabulary[0], fmt.Sprint(i))
	}
	c.NumFeatures = len(c.Vocabulary[0])
	m, err = NewModel(c)
	snapshottest.Must(t, err)
	if _, err := m.Explain(&format.Input{Multi: [][]string{c.Vocabulary[0]}}); !errors.Is(err, disk.ErrInput) {
		t.Errorf("too many features: %v, want ErrInput", err)
	}
	c.Degree, c.NumBasis, c.Basis, c.Weights = format.Cubic, 1, make([]float64, c.NumFeatures), []float64{1}
	m, err = NewModel(c)
	snapshottest.Must(t, err)
	for n, want := range map[int]error{MaxTripled: nil, MaxTripled + 1: disk.ErrInput} {
		if _, err := m.Explain(&format.Input{Multi: [][]string{c.Vocabulary[0][:n]}}); !errors.Is(err, want) {
			t.Errorf("triples of %d features: %v, want %v", n, err, want)
		}
	}
}

// Products are a term each, of one number, or of two with the same twice for a square.
func TestExplainProducts(t *testing.T) {
	c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA,
		K: 0, Linear: false, Mapped: ""})
	clear(c.Bias)
	c.Schema.Numeric = []format.NumericField{{Name: "a", Scale: 1}, {Name: "b", Scale: 1}, {Name: "c", Scale: 1}}
	c.NumFeatures, c.Golden = 12, nil
	c.Schema.FeatureMap = format.NewProducts([]format.MapScaling{{Center: 0, Scale: 1}, {Center: 0, Scale: 1}, {Center: 0,
		Scale: 1}})
	c.MapWeights = []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	m, err := NewModel(c)
	snapshottest.Must(t, err)
	in := format.Input{Numeric: []float64{2, -1, 0.5}}
	e, err := m.Explain(&in)
	snapshottest.Must(t, err)
	want := map[string]float64{
		"[a]":   2,
		"[b]":   -2,
		"[c]":   1.5,
		"[a a]": 16,
		"[b a]": -10,
		"[b b]": 6,
		"[c a]": 7,
		"[c b]": -4,
		"[c c]": 2.25,
	}
	for _, term := range e.Terms {
		if name := fmt.Sprint(term.Features); math.Abs(want[name]-term.Contribution[0]) > 1e-12 {
			t.Errorf("%s contributes %v, want %g", name, term.Contribution, want[name])
		}
	}
	if len(e.Terms) != len(want) || math.Abs(e.Outputs[0]-18.75) > 1e-12 {
		t.Errorf("terms %+v that are %v, want %d that are 18.75", e.Terms, e.Outputs, len(want))
	}
}

// A fourier map is one term, bins are one each.
func TestExplainFeatureMap(t *testing.T) {
	for _, kind := range []string{format.Fourier, format.Bins} {
		c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity,
			Kernel: format.ANOVA, K: 0, Linear: false, Mapped: kind})
		clear(c.Bias)
		m, err := NewModel(c)
		snapshottest.Must(t, err)
		in := format.Input{Numeric: []float64{38}}
		e, err := m.Explain(&in)
		snapshottest.Must(t, err)
		want := Mapped
		if kind == format.Bins {
			want = "age=bin2" // edges 1, 30 and 40
		}
		if len(e.Terms) != 1 || !slices.Equal(e.Terms[0].Features, []string{want}) ||
			!rowmath.CloseTo(e.Terms[0].Contribution, e.Outputs, goldenTolerance) {
			t.Errorf("%s: terms %+v, want one of %q that is %v", kind, e.Terms, want, e.Outputs)
		}
	}
}
