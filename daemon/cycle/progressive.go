package cycle

import (
	"encoding/json"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
)

// The predictors whose errors are kept. Numeric labels have three baselines, classes two.
const (
	published = iota
	live
	baseline0 // global_mean or majority
	baseline1 // item_mean or last_label
	baseline2 // sgd_bias
	foldIn    // the fold-in alone, which updates publish
	numRoles
)

// tally sums the errors of one predictor.
type tally struct {
	N       int64   `json:"n"`
	Loss    float64 `json:"loss"`
	Square  float64 `json:"square"`
	Abs     float64 `json:"abs"`
	Correct int64   `json:"correct"`
}

// outcome is one event's error of one predictor.
type outcome struct {
	loss, square, abs float64
	correct, present  bool
}

// outcome is the error of outputs on an event with the given targets.
func (t *Target) outcome(ev *event.Event, outputs, targets []float64) outcome {
	o := outcome{present: true, loss: boundedError(t.Loss.Eval(nil, outputs, targets))}
	if t.IsNumeric() {
		o.number(t.Clip(t.Value(outputs)) - ev.Label)
	} else {
		o.correct = t.Correct(outputs, targets)
	}
	return o
}

func (o *outcome) number(e float64) {
	o.present, o.square, o.abs = true, boundedError(e*e), boundedError(math.Abs(e))
}

// worstError is what an error counts as that is larger or no number: sums of errors stay numbers, which the state can hold.
const worstError = 1e30

func boundedError(e float64) float64 {
	if e <= worstError {
		return e
	}
	return worstError
}

func (t *tally) add(o *outcome) {
	if !o.present {
		return
	}
	t.N++
	t.Loss += o.loss
	t.Square += o.square
	t.Abs += o.abs
	if o.correct {
		t.Correct++
	}
}

func (t *tally) merge(o *tally) {
	t.N += o.N
	t.Loss += o.Loss
	t.Square += o.Square
	t.Abs += o.Abs
	t.Correct += o.Correct
}

// rmse returns the root of the mean square, NaN without events.
func (t *tally) rmse() float64 { return math.Sqrt(t.Square / float64(t.N)) }

// judged returns the mean loss by which predictors are compared: the square for numeric labels, else the loss.
func (t *tally) judged(numeric bool) float64 {
	if numeric {
		return t.Square / float64(t.N)
	}
	return t.Loss / float64(t.N)
}

func (t *tally) metrics(numeric, isBaseline bool) *report.Metrics {
	m := &report.Metrics{N: t.N}
	if t.N == 0 {
		return m
	}
	n := float64(t.N)
	if !isBaseline {
		m.Loss = report.Some(t.Loss / n)
	}
	if numeric {
		m.RMSE, m.MAE = report.Some(t.rmse()), report.Some(t.Abs/n)
	} else {
		m.Accuracy = report.Some(float64(t.Correct) / n)
	}
	return m
}

// Progressive keeps the errors of predictions made before the event was learned from: over all events, over a window of the last ones,
// and over a tail that the caller starts. Its sums over all events survive restarts; the window starts again.
type Progressive struct {
	numeric bool
	sums    progressiveSums
	ring    [][numRoles]outcome
	blocks  [][numRoles]tally // of windowBlock outcomes of the ring each; that of the next outcome holds what came since it was begun
	at      int
	filled  int
	tail    [numRoles]tally
	tailing bool
}

type progressiveSums struct {
	N       int64           `json:"n"`
	NoModel int64           `json:"no_model"`
	All     [numRoles]tally `json:"all"`
}

func newProgressive(numeric bool, window int) *Progressive {
	window = max(window, 1)
	return &Progressive{numeric: numeric, ring: make([][numRoles]outcome, window), blocks: make([][numRoles]tally, (window-1)/windowBlock+1)}
}

// windowBlock is how many outcomes of the window are summed in advance.
const windowBlock = 1024

func (p *Progressive) add(o *[numRoles]outcome) {
	p.sums.N++
	if !o[published].present {
		p.sums.NoModel++
	}
	block := &p.blocks[p.at/windowBlock]
	if p.at%windowBlock == 0 {
		*block = [numRoles]tally{}
	}
	for r := range o {
		p.sums.All[r].add(&o[r])
		block[r].add(&o[r])
		if p.tailing {
			p.tail[r].add(&o[r])
		}
	}
	p.ring[p.at] = *o
	if p.at++; p.at == len(p.ring) {
		p.at = 0
	}
	p.filled = min(p.filled+1, len(p.ring))
}

// window returns the sums over the last events. They are added up from the events themselves: a difference of running sums would keep the
// rounding error of the largest that ever was in the window.
func (p *Progressive) window() (w [numRoles]tally) {
	for b := range p.blocks {
		for r := range w {
			w[r].merge(&p.blocks[b][r])
		}
	}
	for i := p.at; i < len(p.ring) && i%windowBlock != 0; i++ { // what is left of the block that is being replaced
		for r := range w {
			w[r].add(&p.ring[i][r])
		}
	}
	return w
}

