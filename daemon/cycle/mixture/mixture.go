package mixture

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"gonum.org/v1/gonum/floats"
)

// How the mixture judges its parts. After every event a part's weight is multiplied by exp(−MixtureRate·loss), and
// shareRate of all weight is spread over the parts, so that the mixture follows the best part of any stretch of events
// (fixed share, Herbster and Warmuth 1998). Losses are logarithmic, or squares in units of twice the mixture's recent
// square, and capped. A second set of weights has these times exp(−loss) of the entity's own losses, which fade at each
// of its events. The two sets are mixed by the same rule, each judged by how likely its parts made the event, and
// betShare is spread over the two. So what the entity's losses say counts as far as it has paid, and the bound of the
// plain weights holds but for a constant: docs/learning.md has the theorem. On ratings with and without drift slower
// rates than the 1 of theory, and entities' own losses, gained 0.001 to 0.003 RMSE each. MixtureRate and mixtureEntity
// are tuned on these ratings. The others are chosen by hand.
const (
	shareRate      = 0.001
	betShare       = 0.0001
	MixtureRate    = 0.3
	MixtureFade    = 0.999 // of the scale of squares, and of the reported losses
	mixtureEntity  = 0.9
	MixtureLossMax = 8.0 // of one event
	mixtureSlow    = 0.9999
	mixtureFloor   = 0.001 // of the mean square over mixtureSlow: what the recent one is taken for at the least
)

// Mixture is the live prediction: the mean of its parts, weighted by recent loss. Parts are the fold-in, the refit
// that was promoted last, other experts and plain baselines. Numbers are mixed as they are, classes by their
// probabilities, of each label for tasks of several. It belongs to one goroutine. O(parts·m) an event, and as much for
// each baseline.
type Mixture struct {
	target    *encode.Target
	by        int // the categorical field with separate losses for each entity, or -1
	Learned   int // the first parts: fold-in, refit and experts
	Baselines []baselines.Baseline
	Stack     *Stacking    // of numbers, the last part
	Pool      *LogitPool   // of classes, the last part
	calibrate *calibration // of classes, nil without
	Parts     []part
	Entities  *rows.Slots
	losses    []float64       // by slot of the entity, one per part
	entity    int32           // slot of the event that predict was called with last, or -1
	Scale     evaluate.Fading // of squares
	Slow      evaluate.Fading // the same over a longer time, of which scale is a share at least
	Mixed     []float64
	Weights   []float64       // of the event: a mean of the next two
	Plain     []float64       // by the losses of all events
	Own       []float64       // by those of the entity, too
	Trust     float64         // share of own in weights
	sleepers  []sleeper       // parts that may sleep
	combined  evaluate.Fading // where there are some, the weight of the last part
	checks    int             // CheckSleep so far
}

// part is one predictor.
type part struct {
	Name     string
	Weight   float64
	Value    []float64 // a number, or the probabilities of m classes or labels
	Present  bool
	Loss     float64         // of the event
	Reported evaluate.Fading // loss as in report.Part
}

// The first parts are the learned ones; experts follow.
const (
	partFoldIn = iota
	partRefit
	NumLearned
)

// The parts of a mixture that are not experts or baselines.
const (
	PartFoldIn = "fold_in" // on the last refit
	PartRefit  = "refit"
	PartStack  = "stack"
	PartPool   = "pool"
	PartLevels = "levels" // OrdinalMixture, which is next to it
)

// NewMixture returns the mixture of the fold-in, the last promoted refit, experts of the given names, and
// baselines. It returns nil for a task whose outputs have no probabilities: hinge losses of classes.
func NewMixture(names []string, s *baselines.Setting) *Mixture {
	if !experts.HasProbabilities(s.Target) {
		return nil
	}
	return MixtureOf(s.Target, names, s.New(), s.By, s.Limit, s.Without...)
}

// Footprint returns the bytes of the mixture of so many experts with its baselines, and of the losses of its entities,
// with names of at most maxName bytes.
func Footprint(numExperts int, s *baselines.Setting, maxName int) int64 {
	if !experts.HasProbabilities(s.Target) {
		return 0
	}
	numBaselines, bytes := s.Footprint(maxName)
	if s.By < 0 {
		return bytes
	}
	parts := NumLearned + numExperts + numBaselines + 1
	const growing = 2 // lists grow to at most twice what they hold
	return bytes + growing*(rows.SlotsFootprint(s.Limit, maxName)+8*int64(s.Limit)*int64(parts))
}

