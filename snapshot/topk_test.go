package snapshot

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// slowTopK ranks by Predict.
func slowTopK(
	t *testing.T,
	m interface {
		Contents() *Contents
		Predict(in *Input) (Prediction, error)
	},
	q *Query,
) []Item {
	t.Helper()
	c := m.Contents()
	field := slices.Index(c.Schema.Categorical, q.Over)
	var items []Item
	keys := map[string]float64{} // where values saturate or are clipped, outputs decide
	for _, name := range c.Vocabulary[field] {
		if slices.Contains(q.Exclude, name) {
			continue
		}
		in := q.Input
		in.Categorical = append(make([]string, 0), in.Categorical...)
		if len(in.Categorical) == 0 {
			in.Categorical = make([]string, len(c.Schema.Categorical))
		}
		in.Categorical[field] = name
		p, err := m.Predict(&in)
		must(t, err)
		value, key := p.Value, p.Outputs[0]
		switch c.Schema.Task {
		case Ordinal:
			if c.Link == OrdinalLink {
				key = value
			}
		case Binary:
			if value = p.Outputs[0]; p.Probabilities != nil {
				value = p.Probabilities[1]
			}
		case Multiclass, Multilabel:
			class := slices.Index(c.Schema.Classes, q.Class)
			key = p.Outputs[class]
			if value = key; p.Probabilities != nil {
				value = p.Probabilities[class]
			}
			if c.Link == Softmax {
				key = value
			}
		}
		keys[name] = key
		items = append(items, Item{name, value})
	}
	sort.SliceStable(items, func(i, j int) bool { return keys[items[i].Name] > keys[items[j].Name] })
	return items[:min(q.K, len(items))]
}

func sameRanking(got, want []Item) bool {
	return slices.EqualFunc(got, want, func(a, b Item) bool {
		return a.Name == b.Name && math.Abs(a.Value-b.Value) <= 1e-12*(1+math.Abs(b.Value))
	})
}

func TestTopKAgainstPredict(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := testContents(s)
			widen(c, 150)
			m, err := NewModel(c)
			must(t, err)
			var scratch Scratch
			for i, in := range testInputs() {
				for _, q := range []Query{
					{Input: in, Over: "item", K: 1, Class: "green"},
					{Input: in, Over: "item", K: 10, Class: "red"},
					{Input: in, Over: "user", K: 2, Class: "blue", Exclude: []string{"u2", "u2", "nobody"}},
					{Input: in, Over: "item", K: 1000, Class: "blue", Exclude: []string{"i1", "x64", "x149"}},
				} {
					got, err := m.TopK(nil, &q, &scratch)
					must(t, err)
					if want := slowTopK(t, m, &q); !sameRanking(got, want) {
						t.Fatalf(
							"event %d, %d over %s: %.200v, want %.200v",
							i,
							q.K,
							q.Over,
							fmt.Sprint(got),
							fmt.Sprint(want),
						)
					}
				}
			}
		})
	}
}

// Candidates are passed over by a bound on one output: with one output the bound is the value itself, and nothing is
// passed over wrongly.
func TestTopKBoundIsSafe(t *testing.T) {
	for _, outputs := range []int{1, 2, 5} {
		m, err := NewModel(userItem(400, 3, outputs))
		must(t, err)
		for _, k := range []int{1, 5, 50} {
			for _, user := range []string{"u1", "u2", ""} {
				q := Query{Input: Input{Categorical: []string{user, ""}}, Over: "item", K: k}
				got, err := m.TopK(nil, &q, new(Scratch))
				must(t, err)
				if want := slowTopK(t, m, &q); !sameRanking(got, want) {
					t.Fatalf(
						"%d outputs, %d for %q: %.200v, want %.200v",
						outputs,
						k,
						user,
						fmt.Sprint(got),
						fmt.Sprint(want),
					)
				}
			}
		}
	}
}

