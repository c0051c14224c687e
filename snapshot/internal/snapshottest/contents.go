package snapshottest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// RowsDelta is the delta after m that changes n rows, of the first columns, and adds names to the second field.
func RowsDelta(rng *rand.Rand, m chainModel, n, added int) *format.Delta {
	at, columns := m.Position(), m.NumColumns()
	d := &format.Delta{
		Model:      m.Manifest().Model,
		Base:       at.Version,
		BaseDigest: m.Manifest().Digest,
		Sequence:   at.Sequence + 1,
		Previous:   at.Digest,
		Created:    Created,
	}
	chosen := map[int]bool{}
	for len(chosen) < n {
		chosen[rng.IntN(columns)] = true
	}
	for j := range columns {
		if chosen[j] {
			d.Columns = append(d.Columns, int32(j))
		}
	}
	for i := range added {
		d.Columns = append(d.Columns, int32(columns+i))
		d.Added = append(d.Added, format.AddedName{Field: 1, Name: fmt.Sprint("new", columns+i)})
	}
	shape, linear := m.Shape(), 0
	if shape.HasLinear {
		linear = shape.NumOutputs
	}
	for _, t := range []struct {
		to    *[]float64
		width int
	}{{&d.Linear, linear}, {&d.Basis, shape.NumBasis}} {
		*t.to = make([]float64, len(d.Columns)*t.width)
		for i := range *t.to {
			(*t.to)[i] = rng.NormFloat64()
		}
	}
	return d
}

// WholeEvery is the distance of the deltas of DeltaAfter that have the digest of the whole model.
const WholeEvery = 20

// DeltaAfter makes the next delta of a model, its frame and the model after it. Salt makes another one for the same
// place. Every delta sets the bias and the weight of the first column to the same number, so that a half of one is
// seen; each seventh adds a name, each of WholeEvery says what the model then is.
func DeltaAfter[M interface {
	chainModel
	Apply(d *format.Delta) (M, error)
	Contents() *format.Contents
}](m M, salt int64, signer *format.Signer) (frame []byte, next M, err error) {
	at, c := m.Position(), m.Shape()
	d := &format.Delta{
		Model:      "m",
		Base:       at.Version,
		BaseDigest: m.Manifest().Digest,
		Sequence:   at.Sequence + 1,
		Previous:   at.Digest,
		Created:    Created.Add(time.Duration(at.Sequence+1) * time.Second),
		Watermark:  Created.Add(time.Duration(at.Sequence) * time.Second),
		Columns:    []int32{0, int32(1 + at.Sequence%7)},
		Cut:        []format.Cut{{Topic: "ratings", Partition: 0, Next: 100 + at.Sequence}},
	}
	if d.Sequence%7 == 0 {
		d.Added = []format.AddedName{{Field: int(d.Sequence % 2), Name: fmt.Sprintf("new%d-%d-%d", d.Base, d.Sequence, salt)}}
		d.Columns = append(d.Columns, int32(m.NumColumns()))
	}
	value := func(i int) float64 { return math.Sin(float64(i)*7 + float64(d.Sequence)*13 + float64(salt)*101) }
	d.Linear, d.Basis = make([]float64, len(d.Columns)*c.NumOutputs), make([]float64, len(d.Columns)*c.NumBasis)
	for i := range d.Linear {
		d.Linear[i] = value(i)
	}
	for i := range d.Basis {
		d.Basis[i] = value(i) / 2
	}
	d.Bias = slices.Repeat([]float64{d.Linear[0]}, c.NumOutputs)
	if _, err := d.Encode(m.Shape(), nil); err != nil { // the digest is needed to apply it, and counts for nothing else
		return nil, next, err
	}
	if d.Sequence%WholeEvery == 0 {
		whole, err := m.Apply(d)
		if err != nil {
			return nil, next, err
		}
		digest, err := format.PayloadDigest(whole.Contents())
		if err != nil {
			return nil, next, err
		}
		d.Checked = &format.CheckedState{Sequence: d.Sequence, PayloadDigest: digest}
	}
	if frame, err = d.Encode(m.Shape(), signer); err == nil {
		next, err = m.Apply(d)
	}
	return frame, next, err
}

// Shape is a kind of model for the tests. Its kernel ends in its degree where that is not 2.
type Shape struct {
	Task, Link, Kernel string
	K                  int
	Linear             bool
	Mapped             string // kind of the feature map, or none
}

