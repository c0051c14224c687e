package snapshottest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/refitd/refitd/snapshot/format"
)

// SomeDelta returns a random delta after m.
func SomeDelta(rng *rand.Rand, m chainModel) *format.Delta {
	c, at := m.Shape(), m.Position()
	d := &format.Delta{
		Model:      m.Manifest().Model,
		Base:       at.Version,
		BaseDigest: m.Manifest().Digest,
		Sequence:   at.Sequence + 1,
		Previous:   at.Digest,
		Created:    Created.Add(time.Duration(at.Sequence+1) * time.Second),
		Watermark:  Created.Add(time.Duration(rng.IntN(1000)) * time.Millisecond),
		Events: &format.Counts{
			Applied: 100 * (at.Sequence + 1),
		},
		Cut: []format.Cut{{Topic: "ratings", Partition: int32(rng.IntN(3)), Next: 200 + at.Sequence}},
	}
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	columns := m.NumColumns()
	for j := range columns {
		if rng.IntN(4) == 0 {
			d.Columns = append(d.Columns, int32(j))
		}
	}
	for range rng.IntN(4) {
		f := rng.IntN(len(c.Schema.Named()))
		name := fmt.Sprintf("new \"%d\"", columns+len(d.Added))
		if cross := f - len(c.Schema.Categorical); cross >= 0 && cross < len(c.Schema.Cross) {
			name = []string{"u2×i1", "u1×nobody", "i1×u3"}[rng.IntN(3)]
			if _, ok := m.Column(f, name); ok || slices.Contains(d.Added, format.AddedName{Field: f, Name: name}) {
				continue
			}
		}
		d.Columns = append(d.Columns, int32(columns+len(d.Added)))
		d.Added = append(d.Added, format.AddedName{Field: f, Name: name})
	}
	linear, mapped := 0, 0
	if c.HasLinear {
		linear = c.NumOutputs
	}
	if fm := c.Schema.FeatureMap; fm != nil {
		mapped = fm.NumColumns() * c.NumOutputs
	}
	d.Linear, d.Basis = normal(len(d.Columns)*linear), normal(len(d.Columns)*c.NumBasis)
	for _, t := range []struct {
		to *[]float64
		n  int
	}{{&d.Bias, c.NumOutputs}, {&d.Weights, c.NumBasis * c.NumOutputs}, {&d.MapWeights, mapped}} {
		if t.n > 0 && rng.IntN(2) == 0 && (c.FoldIn == nil || t.to != &d.Weights) {
			*t.to = normal(t.n)
		}
	}
	if c.FoldIn != nil && rng.IntN(2) == 0 {
		for i := range c.FoldIn.Fields {
			d.FoldInLosses = append(d.FoldInLosses, normal(len(c.FoldIn.Fields[i].Rates)))
		}
	}
	if c.HasTrees && rng.IntN(3) == 0 {
		d.Trees = new(format.Trees)
		for range 1 + rng.IntN(3) {
			t := format.Tree{Splits: []format.Split{{Field: 0, Edge: 50 * rng.NormFloat64()}, {Field: -2, Name: "i2"},
				{Field: -1, Name: "u1"}}[rng.IntN(2):]}
			t.Leaves = normal(c.NumOutputs << len(t.Splits))
			d.Trees.List = append(d.Trees.List, t)
		}
	}
	return d
}

// ChainInputs are events of the names that a model with deltas has, and of others.
func ChainInputs(rng *rand.Rand, c *format.Contents) []format.Input {
	inputs := TestInputs()
	pick := func(f int) string { return c.Vocabulary[f][rng.IntN(len(c.Vocabulary[f]))] }
	for range 6 {
		multi := len(c.Vocabulary) - 1
		inputs = append(
			inputs,
			format.Input{Categorical: []string{pick(0), pick(1)}, Numeric: []float64{float64(rng.IntN(80))},
				Multi: [][]string{{pick(multi), "nobody", pick(multi), pick(multi)}}},
		)
	}
	return append(inputs, format.Input{Categorical: []string{"u2", "i1"}, Numeric: []float64{1}, Multi: [][]string{nil}},
		format.Input{Categorical: []string{"u1", "nobody"}, Numeric: []float64{1}, Multi: [][]string{nil}})
}

// ChainShapes are models of every task, link, kernel and map, with crosses, with fold-in and with trees, in both types.
func ChainShapes() map[string]*format.Contents {
	all := map[string]*format.Contents{}
	for _, s := range Shapes {
		all[s.String()] = TestContents(s)
		all[s.String()+"-crosses"] = WithCrosses(s)
		single := TestContents(s)
		single.Tensors = format.F32
		all[s.String()+"-F32"] = single
	}
	for name, c := range FoldShapes() {
		all["fold "+name] = c
	}
	all["trees"] = WithTrees(TestContents(Small))
	return all
}
