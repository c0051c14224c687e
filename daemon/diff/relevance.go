package diff

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// Relevance says how much each field moves the predictions of a version on its golden events, largest first: the mean
// absolute sum of the terms that have a feature of the field, over the sum of all fields. A term of several fields
// counts in equal parts for each; the bias and the constant for none.
// Events that cannot be explained, for they have too many features, are left out; it is empty without any.
func Relevance(m *snapshot.Model) []report.FieldRelevance {
	moved, total := make(map[string]float64), 0.0
	for _, g := range m.Contents().Golden {
		e, err := m.Explain(&g.Input)
		if err != nil {
			continue
		}
		sums := make(map[string][]float64)
		for _, t := range e.Terms {
			fields := fieldsOf(t.Features)
			for _, field := range fields {
				if sums[field] == nil {
					sums[field] = make([]float64, len(t.Contribution))
				}
				for o, v := range t.Contribution {
					sums[field][o] += v / float64(len(fields))
				}
			}
		}
		for field, outputs := range sums {
			for _, v := range outputs {
				moved[field] += math.Abs(v)
			}
		}
	}
	out := []report.FieldRelevance{}
	for _, v := range moved {
		total += v
	}
	for field, v := range moved {
		out = append(out, report.FieldRelevance{Field: field, Share: report.Number(v / total)})
	}
	slices.SortFunc(out, func(a, b report.FieldRelevance) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Field, b.Field))
	})
	return out
}

// fieldsOf returns the different fields of features such as user=u1 and age.
func fieldsOf(features []string) (fields []string) {
	for _, name := range features {
		field, _, _ := strings.Cut(name, "=")
		if name != snapshot.Constant && name != snapshot.Ruled && !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	return fields
}

// shownSimilar is how many names are suggested for one that a version does not know.
const shownSimilar = 10

// ErrNoField is returned for a field that has no names.
var ErrNoField = errors.New("diff: the version has no categorical or list field of that name")

// Entity returns what a version knows of a name: what it adds to each output alone, the names and numbers that it
// interacts with most, of a kernel of degree 2, and what tables say of it. Of one that it does not know there are names
// that begin alike. It returns ErrNoField.
func Entity(m *snapshot.Model, field, name string) (*report.Entity, error) {
	c := m.Contents()
	at := slices.Index(c.Schema.Named(), field)
	if at < 0 {
		return nil, ErrNoField
	}
	e := &report.Entity{Field: field, Name: name, Outputs: []report.EntityOutput{}, Similar: []string{},
		Tables: m.Known(field, name)}
	column := slices.Index(c.Vocabulary[at], name)
	if column < 0 {
		e.Similar = beginning(c.Vocabulary[at], name, shownSimilar)
		return e, nil
	}
	for _, list := range c.Vocabulary[:at] {
		column += len(list)
	}
	e.Known = true
	names := columnNames(c)
	for o := range min(c.NumOutputs, shownOutputs) {
		out := report.EntityOutput{Output: outputName(c, o), Interactions: []report.Interaction{}}
		if len(c.Linear) > 0 {
			out.Alone = report.Number(c.Linear[column*c.NumOutputs+o])
		}
		if m.Manifest().Degree == 2 {
			out.Interactions = partners(c, column, at, o, names)
		}
		e.Outputs = append(e.Outputs, out)
	}
	return e, nil
}

// Names returns names of a field that a version knows and that begin with prefix, at most limit, in the order of its
// vocabulary. It returns ErrNoField. O(names).
func Names(m *snapshot.Model, field, prefix string, limit int) ([]string, error) {
	c := m.Contents()
	at := slices.Index(c.Schema.Named(), field)
	if at < 0 {
		return nil, ErrNoField
	}
	return beginning(c.Vocabulary[at], prefix, limit), nil
}

// beginning returns the first names that begin with prefix, at most limit.
func beginning(names []string, prefix string, limit int) []string {
	list := []string{}
	for _, name := range names {
		if len(list) == limit {
			break
		}
		if strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	return list
}

// partners returns the columns that a column of a field interacts with most, for one output. O(features · basis
// vectors).
func partners(c *format.Contents, column, field, o int, names []string) []report.Interaction {
	own := slices.Clone(c.Basis[column*c.NumBasis : (column+1)*c.NumBasis])
	for r := range own {
		own[r] *= c.Weights[r*c.NumOutputs+o]
		if c.Kernel == format.Homogeneous {
			own[r] *= 2
		}
	}
	best := []report.Interaction{}
	for _, other := range candidates(c, o, 2) {
		if other.column == column || other.field == field && field < len(c.Schema.Categorical)+len(c.Schema.Cross) {
			continue
		}
		weight := 0.0
		for r, h := range c.Basis[other.column*c.NumBasis : (other.column+1)*c.NumBasis] {
			weight += own[r] * h
		}
		least := 0.0
		if len(best) == shownInteractions {
			least = math.Abs(float64(best[shownInteractions-1].Weight))
		}
		if math.Abs(weight) <= least {
			continue
		}
		best = append(best,
			report.Interaction{Features: []string{names[column], names[other.column]}, Weight: report.Number(weight)})
		slices.SortStableFunc(best, func(p, q report.Interaction) int {
			return cmp.Compare(math.Abs(float64(q.Weight)), math.Abs(float64(p.Weight)))
		})
		best = best[:min(len(best), shownInteractions)]
	}
	return best
}
