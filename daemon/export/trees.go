package export

import (
	"math"

	"github.com/refitd/refitd/snapshot/format"
)

// trees adds what trees add to the outputs. Each question is asked once; a product with powers of two makes the leaves
// of all trees of the answers. value holds the numbers as they come, finite whether there is one, both [n, p], and
// inputs the categorical fields by name. Numbers are compared in double whatever the type of the tensors.
func (b *builder) trees(value, finite string, inputs map[string]string) {
	x := b.c.Trees
	if x == nil {
		return
	}
	answers, places := b.answers(value, finite, inputs)
	questions, outputs := len(places), b.c.NumOutputs
	powers, first := make([]float64, questions*len(x.List)), make([]float64, len(x.List))
	var leaves []float64
	for t := range x.List {
		tree := &x.List[t]
		first[t] = float64(len(leaves) / outputs)
		leaves = append(leaves, tree.Leaves...)
		for d, s := range tree.Splits {
			powers[places[s]*len(x.List)+t] += float64(int(1) << d)
		}
	}
	leaf := b.node("MatMul", []string{answers, b.constantOf(float64Type, []int{questions, len(x.List)}, powers)})
	leaf = b.node("Add", []string{leaf, b.constantOf(float64Type, []int{1, len(x.List)}, first)})
	each := b.node("Gather", []string{b.constant([]int{len(leaves) / outputs, outputs}, leaves...),
		b.cast(leaf, int64Type)})
	b.linear = append(b.linear, b.node("ReduceSum", []string{each, b.axes(1)}, intAttribute("keepdims", 0)))
}

// answers returns 1 for each question that an event answers with yes, else 0, [n, questions], and the place of each
// question.
func (b *builder) answers(value, finite string, inputs map[string]string) (all string, places map[format.Split]int) {
	places = make(map[format.Split]int)
	var parts []string
	var fields []int64
	var edges []float64
	ask := func(isOf func(*format.Split) bool, add func(s *format.Split)) {
		for t := range b.c.Trees.List {
			for d := range b.c.Trees.List[t].Splits {
				s := &b.c.Trees.List[t].Splits[d]
				if _, known := places[*s]; !known && isOf(s) {
					places[*s] = len(places)
					add(s)
				}
			}
		}
	}
	ask(func(s *format.Split) bool { return s.Field >= 0 }, func(s *format.Split) {
		fields, edges = append(fields, int64(s.Field)), append(edges, s.Edge)
	})
	if len(fields) > 0 {
		lowest := b.constantOf(float64Type, nil, []float64{math.Inf(-1)})
		numbers := b.node("Gather", []string{b.node("Where", []string{finite, value, lowest}), b.axes(fields...)},
			intAttribute("axis", 1))
		below := b.node("Less", []string{numbers, b.constantOf(float64Type, []int{1, len(edges)}, edges)})
		parts = append(parts, b.cast(b.node("Not", []string{below}), float64Type))
	}
	for f, name := range b.c.Schema.Categorical {
		numbers, asked := make(map[string]int64), []int64(nil)
		ask(func(s *format.Split) bool { return s.Field == -1-f }, func(s *format.Split) {
			asked = append(asked, int64(len(asked))+1)
			numbers[s.Name] = int64(len(asked))
		})
		if len(asked) > 0 {
			number := b.node("Unsqueeze", []string{b.partNumbers(inputs[name], numbers), b.axes(1)})
			parts = append(parts, b.cast(b.node("Equal", []string{number, b.axes(asked...)}), float64Type))
		}
	}
	return b.node("Concat", parts, intAttribute("axis", 1)), places
}
