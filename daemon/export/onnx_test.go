package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
)

// shape is a kind of model: every kernel, task and link. Its kernel ends in its degree where that is not 2.
type shape struct {
	task, link, kernel string
	k                  int
	linear, augment    bool
	mapped             string // kind of the feature map, or none
}

func (s shape) String() string {
	return fmt.Sprintf("%s-%s-%s-%d-%v-%v%s", s.task, s.link, s.kernel, s.k, s.linear, s.augment, s.mapped)
}

var shapes = []shape{
	{format.Regression, format.Identity, format.ANOVA, 5, true, false, ""},
	{format.Regression, format.Identity, format.Homogeneous, 3, true, true, ""},
	{format.Regression, format.Identity, format.ANOVA, 0, false, false, ""},
	{format.Binary, format.Logistic, format.Homogeneous, 4, false, true, ""},
	{format.Binary, format.Identity, format.ANOVA, 2, true, true, ""},
	{format.Multiclass, format.Softmax, format.ANOVA, 6, true, false, ""},
	{format.Multiclass, format.Identity, format.Homogeneous, 3, false, true, ""},
	{format.Multiclass, format.Logistic, format.ANOVA, 1, true, false, ""},
	{format.Multilabel, format.Logistic, format.ANOVA, 3, true, true, ""},
	{format.Multilabel, format.Identity, format.Homogeneous, 2, true, false, ""},
	{format.Ordinal, format.OrdinalLink, format.ANOVA, 8, true, false, ""},
	{format.Ordinal, format.OrdinalLink, format.Homogeneous, 4, false, true, ""},
	{format.Ordinal, format.Identity, format.ANOVA, 3, true, false, ""},
	{format.Multiclass, format.Softmax, format.Homogeneous, 3, true, true, format.Fourier},
	{format.Regression, format.Identity, format.ANOVA, 0, false, false, format.Bins},
	{format.Multiclass, format.Softmax, format.Homogeneous, 0, true, false, format.Products},
	{format.Regression, format.Identity, format.ANOVA + "3", 5, true, true, ""},
	{format.Multiclass, format.Softmax, format.Homogeneous + "3", 4, true, false, ""},
	{format.Ordinal, format.OrdinalLink, format.ANOVA + "3", 8, true, false, ""},
	{format.Binary, format.Logistic, format.Homogeneous + "3", 3, false, true, format.Fourier},
	{format.Multiclass, format.Identity, format.ANOVA, 0, true, false, ""},
	{format.Multiclass, format.Softmax, format.ANOVA, 0, true, false, ""}, // of a margin loss
}

