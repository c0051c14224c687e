package snapshottest

import (
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
)

// slowColumns is encode by the definition: the whole row x.
func slowColumns(c *format.Contents, in *format.Input) []float64 {
	var x []float64
	for f, names := range c.Vocabulary {
		for _, name := range names {
			v := 0.0
			if f < len(c.Schema.Categorical) {
				if in.Categorical != nil && in.Categorical[f] == name {
					v = 1
				}
			} else if in.Multi != nil {
				v = slowListValue(c.Schema.MultiWeights, in.Multi[f-len(c.Schema.Categorical)], name)
			}
			x = append(x, v)
		}
	}
	for f, field := range c.Schema.Numeric {
		v := 0.0
		if in.Numeric != nil && !math.IsNaN(in.Numeric[f]) {
			v = (in.Numeric[f] - field.Center) / field.Scale
		}
		x = append(x, v)
	}
	if c.Schema.Augment {
		x = append(x, 1)
	}
	return x
}

// slowListValue is the column of a name of a list field.
func slowListValue(weights, list []string, name string) float64 {
	if !slices.Contains(list, name) {
		return 0
	}
	if weights != nil { // each name once
		list = slices.Compact(slices.Sorted(slices.Values(list)))
		list = slices.DeleteFunc(list, func(name string) bool { return name == "" })
	}
	v := 1 / float64(len(list))
	if slices.Equal(weights, []string{format.WeightSqrt}) {
		v = math.Sqrt(v)
	}
	return v
}

// SlowOutputs is the formula of the package comment, written literally.
func SlowOutputs(c *format.Contents, in *format.Input) []float64 {
	x := slowColumns(c, in)
	out := slices.Clone(c.Bias)
	for o := range out {
		for j, v := range x {
			if c.Linear != nil {
				out[o] += c.Linear[j*c.NumOutputs+o] * v
			}
		}
		if c.Schema.FeatureMap != nil && in.Numeric != nil {
			for j, v := range SlowMapColumns(c.Schema.FeatureMap, in.Numeric) {
				out[o] += c.MapWeights[j*c.NumOutputs+o] * v
			}
		}
		for _, leaf := range slowLeaves(c, in) {
			out[o] += leaf[o]
		}
		for r := range c.NumBasis {
			out[o] += c.Weights[r*c.NumOutputs+o] * slowKernel(c, x, r)
		}
	}
	return out
}

// slowKernel is K(h_r, x), a sum over pairs or triples of columns.
func slowKernel(c *format.Contents, x []float64, r int) (kernel float64) {
	z := func(i int) float64 { return c.Basis[i*c.NumBasis+r] * x[i] }
	for i := range x {
		for j := range x {
			switch {
			case c.Kernel == format.ANOVA && i >= j:
			case c.Degree != format.Cubic:
				kernel += z(i) * z(j)
			default:
				for l := range x {
					if c.Kernel == format.Homogeneous || j < l {
						kernel += z(i) * z(j) * z(l)
					}
				}
			}
		}
	}
	return kernel
}

// slowLeaves returns the leaves of an event by the definition of Trees: each tree is walked from its first question,
// which parts the leaves into those at even and odd places.
func slowLeaves(c *format.Contents, in *format.Input) (found [][]float64) {
	if c.Trees == nil {
		return nil
	}
	for _, t := range c.Trees.List {
		var leaves [][]float64
		for l := 0; l < len(t.Leaves); l += c.NumOutputs {
			leaves = append(leaves, t.Leaves[l:l+c.NumOutputs])
		}
		for _, s := range t.Splits {
			yes := 0
			switch {
			case s.Field < 0:
				if in.Categorical != nil && in.Categorical[-s.Field-1] == s.Name {
					yes = 1
				}
			case in.Numeric != nil && !math.IsInf(in.Numeric[s.Field], 0) && in.Numeric[s.Field] >= s.Edge:
				yes = 1
			}
			var rest [][]float64
			for l := yes; l < len(leaves); l += 2 {
				rest = append(rest, leaves[l])
			}
			leaves = rest
		}
		found = append(found, leaves[0])
	}
	return found
}

// SlowMapColumns is FeatureMap.Columns by its definition, one column at a time.
func SlowMapColumns(m *format.FeatureMap, numeric []float64) []float64 {
	var out []float64
	z := make([]float64, len(numeric))
	present := 0
	for f, v := range numeric {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		present++
		z[f] = math.Max(-m.Clip, math.Min(m.Clip, (v-m.Scaling[f].Center)/m.Scaling[f].Scale))
	}
	switch m.Kind {
	case format.Products:
		out = append(out, z...)
		for i := range z {
			for j := range i + 1 {
				out = append(out, z[i]*z[j])
			}
		}
	case format.Fourier:
		for j := range m.Count {
			sum := m.Phases[j]
			for f := range numeric {
				sum += m.Frequencies[j*len(numeric)+f] * z[f]
			}
			out = append(out, 4*math.Sqrt(2/float64(m.Count))*math.Cos(sum))
		}
	default:
		for f, v := range numeric {
			bins := make([]float64, m.Count)
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				bins[slowBin(m.Edges[f*(m.Count-1):(f+1)*(m.Count-1)], z[f])] = 1
			}
			out = append(out, bins...)
		}
	}
	if present == 0 {
		clear(out)
	}
	return out
}

// slowBin is the number of edges up to the last that a value reaches.
func slowBin(edges []float64, z float64) (bin int) {
	for e, edge := range edges {
		if edge <= z {
			bin = e + 1
		}
	}
	return bin
}

// SlowTopK ranks by Predict.
func SlowTopK(
	t *testing.T,
	m interface {
		Contents() *format.Contents
		Predict(in *format.Input) (answer.Prediction, error)
	},
	q *format.Query,
) []format.Item {
	t.Helper()
	c := m.Contents()
	field := slices.Index(c.Schema.Categorical, q.Over)
	var items []format.Item
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
		Must(t, err)
		value, key := p.Value, p.Outputs[0]
		switch c.Schema.Task {
		case format.Ordinal:
			if c.Link == format.OrdinalLink {
				key = value
			}
		case format.Binary:
			if value = p.Outputs[0]; p.Probabilities != nil {
				value = p.Probabilities[1]
			}
		case format.Multiclass, format.Multilabel:
			class := slices.Index(c.Schema.Classes, q.Class)
			key = p.Outputs[class]
			if value = key; p.Probabilities != nil {
				value = p.Probabilities[class]
			}
			if c.Link == format.Softmax {
				key = value
			}
		}
		keys[name] = key
		items = append(items, format.Item{Name: name, Value: value})
	}
	sort.SliceStable(items, func(i, j int) bool { return keys[items[i].Name] > keys[items[j].Name] })
	return items[:min(q.K, len(items))]
}

func SameRanking(got, want []format.Item) bool {
	return slices.EqualFunc(got, want, func(a, b format.Item) bool {
		return a.Name == b.Name && math.Abs(a.Value-b.Value) <= 1e-12*(1+math.Abs(b.Value))
	})
}
