package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// shape is a kind of model for the tests. Its kernel ends in its degree where that is not 2.
type shape struct {
	task, link, kernel string
	k                  int
	linear             bool
	mapped             string // kind of the feature map, or none
}

var shapes = []shape{
	{Regression, Identity, ANOVA, 0, true, ""},
	{Regression, Identity, ANOVA, 1, false, ""},
	{Regression, Identity, Homogeneous, 3, true, ""},
	{Binary, Logistic, Homogeneous, 2, true, ""},
	{Binary, Identity, ANOVA, 2, true, ""},
	{Multiclass, Softmax, ANOVA, 4, false, ""},
	{Multiclass, Logistic, ANOVA, 1, true, ""},
	{Multilabel, Logistic, ANOVA, 2, true, ""},
	{Multilabel, Identity, Homogeneous, 2, false, ""},
	{Ordinal, OrdinalLink, ANOVA, 5, true, ""},
	{Ordinal, Identity, ANOVA, 0, true, ""},
	{Multiclass, Identity, Homogeneous, 3, false, ""},
	{Ordinal, OrdinalLink, Homogeneous, 4, false, ""},
	{Multiclass, Softmax, Homogeneous, 2, true, Fourier},
	{Regression, Identity, ANOVA, 0, false, Bins},
	{Binary, Logistic, ANOVA, 2, true, Fourier},
	{Multiclass, Softmax, Homogeneous, 0, true, Products},
	{Regression, Identity, anova3, 3, true, ""},
	{Regression, Identity, homogeneous3, 2, false, ""},
	{Multiclass, Softmax, anova3, 5, true, ""},
	{Ordinal, OrdinalLink, homogeneous3, 4, true, ""},
	{Binary, Logistic, anova3, 1, false, Fourier},
	{Multilabel, Logistic, homogeneous3, 3, true, ""},
	{Multiclass, Identity, ANOVA, 0, true, ""},
	ofMargin,
}

// ofMargin is the shape of a linear model that a margin loss was minimised by.
var ofMargin = shape{Multiclass, Softmax, ANOVA, 0, true, ""}

const anova3, homogeneous3 = ANOVA + "3", Homogeneous + "3"

// kernelOf returns kind and degree of a shape's kernel.
func (s shape) kernelOf() (kind string, degree int) {
	if kind, ok := strings.CutSuffix(s.kernel, "3"); ok {
		return kind, cubic
	}
	return s.kernel, 0
}

func (s shape) String() string {
	name := fmt.Sprintf("%s-%s-%s-%d-%v", s.task, s.link, s.kernel, s.k, s.linear)
	if s.mapped != "" {
		name += "-" + s.mapped
	}
	return name
}

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sealed returns a manifest with its last line, the digest of the bytes before it.
func sealed(body []byte) []byte {
	return append(bytes.Clone(body), fmt.Sprintf("  \"manifest_digest\": \"sha256:%s\"\n}\n", hexSum(body))...)
}

// unsealed returns a manifest without its last line.
func unsealed(manifest []byte) []byte {
	return manifest[:bytes.LastIndex(manifest, []byte("  \"manifest_digest\""))]
}

// testContents returns a random model of a shape over the fields user, item, tags, age and a constant.
func testContents(s shape) *Contents {
	rng := rand.New(rand.NewPCG(1, uint64(s.k)))
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	c := &Contents{
		Schema: Schema{
			Task:        s.task,
			Label:       "y",
			LabelMin:    1,
			LabelMax:    5,
			Categorical: []string{"user", "item"},
			Multi:       []string{"tags"},
			Numeric:     []NumericField{{Name: "age", Center: 40, Scale: 20}},
			Augment:     true,
		},
		Link: s.link, NumFeatures: 10, NumOutputs: 1, NumBasis: s.k,
		Vocabulary: [][]string{{"u1", "u2", "u3"}, {"i1", "i2"}, {"a", "b", "naïve \"<\\\u2028"}},
		Meta: Meta{
			Writer:    "test",
			Kind:      "refit",
			Created:   created,
			Lambda:    0.5,
			Objective: Number(math.Inf(1)),
			Cut:       []Cut{{"ratings", 0, 100}},
		},
	}
	c.Kernel, c.Degree = s.kernelOf()
	switch s.task {
	case Multiclass, Multilabel:
		c.Schema.Classes, c.NumOutputs = []string{"red", "green", "blue"}, 3
	case Ordinal:
		c.Schema.Levels = 5
		if s.link == OrdinalLink {
			c.NumOutputs = 4
		}
	}
	c.Basis, c.Weights, c.Bias = normal(c.NumFeatures*s.k), normal(s.k*c.NumOutputs), normal(c.NumOutputs)
	if s.linear {
		c.Linear = normal(c.NumFeatures * c.NumOutputs)
	}
	scaling := []MapScaling{{40, 15}}
	switch s.mapped {
	case Fourier:
		c.Schema.FeatureMap = NewFourier(12, 1, scaling)
	case Bins:
		c.Schema.FeatureMap = NewBins(4, scaling, [][]float64{{-60, 1, 20, 30, 35, 40, 70}})
	case Products:
		c.Schema.FeatureMap = NewProducts(scaling)
	}
	if fm := c.Schema.FeatureMap; fm != nil {
		c.MapWeights = normal(fm.NumColumns() * c.NumOutputs)
	}
	for _, in := range testInputs() {
		c.Golden = append(c.Golden, Golden{Input: in, Outputs: slowOutputs(c, &in)})
	}
	return c
}

