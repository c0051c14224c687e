package cycle

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// How the mixture judges its parts. After every event a part's weight is multiplied by exp(−mixtureRate·loss), and
// shareRate of all weight is spread over the parts, so that the mixture follows the best part of any stretch of events
// (fixed share, Herbster and Warmuth 1998). Losses are logarithmic, or squares in units of twice the mixture's recent
// square, and capped. A second set of weights has these times exp(−loss) of the entity's own losses, which fade at each of
// its events. The two sets are mixed by the same rule, each judged by how likely its parts made the event, and betShare is
// spread over the two. So what the entity's losses say counts as far as it has paid, and the bound of the plain weights
// holds but for a constant: configs/learning.md has the theorem.
// On ratings with and without drift slower rates than the 1 of theory, and entities' own losses, gained .001 to .003 RMSE each.
const (
	shareRate      = 0.001
	betShare       = 0.0001
	mixtureRate    = 0.3
	mixtureFade    = 0.999 // of the scale of squares, and of the losses that are told
	mixtureEntity  = 0.9
	mixtureLossMax = 8.0 // of one event
	mixtureSlow    = 0.9999
	mixtureFloor   = 0.001 // of the mean square over mixtureSlow: what the recent one is taken for at the least
)

// mixture is the live prediction: the mean of all that can predict beside each other, the fold-in, the version that consumers have and plain
// baselines, weighted by recent loss. Numbers are mixed as they are, classes by their probabilities, of each label for tasks of several. It
// belongs to one goroutine. O(parts·m) an event, and as much for each baseline.
type mixture struct {
	target    *Target
	by        int // the categorical field whose entities have losses of their own, or -1
	learned   int // the first parts: fold-in, published and companions
	baselines []baseline
	stacks    []*stack // of numbers, the last parts
	pool      *pool    // of classes, the last part
	parts     []part
	entities  *slots
	losses    []float64 // by slot of the entity, one per part
	events    []float64 // by slot of the entity
	entity    int32     // slot of the event that predict was called with last, or -1
	scale     fading    // of squares
	slow      fading    // the same over a longer time, of which scale is a share at least
	mixed     []float64
	weights   []float64 // of the event: a mean of the next two
	plain     []float64 // by the losses of all events
	own       []float64 // by those of the entity, too
	trust     float64   // share of own in weights
}

// part is one predictor.
type part struct {
	name    string
	weight  float64
	value   []float64 // a number, or the probabilities of m classes or labels
	present bool
	loss    float64 // of the event
	told    fading  // loss as report.Part tells it
}

// The first parts are the learned ones; companions follow.
const (
	partFoldIn = iota
	partPublished
	numLearned
)

// newMixture returns nil for a task whose outputs have no probabilities: hinge losses of classes.
func newMixture(t *Target, companions []string, fields, by, limit int) *mixture {
	if !hasProbabilities(t) {
		return nil
	}
	return mixtureOf(t, companions, newBaselines(t, fields, by, limit), by, limit)
}

// hasProbabilities reports whether outputs say a number or probabilities: hinge losses of classes do not.
func hasProbabilities(t *Target) bool { return t.IsNumeric() || t.Link != snapshot.Identity }

// mixtureOf returns the mixture of the learned parts with companions of the given names and baselines.
func mixtureOf(t *Target, companions []string, baselines []baseline, by, limit int) *mixture {
	m := &mixture{target: t, by: by, learned: numLearned + len(companions), baselines: baselines, entity: -1, scale: fading{rate: mixtureFade},
		slow: fading{rate: mixtureSlow}}
	width := 1
	if !t.IsNumeric() {
		width = t.Outputs()
	}
	names := append([]string{"fold_in", "published"}, companions...)
	for _, b := range m.baselines {
		names = append(names, b.name())
	}
	if t.IsNumeric() {
		for i, fade := range stackFades {
			m.stacks = append(m.stacks, newStack(len(names), fade, by >= 0 && i == len(stackFades)-1))
		}
		names = append(names, "stack", "stack_slow")
	} else {
		m.pool = newPool(len(names), width, t.Link)
		names = append(names, "pool")
	}
	for _, name := range names {
		m.parts = append(m.parts, part{name: name, weight: 1 / float64(len(names)), value: make([]float64, width), told: fading{rate: mixtureFade}})
	}
	m.entities, m.mixed, m.trust = newSlots(limit), make([]float64, width), 0.5
	m.weights, m.plain, m.own = make([]float64, len(names)), make([]float64, len(names)), make([]float64, len(names))
	return m
}