// widen adds n names to the field item.
func widen(c *Contents, n int) {
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

// Equal values come in the order of the vocabulary, whichever way the heap turned.
func TestTopKTies(t *testing.T) {
	c := testContents(shape{Regression, Identity, ANOVA, 0, true, ""})
	widen(c, 100)
	clear(c.Linear)
	for _, j := range []int{60, 7, 33} {
		c.Linear[j] = 1
	}
	m, err := NewModel(c)
	must(t, err)
	got, err := m.TopK(nil, &Query{Over: "item", K: 5}, new(Scratch))
	must(t, err)
	var names []string
	for _, item := range got {
		names = append(names, item.Name)
	}
	if want := []string{"x2", "x28", "x55", "i1", "i2"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestTopKRefuses(t *testing.T) {
	m, err := NewModel(testContents(shape{Multiclass, Softmax, ANOVA, 2, true, ""}))
	must(t, err)
	for name, q := range map[string]Query{
		"a field that is not categorical": {Over: "tags", K: 1, Class: "red"},
		"an unknown field":                {Over: "nothing", K: 1, Class: "red"},
		"no names wanted":                 {Over: "item", Class: "red"},
		"no class":                        {Over: "item", K: 1},
		"another shape":                   {Over: "item", K: 1, Class: "red", Input: Input{Categorical: []string{"u1"}}},
		"a number beyond all bounds": {Over: "item", K: 1, Class: "red", Input: Input{Numeric: []float64{1e308},
			Categorical: []string{"u1", ""}}},
	} {
		if items, err := m.TopK(nil, &q, new(Scratch)); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v, %v, want ErrInput", name, items, err)
		}
	}
}

func TestTopKDoesNotAllocate(t *testing.T) {
	for _, s := range shapes {
		m, err := NewModel(testContents(s))
		must(t, err)
		q := Query{Input: testInputs()[0], Over: "item", K: 2, Exclude: []string{"i2"}, Class: "red"}
		dst, scratch := make([]Item, 0, 2), new(Scratch)
		_, err = m.TopK(dst, &q, scratch)
		must(t, err)
		if n := testing.AllocsPerRun(100, func() { m.TopK(dst, &q, scratch) }); n != 0 {
			t.Errorf("%s: TopK allocates %g times", s, n)
		}
	}
}

func TestScoreBatch(t *testing.T) {
	m, err := NewModel(testContents(shape{Ordinal, OrdinalLink, ANOVA, 5, true, ""}))
	must(t, err)
	in, s := testInputs(), new(Scratch)
	got, want := make([]float64, len(in)*m.NumOutputs()), make([]float64, m.NumOutputs())
	unseen := 0
	all := m.ScoreBatch(got, in, s)
	for i := range in {
		unseen += m.Score(want, &in[i], s)
		if !slices.Equal(got[i*len(want):(i+1)*len(want)], want) {
			t.Errorf("event %d: %v, want %v", i, got[i*len(want):(i+1)*len(want)], want)
		}
	}
	if all != unseen || unseen == 0 {
		t.Errorf("%d unseen names, want %d", all, unseen)
	}
	if n := testing.AllocsPerRun(100, func() { m.ScoreBatch(got, in, s) }); n != 0 {
		t.Errorf("ScoreBatch allocates %g times", n)
	}
}

func BenchmarkTopK(b *testing.B) {
	for _, test := range []struct {
		name    string
		items   int
		outputs int
		kernel  string
		workers int
	}{{"ordinal-m4-k20", 100_000, 4, ANOVA, 1}, {"regression-m1-k20", 100_000, 1, ANOVA, 1},
		{"regression-m1-k20-homogeneous", 100_000, 1, Homogeneous, 1},
		{"regression-m1-k20-homogeneous3", 100_000, 1, homogeneous3, 1}, {"ordinal-m4-k20-homogeneous3", 100_000, 4,
			homogeneous3, 1},
		{"regression-m1-k20-1M", 1_000_000, 1, ANOVA, 1}, {"regression-m1-k20-1M-by2", 1_000_000, 1, ANOVA, 2}} {
		b.Run(test.name, func(b *testing.B) {
			c := userItem(test.items, 20, test.outputs)
			c.Kernel, c.Degree = shape{kernel: test.kernel}.kernelOf()
			if test.outputs == 1 {
				c.Schema.Task, c.Schema.Levels, c.Link = Regression, 0, Identity
			}
			if test.items > 100_000 { // more than a version may have: the users are of no account
				c.Vocabulary[0] = c.Vocabulary[0][:1000]
				c.NumFeatures -= test.items - 1000
				c.Basis, c.Linear = c.Basis[:c.NumFeatures*20], c.Linear[:c.NumFeatures*test.outputs]
			}
			m, err := NewModel(c)
			if err != nil {
				b.Fatal(err)
			}
			q := Query{
				Input:   Input{Categorical: []string{"u1", ""}},
				Over:    "item",
				K:       10,
				Exclude: []string{"i5", "i77"},
			}
			dst, s := make([]Item, 0, 10), &Scratch{Workers: test.workers}
			for range screenAfter {
				if _, err := m.TopK(dst, &q, s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.TopK(dst, &q, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
