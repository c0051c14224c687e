package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// randomInput draws an event of snapshottest.TestContents; it may lack anything.
func randomInput(rng *rand.Rand) format.Input {
	number := 10 + 70*rng.Float64()
	if odd := []float64{30, 41.5, -55.25, math.NaN(), math.NaN()}; rng.IntN(2) == 0 {
		number = odd[rng.IntN(len(odd))]
	}
	in := format.Input{Categorical: []string{[]string{"", "u1", "u2", "u9"}[rng.IntN(4)],
		[]string{"", "i1", "i2", "i9", "i7"}[rng.IntN(5)]}, Numeric: []float64{number}, Multi: [][]string{{"a"}}}
	switch rng.IntN(10) {
	case 0:
		in.Categorical = nil
	case 1:
		in.Numeric = nil
	}
	return in
}

// TestTreesInScores: versions with trees say what the definition says, before and after they were written, and after
// deltas. The digest of what is scored covers trees, and versions without are written as before.
func TestTreesInScores(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	for i, s := range snapshottest.Shapes {
		rng := rand.New(rand.NewPCG(51, uint64(i)))
		without := snapshottest.TestContents(s)
		c := snapshottest.WithTrees(without)
		dir := t.TempDir()
		store := publish.NewStore(dir)
		plain, err := store.Publish(t.Context(), "m", without)
		snapshottest.Must(t, err)
		manifest, err := store.Publish(t.Context(), "m", c)
		snapshottest.Must(t, err)
		_, err = os.Stat(filepath.Join(dir, "m", "1", format.TreesFile))
		if plain.Format > 6 || plain.Trees != nil || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: without trees: format %d, file %v: %v", s, plain.Format, plain.Trees, err)
		}
		if manifest.Format != 7 || manifest.Trees == nil || manifest.PayloadDigest == plain.PayloadDigest ||
			!slices.Contains(manifest.ReadFiles(), *manifest.Trees) {
			t.Errorf("%s: format %d, file %v, digest %s", s, manifest.Format, manifest.Trees, manifest.PayloadDigest)
		}
		m, err := Open(dir, "m", verify.Selector{Version: 2})
		snapshottest.Must(t, err)
		if digest, err := format.PayloadDigest(m.Contents()); err != nil || digest != manifest.PayloadDigest {
			t.Errorf("%s: digest %s, published with %s: %v", s, digest, manifest.PayloadDigest, err)
		}
		sameAsSlow(t, s.String(), m, rng)
		d := snapshottest.RowsDelta(rng, m, 3, 1)
		m, err = m.Apply(d)
		snapshottest.Must(t, err)
		sameAsSlow(t, s.String()+" after a delta", m, rng)
	}
}

// sameAsSlow compares outputs, explanations and lists with their definitions.
func sameAsSlow(t *testing.T, what string, m *Model, rng *rand.Rand) {
	t.Helper()
	c, scratch := m.Contents(), new(Scratch)
	got := make([]float64, c.NumOutputs)
	for range 200 {
		in := randomInput(rng)
		m.Score(got, &in, scratch)
		want := snapshottest.SlowOutputs(c, &in)
		e, err := m.Explain(&in)
		snapshottest.Must(t, err)
		for o := range want {
			sum := 0.0
			for _, term := range e.Terms {
				sum += term.Contribution[o]
			}
			if !(math.Abs(got[o]-want[o]) <= 1e-9*(1+math.Abs(want[o]))) || !(math.Abs(sum-got[o]) <= 1e-9*(1+math.Abs(sum))) {
				t.Fatalf("%s: %v: output %d is %g, by definition %g, its terms add up to %g", what, in, o, got[o], want[o], sum)
			}
		}
		for _, over := range c.Schema.Categorical {
			q := format.Query{Input: in, Over: over, K: 1 + rng.IntN(3), Class: "green"}
			if rng.IntN(2) == 0 {
				q.Exclude = []string{"i1", "u9"}
			}
			list, err := m.TopK(nil, &q, scratch)
			snapshottest.Must(t, err)
			if want := snapshottest.SlowTopK(t, m, &q); !snapshottest.SameRanking(list, want) {
				t.Fatalf("%s: %v: %d over %s: %v, want %v", what, in, q.K, over, list, want)
			}
		}
	}
}

