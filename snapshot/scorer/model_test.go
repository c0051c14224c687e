package scorer

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestScoreAgainstFormula(t *testing.T) {
	for _, s := range snapshottest.Shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := snapshottest.TestContents(s)
			m, err := NewModel(c)
			if err != nil {
				t.Fatal(err)
			}
			var scratch Scratch
			got := make([]float64, m.NumOutputs())
			for i, in := range snapshottest.TestInputs() {
				m.Score(got, &in, &scratch)
				want := snapshottest.SlowOutputs(c, &in)
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
	m, err := NewModel(snapshottest.TestContents(snapshottest.Shapes[2]))
	if err != nil {
		t.Fatal(err)
	}
	in := format.Input{Categorical: []string{"u9", "u1"}, Multi: [][]string{{"x", "a", "", "x"}}}
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
		&format.Contents{
			Schema:     format.Schema{Task: task, Levels: levels, Classes: classes, LabelMin: -1, LabelMax: 1},
			Kernel:     format.ANOVA,
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
		{format.Regression, format.Identity, 0, nil, []float64{-7}, -7, -7.0, nil}, // not clipped: only rmse and mae are
		{format.Binary, format.Logistic, 0, nil, []float64{log3}, 1, 1.0, []float64{0.25, 0.75}},
		{format.Binary, format.Logistic, 0, nil, []float64{-800}, 0, 0.0, []float64{1, 0}},
		{format.Binary, format.Identity, 0, nil, []float64{0.4}, 0, 0.0, nil},
		{format.Binary, format.Identity, 0, nil, []float64{0.6}, 1, 1.0, nil},
		{format.Ordinal, format.OrdinalLink, 3, nil, []float64{-log3, log3}, 2, 2.0, []float64{0.25, 0.5, 0.25}},
		{format.Ordinal, format.OrdinalLink, 3, nil, []float64{-900, -800}, 3, 3.0, []float64{0, 0, 1}},
		{format.Ordinal, format.OrdinalLink, 3, nil, []float64{log3, -log3}, 2, 2.0, []float64{0.75, -0.5, 0.75}},
		{format.Ordinal, format.Identity, 3, nil, []float64{3.5}, 3, 3.0, nil},
		{format.Ordinal, format.Identity, 3, nil, []float64{0.5}, 1, 1.0, nil},
		{format.Multiclass, format.Softmax, 0, rgb, []float64{800, 800 + log3, -800}, 1, "green", []float64{0.25, 0.75, 0}},
		{format.Multiclass, format.Logistic, 0, rgb, []float64{-3, -2, -1}, 2, "blue", nil},
		{format.Multilabel, format.Logistic, 0, rgb, []float64{log3, 0, -log3}, 1, []string{"red"}, []float64{0.75, 0.5,
			0.25}},
		{format.Multilabel, format.Identity, 0, rgb, []float64{0.4, 0.6, 0.7}, 2, []string{"green", "blue"}, nil},
		{format.Multilabel, format.Logistic, 0, rgb, []float64{-1, -1, -1}, 0, []string{}, []float64{rowmath.Sigmoid(-1),
			rowmath.Sigmoid(-1), rowmath.Sigmoid(
				-1)}},
	} {
		p, err := constant(t, test.task, test.link, test.levels, test.classes, test.outputs...).Predict(&format.Input{})
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
				t.Errorf("%s %s %v: probabilities %v, want %v", test.task, test.link, test.outputs, p.Probabilities,
					test.p)
				break
			}
		}
	}
}

func TestPredictRefuses(t *testing.T) {
	m, err := NewModel(snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity,
		Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""}))
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]format.Input{
		"one categorical field too few": {Categorical: []string{"u1"}},
		"one number too many":           {Numeric: []float64{1, 2}},
		"no list":                       {Multi: [][]string{}},
		"a number beyond all bounds":    {Numeric: []float64{1e308}, Categorical: []string{"u1", "i1"}},
	} {
		if p, err := m.Predict(&in); !errors.Is(err, disk.ErrInput) {
			t.Errorf("%s: %v, %v, want ErrInput", name, p, err)
		}
	}
}

func TestScoreDoesNotAllocate(t *testing.T) {
	m, err := NewModel(snapshottest.TestContents(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink,
		Kernel: format.ANOVA, K: 5, Linear: true, Mapped: ""}))
	if err != nil {
		t.Fatal(err)
	}
	in, dst, s := snapshottest.TestInputs()[1], make([]float64, m.NumOutputs()), new(Scratch)
	m.Score(dst, &in, s)
	if n := testing.AllocsPerRun(100, func() { m.Score(dst, &in, s) }); n != 0 {
		t.Errorf("Score allocates %g times", n)
	}
}

func TestScorePanicsOnShape(t *testing.T) {
	m := constant(t, format.Regression, format.Identity, 0, nil, 1)
	defer func() {
		if recover() == nil {
			t.Error("no panic for dst of length 2")
		}
	}()
	m.Score(make([]float64, 2), &format.Input{}, new(Scratch))
}

func BenchmarkScore(b *testing.B) {
	c := snapshottest.UserItem(1000, 20, 5)
	m, err := NewModel(c)
	if err != nil {
		b.Fatal(err)
	}
	dst, s := make([]float64, m.NumOutputs()), new(Scratch)
	in := format.Input{Categorical: make([]string, 2)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in.Categorical[0], in.Categorical[1] = c.Vocabulary[0][i%1000], c.Vocabulary[1][i*7%1000]
		m.Score(dst, &in, s)
	}
}