// MixtureOf returns the mixture of the learned parts with experts of the given names and baselines, and of the
// combinations of all of them but those without.
func MixtureOf(t *encode.Target, others []string, baselines []baselines.Baseline, by, limit int,
	without ...string) *Mixture {
	m := &Mixture{
		target:    t,
		by:        by,
		Learned:   NumLearned + len(others),
		Baselines: baselines,
		entity:    -1,
		Scale:     evaluate.Fading{Rate: MixtureFade},
		Slow:      evaluate.Fading{Rate: mixtureSlow},
	}
	width := 1
	if !t.IsNumeric() {
		width = t.Outputs()
	}
	// The order of the parts: learned ones, baselines, then at most one combination of all before it.
	names := append([]string{PartFoldIn, PartRefit}, others...)
	for _, b := range m.Baselines {
		names = append(names, b.Name())
	}
	learned := len(names)
	if t.IsNumeric() {
		if !slices.Contains(without, PartStack) {
			m.Stack = newStacking(learned)
			names = append(names, PartStack)
		}
	} else if !slices.Contains(without, PartPool) {
		m.Pool = newLogitPool(learned, width, t.Link)
		names = append(names, PartPool)
	}
	if !t.IsNumeric() && !slices.Contains(without, PartCalibration) {
		m.calibrate = newCalibration(width, t.Link == format.Softmax)
	}
	for _, name := range names {
		m.Parts = append(
			m.Parts,
			part{
				Name:     name,
				Weight:   1 / float64(len(names)),
				Value:    make([]float64, width),
				Reported: evaluate.Fading{Rate: MixtureFade},
			},
		)
	}
	// Trust begins at ½: either set of weights is as good as the other.
	m.Entities, m.Mixed, m.Trust = rows.NewSlots(limit), make([]float64, width), 0.5
	m.Weights, m.Plain, m.Own = make([]float64, len(names)), make([]float64, len(names)), make([]float64, len(names))
	return m
}

// Combine takes up an event with the outputs of the fold-in, those of the last promoted refit, nil without one, and
// those of the other experts.
func (m *Mixture) Combine(ev *event.Event, foldIn, refit []float64, all []*experts.Expert,
	outputs [][]float64) {
	take(&m.Parts[partFoldIn], m.target, foldIn)
	take(&m.Parts[partRefit], m.target, refit)
	for i := NumLearned; i < m.Learned; i++ {
		m.Parts[i].Present = false
		for k, c := range all {
			if c.Name == m.Parts[i].Name {
				take(&m.Parts[i], c.Target, outputs[k])
			}
		}
	}
	for i, b := range m.Baselines {
		p := &m.Parts[m.Learned+i]
		p.Present = b.Predict(p.Value, ev)
	}
	m.combine(ev)
}

// Keep appends what the parts have predicted, NaN of one without a prediction: what Recombine takes.
func (m *Mixture) Keep(dst []float64) []float64 {
	for i := range m.Parts {
		for _, v := range m.Parts[i].Value {
			if !m.Parts[i].Present {
				v = math.NaN()
			}
			dst = append(dst, v)
		}
	}
	return dst
}

// Recombine is Combine of an event that was predicted before, of which Keep kept the predictions.
func (m *Mixture) Recombine(ev *event.Event, kept []float64) {
	for i := range m.Parts {
		p := &m.Parts[i]
		n := copy(p.Value, kept)
		kept = kept[n:]
		p.Present = !slices.ContainsFunc(p.Value, math.IsNaN)
	}
	m.combine(ev)
}

// combine takes up an event of which the learned parts and the baselines have their predictions.
func (m *Mixture) combine(ev *event.Event) {
	m.entity = -1
	if m.by >= 0 && ev.Categorical[m.by] != "" {
		m.entity = m.Entities.Find(0, ev.Categorical[m.by]) // −1 for one that is new: it has the plain weights
	}
	if m.Stack != nil {
		p := &m.Parts[len(m.Parts)-1]
		p.Value[0], p.Present = m.Stack.predict(m.Parts)
		p.Value[0] = m.target.Clip(p.Value[0])
	}
	if m.Pool != nil {
		p := &m.Parts[len(m.Parts)-1]
		p.Present = m.Pool.predict(p.Value, m.Parts)
	}
	m.weigh()
	m.noteUse()
	clear(m.Mixed)
	for i := range m.Parts {
		if w := m.Weights[i]; w > 0 {
			for c, v := range m.Parts[i].Value {
				m.Mixed[c] += w * v
			}
		}
	}
	if m.calibrate != nil {
		m.calibrate.apply(m.Mixed)
	}
}