// predict takes up an event with the outputs of the fold-in, those of what consumers have, nil without one, and what stands beside them.
func (m *mixture) predict(ev *event.Event, foldIn, published []float64, companions []*companion) {
	take(&m.parts[partFoldIn], m.target, foldIn)
	take(&m.parts[partPublished], m.target, published)
	for i := numLearned; i < m.learned; i++ {
		m.parts[i].present = false
		for _, c := range companions {
			if c.name == m.parts[i].name {
				take(&m.parts[i], c.target, c.predict(ev))
			}
		}
	}
	for i, b := range m.baselines {
		p := &m.parts[m.learned+i]
		p.present = b.predict(p.value, ev)
	}
	m.combine(ev)
}

// combine takes up an event of which the learned parts and the baselines have their predictions.
func (m *mixture) combine(ev *event.Event) {
	m.entity = -1
	if m.by >= 0 {
		m.entity = m.entities.find(0, ev.Categorical[m.by])
	}
	newness := 1.0
	if m.entity >= 0 {
		newness = newcomer / (newcomer + m.events[m.entity])
	}
	for i, s := range m.stacks {
		p := &m.parts[len(m.parts)-len(m.stacks)+i]
		p.value[0], p.present = s.predict(m.parts, newness)
		p.value[0] = m.target.Clip(p.value[0])
	}
	if m.pool != nil {
		p := &m.parts[len(m.parts)-1]
		p.present = m.pool.predict(p.value, m.parts)
	}
	m.weigh()
	clear(m.mixed)
	for i := range m.parts {
		if w := m.weights[i]; w > 0 {
			for c, v := range m.parts[i].value {
				m.mixed[c] += w * v
			}
		}
	}
}

// take sets the prediction of a model of a target with the given outputs.
func take(p *part, t *Target, outputs []float64) {
	if p.present = outputs != nil; !p.present {
		return
	}
	switch {
	case t.IsNumeric():
		p.value[0] = t.Clip(t.Value(outputs))
	case t.Link == snapshot.Softmax:
		softmaxTo(p.value, outputs)
	default:
		for c, o := range outputs {
			p.value[c] = 1 / (1 + math.Exp(-o))
		}
	}
	for _, v := range p.value {
		p.present = p.present && !math.IsNaN(v) && !math.IsInf(v, 0)
	}
}

func softmaxTo(dst, outputs []float64) {
	largest, sum := math.Inf(-1), 0.0
	for _, o := range outputs {
		largest = max(largest, o)
	}
	for c, o := range outputs {
		dst[c] = math.Exp(o - largest)
		sum += dst[c]
	}
	for c := range dst {
		dst[c] /= sum
	}
}

// weigh sets the weights of the event.
func (m *mixture) weigh() {
	for i := range m.parts {
		if m.plain[i] = 0; m.parts[i].present {
			m.plain[i] = m.parts[i].weight
		}
	}
	normalize(m.plain)
	copy(m.own, m.plain)
	if m.entity >= 0 {
		losses := m.losses[int(m.entity)*len(m.parts) : int(m.entity+1)*len(m.parts)]
		least := math.Inf(1)
		for i, l := range losses {
			if m.parts[i].present {
				least = min(least, l)
			}
		}
		for i, l := range losses {
			m.own[i] *= math.Exp(min(least-l, 0))
		}
		normalize(m.own)
	}
	for i := range m.weights {
		m.weights[i] = (1-m.trust)*m.plain[i] + m.trust*m.own[i]
	}
}

// normalize divides weights by their sum, unless it is 0.
func normalize(weights []float64) {
	if sum := floats.Sum(weights); sum > 0 {
		floats.Scale(1/sum, weights)
	}
}

// value is the mixed number.
func (m *mixture) value() float64 { return m.mixed[0] }

// outputs stores the mixed probabilities as outputs of the target's link.
func (m *mixture) outputs(dst []float64) {
	for c, p := range m.mixed {
		p = min(max(p, leastProbability), 1-leastProbability)
		if dst[c] = math.Log(p); m.target.Link != snapshot.Softmax {
			dst[c] -= math.Log1p(-p)
		}
	}
}

// leastProbability keeps logarithms finite.
const leastProbability = 1e-9

// learn judges the parts on the event that predict was called with last, and lets the baselines learn what counts of it.
func (m *mixture) learn(ev *event.Event, targets []float64, counts *counted) {
	m.judge(ev, targets, counts.isShared())
	if counts.isShared() {
		for _, s := range m.stacks {
			s.learn(ev.Label)
		}
		if m.pool != nil {
			m.pool.learn(targets)
		}
	}
	for _, b := range m.baselines {
		b.learn(ev, targets, counts)
	}
}