// contents returns a random model over 40 users, 25 items, a list of 12 tags and two numbers of very different scale.
func contents(s shape, rng *rand.Rand) *format.Contents {
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	names := func(prefix string, n int) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = prefix + strconv.Itoa(i)
		}
		return list
	}
	c := &format.Contents{
		Schema: snapshot.Schema{
			Task:        s.task,
			Label:       "y",
			LabelMin:    -9,
			LabelMax:    9,
			Categorical: []string{"user", "prediction", "hour"},
			Multi:       []string{"tags"},
			Cross:       [][]string{{"user", "prediction"}, {"hour", "prediction", "user"}},
			Numeric: []format.NumericField{
				{Name: "age", Center: 40, Scale: 20, Clip: 1},
				{Name: "ts", Center: 1.7e12, Scale: 3e7},
			},
			Augment: s.augment,
		},
		Kernel: strings.TrimSuffix(s.kernel, "3"), Link: s.link, NumOutputs: 1, NumBasis: s.k,
		Vocabulary: [][]string{
			names("u", 40),
			append(names("i", 24), "naïve \"<\\\u2028"),
			{"h0", "h1", "h2×i3"},
			nil,
			nil,
			names("t", 12),
		},
		Meta: format.Meta{Writer: "test", Kind: "refit", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
	if s.kernel != c.Kernel {
		c.Degree = 3
	}
	switch s.task {
	case format.Multiclass, format.Multilabel:
		c.Schema.Classes, c.NumOutputs = []string{"red", "green", "blue", "grün"}, 4
	case format.Ordinal:
		if c.Schema.Levels = 5; s.link == format.OrdinalLink {
			c.NumOutputs = 4
		}
	}
	for u := range 40 {
		for i := u % 3; i < 24; i += 3 {
			pair := fmt.Sprintf("i%d×u%d", i, u)
			c.Vocabulary[3] = append(c.Vocabulary[3], fmt.Sprintf("u%d×i%d", u, i))
			c.Vocabulary[4] = append(c.Vocabulary[4], fmt.Sprintf("h%d×%s", i%2, pair), fmt.Sprintf("h2×i3×%s", pair))
		}
	}
	if c.NumFeatures = 2; s.augment {
		c.NumFeatures++
	}
	for _, list := range c.Vocabulary {
		c.NumFeatures += len(list)
	}
	c.Basis, c.Weights, c.Bias = normal(c.NumFeatures*s.k), normal(s.k*c.NumOutputs), normal(c.NumOutputs)
	if s.linear {
		c.Linear = normal(c.NumFeatures * c.NumOutputs)
	}
	if c.Degree == 3 { // the solver's basis vectors are of length 1: cubes of sums of these would be in the thousands
		for i := range c.Basis {
			c.Basis[i] /= 2
		}
	}
	scaling := []format.MapScaling{{Center: 40, Scale: 20}, {Center: 1.7e12, Scale: 3e7}}
	switch s.mapped {
	case format.Fourier:
		c.Schema.FeatureMap = format.NewFourier(50, 1, scaling)
	case format.Bins:
		c.Schema.FeatureMap = format.NewBins(8, scaling,
			[][]float64{{10, 20, 30, 35, 38, 42, 50, 60, 90}, {1.7e12, 1.7e12 - 4e7, 1.7e12 + 4e7}})
	case format.Products:
		c.Schema.FeatureMap = format.NewProducts(scaling)
	}
	if fm := c.Schema.FeatureMap; fm != nil {
		c.MapWeights = normal(fm.NumColumns() * c.NumOutputs)
	}
	return c
}

// ruled gives a model random trees, which also ask for names that its vocabulary does not have, and one of which asks a
// question twice.
func ruled(c *format.Contents, rng *rand.Rand) *format.Contents {
	c.Trees = new(format.Trees)
	for range 12 {
		var tree format.Tree
		for range 1 + rng.IntN(5) {
			s := format.Split{Field: rng.IntN(2)}
			switch f := rng.IntN(5); {
			case f == 4 && len(tree.Splits) > 0:
				s = tree.Splits[0]
			case f > 1:
				s = format.Split{Field: -1 - rng.IntN(2), Name: "u" + strconv.Itoa(rng.IntN(44))}
				if s.Field == -2 {
					s.Name = "i" + strconv.Itoa(rng.IntN(26))
				}
			case s.Field == 0:
				s.Edge = float64(30 + rng.IntN(20))
			default:
				s.Edge = 1.7e12 + float64(rng.IntN(7)-3)*1e7
			}
			tree.Splits = append(tree.Splits, s)
		}
		for range c.NumOutputs << len(tree.Splits) {
			tree.Leaves = append(tree.Leaves, rng.NormFloat64())
		}
		c.Trees.List = append(c.Trees.List, tree)
	}
	return c
}

// ratingEvent is random: names seen, unseen and missing, lists with repetitions, numbers present, missing and infinite.
func ratingEvent(rng *rand.Rand) snapshot.Input {
	name := func(prefix string, n int) string {
		if i := rng.IntN(n + 3); i < n+2 {
			return prefix + strconv.Itoa(i) // the last two are unseen
		}
		return ""
	}
	in := snapshot.Input{
		Categorical: []string{name("u", 40), name("i", 24), []string{"h0", "h1", "h2", "h2×i3", ""}[rng.IntN(5)]},
		Multi:       [][]string{nil},
		Numeric:     []float64{40 + 20*rng.NormFloat64(), 1.7e12 + 3e7*rng.NormFloat64()},
	}
	for range rng.IntN(6) {
		in.Multi[0] = append(in.Multi[0], "t"+strconv.Itoa(rng.IntN(14)))
	}
	if rng.IntN(8) == 0 {
		in.Numeric[0] = math.NaN()
	}
	if rng.IntN(20) == 0 {
		in.Numeric[1] = math.Inf(1)
	}
	return in
}

// expectation is what a runtime has to answer for a model file. Numbers that are not finite are texts.
type expectation struct {
	File          string
	Name          string
	Task          string
	Tolerance     float64 // relative to 1 + |expected|
	Categorical   map[string][]string
	Multi         map[string][][]string
	Numeric       map[string][]string // as text: JSON has no NaN
	Outputs       [][]float64
	Probabilities [][]float64
	Prediction    []any
	Refused       bool // every event lacks a field that is not optional: all outputs are NaN
}

// expect scores events with the library.
func expect(t *testing.T, m *snapshot.Model, events []snapshot.Input) *expectation {
	t.Helper()
	s := m.Schema()
	e := &expectation{
		Task:        s.Task,
		Categorical: make(map[string][]string),
		Multi:       make(map[string][][]string),
		Numeric:     make(map[string][]string),
	}
	for i := range events {
		in := &events[i]
		for f, name := range s.Categorical {
			e.Categorical[name] = append(e.Categorical[name], in.Categorical[f])
		}
		for f, name := range s.Multi {
			list := in.Multi[f]
			if list == nil {
				list = []string{}
			}
			e.Multi[name] = append(e.Multi[name], list)
		}
		for f, field := range s.Numeric {
			e.Numeric[field.Name] = append(e.Numeric[field.Name], strconv.FormatFloat(in.Numeric[f], 'g', -1, 64))
		}
		p, err := m.Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		e.Outputs = append(e.Outputs, p.Outputs)
		if p.Probabilities != nil {
			e.Probabilities = append(e.Probabilities, p.Probabilities)
		}
		e.Prediction = append(e.Prediction, p.Label())
	}
	return e
}

// writeExpectations exports every shape in both types with 1,000 random events, and the published versions of the
// format's tests with their golden events, and returns the path of the list.
func writeExpectations(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var list []*expectation
	export := func(m *snapshot.Model, name string, events []snapshot.Input) {
		for _, double := range []bool{true, false} {
			file, _, err := ONNX(m, double)
			if err != nil {
				t.Fatal(err)
			}
			e := expect(t, m, events)
			e.Name, e.Tolerance = name+" float64", 1e-9
			if !double {
				e.Name, e.Tolerance = name+" float32", 1e-5
			}
			e.File = filepath.Join(dir, strconv.Itoa(len(list))+".onnx")
			if err := os.WriteFile(e.File, file, 0o644); err != nil {
				t.Fatal(err)
			}
			list = append(list, e)
		}
	}
	for i := range 2 * len(shapes) {
		s, tensors := shapes[i/2], []string{format.F64, format.F32}[i%2]
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		c := contents(s, rng)
		c.Tensors = tensors
		if i%2 == 1 { // any may be missing, as in versions of before
			c.Schema.Optional = []string{"user", "prediction", "hour", "tags", "age", "ts"}
		}
		events := make([]snapshot.Input, 1000)
		for i := range events {
			events[i] = ratingEvent(rng)
		}
		for _, in := range events[:16] {
			c.Golden = append(c.Golden, format.Golden{Input: in})
		}
		// Through the store, so that what is exported is what a consumer reads, golden pairs included.
		if _, err := publish.NewStore(dir).Publish(t.Context(), "m", c); err != nil {
			t.Fatal(err)
		}
		m, err := snapshot.Open(dir, "m", snapshot.Selector{Alias: snapshot.Latest})
		if err != nil {
			t.Fatal(err)
		}
		export(m, s.String()+" "+m.Contents().Tensors, events)
	}
	// of lists of 1, 2 and 200 names, of which known ones are repeated
	for i, weight := range []string{format.WeightMean, format.WeightSqrt} {
		rng := rand.New(rand.NewPCG(8, uint64(i)))
		c := contents(shapes[i], rng)
		c.Schema.MultiWeights = []string{weight}
		m, err := scorer.NewModel(c)
		if err != nil {
			t.Fatal(err)
		}
		events := []snapshot.Input{ratingEvent(rng), ratingEvent(rng), ratingEvent(rng)}
		events[0].Multi[0], events[1].Multi[0], events[2].Multi[0] = []string{"t1"}, []string{"t2", "t2"}, nil
		for i := range 200 {
			tag := i // unseen from 12 on: each once, graphs cannot distinguish them
			if i%2 == 0 {
				tag %= 12
			}
			events[2].Multi[0] = append(events[2].Multi[0], "t"+strconv.Itoa(tag))
		}
		export(m, "weight "+weight, events)
	}
	for i, s := range shapes {
		rng := rand.New(rand.NewPCG(10, uint64(i)))
		c := contents(s, rng)
		limit := format.Number(1)
		c.Meta.OutputLimit = &limit
		m, err := scorer.NewModel(c)
		if err != nil {
			t.Fatal(err)
		}
		var events []snapshot.Input
		for range 50 {
			events = append(events, ratingEvent(rng))
		}
		export(m, "limited "+s.String(), events)
	}
	for i, s := range shapes {
		rng := rand.New(rand.NewPCG(11, uint64(i)))
		c := ruled(contents(s, rng), rng)
		m, err := scorer.NewModel(c)
		if err != nil {
			t.Fatal(err)
		}
		var events []snapshot.Input
		for range 200 {
			events = append(events, ratingEvent(rng))
		}
		export(m, "trees "+s.String(), events)
	}
	for i, s := range shapes[:3] {
		list = append(list, refused(t, dir, i, s))
	}
	for _, kernel := range []string{format.ANOVA, format.Homogeneous} {
		list = append(list, cubic(t, dir, kernel))
	}
	first, err := snapshot.Open(filepath.Join("..", "..", "snapshot", "testdata", "v1"), "ratings",
		snapshot.Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	var golden []snapshot.Input
	for _, g := range first.Contents().Golden {
		for f, list := range g.Input.Multi {
			for i, name := range list {
				if name == "" { // fills lists up in a tensor, so it cannot be a name there; events never have it
					g.Input.Multi[f][i] = "unseen"
				}
			}
		}
		golden = append(golden, g.Input)
	}
	export(first, "first format", golden)
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "list.json")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// refused is a model of which some fields are optional, with events that lack others: the library refuses each, the
// graph says NaN.
func refused(t *testing.T, dir string, i int, s shape) *expectation {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, uint64(i)))
	c := contents(s, rng)
	c.Schema.Optional = []string{"user", "age"}
	m, err := scorer.NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	e := &expectation{
		Name:        s.String() + " float32",
		Task:        s.task,
		Refused:     true,
		File:        filepath.Join(dir, "refused"+strconv.Itoa(i)+".onnx"),
		Categorical: map[string][]string{},
		Multi:       map[string][][]string{},
		Numeric:     map[string][]string{},
	}
	for _, in := range []snapshot.Input{
		{Categorical: []string{"u1", "", "h0"}, Numeric: []float64{40, 1.7e12}, Multi: [][]string{{}}},
		{Categorical: []string{"u1", "i1", "h1"}, Numeric: []float64{40, math.NaN()}, Multi: [][]string{{}}},
		{Categorical: []string{"", "", ""}, Numeric: []float64{math.NaN(), math.NaN()}, Multi: [][]string{{"t1"}}},
	} {
		if _, err := m.Predict(&in); !errors.Is(err, snapshot.ErrInput) ||
			!strings.Contains(err.Error(), "missing_field") {
			t.Errorf("%v: %v", in, err)
		}
		for f, name := range c.Schema.Categorical {
			e.Categorical[name] = append(e.Categorical[name], in.Categorical[f])
		}
		for f := range c.Schema.Numeric {
			name := c.Schema.Numeric[f].Name
			e.Numeric[name] = append(e.Numeric[name], strconv.FormatFloat(in.Numeric[f], 'g', -1, 64))
		}
		e.Multi["tags"] = append(e.Multi["tags"], in.Multi[0])
	}
	file, fields, err := ONNX(m, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		if f.Optional != slices.Contains(c.Schema.Optional, f.Name) {
			t.Errorf("%+v", f)
		}
	}
	if err := os.WriteFile(e.File, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return e
}

// cubic is a model of degree 3 against the definition of the kernels.
func cubic(t *testing.T, dir, kernel string) *expectation {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 3))
	c := &format.Contents{
		Schema:      snapshot.Schema{Task: format.Regression},
		Kernel:      kernel,
		Degree:      3,
		Link:        format.Identity,
		NumFeatures: 5,
		NumOutputs:  1,
		NumBasis:    2,
		Basis:       make([]float64, 10),
		Weights:     []float64{1.5, -0.7},
		Bias:        []float64{0.25},
		Vocabulary:  [][]string{},
	}
	e := &expectation{
		Name:        "degree 3 " + kernel + " float64",
		Task:        format.Regression,
		Tolerance:   1e-9,
		File:        filepath.Join(dir, kernel+".onnx"),
		Categorical: map[string][]string{},
		Multi:       map[string][][]string{},
		Numeric:     map[string][]string{},
	}
	for j := range 5 {
		c.Schema.Numeric = append(c.Schema.Numeric, format.NumericField{Name: string(rune('a' + j)), Scale: 1})
		c.Basis[2*j], c.Basis[2*j+1] = rng.NormFloat64(), rng.NormFloat64()
	}
	for range 100 {
		x := make([]float64, 5)
		for j := range x {
			x[j] = rng.NormFloat64()
			name := c.Schema.Numeric[j].Name
			e.Numeric[name] = append(e.Numeric[name], strconv.FormatFloat(x[j], 'g', -1, 64))
		}
		o := c.Bias[0]
		for r := range 2 {
			for i := range x {
				for j := range x {
					for l := range x {
						if kernel == format.Homogeneous || i < j && j < l {
							o += c.Weights[r] * c.Basis[2*i+r] * x[i] * c.Basis[2*j+r] * x[j] * c.Basis[2*l+r] * x[l]
						}
					}
				}
			}
		}
		e.Outputs, e.Prediction = append(e.Outputs, []float64{o}), append(e.Prediction, o)
	}
	m, err := scorer.NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := ONNX(m, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.File, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return e
}