var Shapes = []Shape{
	{format.Regression, format.Identity, format.ANOVA, 0, true, ""},
	{format.Regression, format.Identity, format.ANOVA, 1, false, ""},
	{format.Regression, format.Identity, format.Homogeneous, 3, true, ""},
	{format.Binary, format.Logistic, format.Homogeneous, 2, true, ""},
	{format.Binary, format.Identity, format.ANOVA, 2, true, ""},
	{format.Multiclass, format.Softmax, format.ANOVA, 4, false, ""},
	{format.Multiclass, format.Logistic, format.ANOVA, 1, true, ""},
	{format.Multilabel, format.Logistic, format.ANOVA, 2, true, ""},
	{format.Multilabel, format.Identity, format.Homogeneous, 2, false, ""},
	{format.Ordinal, format.OrdinalLink, format.ANOVA, 5, true, ""},
	{format.Ordinal, format.Identity, format.ANOVA, 0, true, ""},
	{format.Multiclass, format.Identity, format.Homogeneous, 3, false, ""},
	{format.Ordinal, format.OrdinalLink, format.Homogeneous, 4, false, ""},
	{format.Multiclass, format.Softmax, format.Homogeneous, 2, true, format.Fourier},
	{format.Regression, format.Identity, format.ANOVA, 0, false, format.Bins},
	{format.Binary, format.Logistic, format.ANOVA, 2, true, format.Fourier},
	{format.Multiclass, format.Softmax, format.Homogeneous, 0, true, format.Products},
	{format.Regression, format.Identity, Anova3, 3, true, ""},
	{format.Regression, format.Identity, Homogeneous3, 2, false, ""},
	{format.Multiclass, format.Softmax, Anova3, 5, true, ""},
	{format.Ordinal, format.OrdinalLink, Homogeneous3, 4, true, ""},
	{format.Binary, format.Logistic, Anova3, 1, false, format.Fourier},
	{format.Multilabel, format.Logistic, Homogeneous3, 3, true, ""},
	{format.Multiclass, format.Identity, format.ANOVA, 0, true, ""},
	ofMargin,
}

// ofMargin is the shape of a linear model that a margin loss was minimised by.
var ofMargin = Shape{format.Multiclass, format.Softmax, format.ANOVA, 0, true, ""}

const Anova3, Homogeneous3 = format.ANOVA + "3", format.Homogeneous + "3"

// KernelOf returns kind and degree of a shape's kernel.
func (s Shape) KernelOf() (kind string, degree int) {
	if kind, ok := strings.CutSuffix(s.Kernel, "3"); ok {
		return kind, format.Cubic
	}
	return s.Kernel, 0
}

func (s Shape) String() string {
	name := fmt.Sprintf("%s-%s-%s-%d-%v", s.Task, s.Link, s.Kernel, s.K, s.Linear)
	if s.Mapped != "" {
		name += "-" + s.Mapped
	}
	return name
}

var Created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestContents returns a random model of a shape over the fields user, item, tags, age and a constant.
func TestContents(s Shape) *format.Contents {
	rng := rand.New(rand.NewPCG(1, uint64(s.K)))
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	c := &format.Contents{
		Schema: format.Schema{
			Task:        s.Task,
			Label:       "y",
			LabelMin:    1,
			LabelMax:    5,
			Categorical: []string{"user", "item"},
			Multi:       []string{"tags"},
			Numeric:     []format.NumericField{{Name: "age", Center: 40, Scale: 20}},
			Augment:     true,
		},
		Link: s.Link, NumFeatures: 10, NumOutputs: 1, NumBasis: s.K,
		Vocabulary: [][]string{{"u1", "u2", "u3"}, {"i1", "i2"}, {"a", "b", "naïve \"<\\\u2028"}},
		Meta: format.Meta{
			Writer:    "test",
			Kind:      "refit",
			Created:   Created,
			Lambda:    0.5,
			Objective: format.Number(math.Inf(1)),
			Cut:       []format.Cut{{Topic: "ratings", Partition: 0, Next: 100}},
		},
	}
	c.Kernel, c.Degree = s.KernelOf()
	switch s.Task {
	case format.Multiclass, format.Multilabel:
		c.Schema.Classes, c.NumOutputs = []string{"red", "green", "blue"}, 3
	case format.Ordinal:
		c.Schema.Levels = 5
		if s.Link == format.OrdinalLink {
			c.NumOutputs = 4
		}
	}
	c.Basis, c.Weights, c.Bias = normal(c.NumFeatures*s.K), normal(s.K*c.NumOutputs), normal(c.NumOutputs)
	if s.Linear {
		c.Linear = normal(c.NumFeatures * c.NumOutputs)
	}
	scaling := []format.MapScaling{{Center: 40, Scale: 15}}
	switch s.Mapped {
	case format.Fourier:
		c.Schema.FeatureMap = format.NewFourier(12, 1, scaling)
	case format.Bins:
		c.Schema.FeatureMap = format.NewBins(4, scaling, [][]float64{{-60, 1, 20, 30, 35, 40, 70}})
	case format.Products:
		c.Schema.FeatureMap = format.NewProducts(scaling)
	}
	if fm := c.Schema.FeatureMap; fm != nil {
		c.MapWeights = normal(fm.NumColumns() * c.NumOutputs)
	}
	for _, in := range TestInputs() {
		c.Golden = append(c.Golden, format.Golden{Input: in, Outputs: SlowOutputs(c, &in)})
	}
	return c
}

