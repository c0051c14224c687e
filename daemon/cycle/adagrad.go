package cycle

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
)

// The settings of AdaGrad that run side by side: steps, how fast the accumulated squares of gradients fade, and steps of the bias, which are not
// adapted: a fast bias follows autocorrelated labels.
var (
	adagradSteps     = []float64{0.03, 0.1, 0.3}
	adagradFades     = []float64{1, 0.999}
	adagradBiasSteps = []float64{0.1, 1}
)

const (
	maxProducts     = 300 // of pairs of numbers; with more there are none
	productReach    = 10.0
	maxRecent       = 10      // outputs: recent labels of many classes say little each
	adagradNames    = 1 << 20 // weights of names in all
	numericBiasStep = 0.1     // of bias steps, for numbers: their loss is curved more
	leastSquare     = 1e-8
	heaviest        = 10.0 // weight of an event
)

// recentFades are the rates at which the labels of the events so far fade in the features that recent labels are.
var recentFades = []float64{0, 0.5, 0.8, 0.95}

// adagradLearner is linear in the numbers of events and in their products or in recent labels, and in names, and moves weights by steps that adapt to each
// input (Duchi, Hazan and Singer 2011; the squares of an input's gradients are those of all outputs). What it predicts is the mean output of its
// experts, weighted by recent loss.
type adagradLearner struct {
	schema   *event.Schema
	numbers  *numberScale
	outputsN int
	products bool
	recent   []float64 // rates × outputs, nil without
	judge    residuals
	scaled   bool // a number, in units of the label
	slots    *slots

	inputs    []float64
	rows      []int32 // slots of the names of the event
	rowValue  []float64
	experts   experts
	each      []adagradExpert
	outputsOf [][]float64
	mixed     []float64
	residual  []float64
	target    []float64
	rate      []float64
	named     [][]float64 // by slot: for each expert the sum of squares and m weights
}

type adagradExpert struct {
	step, fade, biasStep float64
	bias                 []float64 // m
	weights              []float64 // m × inputs
	squares              []float64 // inputs
}

// newAdagradLearner returns a learner on products of numbers, or on recent labels.
func newAdagradLearner(n *numberScale, schema *event.Schema, t *Target, limit int, recent bool) *adagradLearner {
	outputs, d := 1, len(n.z)
	if !t.IsNumeric() {
		outputs = t.Outputs()
	}
	l := &adagradLearner{schema: schema, numbers: n, outputsN: outputs, judge: newResiduals(t), scaled: t.IsNumeric()}
	inputs := d
	if recent {
		l.recent = make([]float64, len(recentFades)*outputs)
		inputs += len(l.recent)
	} else {
		inputs = adagradInputs(d, outputs)
		l.products = inputs > d
	}
	for _, step := range adagradSteps {
		for _, fade := range adagradFades {
			for _, bias := range adagradBiasSteps {
				if l.scaled {
					bias *= numericBiasStep
				}
				l.each = append(l.each, adagradExpert{step: step, fade: fade, biasStep: bias, bias: make([]float64, outputs),
					weights: make([]float64, inputs*outputs), squares: make([]float64, inputs)})
				l.outputsOf = append(l.outputsOf, make([]float64, outputs))
			}
		}
	}
	l.slots = newSlots(min(limit, adagradNames/(len(l.each)*(outputs+1))))
	l.experts = newExperts(len(l.each))
	l.inputs, l.rate = make([]float64, inputs), make([]float64, inputs)
	l.mixed, l.residual, l.target = make([]float64, outputs), make([]float64, outputs), make([]float64, outputs)
	return l
}

// adagradInputs returns how many inputs d numbers are, with their products if these are not too many.
func adagradInputs(d, outputs int) int {
	products := d * (d + 1) / 2
	if products > maxProducts || (d+products)*outputs > maxAdagradWeights {
		return d
	}
	return d + products
}

