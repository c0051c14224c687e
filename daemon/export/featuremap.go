package export

import (
	"math"

	"github.com/refitd/refitd/snapshot/format"
)

// featureMap adds what the weights on the feature map contribute. value holds the numbers as they come, finite whether
// there is one, both [n, p]. The columns are computed in double whatever the type of the tensors: cosines of large
// angles and edges of bins would be off in float32.
func (b *builder) featureMap(value, finite string) {
	m := b.c.Schema.FeatureMap
	if m == nil {
		return
	}
	p := len(m.Scaling)
	center, scale := make([]float64, p), make([]float64, p)
	for f, s := range m.Scaling {
		center[f], scale[f] = s.Center, s.Scale
	}
	z := b.node(
		"Div",
		[]string{
			b.node("Sub", []string{value, b.constantOf(float64Type, []int{1, p}, center)}),
			b.constantOf(float64Type, []int{1, p}, scale),
		},
	)
	z = b.node(
		"Min",
		[]string{
			b.node("Max", []string{z, b.constantOf(float64Type, nil, []float64{-m.Clip})}),
			b.constantOf(float64Type, nil, []float64{m.Clip}),
		},
	)
	if m.Kind == format.Bins {
		b.bins(m, z, finite)
		return
	}
	z = b.node("Where", []string{finite, z, b.constantOf(float64Type, nil, []float64{0})})
	if m.Kind == format.Products {
		b.products(z, p)
		return
	}
	transposed := make([]float64, len(m.Frequencies))
	for j := range m.Count {
		for f := range p {
			transposed[f*m.Count+j] = m.Frequencies[j*p+f]
		}
	}
	angle := b.node("MatMul", []string{z, b.constantOf(float64Type, []int{p, m.Count}, transposed)})
	quarter := make([]float64, m.Count) // cos x = sin(x + π/2): not every runtime has cosines of doubles
	for j, phase := range m.Phases {
		quarter[j] = phase + math.Pi/2
	}
	cosines := b.node("Sin",
		[]string{b.node("Add", []string{angle, b.constantOf(float64Type, []int{1, m.Count}, quarter)})})
	// An event without any of the numbers has no columns.
	present := b.node("ReduceMax", []string{b.cast(finite, float64Type)}, intsAttribute("axes", []int64{1}),
		intAttribute("keepdims", 1))
	weights := make([]float64, len(b.c.MapWeights))
	for i, w := range b.c.MapWeights {
		weights[i] = w * m.Amplitude()
	}
	b.mapPart(b.mul(cosines, present), m.Count, weights)
}

// bins adds the weight of each field's bin: that of the lowest one, and at each edge that the number has reached the
// difference to the next.
func (b *builder) bins(m *format.FeatureMap, z, finite string) {
	p, edges, outputs := len(m.Scaling), m.Count-1, b.c.NumOutputs
	z = b.node("Where", []string{finite, z, b.constantOf(float64Type, nil, []float64{math.Inf(-1)})})
	below := b.node("Less",
		[]string{b.node("Unsqueeze", []string{z, b.axes(2)}), b.constantOf(float64Type, []int{1, p, edges}, m.Edges)})
	reached := b.node("Reshape",
		[]string{b.cast(b.node("Not", []string{below}), float64Type), b.axes(-1, int64(p*edges))})
	lowest, steps := make([]float64, 0, p*outputs), make([]float64, 0, p*edges*outputs)
	for f := range p {
		rows := b.c.MapWeights[f*m.Count*outputs : (f+1)*m.Count*outputs]
		lowest = append(lowest, rows[:outputs]...)
		for i, w := range rows[outputs:] {
			steps = append(steps, w-rows[i])
		}
	}
	b.mapPart(b.cast(finite, float64Type), p, lowest)
	b.mapPart(reached, p*edges, steps)
}

// products adds the weights of the numbers and of their products.
func (b *builder) products(z string, p int) {
	var left, right []int64
	for i := range p {
		for j := range i + 1 {
			left, right = append(left, int64(i)), append(right, int64(j))
		}
	}
	outputs := b.c.NumOutputs
	b.mapPart(z, p, b.c.MapWeights[:p*outputs])
	column := func(of []int64) string { return b.node("Gather", []string{z, b.axes(of...)}, intAttribute("axis", 1)) }
	b.mapPart(b.node("Mul", []string{column(left), column(right)}), len(left), b.c.MapWeights[p*outputs:])
}

// mapPart adds columns of doubles times their weights to the linear term.
func (b *builder) mapPart(columns string, rows int, weights []float64) {
	if b.real != float64Type {
		columns = b.cast(columns, b.real)
	}
	b.linear = append(b.linear,
		b.node("MatMul", []string{columns, b.constant([]int{rows, b.c.NumOutputs}, weights...)}))
}
