package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// The step sizes that run side by side, for features and for the bias. The bias steps are larger: a fast bias follows autocorrelated
// labels. On electricity the mix of all pairs beat the best single pair.
var (
	gradientSteps = []float64{0.03, 0.1, 0.3}
	biasSteps     = []float64{0.1, 1, 3, 10}
)

// How the mix judges: losses fade at every event, and one event's loss is bounded so that an outlier does not decide.
const (
	gradientLossFade = 0.99
	gradientLossMax  = 4.0 // about −ln 0.02
)

// gradientLearner is the fold-in of models without a posterior: per-event gradient steps on output weights, linear weights and bias on
// top of the frozen basis. Every pair of steps is an expert with weights of its own; half of the experts stand on the champion and
// start again with it, half go on from refit to refit without a basis. Their mean output, weighted by recent loss, is the live output;
// a mean of linear weights is a linear weight, so the live model is an ordinary model.
type gradientLearner struct {
	schema   *event.Schema
	target   *Target
	champion *Champion
	slots    *slots
	experts  []expert
	scaling  scaling
	losses   []float64
	weights  []float64

	outputsOf [][]float64 // per expert
	base      []float64
	grad      []float64
	dense     []float64 // standardised numeric fields, then activations
	work      []float64
	phi       []float64 // columns of the champion's feature map
	index     []int32
	value     []float64
	rows      []int32
	rowValue  []float64
	labels    labelScale
}

// expert holds the weights of one pair of steps: for dense inputs (numeric fields, then the champion's activations) and for names.
type expert struct {
	step, biasStep float64
	onChampion     bool
	bias           []float64   // m
	dense          []float64   // inputs × m
	named          [][]float64 // per slot, m
}

func newGradientLearner(m *config.Model, schema *event.Schema, target *Target, champion *Champion, last *gradientLearner) *gradientLearner {
	outputs := target.Outputs()
	k := 0
	if champion != nil {
		k = champion.Model.NumBasis
	}
	inputs := len(schema.Numeric) + k
	l := &gradientLearner{
		schema: schema, target: target, champion: champion,
		slots: newSlots(m.Train.FoldIn.MaxRows),
		base:  make([]float64, outputs), grad: make([]float64, outputs), dense: make([]float64, inputs), work: make([]float64, 2*k),
	}
	l.scaling.reset(inputs)
	for _, onChampion := range []bool{true, false} {
		for _, step := range gradientSteps {
			for _, biasStep := range biasSteps {
				l.experts = append(l.experts, expert{step: step, biasStep: biasStep, onChampion: onChampion,
					bias: make([]float64, outputs), dense: make([]float64, inputs*outputs)})
				l.outputsOf = append(l.outputsOf, make([]float64, outputs))
			}
		}
	}
	l.losses, l.weights = make([]float64, len(l.experts)), make([]float64, len(l.experts))
	if last != nil && len(last.base) == outputs {
		l.carry(last)
	}
	return l
}

// carry takes over what does not depend on the champion: the scaling of numeric fields, the experts without a basis, and the names.
func (l *gradientLearner) carry(last *gradientLearner) {
	numeric := len(l.schema.Numeric)
	l.scaling.carry(&last.scaling, numeric)
	l.labels = last.labels
	l.slots = last.slots
	copy(l.losses, last.losses)
	for e := range l.experts {
		to, from := &l.experts[e], &last.experts[e]
		if to.onChampion {
			to.named = make([][]float64, len(from.named))
			continue
		}
		copy(to.bias, from.bias)
		copy(to.dense[:numeric*len(l.base)], from.dense[:numeric*len(l.base)])
		to.named = from.named
	}
}

// gather takes up an event: what every expert says of it, and how far each is believed.
func (l *gradientLearner) gather(ev *event.Event) {
	l.prepare(ev)
	l.predict()
}

