package experts

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
	"gonum.org/v1/gonum/floats"
)

// The settings of AdaGrad that run side by side: steps, how fast the accumulated squares of gradients fade, and steps
// of the bias, which are not adapted: a fast bias follows autocorrelated labels. Chosen by hand.
var (
	adagradSteps     = []float64{0.03, 0.1, 0.3}
	adagradFades     = []float64{1, 0.999}
	adagradBiasSteps = []float64{0.1, 1}
)

// Bounds and steps of AdaGrad. All are chosen by hand.
const (
	maxProducts     = 300 // of pairs of numbers; with more, products are left out
	productReach    = 10.0
	maxRecent       = 10      // outputs: recent labels of many classes say little each
	adagradNames    = 1 << 20 // weights of names in all
	numericBiasStep = 0.1     // of bias steps, for numbers: their loss is curved more
	LeastSquare     = 1e-8
	heaviest        = 10.0 // weight of an event
)

// recentFades are the rates at which the labels of the events so far fade in the features that recent labels are.
// Chosen by hand.
var recentFades = []float64{0, 0.5, 0.8, 0.95}

// AdaGrad is linear in the numbers of events and in their products or in recent labels, and in names, and moves weights
// by steps that adapt to each input (Duchi, Hazan and Singer 2011; the squares of an input's gradients are those of all
// outputs). What it predicts is the mean output of its experts, weighted by recent loss.
type AdaGrad struct {
	schema   *event.Schema
	Numbers  *encode.NumberScale
	outputsN int         // m: 1 for numbers, else one for each class or label
	products bool        // inputs have the products of numbers
	recent   []float64   // rates × outputs, nil without
	judge    residuals   // loss and residual of outputs, and the scale of what numbers are missed by
	scaled   bool        // a number, in units of the label
	Slots    *rows.Slots // of names; of bounded number

	inputs    []float64 // of the event in hand: numbers, then recent labels or products
	rows      []int32   // slots of the names of the event
	RowValue  []float64
	experts   Weights // recent losses of Each, and the weights that follow
	Each      []adagradExpert
	OutputsOf [][]float64
	mixed     []float64 // m, the mean output by the weights
	residual  []float64 // m, the negative gradient of the loss in the outputs
	target    []float64
	rate      []float64   // per input, scratch: step times value over the root of its squares
	named     [][]float64 // by slot: for each expert the sum of squares and m weights
}

type adagradExpert struct {
	Step, Fade, BiasStep float64
	bias                 []float64 // m
	weights              []float64 // m × inputs
	squares              []float64 // fading sums of squared gradients, inputs
}

// NewAdaGrad returns a learner on products of numbers, or on recent labels.
func NewAdaGrad(n *encode.NumberScale, schema *event.Schema, t *encode.Target, limit int, recent bool) *AdaGrad {
	d := len(n.Z)
	l := newAdaGrad(n, schema, t)
	inputs := d
	if recent {
		l.recent = make([]float64, len(recentFades)*l.outputsN)
		inputs += len(l.recent)
	} else {
		inputs = adaGradInputs(d, l.outputsN)
		l.products = inputs > d
	}
	for _, step := range adagradSteps {
		for _, fade := range adagradFades {
			for _, bias := range adagradBiasSteps {
				if l.scaled {
					bias *= numericBiasStep
				}
				l.Each = append(l.Each, adagradExpert{Step: step, Fade: fade, BiasStep: bias})
			}
		}
	}
	l.allocate(inputs, limit)
	return l
}

// newAdaGrad returns a learner without settings and inputs.
func newAdaGrad(n *encode.NumberScale, schema *event.Schema, t *encode.Target) *AdaGrad {
	outputs := 1
	if !t.IsNumeric() {
		outputs = t.Outputs()
	}
	return &AdaGrad{schema: schema, Numbers: n, outputsN: outputs, judge: newResiduals(t), scaled: t.IsNumeric()}
}

// allocate makes room for the settings of Each, for so many inputs and for at most limit names.
func (l *AdaGrad) allocate(inputs, limit int) {
	outputs := l.outputsN
	for e := range l.Each {
		x := &l.Each[e]
		x.bias, x.weights = make([]float64, outputs), make([]float64, inputs*outputs)
		x.squares = make([]float64, inputs)
		l.OutputsOf = append(l.OutputsOf, make([]float64, outputs))
	}
	// A name takes a row for each expert: many classes have fewer names.
	l.Slots = rows.NewSlots(min(limit, adagradNames/(len(l.Each)*(outputs+1))))
	l.experts = NewWeights(len(l.Each))
	l.inputs, l.rate = make([]float64, inputs), make([]float64, inputs)
	l.mixed, l.residual, l.target = make([]float64, outputs), make([]float64, outputs), make([]float64, outputs)
}