// take sets the prediction of a model of a target with the given outputs.
func take(p *part, t *encode.Target, outputs []float64) {
	if p.Present = outputs != nil; !p.Present {
		return
	}
	switch {
	case t.IsNumeric():
		p.Value[0] = t.Clip(t.Value(outputs))
	case t.Link == format.Softmax:
		evaluate.SoftmaxTo(p.Value, outputs)
	default:
		for c, o := range outputs {
			p.Value[c] = 1 / (1 + math.Exp(-o))
		}
	}
	for _, v := range p.Value {
		p.Present = p.Present && !math.IsNaN(v) && !math.IsInf(v, 0)
	}
}

// weigh sets the weights of the event.
func (m *Mixture) weigh() {
	for i := range m.Parts {
		if m.Plain[i] = 0; m.Parts[i].Present {
			m.Plain[i] = m.Parts[i].Weight
		}
	}
	normalize(m.Plain)
	copy(m.Own, m.Plain)
	if m.entity >= 0 {
		losses := m.losses[int(m.entity)*len(m.Parts) : int(m.entity+1)*len(m.Parts)]
		least := math.Inf(1)
		for i, l := range losses {
			if m.Parts[i].Present {
				least = min(least, l)
			}
		}
		for i, l := range losses {
			// Relative to the best, so that none overflows; min, as parts that are absent may have lost less.
			m.Own[i] *= math.Exp(min(least-l, 0))
		}
		normalize(m.Own)
	}
	for i := range m.Weights {
		// Both sets sum to 1, so this does.
		m.Weights[i] = (1-m.Trust)*m.Plain[i] + m.Trust*m.Own[i]
	}
}

// normalize divides weights by their sum, unless it is 0.
func normalize(weights []float64) {
	if sum := floats.Sum(weights); sum > 0 {
		floats.Scale(1/sum, weights)
	}
}

// Value is the mixed number.
func (m *Mixture) Value() float64 { return m.Mixed[0] }

// Outputs stores the mixed probabilities as outputs of the target's link.
func (m *Mixture) Outputs(dst []float64) { outputsOf(dst, m.Mixed, m.target.Link) }

func outputsOf(dst, probabilities []float64, link string) {
	for c, p := range probabilities {
		p = min(max(p, evaluate.LeastProbability), 1-evaluate.LeastProbability)
		if dst[c] = math.Log(p); link != format.Softmax {
			dst[c] -= math.Log1p(-p)
		}
	}
}

// Learn judges the parts on the event that predict was called with last, and lets the baselines learn what counts of
// it.
func (m *Mixture) Learn(ev *event.Event, targets []float64, counts *rows.Counted) {
	m.Judge(ev, targets, counts.IsShared())
	m.LearnBaselines(ev, targets, counts)
}

// Judge has the weights follow the losses of the parts on the event that was taken up last: those of its entity, and
// if it is shared those of all.
func (m *Mixture) Judge(ev *event.Event, targets []float64, shared bool) {
	if m.judge(ev, targets, shared); !shared {
		return
	}
	if m.Stack != nil {
		m.Stack.learn(ev.Label)
	}
	if m.Pool != nil {
		m.Pool.learn(targets)
	}
	if m.calibrate != nil {
		m.calibrate.learn(targets)
	}
}

// LearnBaselines lets the baselines learn what counts of the event that was taken up last.
func (m *Mixture) LearnBaselines(ev *event.Event, targets []float64, counts *rows.Counted) {
	for _, b := range m.Baselines {
		b.Learn(ev, targets, counts)
	}
}

// Correct has the baselines take up a corrected label. How the parts were judged on the label before stays.
func (m *Mixture) Correct(of *admission.Correction) {
	for _, b := range m.Baselines {
		b.Correct(of)
	}
}

// judge takes up the losses of the parts: for the entity of the event, and if it is shared for all.
func (m *Mixture) judge(ev *event.Event, targets []float64, shared bool) {
	unit := 1.0
	if m.target.IsNumeric() {
		if e := m.Mixed[0] - ev.Label; shared {
			m.Scale.Add(min(e*e, evaluate.WorstError))
			m.Slow.Add(min(e*e, evaluate.WorstError))
		}
		if unit = 0; m.Square() > 0 {
			unit = 1 / (2 * m.Square())
		}
	}
	present, sum, plain, own := 0, 0.0, 0.0, 0.0
	for i := range m.Parts {
		p := &m.Parts[i]
		if !p.Present {
			continue
		}
		loss := m.Loss(p, ev, targets)
		if p.Loss = min(loss*unit, MixtureLossMax); !shared {
			continue
		}
		p.Reported.Add(min(loss, evaluate.WorstError))
		// Vovk's aggregating algorithm: weights times exp(−rate·loss), of losses capped at MixtureLossMax.
		likely := math.Exp(-MixtureRate * p.Loss)
		plain, own = plain+m.Plain[i]*likely, own+m.Own[i]*likely
		p.Weight *= likely
		present, sum = present+1, sum+p.Weight
	}
	m.bet(plain, own)
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Present && sum > 0 {
			// Fixed share (Herbster and Warmuth 1998): no weight falls below shareRate/present, so a part that becomes
			// the best is found within some events.
			p.Weight = (1-shareRate)*p.Weight/sum + shareRate/float64(present)
		}
	}
	m.judgeEntity(ev)
}

