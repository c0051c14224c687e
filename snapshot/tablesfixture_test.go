package snapshot

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// tableRows returns n rows of a table with so many columns of each kind. Their names are i0, i1 and so on, some of
// which are left out.
func tableRows(rng *rand.Rand, t *format.Table, at, n int) (rows []*format.TableRow) {
	pick := func(names ...string) string { return names[rng.IntN(len(names))] }
	for i := range n {
		if rng.IntN(4) == 0 {
			continue
		}
		r := &format.TableRow{Table: at, Name: fmt.Sprint(t.Of[:1], i)}
		for range t.Categorical {
			r.Categorical = append(r.Categorical, pick("a", "b", "c", "true", "false", "i1", "b1", "naïve <", ""))
		}
		for range t.Multi {
			list := []string{}
			for range rng.IntN(4) {
				list = append(list, pick("a", "b", "zzz", "naïve \"<\\\u2028"))
			}
			r.Multi = append(r.Multi, list)
		}
		for range t.Numeric {
			v := float64(rng.IntN(80))
			if rng.IntN(5) == 0 {
				v = math.NaN()
			}
			r.Numeric = append(r.Numeric, v)
		}
		rows = append(rows, r)
	}
	return rows
}

// tableOf returns a table with at most ten rows.
func tableOf(rng *rand.Rand, at int, name, of string, categorical, multi, numeric []string) *format.Table {
	empty := format.NewTable(name, of, categorical, multi, numeric, nil)
	return format.NewTable(name, of, categorical, multi, numeric, tableRows(rng, empty, at, 10))
}

// withTables gives a model of TestContents a table of items, whose columns are its lists and its numbers.
func withTables(c *format.Contents) *format.Contents {
	of := *c
	of.Tables = []*format.Table{tableOf(rand.New(rand.NewPCG(4, 4)), 0, "items", "item", nil, c.Schema.Multi,
		[]string{c.Schema.Numeric[0].Name})}
	of.Golden = nil
	for _, g := range c.Golden {
		of.Golden = append(of.Golden, format.Golden{Input: g.Input})
	}
	return &of
}

// catalogue is a model of users, items and what three tables know of items, and of the brands that these have.
func catalogue() *format.Contents {
	rng := rand.New(rand.NewPCG(5, 5))
	c := snapshottest.TestContents(snapshottest.Shape{Task: format.Binary, Link: format.Logistic, Kernel: format.ANOVA, K: 3, Linear: true})
	s := &c.Schema
	s.Categorical = []string{"user", "item", "genre", "stock", "brand", "origin"}
	s.Cross = [][]string{{"user", "genre"}}
	c.Vocabulary = [][]string{{"u1", "u2", "u3"}, {"i2", "i1", "i5"}, {"a", "b", "c"}, {"false", "true"},
		{"a", "b", "b1", "i1"}, {"a", "b"}, {"u1×a", "u2×b"}, {"a", "b"}}
	c.NumFeatures = s.NumExtra()
	for _, names := range c.Vocabulary {
		c.NumFeatures += len(names)
	}
	c.Basis, c.Linear = nil, nil
	for range c.NumFeatures * c.NumBasis {
		c.Basis = append(c.Basis, rng.NormFloat64())
	}
	for range c.NumFeatures {
		c.Linear = append(c.Linear, rng.NormFloat64())
	}
	c.Tables = []*format.Table{
		tableOf(rng, 0, "items", "item", []string{"genre", "stock", "brand"}, nil, []string{s.Numeric[0].Name}),
		tableOf(rng, 1, "brands", "brand", []string{"origin"}, nil, nil),
		tableOf(rng, 2, "more <items>", "item", nil, s.Multi, nil),
	}
	c.Golden = []format.Golden{{Input: format.Input{Categorical: []string{"u1", "i1", "", "", "", ""}}},
		{Input: format.Input{Categorical: []string{"u2", "i7", "", "true", "", ""}}}}
	return c
}

// filters is catalogue with a column of a table that nothing has learned.
func filters() *format.Contents {
	c := catalogue()
	c.NumFeatures -= len(c.Vocabulary[3])
	c.Vocabulary[3] = nil
	c.Basis, c.Linear = c.Basis[:c.NumFeatures*c.NumBasis], c.Linear[:c.NumFeatures]
	return c
}
