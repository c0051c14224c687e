package scorer

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/foldrow"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
)

// folding is the working memory of fold-in.
type folding struct {
	scratch  Scratch
	rest     []float64           // m: the outputs without the row
	outputs  []float64           // m
	target   []float64           // m
	gradient []float64           // M×K: of the outputs by the coordinates
	omega    []float64           // M: curvature of the quadratics that stand for the likelihood
	right    []float64           // M: their linear terms, at the outputs without the row
	mixed    []float64           // q: mean of the rates' means
	mean     []float64           // q: of one rate
	fresh    []float64           // what the quadratic adds to the evidence of a rate
	keep     []rowmath.RateLanes // per block of rates, their rates
	solver   foldrow.RowSolver
	factorOf *foldrow.FoldedRow // whose factor, of the middle rate, the solver holds
	few      foldrow.FewEvents
}

var foldings = sync.Pool{New: func() any { return new(folding) }}

// shapeOf returns the shape of rows of a field.
func (m *Model) shapeOf(d *format.FoldInField) foldrow.RowShape {
	c := &m.contents
	linear := c.FoldIn.NumLinear(c.NumOutputs)
	return foldrow.RowShape{
		Outputs:     c.NumOutputs,
		Vectors:     c.NumBasis,
		Linear:      linear,
		Coordinates: len(d.Precision) - linear,
		Rates:       len(d.Rates),
	}
}

func (f *folding) reset(h foldrow.RowShape, rates []float64) {
	f.solver.Reset(h)
	f.factorOf, f.few.Row = nil, nil
	f.keep = rowmath.Resized(f.keep, h.Blocks())
	clear(f.keep)
	for g, rate := range rates {
		f.keep[g/rowmath.LaneCount][g%rowmath.LaneCount] = rate
	}
	for _, part := range []struct {
		to *[]float64
		n  int
	}{{&f.rest, h.Outputs}, {&f.outputs, h.Outputs}, {&f.target, h.Outputs}, {&f.gradient, h.Linear * h.Coordinates},
		{&f.omega, h.Linear},
		{&f.right, h.Linear}, {&f.mixed, h.Size()}, {&f.mean, h.Size()}, {&f.fresh, h.EvidenceSize()}} {
		*part.to = rowmath.Resized(*part.to, part.n)
	}
}

// begin makes a row the prior of an entity: around the row that the model has of it, in column j, or around 0 for j <
// 0.
func (m *Model) begin(row *foldrow.FoldedRow, d *format.FoldInField, h *foldrow.RowShape, j int) {
	clear(row.Numbers)
	clear(row.Packed)
	if j < 0 {
		return
	}
	c := &m.contents
	if c.Linear != nil {
		copy(row.Center[:h.Linear], m.linearRow(j))
	}
	basis := m.basisRow(j)
	for v, r := range c.FoldIn.Coordinates {
		if s := d.Signs[v]; s != 0 { // the same by every vector of the coordinate
			row.Center[h.Linear+r] = basis[v] / (float64(s) * c.FoldIn.Scale[v])
		}
	}
	for i := range row.Mean {
		v := row.Center[i%h.Size()]
		row.Mean[i] = rowmath.RateLanes{v, v, v}
	}
}

// learn folds an event into the row of its entity: f.target has its targets. The bound of a logistic likelihood is
// taken where the event finds the row. Of one that the row of the model holds already the curvature counts alone.
func (f *folding) learn(m *Model, d *format.FoldInField, row *foldrow.FoldedRow, in *format.Input, field int,
	weight float64, held bool) {
	h := &f.solver.Shape
	m.encode(in, &f.scratch)
	column := m.columnOf(field, in)
	f.scratch.drop(column)
	m.outputs(f.rest, &f.scratch)
	f.slopes(m, d)
	few := f.few.Holds(row, h)
	if few {
		f.few.Meet(f.gradient, d.Precision, h)
	} else if f.few.Row == row {
		f.few.Row = nil
	}
	f.mix(d, row)
	f.predict(f.mixed)
	f.observe(m, d, row, weight)
	if held && column >= 0 {
		f.hold(row)
	} else {
		f.judge(m, row)
	}
	f.accumulate(row)
	if few && f.few.Learn(f.omega, f.right, row.Center, f.keep, h) && f.solveFew(d, row) {
		return
	}
	middle, _ := h.Middle()
	for b := range f.keep {
		if b != middle {
			mean, e := row.Block(b, h)
			f.solver.Solve(mean, e, d.Precision, row.Center)
		}
	}
	f.solveMiddle(d, row)
}

