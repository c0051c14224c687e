package experts

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
)

// The step sizes that run side by side, for features and for the bias. The bias steps are larger: a fast bias follows
// autocorrelated labels. On electricity the mix of all pairs beat the best single pair. Tuned there.
var (
	gradientSteps = []float64{0.03, 0.1, maxStep}
	biasSteps     = []float64{0.1, 1, 3, 10}
)

// With a larger weight a step of squared loss overshoots. Derived from the largest step, which was tuned as the others.
const (
	maxStep       = 0.3
	mostOfAWeight = 1 / maxStep
)

// How the mix judges: losses fade at every event, and one event's loss is bounded so that an outlier does not decide.
// Chosen by hand.
const (
	gradientLossFade = 0.99
	gradientLossMax  = 4.0 // about −ln 0.02
)

// Gradient is the fold-in of models without a posterior: per-event gradient steps on output weights, linear weights and
// bias on top of the frozen basis. Every pair of steps is an expert with separate weights. Half of the experts are
// based on the champion and start again with it. The others have no basis and keep their weights over refits. Their
// mean output, weighted by recent loss, is the live output; a mean of linear weights is a linear weight, so the live
// model is an ordinary model.
type Gradient struct {
	schema   *event.Schema
	target   *encode.Target
	Champion *fitted.Fitted // nil before the first refit; read only
	Slots    *rows.Slots    // of names; it passes from each learner to the next
	experts  []expert       // first those on the champion, for each step and bias step, then as many without
	scaling  encode.Scaling // running mean and deviation of dense inputs
	// per expert, recent loss, fading by gradientLossFade; in nats, or in units of the labels' variance
	Losses  []float64
	Weights []float64 // per expert, of the mix: at least 0, with sum 1; set by Weigh

	// What follows is of the event in hand, from Gather to Learn.
	OutputsOf [][]float64 // per expert
	base      []float64   // m outputs of the champion
	grad      []float64   // m, of the loss in the outputs of one expert
	dense     []float64   // standardised numeric fields, then activations
	work      []float64   // activations of the champion's basis, and scratch of Predict
	phi       []float64   // columns of the champion's feature map
	index     []int32
	value     []float64
	rows      []int32           // per name of the event, its slot, −1 without one
	RowValue  []float64         // per name, its value: 1, or the weight in a list
	labels    encode.LabelScale // the scale that squared losses are compared on
}

// expert holds the weights of one pair of steps: for dense inputs (numeric fields, then the champion's activations) and
// for names.
type expert struct {
	step, biasStep float64
	onChampion     bool
	bias           []float64   // m
	dense          []float64   // inputs × m
	named          [][]float64 // per slot, m
}

func NewGradient(m *config.Model, schema *event.Schema, target *encode.Target, champion *fitted.Fitted,
	last *Gradient) *Gradient {
	outputs := target.Outputs()
	k := 0
	if champion != nil {
		k = champion.Model.NumBasis
	}
	inputs := len(schema.Numeric) + k
	l := &Gradient{
		schema: schema, target: target, Champion: champion,
		Slots: rows.NewSlots(m.Train.FoldIn.MaxRows),
		base: make([]float64,
			outputs), grad: make([]float64, outputs), dense: make([]float64, inputs), work: make([]float64, 2*k),
	}
	l.scaling.Reset(inputs)
	for _, onChampion := range []bool{true, false} {
		for _, step := range gradientSteps {
			for _, biasStep := range biasSteps {
				l.experts = append(l.experts, expert{step: step, biasStep: biasStep, onChampion: onChampion,
					bias: make([]float64, outputs), dense: make([]float64, inputs*outputs)})
				l.OutputsOf = append(l.OutputsOf, make([]float64, outputs))
			}
		}
	}
	l.Losses, l.Weights = make([]float64, len(l.experts)), make([]float64, len(l.experts))
	if last != nil && len(last.base) == outputs {
		l.carry(last)
	}
	return l
}

// carry takes over what does not depend on the champion: the scaling of numeric fields, the experts without a basis,
// and the names.
func (l *Gradient) carry(last *Gradient) {
	numeric := len(l.schema.Numeric)
	l.scaling.Carry(&last.scaling, numeric)
	l.labels = last.labels
	l.Slots = last.Slots
	copy(l.Losses, last.Losses)
	for e := range l.experts {
		to, from := &l.experts[e], &last.experts[e]
		// These have weights on top of another champion now: they begin at 0, and with them their names.
		if to.onChampion {
			to.named = make([][]float64, len(from.named))
			continue
		}
		copy(to.bias, from.bias)
		copy(to.dense[:numeric*len(l.base)], from.dense[:numeric*len(l.base)])
		to.named = from.named
	}
}

// Gather takes up an event: what every expert says of it, and how far each is believed.
func (l *Gradient) Gather(ev *event.Event) {
	l.prepare(ev)
	l.Predict()
}

