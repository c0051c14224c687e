package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func TestScoreAgainstFormula(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := testContents(s)
			m, err := NewModel(c)
			if err != nil {
				t.Fatal(err)
			}
			var scratch Scratch
			got := make([]float64, m.NumOutputs())
			for i, in := range testInputs() {
				m.Score(got, &in, &scratch)
				want := slowOutputs(c, &in)
				for o := range got {
					if math.Abs(got[o]-want[o]) > 1e-12*(1+math.Abs(want[o])) {
						t.Errorf("event %d, output %d: %g, want %g", i, o, got[o], want[o])
					}
				}
			}
		})
	}
}

func TestUnseen(t *testing.T) {
	m, err := NewModel(testContents(shapes[2]))
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Categorical: []string{"u9", "u1"}, Multi: [][]string{{"x", "a", "", "x"}}}
	want := []string{"user=u9", "item=u1", "tags=x", "tags=x"}
	p, err := m.Predict(&in)
	if err != nil || !slices.Equal(p.Unseen, want) {
		t.Errorf("Unseen = %q, %v, want %q", p.Unseen, err, want)
	}
	if n := m.Score(make([]float64, 1), &in, new(Scratch)); n != len(want) {
		t.Errorf("Score reports %d unseen names, want %d", n, len(want))
	}
}