// hold has the quadratic say what the center of the row says, which stays where it is.
func (f *folding) hold(row *foldrow.FoldedRow) {
	h := &f.solver.Shape
	k := h.Coordinates
	for o, w := range f.omega {
		f.right[o] = w * (row.Center[o] + rowmath.Dot(f.gradient[o*k:o*k+k], row.Center[h.Linear:]))
	}
}

// judge adds the losses of the rates on the event to those of the entity.
func (f *folding) judge(m *Model, row *foldrow.FoldedRow) {
	h := &f.solver.Shape
	for g := range h.Rates {
		mean, _ := row.Block(g/rowmath.LaneCount, h)
		for a := range f.mean {
			f.mean[a] = mean[a][g%rowmath.LaneCount]
		}
		f.predict(f.mean)
		loss := f.rateLoss(m)
		if !(loss < foldrow.RateLossMax) {
			loss = foldrow.RateLossMax
		}
		row.Loss[g] = foldrow.EntityLossFade*row.Loss[g] + loss
	}
}

// solveFew stores the means of all rates by the events, those last among which there is the rate whose variance counts.
// It reports false if it cannot.
func (f *folding) solveFew(d *format.FoldInField, row *foldrow.FoldedRow) bool {
	h := &f.solver.Shape
	middle, _ := h.Middle()
	for n := range f.keep {
		b := (middle + 1 + n) % len(f.keep)
		mean, _ := row.Block(b, h)
		if !f.few.Solve(mean, b, d.Precision, row.Center, h) {
			return false
		}
	}
	return true
}

// solveMiddle solves the rates among which there is the one whose variance counts, and leaves its factor.
func (f *folding) solveMiddle(d *format.FoldInField, row *foldrow.FoldedRow) {
	b, _ := f.solver.Shape.Middle()
	mean, e := row.Block(b, &f.solver.Shape)
	f.solver.Solve(mean, e, d.Precision, row.Center)
	f.factorOf = row
}

// slopes stores the gradient of the outputs by the coordinates, from the sums over the other columns that outputs has
// left.
func (f *folding) slopes(m *Model, d *format.FoldInField) {
	c, h := &m.contents, &f.solver.Shape
	clear(f.gradient)
	if h.Coordinates == 0 || c.NumBasis == 0 {
		return
	}
	factor := 1.0
	if c.Kernel == format.Homogeneous {
		factor = 2
	}
	for v, r := range c.FoldIn.Coordinates {
		if d.Signs[v] == 0 {
			continue
		}
		s := factor * float64(d.Signs[v]) * c.FoldIn.Scale[v] * f.scratch.sum[v]
		for o, w := range c.Weights[v*c.NumOutputs : v*c.NumOutputs+h.Linear] {
			f.gradient[o*h.Coordinates+r] += w * s
		}
	}
}

// mix stores the mean of the rates' means by recent loss.
func (f *folding) mix(d *format.FoldInField, row *foldrow.FoldedRow) {
	least, total := math.Inf(1), 0.0
	for g, l := range row.Loss {
		least = min(least, d.Losses[g]+l)
	}
	clear(f.mixed)
	for g, l := range row.Loss {
		w := math.Exp(-0.5 * (d.Losses[g] + l - least))
		total += w
		mean, _ := row.Block(g/rowmath.LaneCount, &f.solver.Shape)
		for a := range f.mixed {
			f.mixed[a] += w * mean[a][g%rowmath.LaneCount]
		}
	}
	for a := range f.mixed {
		f.mixed[a] /= total
	}
}