// prepare stores the inputs of an event: base outputs, standardised inputs and the slots of its names.
func (l *gradientLearner) prepare(ev *event.Event) {
	clear(l.base)
	numeric := len(l.schema.Numeric)
	for f, v := range ev.Numeric {
		l.dense[f] = l.scaling.within(f, v)
		if l.champion != nil {
			l.dense[f] = within(&l.champion.Vocabulary.Numeric[f], v)
		}
	}
	if l.champion != nil {
		model := l.champion.Model
		l.index, l.value = l.champion.Vocabulary.Encode(l.index[:0], l.value[:0], ev)
		model.Predict(l.base, l.work, l.index, l.value)
		copy(l.dense[numeric:], l.work[:model.NumBasis])
		l.phi = l.champion.Vocabulary.addMapped(l.base, model, ev.Numeric, l.phi)
	}
	var fields []snapshot.NumericField
	if l.champion != nil {
		fields = l.champion.Vocabulary.Numeric
	}
	l.scaling.standardise(l.dense, fields)
	l.rows, l.rowValue = l.rows[:0], l.rowValue[:0]
	for f, name := range ev.Categorical {
		if name == "" { // absent
			continue
		}
		l.rows, l.rowValue = append(l.rows, l.slots.find(f, name)), append(l.rowValue, 1)
	}
	for f, names := range ev.Multi {
		for _, name := range names {
			l.rows = append(l.rows, l.slots.find(len(ev.Categorical)+f, name))
			l.rowValue = append(l.rowValue, snapshot.MultiValue(l.schema.MultiWeights, f, len(names)))
		}
	}
}

// predict stores every expert's outputs and the weights of the mix.
func (l *gradientLearner) predict() {
	m := len(l.base)
	for e := range l.experts {
		x, out := &l.experts[e], l.outputsOf[e]
		copy(out, x.bias)
		inputs := l.dense
		if x.onChampion {
			for c, b := range l.base {
				out[c] += b
			}
		} else {
			inputs = l.dense[:len(l.schema.Numeric)]
		}
		for i, v := range inputs {
			for c, w := range x.dense[i*m : i*m+m] {
				out[c] += w * v
			}
		}
		for i, at := range l.rows {
			if at < 0 || int(at) >= len(x.named) {
				continue
			}
			for c, w := range x.named[at] {
				out[c] += w * l.rowValue[i]
			}
		}
	}
	l.weigh()
}

// weigh sets the weights of the mix.
func (l *gradientLearner) weigh() {
	least := math.Inf(1)
	for _, v := range l.losses {
		least = min(least, v)
	}
	total := 0.0
	for e, v := range l.losses {
		l.weights[e] = math.Exp(least - v)
		total += l.weights[e]
	}
	for e := range l.weights {
		l.weights[e] /= total
	}
}

func (l *gradientLearner) outputs(dst []float64, ev *event.Event) {
	l.gather(ev)
	clear(dst)
	for e, w := range l.weights {
		for c, o := range l.outputsOf[e] {
			dst[c] += w * o
		}
	}
}

func (l *gradientLearner) learn(ev *event.Event, target []float64, weight float64) {
	l.learnPart(ev, target, weight, nil)
}

func (l *gradientLearner) learnPart(ev *event.Event, target []float64, weight float64, counts *counted) {
	at, shared := 0, counts.isShared()
	eachPlace(ev, func(place, field int, name string) {
		if last := l.rows[at]; counts.holds(place) {
			l.rows[at] = -1
		} else {
			l.rows[at] = l.claim(last, field, name)
		}
		at++
	})
	// Squared loss has an unbounded gradient: normalised steps (Nagumo and Noda 1967) keep it from diverging, and losses are compared
	// in units of the labels' variance.
	shrink, unit := 1.0, 1.0
	if l.target.Likelihood == posterior.Gaussian {
		shrink = 1 / (1 + floatsSquared(l.dense) + floatsSquared(l.rowValue))
		if shared {
			unit = l.labels.learn(target[0])
		}
	}
	for e := range l.experts {
		loss := l.target.Loss.Eval(l.grad, l.outputsOf[e], target)
		if shared {
			l.losses[e] = gradientLossFade*l.losses[e] + min(boundedError(loss/unit), gradientLossMax)
		}
		l.step(&l.experts[e], weight*shrink, shared)
	}
	if shared {
		l.scaling.learn()
	}
}

// claim returns the slot of a name, cleared if it is new to it. last is where prepare saw it, or -1.
func (l *gradientLearner) claim(last int32, field int, name string) int32 {
	at, fresh := l.slots.touch(last, field, name)
	for e := range l.experts {
		x := &l.experts[e]
		for int(at) >= len(x.named) {
			x.named = append(x.named, nil)
		}
		if x.named[at] == nil {
			x.named[at] = make([]float64, len(l.base))
		} else if fresh {
			clear(x.named[at])
		}
	}
	return at
}