// constant returns a model whose outputs are its biases.
func constant(t *testing.T, task, link string, levels int, classes []string, outputs ...float64) *Model {
	t.Helper()
	m, err := NewModel(
		&Contents{
			Schema:     Schema{Task: task, Levels: levels, Classes: classes, LabelMin: -1, LabelMax: 1},
			Kernel:     ANOVA,
			Link:       link,
			NumOutputs: len(outputs),
			Bias:       outputs,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPredict(t *testing.T) {
	rgb := []string{"red", "green", "blue"}
	log3 := math.Log(3)
	for _, test := range []struct {
		task, link string
		levels     int
		classes    []string
		outputs    []float64
		value      float64
		label      any
		p          []float64
	}{
		{Regression, Identity, 0, nil, []float64{-7}, -7, -7.0, nil}, // not clipped: only rmse and mae are
		{Binary, Logistic, 0, nil, []float64{log3}, 1, 1.0, []float64{0.25, 0.75}},
		{Binary, Logistic, 0, nil, []float64{-800}, 0, 0.0, []float64{1, 0}},
		{Binary, Identity, 0, nil, []float64{0.4}, 0, 0.0, nil},
		{Binary, Identity, 0, nil, []float64{0.6}, 1, 1.0, nil},
		{Ordinal, OrdinalLink, 3, nil, []float64{-log3, log3}, 2, 2.0, []float64{0.25, 0.5, 0.25}},
		{Ordinal, OrdinalLink, 3, nil, []float64{-900, -800}, 3, 3.0, []float64{0, 0, 1}},
		{Ordinal, OrdinalLink, 3, nil, []float64{log3, -log3}, 2, 2.0, []float64{0.75, -0.5, 0.75}},
		{Ordinal, Identity, 3, nil, []float64{3.5}, 3, 3.0, nil},
		{Ordinal, Identity, 3, nil, []float64{0.5}, 1, 1.0, nil},
		{Multiclass, Softmax, 0, rgb, []float64{800, 800 + log3, -800}, 1, "green", []float64{0.25, 0.75, 0}},
		{Multiclass, Logistic, 0, rgb, []float64{-3, -2, -1}, 2, "blue", nil},
		{Multilabel, Logistic, 0, rgb, []float64{log3, 0, -log3}, 1, []string{"red"}, []float64{0.75, 0.5, 0.25}},
		{Multilabel, Identity, 0, rgb, []float64{0.4, 0.6, 0.7}, 2, []string{"green", "blue"}, nil},
		{Multilabel, Logistic, 0, rgb, []float64{-1, -1, -1}, 0, []string{}, []float64{sigmoid(-1), sigmoid(-1), sigmoid(
			-1)}},
	} {
		p, err := constant(t, test.task, test.link, test.levels, test.classes, test.outputs...).Predict(&Input{})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(p.Value-test.value) > 1e-12 {
			t.Errorf("%s %s %v: value %g, want %g", test.task, test.link, test.outputs, p.Value, test.value)
		}
		if label := p.Label(); !reflect.DeepEqual(label, test.label) {
			if f, ok := label.(float64); !ok || math.Abs(f-test.value) > 1e-12 {
				t.Errorf("%s %s %v: label %v, want %v", test.task, test.link, test.outputs, label, test.label)
			}
		}
		if len(p.Probabilities) != len(test.p) {
			t.Errorf("%s %s: %d probabilities, want %d", test.task, test.link, len(p.Probabilities), len(test.p))
			continue
		}
		for c, want := range test.p {
			if math.Abs(p.Probabilities[c]-want) > 1e-12 {
				t.Errorf(
					"%s %s %v: probabilities %v, want %v",
					test.task,
					test.link,
					test.outputs,
					p.Probabilities,
					test.p,
				)
				break
			}
		}
	}
}

func TestPredictRefuses(t *testing.T) {
	m, err := NewModel(testContents(shape{Regression, Identity, ANOVA, 2, true, ""}))
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]Input{
		"one categorical field too few": {Categorical: []string{"u1"}},
		"one number too many":           {Numeric: []float64{1, 2}},
		"no list":                       {Multi: [][]string{}},
		"a number beyond all bounds":    {Numeric: []float64{1e308}, Categorical: []string{"u1", "i1"}},
	} {
		if p, err := m.Predict(&in); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v, %v, want ErrInput", name, p, err)
		}
	}
}

func TestInputFromMap(t *testing.T) {
	s := &testContents(shapes[0]).Schema
	in, err := s.InputFromMap(
		map[string]any{"user": "u1", "item": nil, "age": json.Number("3e1"), "tags": []any{"a", "b"}, "other": 1},
	)
	want := Input{Categorical: []string{"u1", ""}, Numeric: []float64{30}, Multi: [][]string{{"a", "b"}}}
	if err != nil || !reflect.DeepEqual(in, want) {
		t.Errorf("got %+v, %v, want %+v", in, err, want)
	}
	if in, err = s.InputFromMap(nil); err != nil || !math.IsNaN(in.Numeric[0]) {
		t.Errorf("no fields: %+v, %v, want all missing", in, err)
	}
	for _, event := range []map[string]any{
		{"user": 1.5}, {"age": "30"}, {"age": json.Number("1e999")}, {"age": math.Inf(1)}, {"tags": "a"}, {"tags": []any{"a",
			1.5}}, {"age": true},
	} {
		if in, err := s.InputFromMap(event); !errors.Is(err, ErrInput) {
			t.Errorf("%v: %+v, %v, want ErrInput", event, in, err)
		}
	}
}

func TestMultiValue(t *testing.T) {
	weights := []string{WeightMean, WeightSqrt}
	for n, want := range map[int][2]float64{-1: {}, 0: {}, 1: {1, 1}, 4: {0.25, 0.5}, 200: {0.005, math.Sqrt(0.005)}} {
		plain, mean, root := MultiValue(nil, 1, n), MultiValue(weights, 0, n), MultiValue(weights, 1, n)
		if plain != want[0] || mean != want[0] || math.Abs(root-want[1]) > 1e-15 {
			t.Errorf("names of a list of %d count %g, %g by mean and %g by sqrt, want %g", n, plain, mean, root, want)
		}
	}
}

func TestScoreDoesNotAllocate(t *testing.T) {
	m, err := NewModel(testContents(shape{Ordinal, OrdinalLink, ANOVA, 5, true, ""}))
	if err != nil {
		t.Fatal(err)
	}
	in, dst, s := testInputs()[1], make([]float64, m.NumOutputs()), new(Scratch)
	m.Score(dst, &in, s)
	if n := testing.AllocsPerRun(100, func() { m.Score(dst, &in, s) }); n != 0 {
		t.Errorf("Score allocates %g times", n)
	}
}

func TestScorePanicsOnShape(t *testing.T) {
	m := constant(t, Regression, Identity, 0, nil, 1)
	defer func() {
		if recover() == nil {
			t.Error("no panic for dst of length 2")
		}
	}()
	m.Score(make([]float64, 2), &Input{}, new(Scratch))
}

// userItem returns a model of n users and n items.
func userItem(n, k, m int) *Contents {
	rng := rand.New(rand.NewPCG(7, 7))
	c := &Contents{
		Schema:      Schema{Task: Ordinal, Label: "rating", Levels: m + 1, Categorical: []string{"user", "item"}},
		Kernel:      ANOVA,
		Link:        OrdinalLink,
		NumFeatures: 2 * n,
		NumOutputs:  m,
		NumBasis:    k,
		Basis:       make([]float64, 2*n*k),
		Weights:     make([]float64, k*m),
		Linear:      make([]float64, 2*n*m),
		Bias:        make([]float64, m),
		Vocabulary:  make([][]string, 2),
		Meta:        Meta{Created: created},
		Golden:      []Golden{{Input: Input{Categorical: []string{"u1", "i1"}}}},
	}
	for _, values := range [][]float64{c.Basis, c.Weights, c.Linear, c.Bias} {
		for i := range values {
			values[i] = rng.NormFloat64()
		}
	}
	for i := range n {
		c.Vocabulary[0], c.Vocabulary[1] = append(c.Vocabulary[0], fmt.Sprint("u", i)), append(
			c.Vocabulary[1],
			fmt.Sprint("i", i),
		)
	}
	return c
}

func BenchmarkScore(b *testing.B) {
	c := userItem(1000, 20, 5)
	m, err := NewModel(c)
	if err != nil {
		b.Fatal(err)
	}
	dst, s := make([]float64, m.NumOutputs()), new(Scratch)
	in := Input{Categorical: make([]string, 2)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in.Categorical[0], in.Categorical[1] = c.Vocabulary[0][i%1000], c.Vocabulary[1][i*7%1000]
		m.Score(dst, &in, s)
	}
}

func BenchmarkOpen(b *testing.B) {
	for name, users := range map[string]int{"names=100k": 50_000, "names=1M": 500_000} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			if _, err := NewStore(dir).Publish(b.Context(), "m", userItem(users, 20, 1)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Open(dir, "m", Selector{Version: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPublish(b *testing.B) {
	c, store := userItem(50_000, 20, 4), NewStore(b.TempDir())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.Publish(b.Context(), "m", c); err != nil {
			b.Fatal(err)
		}
		if _, err := store.Prune(b.Context(), "m", Retention{Keep: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