// StartTail begins the tallies that Tail returns.
func (p *Progressive) StartTail() { p.tail, p.tailing = [numRoles]tally{}, true }

// Tail returns the metrics since StartTail.
func (p *Progressive) Tail() report.LastTenth {
	t := report.LastTenth{Published: p.tail[published].metrics(p.numeric, false), Live: p.tail[live].metrics(p.numeric, false)}
	t.Baselines = p.baselines(&p.tail)
	return t
}

// Report returns PROGRESSIVE of the contract.
func (p *Progressive) Report() report.Progressive {
	w := p.window()
	return report.Progressive{
		N: p.sums.N, NoModel: p.sums.NoModel, WindowN: int64(p.filled),
		All:       report.Scores{Published: p.sums.All[published].metrics(p.numeric, false), Live: p.sums.All[live].metrics(p.numeric, false)},
		Window:    report.Scores{Published: w[published].metrics(p.numeric, false), Live: w[live].metrics(p.numeric, false)},
		Baselines: p.baselines(&w),
	}
}

func (p *Progressive) baselines(t *[numRoles]tally) report.Baselines {
	b := func(role int) *report.Metrics { return t[role].metrics(p.numeric, true) }
	if p.numeric {
		return report.Baselines{GlobalMean: b(baseline0), ItemMean: b(baseline1), SGDBias: b(baseline2)}
	}
	return report.Baselines{Majority: b(baseline0), LastLabel: b(baseline1)}
}

// MarshalBinary returns the sums over all events, for the state.
func (p *Progressive) MarshalBinary() ([]byte, error) { return json.Marshal(p.sums) }

// UnmarshalBinary restores what MarshalBinary returned. Nothing at all is a fresh start.
func (p *Progressive) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return json.Unmarshal(b, &p.sums)
}

// means are the baselines that a refit fits on its sample: the mean label, or the most frequent class.
type means struct {
	global   float64
	byName   map[string]float64 // mean label by name of the baseline field
	majority int                // class index, for binary 0 or 1
}

// fitMeans computes the means of a sample. field is the categorical field of the item mean, or -1.
func fitMeans(t *Target, events []event.Event, weights []float64, field int) *means {
	m := &means{byName: make(map[string]float64)}
	total, sum := 0.0, 0.0
	counts, sums := make(map[string]float64), make(map[string]float64)
	classes := make([]float64, max(2, t.Outputs()))
	targets := make([]float64, t.Outputs())
	for i := range events {
		ev, w := &events[i], 1.0
		if weights != nil {
			w = weights[i]
		}
		if t.IsNumeric() {
			total += w
			sum += w * ev.Label
			if field >= 0 && ev.Categorical[field] != "" {
				counts[ev.Categorical[field]] += w
				sums[ev.Categorical[field]] += w * ev.Label
			}
			continue
		}
		if t.Encode(targets, ev) {
			classes[classOf(t, ev, targets)] += w
		}
	}
	if total > 0 {
		m.global = sum / total
	}
	for name, n := range counts {
		if n > 0 {
			m.byName[name] = sums[name] / n
		}
	}
	m.majority = argmax(classes)
	return m
}

// classOf returns the class of an event as an index: 0 or 1 for binary labels.
func classOf(t *Target, ev *event.Event, targets []float64) int {
	if t.Task == event.Binary {
		return int(ev.Label)
	}
	return argmax(targets)
}

// sgdBias is the online baseline of rating tasks: global, user and item biases by stochastic gradient steps.
type sgdBias struct {
	global float64
	bias   []map[string]*float64 // per categorical field, the first two
	limit  int

	of []*float64 // of the event that predict was called with last, nil where it has none
}

// The steps of the sgd_bias baseline; they are part of its definition.
const (
	sgdStep      = 0.05
	sgdShrinkage = 0.02
)

func newSGDBias(t *Target, fields, limit int) *sgdBias {
	fields = min(fields, 2)
	s := &sgdBias{bias: make([]map[string]*float64, fields), limit: limit, of: make([]*float64, fields)}
	for f := range s.bias {
		s.bias[f] = make(map[string]*float64)
	}
	if t.Low < t.High {
		s.global = (t.Low + t.High) / 2
	}
	return s
}

func (s *sgdBias) predict(ev *event.Event) float64 {
	for f, bias := range s.bias {
		s.of[f] = bias[ev.Categorical[f]]
	}
	return s.value()
}

func (s *sgdBias) value() float64 {
	v := s.global
	for _, b := range s.of {
		if b != nil {
			v += *b
		}
	}
	return v
}

// learn takes a step towards the label of the event that predict was called with last.
func (s *sgdBias) learn(ev *event.Event) {
	e := ev.Label - s.value()
	s.global += sgdStep * e
	for f, b := range s.of {
		if b == nil {
			if len(s.bias[f]) >= s.limit || ev.Categorical[f] == "" {
				continue // a baseline, too, is bounded
			}
			b = new(float64)
			s.bias[f][ev.Categorical[f]] = b
		}
		*b += sgdStep * (e - sgdShrinkage**b)
	}
}