func (l *adagradLearner) gather(ev *event.Event) {
	at := copy(l.inputs, l.numbers.z)
	at += copy(l.inputs[at:], l.recent)
	if l.products {
		for i, x := range l.numbers.z {
			for j, y := range l.numbers.z[:i+1] {
				v := x * y
				if i == j {
					v = (v - 1) / math.Sqrt2 // of mean 0 and deviation 1 if x is normal
				}
				l.inputs[at] = min(max(v, -productReach), productReach)
				at++
			}
		}
	}
	l.rows, l.rowValue = l.rows[:0], l.rowValue[:0]
	l.eachName(ev, func(field int, name string, value float64) {
		l.rows, l.rowValue = append(l.rows, l.slots.find(field, name)), append(l.rowValue, value)
	})
	l.experts.weigh()
	clear(l.mixed)
	for e := range l.each {
		x, out := &l.each[e], l.outputsOf[e]
		for c := range out {
			out[c] = x.bias[c] + floats.Dot(x.weights[c*len(l.inputs):(c+1)*len(l.inputs)], l.inputs)
		}
		for i, at := range l.rows {
			if at >= 0 {
				floats.AddScaled(out, l.rowValue[i], l.row(at, e)[1:])
			}
		}
		floats.AddScaled(l.mixed, l.experts.weights[e], out)
	}
}

// eachName calls yield for the names of an event.
func (l *adagradLearner) eachName(ev *event.Event, yield func(field int, name string, value float64)) {
	for f, name := range ev.Categorical {
		if name != "" { // absent
			yield(f, name, 1)
		}
	}
	for f, names := range ev.Multi {
		for _, name := range names {
			yield(len(ev.Categorical)+f, name, snapshot.MultiValue(l.schema.MultiWeights, f, len(names)))
		}
	}
}

// row is what expert e keeps of a name: a sum of squares, then m weights.
func (l *adagradLearner) row(at int32, e int) []float64 {
	return l.named[at][e*(l.outputsN+1) : (e+1)*(l.outputsN+1)]
}

func (l *adagradLearner) outputs(dst []float64, ev *event.Event) {
	l.gather(ev)
	copy(dst, l.mixed)
	l.numbers.unscale(dst, l.scaled)
}

func (l *adagradLearner) learn(ev *event.Event, targets []float64, weight float64) {
	l.learnPart(ev, targets, weight, nil)
}

func (l *adagradLearner) learnPart(ev *event.Event, targets []float64, weight float64, counts *counted) {
	weight = min(weight, heaviest)
	copy(l.target, targets)
	l.numbers.scale(l.target, l.scaled)
	i, shared := 0, counts.isShared()
	eachPlace(ev, func(place, field int, name string) {
		if last := l.rows[i]; counts.holds(place) {
			l.rows[i] = -1
		} else {
			l.rows[i] = l.claim(last, field, name)
		}
		i++
	})
	for e := range l.each {
		loss, _ := l.judge.of(l.residual, l.outputsOf[e], l.target)
		if shared {
			l.experts.add(e, loss)
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
func (l *adagradLearner) claim(last int32, field int, name string) int32 {
	at, fresh := l.slots.touch(last, field, name)
	for int(at) >= len(l.named) {
		l.named = append(l.named, make([]float64, len(l.each)*(l.outputsN+1)))
	}
	if fresh {
		clear(l.named[at])
	}
	return at
}

// step moves one expert along its residual: weights of names, and if they are shared the others. An expert whose outputs are not finite starts again from
// zero.
func (l *adagradLearner) step(e int, weight float64, shared bool) {
	x := &l.each[e]
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
		row, v := l.row(at, e), l.rowValue[i]
		row[0] = x.fade*row[0] + size*v*v
		floats.AddScaled(row[1:], x.step*weight*v/math.Sqrt(row[0]+leastSquare), l.residual)
	}
}

// stepShared is step of what is no name's, with the square of the gradient in the output.
func (l *adagradLearner) stepShared(x *adagradExpert, size, weight float64) {
	for i, v := range l.inputs {
		x.squares[i] = x.fade*x.squares[i] + size*v*v
		l.rate[i] = x.step * weight * v / math.Sqrt(x.squares[i]+leastSquare)
	}
	for c, r := range l.residual {
		x.bias[c] += x.biasStep * weight * r
		floats.AddScaled(x.weights[c*len(l.inputs):(c+1)*len(l.inputs)], r, l.rate)
	}
}

// remember takes up the label in what recent labels are.
func (l *adagradLearner) remember() {
	if l.recent == nil {
		return
	}
	for i, fade := range recentFades {
		for c, t := range l.target {
			if !l.scaled && t <= 0 {
				t = -1 / float64(max(1, l.outputsN-1))
			}
			at := i*l.outputsN + c
			l.recent[at] = fade*l.recent[at] + (1-fade)*t
		}
	}
}