// prepare stores the inputs of an event: base outputs, standardised inputs and the slots of its names.
func (l *Gradient) prepare(ev *event.Event) {
	clear(l.base)
	numeric := len(l.schema.Numeric)
	for f, v := range ev.Numeric {
		// Outliers are cut off at the range of the champion, as in what is published; before there is one, at a running
		// range.
		l.dense[f] = l.scaling.Within(f, v)
		if l.Champion != nil {
			l.dense[f] = encode.Within(&l.Champion.Vocabulary.Numeric[f], v)
		}
	}
	if l.Champion != nil {
		model := l.Champion.Model
		l.index, l.value = l.Champion.Vocabulary.Encode(l.index[:0], l.value[:0], ev)
		model.Predict(l.base, l.work, l.index, l.value)
		copy(l.dense[numeric:], l.work[:model.NumBasis])
		l.phi = l.Champion.Vocabulary.AddMapped(l.base, model, ev.Numeric, l.phi)
	}
	// Absent numbers (NaN) become 0, the mean, here; with a champion it knows their centers.
	var fields []format.NumericField
	if l.Champion != nil {
		fields = l.Champion.Vocabulary.Numeric
	}
	l.scaling.Standardise(l.dense, fields)
	l.rows, l.RowValue = l.rows[:0], l.RowValue[:0]
	for f, name := range ev.Categorical {
		if name == "" { // absent
			continue
		}
		l.rows, l.RowValue = append(l.rows, l.Slots.Find(f, name)), append(l.RowValue, 1)
	}
	for f, names := range ev.Multi {
		for _, name := range names {
			l.rows = append(l.rows, l.Slots.Find(len(ev.Categorical)+f, name))
			l.RowValue = append(l.RowValue, format.MultiValue(l.schema.MultiWeights, f, len(names)))
		}
	}
}

// Predict stores every expert's outputs and the weights of the mix.
func (l *Gradient) Predict() {
	m := len(l.base)
	for e := range l.experts {
		x, out := &l.experts[e], l.OutputsOf[e]
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
			// A name without a slot, or one claimed before this expert was made, has no weight.
			if at < 0 || int(at) >= len(x.named) {
				continue
			}
			for c, w := range x.named[at] {
				out[c] += w * l.RowValue[i]
			}
		}
	}
	l.Weigh()
}

// Weigh sets the weights of the mix.
func (l *Gradient) Weigh() {
	least := math.Inf(1)
	for _, v := range l.Losses {
		least = min(least, v)
	}
	total := 0.0
	for e, v := range l.Losses {
		// Exponential weights (Vovk 1990) relative to the best, so that none overflows: the loss fades, so the rate is
		// 1.
		l.Weights[e] = math.Exp(least - v)
		total += l.Weights[e]
	}
	for e := range l.Weights {
		l.Weights[e] /= total
	}
}

func (l *Gradient) Outputs(dst []float64, ev *event.Event) {
	l.Gather(ev)
	clear(dst)
	for e, w := range l.Weights {
		for c, o := range l.OutputsOf[e] {
			dst[c] += w * o
		}
	}
}

func (l *Gradient) Learn(ev *event.Event, target []float64, weight float64) {
	l.learnPart(ev, target, weight, nil)
}

func (l *Gradient) learnPart(ev *event.Event, target []float64, weight float64, counts *rows.Counted) {
	weight = min(weight, mostOfAWeight)
	// rows are in the order of EachPlace: names of prepare line up with the places that counts holds.
	at, shared := 0, counts.IsShared()
	rows.EachPlace(ev, func(place, field int, name string) {
		if last := l.rows[at]; counts.Holds(place) {
			l.rows[at] = -1
		} else {
			l.rows[at] = l.claim(last, field, name)
		}
		at++
	})
	// Squared loss has an unbounded gradient: normalised steps (Nagumo and Noda 1967) keep it from diverging, and
	// losses are compared in units of the labels' variance.
	shrink, unit := 1.0, 1.0
	if l.target.Likelihood == posterior.Gaussian {
		shrink = 1 / (1 + floatsSquared(l.dense) + floatsSquared(l.RowValue))
		if shared {
			unit = l.labels.Learn(target[0])
		}
	}
	for e := range l.experts {
		// Every expert is charged for what it said before it learns: progressive validation.
		loss := l.target.Loss.Eval(l.grad, l.OutputsOf[e], target)
		if shared {
			l.Losses[e] = gradientLossFade*l.Losses[e] + min(evaluate.BoundedError(loss/unit), gradientLossMax)
		}
		l.step(&l.experts[e], weight*shrink, shared)
	}
	if shared {
		l.scaling.Learn()
	}
}