// testInputs covers seen, unseen and missing names, repeated names, and numbers present and missing.
func testInputs() []Input {
	return []Input{
		{Categorical: []string{"u1", "i2"}, Numeric: []float64{30}, Multi: [][]string{{"b", "a"}}},
		{Categorical: []string{"u9", "i1"}, Numeric: []float64{math.NaN()}, Multi: [][]string{{"a", "zzz", "a", ""}}},
		{Categorical: []string{"", ""}, Numeric: []float64{40}, Multi: [][]string{nil}},
		{Categorical: []string{"u3", ""}, Numeric: []float64{-55.25}, Multi: [][]string{{"naïve \"<\\\u2028"}}},
		{},
	}
}

// slowColumns is encode by the definition: the whole row x.
func slowColumns(c *Contents, in *Input) []float64 {
	var x []float64
	for f, names := range c.Vocabulary {
		for _, name := range names {
			v := 0.0
			if f < len(c.Schema.Categorical) {
				if in.Categorical != nil && in.Categorical[f] == name {
					v = 1
				}
			} else if in.Multi != nil {
				if list := in.Multi[f-len(c.Schema.Categorical)]; slices.Contains(list, name) {
					if c.Schema.MultiWeights != nil { // each name once
						list = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(list))), func(
							name string) bool {
							return name == ""
						})
					}
					if v = 1 / float64(len(list)); slices.Equal(c.Schema.MultiWeights, []string{WeightSqrt}) {
						v = math.Sqrt(v)
					}
				}
			}
			x = append(x, v)
		}
	}
	for f, field := range c.Schema.Numeric {
		v := 0.0
		if in.Numeric != nil && !math.IsNaN(in.Numeric[f]) {
			v = (in.Numeric[f] - field.Center) / field.Scale
		}
		x = append(x, v)
	}
	if c.Schema.Augment {
		x = append(x, 1)
	}
	return x
}

// slowOutputs is the formula of the package comment, written literally.
func slowOutputs(c *Contents, in *Input) []float64 {
	x := slowColumns(c, in)
	out := slices.Clone(c.Bias)
	for o := range out {
		for j, v := range x {
			if c.Linear != nil {
				out[o] += c.Linear[j*c.NumOutputs+o] * v
			}
		}
		if c.Schema.FeatureMap != nil && in.Numeric != nil {
			for j, v := range slowMapColumns(c.Schema.FeatureMap, in.Numeric) {
				out[o] += c.MapWeights[j*c.NumOutputs+o] * v
			}
		}
		for r := range c.NumBasis {
			kernel := 0.0
			for i := range x {
				for j := range x {
					if c.Kernel == ANOVA && i >= j {
						continue
					}
					product := c.Basis[i*c.NumBasis+r] * x[i] * c.Basis[j*c.NumBasis+r] * x[j]
					if c.Degree != cubic {
						kernel += product
						continue
					}
					for l := range x {
						if c.Kernel == Homogeneous || j < l {
							kernel += product * c.Basis[l*c.NumBasis+r] * x[l]
						}
					}
				}
			}
			out[o] += c.Weights[r*c.NumOutputs+o] * kernel
		}
	}
	return out
}

func TestContentsRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(c *Contents)
	}{
		{"NaN weight", func(c *Contents) { c.Weights[1] = math.NaN() }},
		{"infinite bias", func(c *Contents) { c.Bias[0] = math.Inf(-1) }},
		{"NaN basis", func(c *Contents) { c.Basis[0] = math.NaN() }},
		{"NaN linear", func(c *Contents) { c.Linear[0] = math.NaN() }},
		{"overflowing outputs", func(c *Contents) { c.Basis[0], c.Basis[5*2] = 1e300, 1e300 }},
		{"all zero", func(c *Contents) { clear(c.Weights); clear(c.Linear); clear(c.Bias) }},
		{"short basis", func(c *Contents) { c.Basis = c.Basis[1:] }},
		{"short linear", func(c *Contents) { c.Linear = c.Linear[1:] }},
		{"empty linear", func(c *Contents) { c.Linear = []float64{} }},
		{"no bias", func(c *Contents) { c.Bias = nil }},
		{"negative size", func(c *Contents) { c.NumBasis = -1 }},
		{"huge size", func(c *Contents) { c.NumFeatures = math.MaxInt }},
		{"missing column", func(c *Contents) { c.Vocabulary[0] = c.Vocabulary[0][1:] }},
		{"missing field", func(c *Contents) { c.Vocabulary = c.Vocabulary[1:] }},
		{"repeated name", func(c *Contents) { c.Vocabulary[0][1] = "u1" }},
		{"empty name", func(c *Contents) { c.Vocabulary[0][1] = "" }},
		{"name not UTF-8", func(c *Contents) { c.Vocabulary[0][1] = "\xff" }},
		{"unknown kernel", func(c *Contents) { c.Kernel = "rbf" }},
		{"unknown degree", func(c *Contents) { c.Degree = 4 }},
		{"degree 1", func(c *Contents) { c.Degree = 1 }},
		{"fold-in of degree 3", func(c *Contents) {
			*c = *foldable(shape{Ordinal, OrdinalLink, ANOVA, 2, true, ""}, true)
			c.Degree = 3
		}},
		{"unknown task", func(c *Contents) { c.Schema.Task = "ranking" }},
		{"softmax of a binary label", func(c *Contents) { c.Link = Softmax }},
		{"repeated field", func(c *Contents) { c.Schema.Multi[0] = "user" }},
		{"scale of zero", func(c *Contents) { c.Schema.Numeric[0].Scale = 0 }},
		{"infinite center", func(c *Contents) { c.Schema.Numeric[0].Center = math.Inf(1) }},
		{"infinite label range", func(c *Contents) { c.Schema.LabelMax = math.Inf(1) }},
		{"no golden events", func(c *Contents) { c.Golden = nil }},
		{"golden event of another schema", func(c *Contents) { c.Golden[0].Input.Categorical = []string{"u1"} }},
		{"trainer disagrees", func(c *Contents) {
			c.Golden[1].Outputs = slowOutputs(c, &c.Golden[1].Input)
			c.Golden[1].Outputs[0] += 1e-6
		}},
		{"no creation time", func(c *Contents) { c.Meta.Created = time.Time{} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := NewStore(t.TempDir())
			c := testContents(shape{Binary, Logistic, ANOVA, 2, true, ""})
			for i := range c.Golden {
				c.Golden[i].Outputs = nil // or they would betray every change
			}
			test.spoil(c)
			if _, err := store.Publish(t.Context(), "m", c); !errors.Is(err, ErrContents) {
				t.Errorf("Publish: %v, want ErrContents", err)
			}
			if v, err := store.Versions("m"); len(v) > 0 || !errors.Is(err, ErrNotFound) {
				t.Errorf("Versions = %v, %v: something was published", v, err)
			}
		})
	}
}

// TestZeroIsAPrediction: where all labels were 0, the model of an output that is the label has no parameter but zeros,
// and says so.
func TestZeroIsAPrediction(t *testing.T) {
	dir := t.TempDir()
	store, c := NewStore(dir), testContents(shape{Regression, Identity, ANOVA, 2, true, ""})
	clear(c.Weights)
	clear(c.Linear)
	clear(c.Bias)
	for i := range c.Golden {
		c.Golden[i].Outputs = nil
	}
	if _, err := store.Publish(t.Context(), "m", c); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, "m", Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := m.Predict(&c.Golden[0].Input); err != nil || p.Value != 0 {
		t.Errorf("%+v, error %v", p, err)
	}
}

func TestTooLarge(t *testing.T) {
	c := &Contents{NumFeatures: 40_000_000, NumOutputs: 1, NumBasis: 1, Link: Identity}
	if _, err := encodeTensors(c); err == nil {
		t.Error("encodeTensors takes 40,000,000 features")
	}
	if err := decodeTensors(c, nil); !errors.Is(err, ErrFormat) {
		t.Errorf("decodeTensors: %v, want ErrFormat", err)
	}
}

func TestPayloadDigest(t *testing.T) {
	s := shape{Ordinal, OrdinalLink, ANOVA, 2, true, ""}
	want, err := PayloadDigest(testContents(s))
	if err != nil {
		t.Fatal(err)
	}
	later := testContents(s)
	later.Meta = Meta{Created: created.Add(time.Hour), Kind: "update", Rows: 9}
	later.Golden = later.Golden[:1]
	if got, err := PayloadDigest(later); err != nil || got != want {
		t.Errorf("other times and metrics: %s, %v, want %s", got, err, want)
	}
	for name, change := range map[string]func(c *Contents){
		"weight":  func(c *Contents) { c.Weights[0] = math.Nextafter(c.Weights[0], 9) },
		"name":    func(c *Contents) { c.Vocabulary[0][0] = "u0" },
		"kernel":  func(c *Contents) { c.Kernel = Homogeneous },
		"degree":  func(c *Contents) { c.Degree = 3 },
		"scaling": func(c *Contents) { c.Schema.Numeric[0].Center = 41 },
		"linear":  func(c *Contents) { c.Linear = nil },
	} {
		c := testContents(s)
		change(c)
		if got, err := PayloadDigest(c); err != nil || got == want {
			t.Errorf("another %s: %s, %v, want another digest", name, got, err)
		}
	}
}