// adaGradInputs returns how many inputs d numbers are, with their products if these are not too many.
func adaGradInputs(d, outputs int) int {
	products := d * (d + 1) / 2
	if products > maxProducts || (d+products)*outputs > maxAdagradWeights {
		return d
	}
	return d + products
}

func (l *AdaGrad) Gather(ev *event.Event) {
	at := copy(l.inputs, l.Numbers.Z)
	at += copy(l.inputs[at:], l.recent)
	if l.products {
		for i, x := range l.Numbers.Z {
			for j, y := range l.Numbers.Z[:i+1] {
				v := x * y
				if i == j {
					v = (v - 1) / math.Sqrt2 // of mean 0 and deviation 1 if x is normal
				}
				l.inputs[at] = min(max(v, -productReach), productReach)
				at++
			}
		}
	}
	l.rows, l.RowValue = l.rows[:0], l.RowValue[:0]
	eachName(l.schema, ev, func(field int, name string, value float64) {
		l.rows, l.RowValue = append(l.rows, l.Slots.Find(field, name)), append(l.RowValue, value)
	})
	l.experts.Weigh()
	clear(l.mixed)
	for e := range l.Each {
		x, out := &l.Each[e], l.OutputsOf[e]
		for c := range out {
			out[c] = x.bias[c] + floats.Dot(x.weights[c*len(l.inputs):(c+1)*len(l.inputs)], l.inputs)
		}
		for i, at := range l.rows {
			if at >= 0 {
				floats.AddScaled(out, l.RowValue[i], l.Row(at, e)[1:])
			}
		}
		floats.AddScaled(l.mixed, l.experts.Weights[e], out)
	}
}

// eachName calls yield for the names of an event, with their values.
func eachName(schema *event.Schema, ev *event.Event, yield func(field int, name string, value float64)) {
	for f, name := range ev.Categorical {
		if name != "" { // absent
			yield(f, name, 1)
		}
	}
	for f, names := range ev.Multi {
		for _, name := range names {
			yield(len(ev.Categorical)+f, name, format.MultiValue(schema.MultiWeights, f, len(names)))
		}
	}
}

// Row is what expert e keeps of a name: a sum of squares, then m weights.
func (l *AdaGrad) Row(at int32, e int) []float64 {
	return l.named[at][e*(l.outputsN+1) : (e+1)*(l.outputsN+1)]
}

func (l *AdaGrad) Outputs(dst []float64, ev *event.Event) {
	l.Gather(ev)
	copy(dst, l.mixed)
	l.Numbers.Unscale(dst, l.scaled)
}

func (l *AdaGrad) Learn(ev *event.Event, targets []float64, weight float64) {
	l.learnPart(ev, targets, weight, nil)
}

func (l *AdaGrad) learnPart(ev *event.Event, targets []float64, weight float64, counts *rows.Counted) {
	weight = min(weight, heaviest)
	copy(l.target, targets)
	l.Numbers.Scale(l.target, l.scaled)
	i, shared := 0, counts.IsShared()
	rows.EachPlace(ev, func(place, field int, name string) {
		if last := l.rows[i]; counts.Holds(place) {
			l.rows[i] = -1
		} else {
			l.rows[i] = l.claim(last, field, name)
		}
		i++
	})
	for e := range l.Each {
		loss, _ := l.judge.of(l.residual, l.OutputsOf[e], l.target)
		if shared {
			l.experts.Add(e, loss)
		}
		l.step(e, weight, shared)
	}
	if !shared {
		return
	}
	l.judge.of(l.residual, l.mixed, l.target)
	l.judge.add(l.residual[0])
	l.remember()
}

// claim returns the slot of a name, cleared if it is new to it. last is where gather saw it, or -1.
func (l *AdaGrad) claim(last int32, field int, name string) int32 {
	at, fresh := l.Slots.Touch(last, field, name)
	for int(at) >= len(l.named) {
		l.named = append(l.named, make([]float64, len(l.Each)*(l.outputsN+1)))
	}
	if fresh {
		clear(l.named[at])
	}
	return at
}