// predict stores the outputs of the event with a row.
func (f *folding) predict(mean []float64) {
	h := &f.solver.Shape
	k := h.Coordinates
	z := 0.0
	for c := range f.outputs {
		if c < h.Linear {
			z = mean[c] + rowmath.Dot(f.gradient[c*k:c*k+k], mean[h.Linear:])
		}
		f.outputs[c] = f.rest[c] + z
	}
}

// observe stores the quadratic that approximates the log-likelihood of the event, whose outputs are at hand: −½ ω z²
// + right z for what the row adds to each of the M outputs.
func (f *folding) observe(m *Model, d *format.FoldInField, row *foldrow.FoldedRow, weight float64) {
	c, h := m.contents.FoldIn, &f.solver.Shape
	clear(f.omega)
	clear(f.right)
	variance := 0.0
	few := f.few.Row == row
	if c.Likelihood == format.LogisticLikelihood && f.factorOf != row && !few {
		f.solveMiddle(d, row)
	}
	top := 0.0
	if c.Likelihood == format.MultinomialLikelihood {
		top = rowmath.LogSumExp(f.outputs)
	}
	k := h.Coordinates
	for o, t := range f.target {
		at := min(o, h.Linear-1)
		switch c.Likelihood {
		case format.GaussianLikelihood:
			w := weight * c.Noise[at]
			f.omega[at] += w
			f.right[at] += w * (t - f.rest[o])
		case format.LogisticLikelihood:
			if block, lane := h.Middle(); o == at && few {
				variance = f.few.Variance(at, lane)
			} else if o == at {
				_, e := row.Block(block, h)
				variance = f.solver.Variance(at, lane, e, f.gradient[at*k:at*k+k])
			}
			w, slope := foldrow.LogisticQuadratic(t, f.outputs[o], variance, len(f.target) == 1)
			f.omega[at] += weight * w
			f.right[at] += weight * (slope + w*(f.outputs[o]-f.rest[o]))
		default:
			p := math.Exp(f.outputs[o] - top)
			w := foldrow.SoftmaxWeight(p, t)
			f.omega[at] += weight * w
			f.right[at] += weight * (t - p + w*(f.outputs[o]-f.rest[o]))
		}
	}
}

// accumulate adds the quadratic to the evidence of every rate, which keeps its share of what it had.
func (f *folding) accumulate(row *foldrow.FoldedRow) {
	h := &f.solver.Shape
	k := h.Coordinates
	clear(f.fresh)
	cross, basis := f.fresh[h.Linear:], f.fresh[h.Linear+h.Linear*k:]
	right := basis[k*(k+1)/2:]
	for o, w := range f.omega {
		g := f.gradient[o*k : o*k+k]
		f.fresh[o] = w
		right[o] = f.right[o]
		to, b := right[h.Linear:], basis
		for r, s := range g {
			cross[o*k+r] = w * s
			to[r] += f.right[o] * s
			v := w * s
			line := b[:r+1]
			for t, u := range g[:len(line)] {
				line[t] += v * u
			}
			b = b[r+1:]
		}
	}
	for b, keep := range f.keep {
		e := row.Evidence[b*len(f.fresh) : (b+1)*len(f.fresh)]
		for i, v := range f.fresh {
			x := &e[i]
			x[0] = keep[0]*x[0] + v
			x[1] = keep[1]*x[1] + v
			x[2] = keep[2]*x[2] + v
		}
	}
}