// TestInputs covers seen, unseen and missing names, repeated names, and numbers present and missing.
func TestInputs() []format.Input {
	return []format.Input{
		{Categorical: []string{"u1", "i2"}, Numeric: []float64{30}, Multi: [][]string{{"b", "a"}}},
		{Categorical: []string{"u9", "i1"}, Numeric: []float64{math.NaN()}, Multi: [][]string{{"a", "zzz", "a", ""}}},
		{Categorical: []string{"", ""}, Numeric: []float64{40}, Multi: [][]string{nil}},
		{Categorical: []string{"u3", ""}, Numeric: []float64{-55.25}, Multi: [][]string{{"naïve \"<\\\u2028"}}},
		{},
	}
}

// WithTrees gives a model of TestContents trees of one to three questions, on its number and its fields of names, of
// which one is of a name that the vocabulary does not have.
func WithTrees(c *format.Contents) *format.Contents {
	rng := rand.New(rand.NewPCG(9, 1))
	of := *c
	of.Trees = new(format.Trees)
	splits := []format.Split{{Field: 0, Edge: 30}, {Field: -2, Name: "i2"}, {Field: -1, Name: "u1"},
		{Field: 0, Edge: 41.5}, {Field: -2, Name: "i9"}, {Field: -2, Name: "i1"}, {Field: -1, Name: "u9"},
		{Field: 0, Edge: -55.25}}
	for i := range splits {
		t := format.Tree{Splits: splits[i:min(i+1+i%3, len(splits))]}
		for range c.NumOutputs << len(t.Splits) {
			t.Leaves = append(t.Leaves, rng.NormFloat64())
		}
		of.Trees.List = append(of.Trees.List, t)
	}
	of.Golden = nil
	for _, g := range c.Golden {
		of.Golden = append(of.Golden, format.Golden{Input: g.Input, Outputs: SlowOutputs(&of, &g.Input)})
	}
	return &of
}

// WithCrosses gives a model of TestContents crosses: one of its fields by each other, of which some pairs are known.
func WithCrosses(s Shape) *format.Contents {
	c := TestContents(s)
	users, items := c.Vocabulary[0], c.Vocabulary[1]
	pairs := []string{"u1×i2", "u1×i1", "u3×i1", users[0] + "×" + items[0]}
	slices.Sort(pairs)
	pairs = slices.Compact(pairs)
	backwards := []string{items[0] + "×" + users[0]}
	at, added := len(users)+len(items), len(pairs)+len(backwards)
	c.Schema.Cross = [][]string{{"user", "item"}, {"item", "user"}}
	c.Vocabulary = slices.Insert(c.Vocabulary, 2, pairs, backwards)
	c.NumFeatures += added
	grow := func(table []float64, width int) []float64 {
		if table == nil {
			return nil
		}
		rows := make([]float64, added*width)
		for i := range rows {
			rows[i] = math.Sin(float64(i + 1))
		}
		return slices.Insert(slices.Clone(table), at*width, rows...)
	}
	c.Basis, c.Linear = grow(c.Basis, c.NumBasis), grow(c.Linear, c.NumOutputs)
	for i := range c.Golden {
		c.Golden[i].Outputs = nil
	}
	return c
}

// chainModel is what deltas are made for.
type chainModel interface {
	Manifest() format.Manifest
	Position() format.Position
	Shape() *format.Shape
	NumColumns() int
	Column(field int, name string) (int32, bool)
}

// IsRefusal reports whether an error is one of those that Open promises for altered files.
func IsRefusal(err error) bool {
	return errors.Is(err, disk.ErrDigest) || errors.Is(err, disk.ErrFormat) || errors.Is(err, disk.ErrNotFound) ||
		errors.Is(err, disk.ErrName)
}