// TestTopKOfManyNamesWithTrees: in a large field, with a table and several goroutines, names that trees ask for are
// where the definition has them.
func TestTopKOfManyNamesWithTrees(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	for _, outputs := range []int{1, 4} {
		c := snapshottest.UserItem(9000, 4, outputs)
		rng := rand.New(rand.NewPCG(52, uint64(outputs)))
		c.Trees = new(format.Trees)
		for i := range 40 {
			tree := format.Tree{Splits: []format.Split{{Field: -2, Name: fmt.Sprint("i", i*i)},
				{Field: -1, Name: fmt.Sprint("u", i%5)}}}
			for range outputs << 2 {
				tree.Leaves = append(tree.Leaves, 4*rng.NormFloat64())
			}
			c.Trees.List = append(c.Trees.List, tree)
		}
		m, err := scorer.NewModel(c)
		snapshottest.Must(t, err)
		for workers := 1; workers < 4; workers++ {
			s := &Scratch{Workers: workers}
			for i := range 12 { // from the eighth on with a table
				q := format.Query{Input: format.Input{Categorical: []string{fmt.Sprint("u", i%7), ""}}, Over: "item", K: 30,
					Exclude: []string{"i9", "i100"}}
				got, err := m.TopK(nil, &q, s)
				snapshottest.Must(t, err)
				if i < 10 && i > 1 {
					continue
				}
				if want := snapshottest.SlowTopK(t, m, &q); !snapshottest.SameRanking(got, want) {
					t.Fatalf("%d outputs, %d workers: %v, want %v", outputs, workers, got, want)
				}
			}
		}
	}
}

// TestTreesDoNotAllocate: neither scores nor lists take memory for trees.
func TestTreesDoNotAllocate(t *testing.T) {
	m, err := scorer.NewModel(snapshottest.WithTrees(snapshottest.TestContents(snapshottest.Small)))
	snapshottest.Must(t, err)
	in, s := randomInput(rand.New(rand.NewPCG(5, 5))), new(Scratch)
	dst, list := make([]float64, m.NumOutputs()), make([]Item, 0, 3)
	q := format.Query{Input: in, Over: "item", K: 2}
	run := func() {
		m.Score(dst, &in, s)
		if _, err := m.TopK(list, &q, s); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

// TestInfiniteNumbersAnswerNo: a number that is not finite is one that an event lacks, on either side of an edge.
func TestInfiniteNumbersAnswerNo(t *testing.T) {
	tree := format.Tree{Splits: []format.Split{{Field: 0, Edge: -1}}, Leaves: []float64{3, 5}}
	for _, v := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), -1.5} {
		if tree.Leaf(nil, []float64{v}) != 0 {
			t.Errorf("%g is at least -1", v)
		}
	}
	if tree.Leaf(nil, []float64{-1}) != 1 || tree.Leaf(nil, nil) != 0 {
		t.Error("an edge is not itself, or no number is at least -1")
	}
}