// claim returns the slot of a name, cleared if it is new to it. last is where prepare saw it, or -1.
func (l *Gradient) claim(last int32, field int, name string) int32 {
	// A slot that was taken from an evicted name still has that name's weights.
	at, fresh := l.Slots.Touch(last, field, name)
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

// step moves one expert against the gradient: weights of names, and if they are shared the others. An expert whose
// weights stop being finite starts again from zero.
func (l *Gradient) step(x *expert, shrink float64, shared bool) {
	m := len(l.base)
	inputs := l.dense
	if !x.onChampion {
		inputs = l.dense[:len(l.schema.Numeric)]
	}
	finite := true
	// The bias has an input of 1, which shrink does not count: a step above ½ of the curvature would overshoot.
	biasStep := min(x.biasStep*shrink, maxBiasStep(l.target.Link == format.Identity, shrink))
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
				x.named[at][c] -= s * l.RowValue[i]
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

// Correct takes the difference of the steps that the two labels make, as far as the steps since have left of them. Of
// squared and logistic losses it does not depend on what was predicted; of hinge losses it is the present one.
func (l *Gradient) Correct(of *admission.Correction) {
	l.Gather(of.Is)
	// remains is the share of the step that later steps have left: (1 − step·curvature)^events, about.
	weight, curvature := min(of.Is.Weight, mostOfAWeight), mostCurved
	if l.target.Likelihood == posterior.Gaussian {
		curvature = 1 / (1 + floatsSquared(l.dense) + floatsSquared(l.RowValue))
		weight *= curvature
	}
	before := make([]float64, len(l.grad))
	for e := range l.experts {
		l.target.Loss.Eval(before, l.OutputsOf[e], of.From)
		l.target.Loss.Eval(l.grad, l.OutputsOf[e], of.To)
		floats.Sub(l.grad, before)
		l.amend(&l.experts[e], weight, curvature, of)
	}
}

// amend is step of a correction.
func (l *Gradient) amend(x *expert, weight, curvature float64, of *admission.Correction) {
	m := len(l.base)
	inputs := l.dense
	if !x.onChampion {
		inputs = l.dense[:len(l.schema.Numeric)]
	}
	if of.Counts.IsShared() {
		biasStep := min(x.biasStep*weight, maxBiasStep(l.target.Link == format.Identity, weight))
		floats.AddScaled(x.bias, -biasStep*admission.Remains(x.biasStep, curvature, of.Since), l.grad)
		left := x.step * weight * admission.Remains(x.step, curvature, of.Since)
		for i, v := range inputs {
			floats.AddScaled(x.dense[i*m:i*m+m], -left*v, l.grad)
		}
	}
	i := 0
	rows.EachPlace(of.Is, func(place, _ int, _ string) {
		if at := l.rows[i]; at >= 0 && int(at) < len(x.named) && x.named[at] != nil && !of.Counts.Holds(place) {
			left := x.step * weight * l.RowValue[i] * admission.Remains(x.step, curvature, of.Ages[place])
			floats.AddScaled(x.named[at], -left, l.grad)
		}
		i++
	})
}

// maxBiasStep keeps the bias of a squared or hinge loss from overshooting: its curvature is 1 and more, that of a
// logistic loss at most ¼.
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

// Model folds the mix into one model over the champion's vocabulary.
func (l *Gradient) Model(int) (*solver.Model, *encode.Vocabulary) {
	champion := l.Champion.Model.Clone()
	v := l.Champion.Vocabulary
	m := champion.NumOutputs
	l.Weigh()
	// Σ_e w_e·(champion·[e on it] + own_e): the champion counts with the weight of those based on it.
	share, numbers := l.Shift(champion)
	for i := range champion.Linear {
		champion.Linear[i] *= share
	}
	if champion.Linear == nil {
		champion.Linear = make([]float64, champion.NumFeatures*m)
	}
	first := int(v.NumNames())
	for i, w := range numbers {
		champion.Linear[first*m+i] += w
	}
	for f, names := range v.Names {
		for _, name := range names {
			at := l.Slots.Find(f, name)
			if at < 0 {
				continue
			}
			l.AddNamed(champion.Linear[int(v.Column(f, name))*m:], at)
		}
	}
	return champion, v
}

// OnChampion returns the share of the experts that are based on the champion, by the weights of the mix.
func (l *Gradient) OnChampion() float64 {
	share := 0.0
	for e := range l.experts {
		if l.experts[e].onChampion {
			share += l.Weights[e]
		}
	}
	return share
}

// Shift makes bias, weights and weights on the feature map of the champion those of the mix. It returns the share by
// which linear weights of the champion count, and what is added to those of numeric fields (fields × m).
func (l *Gradient) Shift(champion *solver.Model) (share float64, numbers []float64) {
	m, numeric := champion.NumOutputs, len(l.schema.Numeric)
	share = l.OnChampion()
	bias, dense := make([]float64, m), make([]float64, len(l.dense)*m)
	for e := range l.experts {
		x, w := &l.experts[e], l.Weights[e]
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
	fields := l.Champion.Vocabulary.Numeric
	numbers = make([]float64, numeric*m)
	for i := range l.dense {
		// Inputs are standardised, (v − mean)/deviation: weights of the published model are of v, so the mean moves
		// into the bias.
		mean, deviation := l.scaling.Of(i)
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

// AddNamed adds the mix of the experts' weights of the name in a slot to dst.
func (l *Gradient) AddNamed(dst []float64, at int32) {
	for e := range l.experts {
		if int(at) < len(l.experts[e].named) && l.experts[e].named[at] != nil {
			for c, w := range l.experts[e].named[at] {
				dst[c] += l.Weights[e] * w
			}
		}
	}
}