// WithLimit returns contents whose outputs are limited.
func WithLimit(c *format.Contents, limit float64) *format.Contents {
	of, n := *c, format.Number(limit)
	of.Meta.OutputLimit = &n
	of.Golden = slices.Clone(c.Golden)
	for i := range of.Golden {
		of.Golden[i].Outputs = nil
	}
	return &of
}

// UserItem returns a model of n users and n items.
func UserItem(n, k, m int) *format.Contents {
	rng := rand.New(rand.NewPCG(7, 7))
	c := &format.Contents{
		Schema: format.Schema{Task: format.Ordinal, Label: "rating", Levels: m + 1, Categorical: []string{"user",
			"item"}},
		Kernel:      format.ANOVA,
		Link:        format.OrdinalLink,
		NumFeatures: 2 * n,
		NumOutputs:  m,
		NumBasis:    k,
		Basis:       make([]float64, 2*n*k),
		Weights:     make([]float64, k*m),
		Linear:      make([]float64, 2*n*m),
		Bias:        make([]float64, m),
		Vocabulary:  make([][]string, 2),
		Meta:        format.Meta{Created: Created},
		Golden:      []format.Golden{{Input: format.Input{Categorical: []string{"u1", "i1"}}}},
	}
	for _, values := range [][]float64{c.Basis, c.Weights, c.Linear, c.Bias} {
		for i := range values {
			values[i] = rng.NormFloat64()
		}
	}
	for i := range n {
		c.Vocabulary[0], c.Vocabulary[1] = append(c.Vocabulary[0], fmt.Sprint("u", i)), append(c.Vocabulary[1],
			fmt.Sprint("i", i))
	}
	return c
}

// Strict returns a model with two categorical fields, a number and a list, of which some are optional; nil makes it
// as before fields could be optional.
func Strict(t *testing.T, optional []string) *format.Contents {
	t.Helper()
	c := TestContents(Shapes[2])
	c.Schema.Optional = optional
	return c
}

// Refused checks that an event is refused for a field that is missing.
func Refused(t *testing.T, field string, err error) {
	t.Helper()
	if !errors.Is(err, disk.ErrInput) || !strings.Contains(err.Error(), "missing_field") ||
		!strings.Contains(err.Error(), `"`+field+`"`) {
		t.Errorf("%v, want missing_field %q", err, field)
	}
}

// NeedPython skips a test where no Python has what it needs: before it makes what it compares.
func NeedPython(t *testing.T, needs string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import "+needs).CombinedOutput(); err != nil {
		t.Skipf("not checked: python3 (3.9 or later) with %s is needed (%v): %s", needs, err, out)
	}
}

// Python runs Python in a copy of the package, with what environ adds, or skips the test where no Python can run it.
// The copy lets the cache of test results know the files.
func Python(t *testing.T, needs string, environ []string, arguments ...string) {
	t.Helper()
	NeedPython(t, needs)
	dir := t.TempDir()
	source := "python"
	if _, err := os.Stat(source); err != nil {
		source = "../python" // of the tests of packages below snapshot
	}
	Must(t, os.CopyFS(dir, os.DirFS(source)))
	if os.Getenv("REFITD_PYTHON") == "installed" { // the package is the one that python3 has, and only its tests are here
		Must(t, os.RemoveAll(filepath.Join(dir, "refitd_snapshot")))
	}
	cmd := exec.CommandContext(t.Context(), "python3", arguments...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	out, err := cmd.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

var Small = Shape{format.Ordinal, format.OrdinalLink, format.ANOVA, 1, true, ""}

func Must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// NewForms are the shapes of kernels of degree 3 and of margin losses.
func NewForms() (list []Shape) {
	for _, s := range Shapes {
		if _, degree := s.KernelOf(); degree == format.Cubic || s == ofMargin {
			list = append(list, s)
		}
	}
	return list
}

// Widen adds n names to the field item.
func Widen(c *format.Contents, n int) {
	rng := rand.New(rand.NewPCG(3, 3))
	at := 5 // after 3 users and 2 items
	insert := func(values []float64, width int) []float64 {
		more := make([]float64, n*width)
		for i := range more {
			more[i] = rng.NormFloat64()
		}
		return slices.Insert(values, at*width, more...)
	}
	for i := range n {
		c.Vocabulary[1] = append(c.Vocabulary[1], fmt.Sprint("x", i))
	}
	c.NumFeatures += n
	c.Basis = insert(c.Basis, c.NumBasis)
	if c.Linear != nil {
		c.Linear = insert(c.Linear, c.NumOutputs)
	}
}
