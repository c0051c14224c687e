package export

import (
	"math"

	"github.com/refitd/refitd/snapshot/format"
)

// limited clips finite outputs to the output limit of the version, as format.Limit does.
func (b *builder) limited(outputs string) string {
	limit := b.c.Meta.OutputLimit
	if limit == nil || !(*limit > 0) {
		return outputs
	}
	finite := b.node("Less", []string{b.node("Abs", []string{outputs}), b.scalar(math.Inf(1))})
	clipped := b.node("Clip", []string{outputs, b.scalar(-float64(*limit)), b.scalar(float64(*limit))})
	return b.node("Where", []string{finite, clipped, outputs})
}

// link adds the prediction and, where the link has them, the probabilities, as scorer.Model.Predict computes them.
func (b *builder) link(outputs string) {
	s, m := &b.c.Schema, b.c.NumOutputs
	first := func() string { return b.node("Squeeze", []string{outputs, b.axes(1)}) }
	threshold := 0.0 // of an output, where its class is as likely as not; squared loss learns targets 0 and 1
	if b.c.Link == format.Identity {
		threshold = 0.5
	}
	likely := func() string { return b.node("Greater", []string{outputs, b.scalar(threshold)}) }
	switch s.Task {
	case format.Regression:
		b.result(first(), "prediction", b.real, "n")
	case format.Binary:
		b.result(b.cast(b.node("Squeeze", []string{likely(), b.axes(1)}), b.real), "prediction", b.real, "n")
		if b.c.Link == format.Logistic {
			both := b.node("Concat", []string{b.node("Neg", []string{outputs}), outputs}, intAttribute("axis", 1))
			b.result(b.node("Sigmoid", []string{both}), "probabilities", b.real, "n", 2)
		}
	case format.Ordinal:
		if b.c.Link == format.Identity {
			b.result(b.node("Clip", []string{first(), b.scalar(1), b.scalar(float64(s.Levels))}), "prediction", b.real,
				"n")
			return
		}
		b.ordinal(outputs)
	case format.Multiclass:
		best := b.node("ArgMax", []string{outputs}, intAttribute("axis", 1), intAttribute("keepdims", 0))
		b.result(b.node("Gather", []string{b.names(s.Classes), best}), "prediction", stringType, "n")
		if b.c.Link == format.Softmax {
			b.result(b.node("Softmax", []string{outputs}, intAttribute("axis", 1)), "probabilities", b.real, "n", m)
		}
	case format.Multilabel:
		b.result(likely(), "prediction", boolType, "n", m)
		if b.c.Link == format.Logistic {
			b.result(b.node("Sigmoid", []string{outputs}), "probabilities", b.real, "n", m)
		}
	}
}

// ordinal turns P(level ≤ c) = σ(o_c) into the expected level L − Σ_c σ(o_c) and the probability of each level.
func (b *builder) ordinal(outputs string) {
	levels := b.c.Schema.Levels
	below := b.node("Sigmoid", []string{outputs})
	total := b.node("ReduceSum", []string{below, b.axes(1)}, intAttribute("keepdims", 0))
	b.result(b.node("Sub", []string{b.scalar(float64(levels)), total}), "prediction", b.real, "n")
	column := b.node("Slice", []string{below, b.axes(0), b.axes(1), b.axes(1)})
	zero := b.mul(column, b.scalar(0))
	one := b.node("Add", []string{zero, b.scalar(1)})
	upper := b.node("Concat", []string{below, one}, intAttribute("axis", 1))
	lower := b.node("Concat", []string{zero, below}, intAttribute("axis", 1))
	b.result(b.node("Sub", []string{upper, lower}), "probabilities", b.real, "n", levels)
}