// TestDamagedTrees: a reader refuses what is not the file that was published, says where it is of a newer format, and
// no file makes it panic.
func TestDamagedTrees(t *testing.T) {
	c := snapshottest.WithTrees(snapshottest.TestContents(snapshottest.Small))
	b, err := c.Trees.Encode(&c.Schema)
	snapshottest.Must(t, err)
	x, err := format.DecodeTrees(b, &c.Schema)
	snapshottest.Must(t, err)
	again, err := x.Encode(&c.Schema)
	if snapshottest.Must(t, err); !bytes.Equal(again, b) {
		t.Errorf("written again:\n%s\nwant\n%s", again, b)
	}
	for n := range b {
		if _, err := format.DecodeTrees(b[:n], &c.Schema); !errors.Is(err, ErrFormat) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(b), err)
		}
	}
	for old, damage := range map[string][2]string{
		`"version":1`:        {`"version":2`, "newer format"},
		`"trees":8`:          {`"trees":7`, "7 trees on 8 lines"},
		`"field":"age"`:      {`"field":"size"`, "numeric field"},
		`"at_least":30`:      {`"at_least":30,"is":"a"`, "numeric field"},
		`"leaves"`:           {`"shrunk":true,"leaves"`, "unknown field"},
		`{"splits"`:          {`{}{"splits"`, "more than one"},
		`"is":"i2"`:          {`"at_least":2`, "numeric field"},
		`"at_least":-55.25}`: {`"at_least":1e999}`, "line 7"},
	} {
		if !bytes.Contains(b, []byte(old)) {
			t.Fatalf("no %s in\n%s", old, b)
		}
		damaged := bytes.Replace(b, []byte(old), []byte(damage[0]), 1)
		if _, err := format.DecodeTrees(damaged, &c.Schema); !errors.Is(err, ErrFormat) ||
			!strings.Contains(err.Error(), damage[1]) {
			t.Errorf("%s in place of %s: %v", damage[0], old, err)
		}
	}
	for name, damage := range map[string]func(t *format.Tree){
		"number":      func(t *format.Tree) { t.Splits[0].Field = 1 },
		"field":       func(t *format.Tree) { t.Splits[0] = format.Split{Field: -3, Name: "a"} },
		"edge":        func(t *format.Tree) { t.Splits[0].Edge = math.NaN() },
		"both":        func(t *format.Tree) { t.Splits[0].Name = "a" },
		"empty name":  func(t *format.Tree) { t.Splits[0] = format.Split{Field: -1} },
		"odd name":    func(t *format.Tree) { t.Splits[0] = format.Split{Field: -1, Name: "\xff"} },
		"leaf":        func(t *format.Tree) { t.Leaves[0] = math.Inf(1) },
		"leaves":      func(t *format.Tree) { t.Leaves = t.Leaves[1:] },
		"no question": func(t *format.Tree) { t.Splits, t.Leaves = nil, t.Leaves[:c.NumOutputs] },
		"too deep": func(t *format.Tree) {
			t.Splits = slices.Repeat(t.Splits[:1], format.MaxTreeDepth+1)
			t.Leaves = make([]float64, c.NumOutputs<<len(t.Splits))
		},
	} {
		damaged := *c
		damaged.Trees = &format.Trees{List: slices.Clone(c.Trees.List)}
		tree := &damaged.Trees.List[0]
		tree.Splits, tree.Leaves = slices.Clone(tree.Splits), slices.Clone(tree.Leaves)
		damage(tree)
		if _, err := scorer.NewModel(&damaged); !errors.Is(err, ErrContents) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReaderWithoutTheFormatOfTrees: a version of trees whose manifest says an older format is refused, and one of a
// format after this one is said to be newer.
func TestReaderWithoutTheFormatOfTrees(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{"6": "of format 7, not 6", fmt.Sprint(format.FormatVersion + 1): "newer"} {
		dir := t.TempDir()
		_, err := publish.NewStore(dir).Publish(t.Context(), "m",
			snapshottest.WithTrees(snapshottest.TestContents(snapshottest.Small)))
		snapshottest.Must(t, err)
		path := filepath.Join(dir, "m", "1", disk.ManifestFile)
		b, err := os.ReadFile(path)
		snapshottest.Must(t, err)
		body := bytes.Replace(unsealed(b), []byte(`"format": 7`), []byte(`"format": `+number), 1)
		snapshottest.Must(t, os.WriteFile(path, sealed(body), 0o644))
		if _, err := Open(dir, "m", verify.Selector{Version: 1}); !errors.Is(err, ErrFormat) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("format %s: %v, want %q", number, err, want)
		}
	}
}