// judge takes up the losses of the parts: for the entity of the event, and if it is shared for all.
func (m *mixture) judge(ev *event.Event, targets []float64, shared bool) {
	unit := 1.0
	if m.target.IsNumeric() {
		if e := m.mixed[0] - ev.Label; shared {
			m.scale.add(min(e*e, worstError))
			m.slow.add(min(e*e, worstError))
		}
		if unit = 0; m.square() > 0 {
			unit = 1 / (2 * m.square())
		}
	}
	present, sum, plain, own := 0, 0.0, 0.0, 0.0
	for i := range m.parts {
		p := &m.parts[i]
		if !p.present {
			continue
		}
		loss := m.loss(p, ev, targets)
		if p.loss = min(loss*unit, mixtureLossMax); !shared {
			continue
		}
		p.told.add(min(loss, worstError))
		likely := math.Exp(-mixtureRate * p.loss)
		plain, own = plain+m.plain[i]*likely, own+m.own[i]*likely
		p.weight *= likely
		present, sum = present+1, sum+p.weight
	}
	m.bet(plain, own)
	for i := range m.parts {
		p := &m.parts[i]
		if p.present && sum > 0 {
			p.weight = (1-shareRate)*p.weight/sum + shareRate/float64(present)
		}
	}
	m.judgeEntity(ev)
}

// bet moves trust by how likely the parts made the event under either set of weights. Without an entity both are the same.
func (m *mixture) bet(plain, own float64) {
	if either := (1-m.trust)*plain + m.trust*own; m.entity >= 0 && either > 0 {
		m.trust = (1-betShare)*m.trust*own/either + betShare/2
	}
}

// square returns the recent mean square error of numbers, which scales those of the parts. It has a floor: after a run of equal labels that are all
// predicted the mean is next to 0, and a usual error would count as a thousand. NaN before the first event.
func (m *mixture) square() float64 {
	square := m.scale.mean()
	if m.slow.n > 0 {
		square = max(square, mixtureFloor*m.slow.mean())
	}
	if m.target.Task == event.Ordinal {
		square = max(square, leastDeviation*leastDeviation)
	}
	return square
}

// judgeEntity adds the losses of the event to those of its entity.
func (m *mixture) judgeEntity(ev *event.Event) {
	if m.by < 0 {
		return
	}
	at, fresh := m.entities.touch(m.entity, 0, ev.Categorical[m.by])
	n := len(m.parts)
	for len(m.losses) < int(at+1)*n {
		m.losses = append(m.losses, 0)
	}
	for len(m.events) < int(at+1) {
		m.events = append(m.events, 0)
	}
	own := m.losses[int(at)*n : int(at+1)*n]
	if fresh {
		clear(own)
		m.events[at] = 0
	}
	m.events[at]++
	for i := range own {
		own[i] *= mixtureEntity
		if m.parts[i].present {
			own[i] += m.parts[i].loss
		}
	}
}

// loss is the squared error of a number, or the logarithmic loss.
func (m *mixture) loss(p *part, ev *event.Event, targets []float64) float64 {
	if m.target.IsNumeric() {
		e := p.value[0] - ev.Label
		return e * e
	}
	loss := 0.0
	for c, v := range p.value {
		v = min(max(v, leastProbability), 1-leastProbability)
		switch {
		case targets[c] > 0:
			loss -= math.Log(v)
		case m.target.Link != snapshot.Softmax:
			loss -= math.Log1p(-v)
		}
	}
	return loss
}

// sgd returns the biases by gradient steps, nil for classes. predict has them predict an event, and learn learn it.
func (m *mixture) sgd() *sgdBias {
	if m == nil {
		return nil
	}
	for _, b := range m.baselines {
		if s, ok := b.(*numberSGD); ok {
			return s.sgdBias
		}
	}
	return nil
}

// isBaseline reports whether a part needs no model.
func (m *mixture) isBaseline(i int) bool { return i >= m.learned && i < m.learned+len(m.baselines) }

// part returns that of a name, nil if there is none.
func (m *mixture) part(name string) *part {
	if m == nil {
		return nil
	}
	for i := range m.parts {
		if m.parts[i].name == name {
			return &m.parts[i]
		}
	}
	return nil
}

// report returns the parts, but for what versions hold.
func (m *mixture) report() []report.Part {
	if m == nil {
		return nil
	}
	total := 0.0
	for i := range m.parts {
		total += m.parts[i].weight
	}
	parts := make([]report.Part, 0, len(m.parts))
	for i := range m.parts {
		p := &m.parts[i]
		if p.name == partBefore && p.told.n == 0 {
			continue // no names have changed
		}
		parts = append(parts, report.Part{Name: p.name, Weight: report.Number(p.weight / total), Loss: report.Some(p.told.mean())})
	}
	return parts
}

// fading is a mean whose terms fade.
type fading struct{ rate, sum, n float64 }

func (f *fading) add(v float64) { f.sum, f.n = f.rate*f.sum+v, f.rate*f.n+1 }

// mean is NaN without terms.
func (f *fading) mean() float64 { return f.sum / f.n }