// The models score in onnxruntime as in the library, for every kernel, task and link.
func TestONNXInPython(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "python3", "-c",
		"import numpy, onnxruntime").CombinedOutput(); err != nil {
		t.Skipf("not checked: python3 with numpy and onnxruntime is needed (%v): %s", err, lastLine(out))
	}
	out, err := exec.CommandContext(t.Context(), "python3", filepath.Join("testdata", "check.py"), writeExpectations(t)).
		CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// The same in another language with another build of the runtime.
func TestONNXInNode(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "node", "-e",
		"require('onnxruntime-node')").CombinedOutput(); err != nil {
		t.Skipf("not checked: node with the package onnxruntime-node is needed, in NODE_PATH (%v): %s", err,
			lastLine(out))
	}
	out, err := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "check.cjs"), writeExpectations(t)).
		CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// Without a field there is no number of events, and the error says so.
func TestONNXNeedsFields(t *testing.T) {
	m, err := scorer.NewModel(
		&format.Contents{
			Schema:     snapshot.Schema{Task: format.Regression},
			Kernel:     format.ANOVA,
			Link:       format.Identity,
			NumOutputs: 1,
			Bias:       []float64{1},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ONNX(m, true); err != ErrNoInputs {
		t.Errorf("error %v", err)
	}
}

// The same model is the same file.
func TestONNXIsDeterministic(t *testing.T) {
	m, err := scorer.NewModel(contents(shapes[8], rand.New(rand.NewPCG(1, 2))))
	if err != nil {
		t.Fatal(err)
	}
	a, fields, err := ONNX(m, true)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := ONNX(m, true)
	if err != nil || string(a) != string(b) {
		t.Errorf("two files differ, error %v", err)
	}
	if len(fields) != 6 || fields[3] != (Field{"tags", "multi", "string", true}) ||
		fields[5] != (Field{"ts", "numeric", "float64", true}) {
		t.Errorf("fields %v", fields)
	}
}