// step moves one expert against the gradient: weights of names, and if they are shared the others. An expert whose weights stop being finite starts
// again from zero.
func (l *gradientLearner) step(x *expert, shrink float64, shared bool) {
	m := len(l.base)
	inputs := l.dense
	if !x.onChampion {
		inputs = l.dense[:len(l.schema.Numeric)]
	}
	finite := true
	biasStep := min(x.biasStep*shrink, maxBiasStep(l.target.Link == snapshot.Identity, shrink))
	if !shared {
		inputs, biasStep = nil, 0
	}
	for c, g := range l.grad {
		x.bias[c] -= biasStep * g
		finite = finite && !math.IsNaN(x.bias[c]) && !math.IsInf(x.bias[c], 0)
		s := x.step * shrink * g
		for i, v := range inputs {
			x.dense[i*m+c] -= s * v
		}
		for i, at := range l.rows {
			if at >= 0 {
				x.named[at][c] -= s * l.rowValue[i]
			}
		}
	}
	if !finite {
		clear(x.bias)
		clear(x.dense)
		for _, row := range x.named {
			clear(row)
		}
	}
}

// maxBiasStep keeps the bias of a squared or hinge loss from overshooting: its curvature is 1 and more, that of a logistic loss at most ¼.
func maxBiasStep(steep bool, shrink float64) float64 {
	if steep {
		return 0.5 * shrink
	}
	return math.Inf(1)
}

func floatsSquared(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x * x
	}
	return s
}

// model folds the mix into one model over the champion's vocabulary.
func (l *gradientLearner) model(int) (*solver.Model, *Vocabulary) {
	champion := l.champion.Model.Clone()
	v := l.champion.Vocabulary
	m := champion.NumOutputs
	l.weigh()
	share, numbers := l.shift(champion)
	for i := range champion.Linear {
		champion.Linear[i] *= share
	}
	if champion.Linear == nil {
		champion.Linear = make([]float64, champion.NumFeatures*m)
	}
	first := int(v.numNames())
	for i, w := range numbers {
		champion.Linear[first*m+i] += w
	}
	for f, names := range v.Names {
		for _, name := range names {
			at := l.slots.find(f, name)
			if at < 0 {
				continue
			}
			l.addNamed(champion.Linear[int(v.Column(f, name))*m:], at)
		}
	}
	return champion, v
}

// onChampion returns the share of the experts that stand on the champion, by the weights of the mix.
func (l *gradientLearner) onChampion() float64 {
	share := 0.0
	for e := range l.experts {
		if l.experts[e].onChampion {
			share += l.weights[e]
		}
	}
	return share
}

// shift makes bias, weights and weights on the feature map of the champion those of the mix. It returns the share by which linear weights of the champion
// count, and what is added to those of numeric fields (fields × m).
func (l *gradientLearner) shift(champion *solver.Model) (share float64, numbers []float64) {
	m, numeric := champion.NumOutputs, len(l.schema.Numeric)
	share = l.onChampion()
	bias, dense := make([]float64, m), make([]float64, len(l.dense)*m)
	for e := range l.experts {
		x, w := &l.experts[e], l.weights[e]
		for c, b := range x.bias {
			bias[c] += w * b
		}
		for i, d := range x.dense {
			if x.onChampion || i < numeric*m {
				dense[i] += w * d
			}
		}
	}
	for _, values := range [][]float64{champion.Bias, champion.Weights, champion.Map} {
		for i := range values {
			values[i] *= share
		}
	}
	fields := l.champion.Vocabulary.Numeric
	numbers = make([]float64, numeric*m)
	for i := range l.dense {
		mean, deviation := l.scaling.of(i)
		for c := range m {
			w := dense[i*m+c] / deviation
			bias[c] -= w * mean
			if i >= numeric {
				champion.Weights[(i-numeric)*m+c] += w
				continue
			}
			// value = center + scale·x
			bias[c] += w * fields[i].Center
			numbers[i*m+c] = w * fields[i].Scale
		}
	}
	for c := range m {
		champion.Bias[c] += bias[c]
	}
	return share, numbers
}

// addNamed adds the mix of the experts' weights of the name in a slot to dst.
func (l *gradientLearner) addNamed(dst []float64, at int32) {
	for e := range l.experts {
		if int(at) < len(l.experts[e].named) && l.experts[e].named[at] != nil {
			for c, w := range l.experts[e].named[at] {
				dst[c] += l.weights[e] * w
			}
		}
	}
}