// bet moves trust by how likely the parts made the event under either set of weights. Without an entity both are the
// same.
func (m *Mixture) bet(plain, own float64) {
	if either := (1-m.Trust)*plain + m.Trust*own; m.entity >= 0 && either > 0 {
		// The same rule for the two sets of weights: Bayes, then a fixed share.
		m.Trust = (1-betShare)*m.Trust*own/either + betShare/2
	}
}

// Square returns the recent mean square error of numbers, which scales those of the parts. It has a floor: after a run
// of equal labels that are all predicted the mean is next to 0, and a usual error would count as a thousand. NaN before
// the first event.
func (m *Mixture) Square() float64 {
	square := Mean(&m.Scale)
	if m.Slow.N > 0 {
		square = max(square, mixtureFloor*Mean(&m.Slow))
	}
	if m.target.Task == event.Ordinal {
		square = max(square, encode.LeastDeviation*encode.LeastDeviation)
	}
	return square
}

// judgeEntity adds the losses of the event to those of its entity.
func (m *Mixture) judgeEntity(ev *event.Event) {
	if m.by < 0 || ev.Categorical[m.by] == "" {
		return
	}
	at, fresh := m.Entities.Touch(m.entity, 0, ev.Categorical[m.by])
	n := len(m.Parts)
	for len(m.losses) < int(at+1)*n {
		m.losses = append(m.losses, 0)
	}
	own := m.losses[int(at)*n : int(at+1)*n]
	if fresh {
		clear(own)
	}
	for i := range own {
		own[i] *= mixtureEntity
		if m.Parts[i].Present {
			own[i] += m.Parts[i].Loss
		}
	}
	m.chargeSleepers(own)
}

// Loss is the squared error of a number, or the logarithmic loss.
func (m *Mixture) Loss(p *part, ev *event.Event, targets []float64) float64 {
	if m.target.IsNumeric() {
		e := p.Value[0] - ev.Label
		return e * e
	}
	loss := 0.0
	for c, v := range p.Value {
		v = min(max(v, evaluate.LeastProbability), 1-evaluate.LeastProbability)
		switch {
		case targets[c] > 0:
			loss -= math.Log(v)
		case m.target.Link != format.Softmax:
			loss -= math.Log1p(-v)
		}
	}
	return loss
}

// Sgd returns the biases by gradient steps, nil for classes. predict has them predict an event, and learn learn it.
func (m *Mixture) Sgd() *baselines.SGDBias {
	if m == nil {
		return nil
	}
	for _, b := range m.Baselines {
		if s, ok := b.(*baselines.NumberSGD); ok {
			return s.SGDBias
		}
	}
	return nil
}

// IsBaseline reports whether a part needs no model.
func (m *Mixture) IsBaseline(i int) bool { return i >= m.Learned && i < m.Learned+len(m.Baselines) }

// Part returns the part of a name, nil if the mixture has no such part.
func (m *Mixture) Part(name string) *part {
	if m == nil {
		return nil
	}
	for i := range m.Parts {
		if m.Parts[i].Name == name {
			return &m.Parts[i]
		}
	}
	return nil
}

// Report returns the parts, but for what versions hold.
func (m *Mixture) Report() []report.Part {
	if m == nil {
		return nil
	}
	total := 0.0
	for i := range m.Parts {
		total += m.Parts[i].Weight
	}
	parts := make([]report.Part, 0, len(m.Parts))
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Name == experts.PartBefore && p.Reported.N == 0 {
			continue // no names have changed
		}
		parts = append(parts,
			report.Part{Name: p.Name, Weight: report.Number(p.Weight / total), Loss: report.Some(Mean(&p.Reported))})
	}
	return parts
}

// Mean is NaN without terms.
func Mean(f *evaluate.Fading) float64 { return f.Sum / f.N }