// step moves one expert along its residual: weights of names, and if they are shared the others. An expert whose
// outputs are not finite starts again from zero.
func (l *AdaGrad) step(e int, weight float64, shared bool) {
	x := &l.Each[e]
	// ‖gradient in the outputs‖²: the square of an input's gradient, over all outputs, is that times the input's.
	size := weight * weight * floats.Dot(l.residual, l.residual)
	if math.IsNaN(size) || math.IsInf(size, 0) {
		clear(x.bias)
		clear(x.weights)
		clear(x.squares)
		for _, row := range l.named {
			clear(row[e*(l.outputsN+1) : (e+1)*(l.outputsN+1)])
		}
		return
	}
	if shared {
		l.stepShared(x, size, weight)
	}
	for i, at := range l.rows {
		if at < 0 {
			continue
		}
		row, v := l.Row(at, e), l.RowValue[i]
		// AdaGrad with fading (as RMSProp for fade < 1): step/√(Σ fade^age·g²). The event counts before its own step,
		// which is then at most Step.
		row[0] = x.Fade*row[0] + size*v*v
		floats.AddScaled(row[1:], x.Step*weight*v/math.Sqrt(row[0]+LeastSquare), l.residual)
	}
}

// stepShared is step of what is no name's, with the square of the gradient in the output.
func (l *AdaGrad) stepShared(x *adagradExpert, size, weight float64) {
	for i, v := range l.inputs {
		x.squares[i] = x.Fade*x.squares[i] + size*v*v
		l.rate[i] = x.Step * weight * v / math.Sqrt(x.squares[i]+LeastSquare)
	}
	for c, r := range l.residual {
		x.bias[c] += x.BiasStep * weight * r
		floats.AddScaled(x.weights[c*len(l.inputs):(c+1)*len(l.inputs)], r, l.rate)
	}
}

// Correct takes the difference of the steps that the two labels make, with the present rates, as far as the steps since
// have left of them.
func (l *AdaGrad) Correct(of *admission.Correction) {
	l.Gather(of.Is)
	weight := min(of.Is.Weight, heaviest)
	l.Numbers.Scale(of.From, l.scaled)
	l.Numbers.Scale(of.To, l.scaled)
	l.judge.correction(l.residual, of.From, of.To)
	curvature := mostCurved
	if l.scaled {
		curvature = 1
	}
	for e := range l.Each {
		x := &l.Each[e]
		if of.Counts.IsShared() {
			floats.AddScaled(x.bias, x.BiasStep*weight*admission.Remains(x.BiasStep, curvature, of.Since), l.residual)
			inputs := l.inputs
			if clear(l.rate); l.recent != nil {
				inputs = inputs[:len(l.Numbers.Z)] // recent labels are not those of then
			}
			for i, v := range inputs {
				rate := x.Step / math.Sqrt(x.squares[i]+LeastSquare)
				l.rate[i] = rate * weight * v * admission.Remains(rate, curvature, of.Since)
			}
			for c, r := range l.residual {
				floats.AddScaled(x.weights[c*len(l.inputs):(c+1)*len(l.inputs)], r, l.rate)
			}
		}
		i := 0
		rows.EachPlace(of.Is, func(place, _ int, _ string) {
			if at := l.rows[i]; at >= 0 && !of.Counts.Holds(place) {
				row, v := l.Row(at, e), l.RowValue[i]
				rate := x.Step / math.Sqrt(row[0]+LeastSquare)
				floats.AddScaled(row[1:], rate*weight*v*admission.Remains(rate, curvature, of.Ages[place]), l.residual)
			}
			i++
		})
	}
	if of.Counts.IsShared() && l.recent != nil {
		l.remembered(of)
	}
}

// remembered corrects what recent labels are.
func (l *AdaGrad) remembered(of *admission.Correction) {
	for i, fade := range recentFades {
		for c := range l.target {
			// Each is a fading mean of labels: the corrected one still counts (1 − fade)·fade^age of it.
			l.recent[i*l.outputsN+c] += (1 - fade) * admission.Fades(fade, of.Since) *
				(l.recentOf(of.To[c]) - l.recentOf(of.From[c]))
		}
	}
}

// recentOf returns a target as recent labels have it.
func (l *AdaGrad) recentOf(target float64) float64 {
	if !l.scaled && target <= 0 {
		// So that the labels of one event add up to 0 over the classes: an input of mean 0 where classes are equally
		// frequent.
		return -1 / float64(max(1, l.outputsN-1))
	}
	return target
}

// remember takes up the label in what recent labels are.
func (l *AdaGrad) remember() {
	if l.recent == nil {
		return
	}
	for i, fade := range recentFades {
		for c, t := range l.target {
			at := i*l.outputsN + c
			l.recent[at] = fade*l.recent[at] + (1-fade)*l.recentOf(t)
		}
	}
}