// rateLoss is the loss of the outputs at hand that decides between rates, on the scale of −2 log-likelihood.
func (f *folding) rateLoss(m *Model) float64 {
	c := m.contents.FoldIn
	total := 0.0
	switch c.Likelihood {
	case format.GaussianLikelihood:
		for o, t := range f.target {
			e := t - f.outputs[o]
			total += c.Noise[min(o, len(c.Noise)-1)] * e * e
		}
		return total / float64(len(f.target))
	case format.LogisticLikelihood:
		const most = 1e200
		odds := 0.0 // Π (1 + exp(−|z|)) − 1: one logarithm for many outputs
		for o, t := range f.target {
			z := -t * f.outputs[o]
			e := math.Exp(-math.Abs(z))
			total += max(z, 0)
			if odds += e + odds*e; odds > most {
				total, odds = total+math.Log1p(odds), 0
			}
		}
		total += math.Log1p(odds)
		return foldrow.LogitLossScale * total / float64(len(f.target))
	}
	for o, t := range f.target {
		total += t * f.outputs[o]
	}
	return foldrow.LogitLossScale * (rowmath.LogSumExp(f.outputs) - total)
}

// finish writes the mixed mean as a row of the model. It reports false if a number is not finite.
func (f *folding) finish(m *Model, d *format.FoldInField, row *foldrow.FoldedRow) bool {
	c, h := &m.contents, &f.solver.Shape
	f.mix(d, row)
	for o := range row.Linear {
		row.Linear[o] = f.mixed[min(o, h.Linear-1)]
	}
	for v, r := range c.FoldIn.Coordinates {
		row.Basis[v] = 0
		if s := d.Signs[v]; s != 0 {
			row.Basis[v] = float64(s) * c.FoldIn.Scale[v] * f.mixed[h.Linear+r]
		}
	}
	for _, v := range row.Packed {
		if !format.IsFinite(v[0] + v[1] + v[2]) {
			return false
		}
	}
	return !slices.ContainsFunc(row.Numbers, func(v float64) bool { return !format.IsFinite(v) })
}

// encodeTarget stores the targets of a label in dst (length m).
func (m *Model) encodeTarget(dst []float64, e *format.LabelledEvent) error {
	c, s := &m.contents, &m.contents.Schema
	if s.Task != format.Multiclass && s.Task != format.Multilabel && !format.IsFinite(e.Label) {
		return fmt.Errorf("%w: missing_label: the event has no number %q", disk.ErrInput, s.Label)
	}
	switch {
	case s.Task == format.Multiclass || s.Task == format.Multilabel:
		return m.encodeClasses(dst, e)
	case s.Task == format.Ordinal && (e.Label != math.Trunc(e.Label) || e.Label < 1 || e.Label > float64(s.Levels)):
		return fmt.Errorf("%w: label %q is %g, want a level from 1 to %d", disk.ErrInput, s.Label, e.Label, s.Levels)
	case s.Task == format.Binary && e.Label != 0 && e.Label != 1:
		return fmt.Errorf("%w: label %q is %g, want 0 or 1", disk.ErrInput, s.Label, e.Label)
	case c.Link == format.OrdinalLink:
		for o := range dst {
			dst[o] = -1
			if e.Label <= float64(o+1) {
				dst[o] = 1
			}
		}
	case c.Link == format.Logistic:
		dst[0] = 2*e.Label - 1
	default:
		dst[0] = e.Label
		if r := c.FoldIn.LabelRange; len(r) == 2 {
			dst[0] = min(max(e.Label, r[0]), r[1])
		}
	}
	return nil
}

// encodeClasses is encodeTarget of a label that is a class or several.
func (m *Model) encodeClasses(dst []float64, e *format.LabelledEvent) error {
	c, s := &m.contents, &m.contents.Schema
	if s.Task == format.Multiclass && len(e.Classes) != 1 {
		return fmt.Errorf("%w: missing_label: the event has %d classes %q, want one", disk.ErrInput, len(e.Classes), s.Label)
	}
	off := 0.0
	if c.Link == format.Logistic {
		off = -1
	}
	for o := range dst {
		dst[o] = off
	}
	for _, name := range e.Classes {
		at := slices.Index(s.Classes, name)
		if at < 0 {
			return fmt.Errorf("%w: label %q has %q, which is no class of the model", disk.ErrInput, s.Label, name)
		}
		dst[at] = 1
	}
	return nil
}
