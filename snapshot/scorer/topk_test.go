package scorer

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestTopKAgainstPredict(t *testing.T) {
	for _, s := range snapshottest.Shapes {
		t.Run(s.String(), func(t *testing.T) {
			c := snapshottest.TestContents(s)
			snapshottest.Widen(c, 150)
			m, err := NewModel(c)
			snapshottest.Must(t, err)
			var scratch Scratch
			for i, in := range snapshottest.TestInputs() {
				for _, q := range []format.Query{
					{Input: in, Over: "item", K: 1, Class: "green"},
					{Input: in, Over: "item", K: 10, Class: "red"},
					{Input: in, Over: "user", K: 2, Class: "blue", Exclude: []string{"u2", "u2", "nobody"}},
					{Input: in, Over: "item", K: 1000, Class: "blue", Exclude: []string{"i1", "x64", "x149"}},
				} {
					got, err := m.TopK(nil, &q, &scratch)
					snapshottest.Must(t, err)
					if want := snapshottest.SlowTopK(t, m, &q); !snapshottest.SameRanking(got, want) {
						t.Fatalf("event %d, %d over %s: %.200v, want %.200v", i, q.K, q.Over, fmt.Sprint(got),
							fmt.Sprint(want))
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
		m, err := NewModel(snapshottest.UserItem(400, 3, outputs))
		snapshottest.Must(t, err)
		for _, k := range []int{1, 5, 50} {
			for _, user := range []string{"u1", "u2", ""} {
				q := format.Query{Input: format.Input{Categorical: []string{user, ""}}, Over: "item", K: k}
				got, err := m.TopK(nil, &q, new(Scratch))
				snapshottest.Must(t, err)
				if want := snapshottest.SlowTopK(t, m, &q); !snapshottest.SameRanking(got, want) {
					t.Fatalf("%d outputs, %d for %q: %.200v, want %.200v", outputs, k, user, fmt.Sprint(got),
						fmt.Sprint(want))
				}
			}
		}
	}
}

// Equal values come in the order of the vocabulary, whichever way the heap turned.
func TestTopKTies(t *testing.T) {
	c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA,
		K: 0, Linear: true, Mapped: ""})
	snapshottest.Widen(c, 100)
	clear(c.Linear)
	for _, j := range []int{60, 7, 33} {
		c.Linear[j] = 1
	}
	m, err := NewModel(c)
	snapshottest.Must(t, err)
	got, err := m.TopK(nil, &format.Query{Over: "item", K: 5}, new(Scratch))
	snapshottest.Must(t, err)
	var names []string
	for _, item := range got {
		names = append(names, item.Name)
	}
	if want := []string{"x2", "x28", "x55", "i1", "i2"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestTopKRefuses(t *testing.T) {
	m, err := NewModel(snapshottest.TestContents(snapshottest.Shape{Task: format.Multiclass, Link: format.Softmax,
		Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""}))
	snapshottest.Must(t, err)
	for name, q := range map[string]format.Query{
		"a field that is not categorical": {Over: "tags", K: 1, Class: "red"},
		"an unknown field":                {Over: "nothing", K: 1, Class: "red"},
		"no names wanted":                 {Over: "item", Class: "red"},
		"no class":                        {Over: "item", K: 1},
		"another shape": {Over: "item", K: 1, Class: "red",
			Input: format.Input{Categorical: []string{"u1"}}},
		"a number beyond all bounds": {Over: "item", K: 1, Class: "red", Input: format.Input{Numeric: []float64{1e308},
			Categorical: []string{"u1", ""}}},
	} {
		if items, err := m.TopK(nil, &q, new(Scratch)); !errors.Is(err, disk.ErrInput) {
			t.Errorf("%s: %v, %v, want ErrInput", name, items, err)
		}
	}
}

func TestTopKDoesNotAllocate(t *testing.T) {
	for _, s := range snapshottest.Shapes {
		m, err := NewModel(snapshottest.TestContents(s))
		snapshottest.Must(t, err)
		q := format.Query{Input: snapshottest.TestInputs()[0], Over: "item", K: 2, Exclude: []string{"i2"}, Class: "red"}
		dst, scratch := make([]format.Item, 0, 2), new(Scratch)
		_, err = m.TopK(dst, &q, scratch)
		snapshottest.Must(t, err)
		if n := testing.AllocsPerRun(100, func() { m.TopK(dst, &q, scratch) }); n != 0 {
			t.Errorf("%s: TopK allocates %g times", s, n)
		}
	}
}

func TestScoreBatch(t *testing.T) {
	m, err := NewModel(snapshottest.TestContents(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink,
		Kernel: format.ANOVA, K: 5, Linear: true, Mapped: ""}))
	snapshottest.Must(t, err)
	in, s := snapshottest.TestInputs(), new(Scratch)
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
	}{{"ordinal-m4-k20", 100_000, 4, format.ANOVA, 1}, {"regression-m1-k20", 100_000, 1, format.ANOVA, 1},
		{"regression-m1-k20-homogeneous", 100_000, 1, format.Homogeneous, 1},
		{"regression-m1-k20-homogeneous3", 100_000, 1, snapshottest.Homogeneous3, 1}, {"ordinal-m4-k20-homogeneous3", 100_000,
			4,
			snapshottest.Homogeneous3, 1},
		{"regression-m1-k20-1M", 1_000_000, 1, format.ANOVA, 1}, {"regression-m1-k20-1M-by2", 1_000_000, 1, format.ANOVA,
			2}} {
		b.Run(test.name, func(b *testing.B) {
			c := snapshottest.UserItem(test.items, 20, test.outputs)
			c.Kernel, c.Degree = snapshottest.Shape{Kernel: test.kernel}.KernelOf()
			if test.outputs == 1 {
				c.Schema.Task, c.Schema.Levels, c.Link = format.Regression, 0, format.Identity
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
			q := format.Query{
				Input:   format.Input{Categorical: []string{"u1", ""}},
				Over:    "item",
				K:       10,
				Exclude: []string{"i5", "i77"},
			}
			dst, s := make([]format.Item, 0, 10), &Scratch{Workers: test.workers}
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
