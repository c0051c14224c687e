package cycle

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// Cycle is the learning cycle of one model.
type Cycle struct {
	// Workers is the number of goroutines of a refit; 0 takes GOMAXPROCS. Results do not depend on it. Set it before use.
	Workers int
	// Cold starts every refit from nothing, not from the live model: what warm starts are measured against. Set it before use.
	Cold bool
	// Throttle, if not nil, returns what a refit calls between its blocks, as solver.Settings.Yield, given its context and time budget, 0 for
	// none. Set it before use.
	Throttle func(ctx context.Context, budget time.Duration) (yield func())
	// Forwarded says that events come from the processes that read them, and may be in a refit before they come: Reach
	// and Known. Set it before use.
	Forwarded bool
	// Stored, if not nil, returns what of the events that were observed is stored, which updates say that they hold; else they say what the refit
	// does. Set it before use.
	Stored func() Stored

	config        *config.Model
	schema        event.Schema
	target        *Target
	now           func() time.Time
	pool          interner // names of relearned events
	baselineField int      // categorical field of the item mean, or -1
	entityFields  []int    // categorical fields by whose names events are new or known
	steady        []bool   // steadyFields

	evicted atomic.Int64 // names that the fold-in gave up for others

	// figures is taken after mu by who changes what is told of losses, names, outliers and forms, and alone by who tells it: an update that is made
	// holds mu for as long as it copies a million names, and whoever scrapes metrics does not wait for it.
	figures sync.Mutex

	mu          sync.Mutex // guards what follows; Refit and Install take it for short whiles beside Observe
	learner     foldInLearner
	companions  []*companion
	drift       driftWatch
	alarms      []DriftAlarm // that nobody has taken
	numbers     *numberScale // what companions see of them
	weights     *weightScale // nil where events have no weights
	champion    *Champion    // the last promoted refit
	rejections  int
	failedFrom  *solver.Model   // of the champion that a refit continued from and failed; nil without
	instead     *substitute     // nil unless there was a champion that cannot be read
	published   *consumed       // the champion or an update of it
	followed    *following      // the newest update; nil without
	making      *Update         // of the live model, beside the newest one; nil without
	live        *liveCopy       // for Live; nil without
	liveAdded   *popularWeights // that the last copy for Live has beside what was learned; nil for none
	reached     reached         // by events, while there are deltas
	known       reached         // by refits and events, where these are forwarded
	lag         lag
	updates     bool           // consumers should have updates, by lag
	guard       guard          // of updates against their refit
	turned      bool           // a chain of deltas ended because it was worse than its refit: consumers get that again
	heldBack    []HeldBack     // that nobody has taken
	race        formRace       // of what updates are made of
	stretch     *stretchLosses // nil unless they are watched
	progressive *Progressive
	mixture     *mixture // nil if what is live is the fold-in alone
	levels      *levelMixture
	popular     *popularity // of choices; nil of events with labels
	rankings    *rankings   // the same
	blend       *blend      // nil where versions hold no sums
	sgd         *sgdBias    // a part of the mixture; nil for classes
	since       backlog
	resets      int
	names       NameCounts
	goodEnough  int // events until the live model is compared with the published one again
	cap         *entityCap
	admitted    [aheadMost]counted // of the events of a chunk

	prescorer *Prescorer // of events that come without a score
	score     Score
	alone     folded // of an event that was not learned ahead
	ahead     ahead
	outputs   []float64 // of the mixture
	targets   []float64
	value     []float64 // of a baseline
}

// Stored is how far the log is stored: events are observed before they are.
type Stored struct {
	Cut       []report.Cut
	Watermark int64 // newest event time, milliseconds since 1970; 0 is not known
	Events    *snapshot.Counts
}

// New returns the cycle of a model without a champion. now is the clock for training times; events are never timed.
func New(m *config.Model, now func() time.Time) (*Cycle, error) {
	schema := m.Schema.Event()
	target, err := NewTarget(m, nil)
	if err != nil {
		return nil, err
	}
	c := &Cycle{config: m, schema: schema, target: target, now: now, pool: make(interner), baselineField: slices.Index(schema.Categorical, m.Evaluate.BaselineBy),
		goodEnough: liveCheckEvery, lag: lag{scale: fading{rate: updateFade}}, race: newFormRace(),
		outputs: make([]float64, target.Outputs()), targets: make([]float64, target.Outputs()), value: make([]float64, 1),
		alone: folded{outputs: make([]float64, target.Outputs())}}
	for f, name := range schema.Categorical {
		if slices.Contains(m.Train.FoldIn.By, name) || len(m.Train.FoldIn.By) == 0 {
			c.entityFields = append(c.entityFields, f)
		}
	}
	c.since.most, c.cap, c.popular = backlogBytes(m), newEntityCap(m, &schema), newPopularity(m)
	c.rankings = newRankings(m, &c.schema)
	c.steady = steadyFields(m, &schema)
	c.progressive = newProgressive(target, m.Evaluate.Window, len(c.entityFields) > 0)
	by := -1
	if len(m.Train.FoldIn.By) > 0 {
		by = slices.Index(schema.Categorical, m.Train.FoldIn.By[0])
	}
	c.guard = newGuard(target, by, m.Evaluate.Window)
	c.drift = newDriftWatch(schema.Categorical)
	c.numbers, c.weights = newNumberScale(len(schema.Numeric), target), newWeightScale(&schema)
	c.learner, c.prescorer = c.newLearner(nil, nil), c.NewPrescorer()
	c.companions = c.newCompanions(nil, append(c.onNumbers(), c.onNames()...))
	c.mixture = newMixture(target, c.companionNames(), len(schema.Categorical), by, m.Train.FoldIn.MaxRows)
	c.sgd, c.levels = c.mixture.sgd(), newLevelMixture(target)
	if c.mixture != nil && hasBlend(m) {
		c.blend = newBlend(target, c.mixture)
	}
	return c, nil
}

// newLearner returns the fold-in that fits the champion: closed form if it has a posterior, or could have one and there is no champion.
func (c *Cycle) newLearner(ch *Champion, last learner) foldInLearner {
	if ch != nil && ch.posterior != nil || ch == nil && c.config.Train.Refit == "variational" {
		l := newPosteriorLearner(c.config, &c.schema, c.target, ch)
		if p, ok := last.(*posteriorLearner); ok {
			l.foldIn.InheritLosses(p.foldIn)
		}
		l.slots.evicted = &c.evicted
		return l
	}
	g, _ := last.(*gradientLearner)
	l := newGradientLearner(c.config, &c.schema, c.target, ch, g)
	l.slots.evicted = &c.evicted
	return l
}

// Observe scores an event with every predictor and then, if learn is true, lets the live model and the online baseline learn from it. Held-out
// events are learned from, too: no refit continues from what is live, so that they stay unseen by what is judged on them. position and payload
// are kept until the next refit is installed, so that what was learned while it ran is not lost; payload may be nil if nothing refits beside
// Observe. prescored is the event's score, or nil.
func (c *Cycle) Observe(ev *event.Event, learn bool, position Position, payload []byte, prescored *Score) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Lock()
	defer c.figures.Unlock()
	of := [1]Observation{{Event: ev, Learn: learn, Position: position, Payload: payload, Prescored: prescored}}
	defer c.weigh(of[:])()
	c.admit(&of[0], &c.admitted[0])
	c.observe(&of[0], nil)
}

// observe is Observe of an event that the fold-in has predicted and learned from ahead, unless ahead is nil.
func (c *Cycle) observe(of *Observation, ahead *folded) {
	ev, prescored := of.Event, of.Prescored
	if (c.followed != nil || c.making != nil) && of.Position.Topic != "" {
		c.reached.add(of.Position, ev)
	}
	if c.popular != nil && of.Learn && of.counts.isAll() {
		c.popular.choose(ev)
	}
	if of.First || !c.target.Encode(c.targets, ev) {
		return // a class the model does not know: the decoder rejects those, unless the schema lists none
	}
	var o [numRoles]outcome
	versus := c.progressive.compare(c.targets)
	if !versus.known {
		versus.base = ev.Label
	}
	if c.published != nil {
		if prescored == nil || prescored.of != c.published {
			prescored = &c.score
			c.prescorer.take(c.published)
			c.prescorer.score(prescored, ev, c.targets)
		}
		o[published], o[baseline0], o[baseline1] = prescored.published, prescored.baseline0, prescored.baseline1
		versus.slice = prescored.slice
		if prescored.compared && of.counts.isShared() {
			c.compareUpdates(prescored, ev)
		}
		c.names.Total += prescored.names.Total
		c.names.Unseen += prescored.names.Unseen
	}
	alone := ahead
	if ahead == nil {
		alone = &c.alone
		c.numbers.take(ev)
		c.predictAlone(alone, ev, c.targets)
	}
	o[foldIn] = alone.outcome
	o[live] = c.mix(ev, alone, prescored)
	if c.sgd != nil {
		o[baseline2] = c.target.numberOutcome(ev, c.sgd.value(), c.value, c.targets)
	} else {
		o[baseline1] = c.lastLabel(versus)
	}
	versus.beyond = !of.counts.isShared()
	c.progressive.add(&o, versus)
	if c.stretch != nil {
		c.stretch.add(&o, versus, c.mixture, ev, c.targets)
	}
	if !of.Learn || c.knows(of.Position) || of.counts.isNone() {
		return
	}
	label := ev.Label
	defer func() { ev.Label = label }()
	if ahead == nil {
		alone.label = c.limited(label)
	}
	c.learnAs(alone.label, ev)
	if of.counts.isShared() {
		c.guard.observe(ev, &o[published])
	}
	if c.config.Train.FoldIn.Enabled {
		if ahead == nil {
			learnPart(c.learner, ev, c.targets, of.counts)
		}
		for _, beside := range c.companions {
			if of.counts.isShared() {
				beside.note(ev)
			}
			beside.learn(ev, of.counts)
		}
		if ahead == nil {
			alone.alarms = nil
		}
		if ahead == nil && of.counts.isShared() {
			c.numbers.learn(label)
			alone.alarms = c.watchDrift(o[live].judged(c.target.IsNumeric()), c.refitLoss(&o[published], prescored))
		}
		for _, a := range alone.alarms {
			c.alarmed(a, ev)
		}
		c.checkLive()
	}
	if c.mixture != nil {
		c.learnMixed(ev, of.counts)
	}
	if of.Payload != nil {
		c.since.add(of.Position, of.Payload, of.counts.clone())
	}
}

// mix returns the outcome of the mixture on an event of which the fold-in makes alone.
func (c *Cycle) mix(ev *event.Event, alone *folded, prescored *Score) outcome {
	if c.mixture == nil {
		return alone.outcome
	}
	consumers := c.consumersOutputs(prescored)
	c.mixture.predict(ev, alone.outputs, consumers, c.companions)
	c.predictMixed(alone.outputs, consumers)
	if c.target.IsNumeric() {
		o := c.target.numberOutcome(ev, c.mixture.value(), c.value, c.targets)
		switch {
		case o.lossy:
		case c.levels == nil:
			o.lossy, o.loss = alone.outcome.lossy, alone.outcome.loss
		default:
			o.lossy, o.loss = true, boundedError(c.levels.loss(c.targets))
		}
		return o
	}
	c.mixture.outputs(c.outputs)
	return c.target.outcome(ev, c.outputs, c.targets)
}

// refitLoss returns the loss of the last refit by which predictors are compared, NaN without one.
func (c *Cycle) refitLoss(consumers *outcome, prescored *Score) float64 {
	switch {
	case c.published == nil:
		return math.NaN()
	case prescored.compared:
		return prescored.refit
	}
	return consumers.judged(c.target.IsNumeric())
}

// consumersOutputs returns those of the version that consumers have, nil without one.
func (c *Cycle) consumersOutputs(prescored *Score) []float64 {
	if c.published == nil || prescored == nil {
		return nil
	}
	return prescored.outputs
}

// predictMixed has what stands on the mixture predict the event that this has predicted, of which the fold-in and the version of consumers have outputs.
func (c *Cycle) predictMixed(foldIn, consumers []float64) {
	if c.blend != nil {
		c.takeBlend(foldIn)
	}
	if c.levels != nil {
		var link *levelLink
		if c.champion != nil {
			link = c.champion.link
		}
		c.levels.predict(foldIn, consumers, c.mixture.value(), link)
	}
}

// learnMixed has the mixture, and what stands on it, learn the event that they have predicted.
func (c *Cycle) learnMixed(ev *event.Event, counts *counted) {
	c.mixture.learn(ev, c.targets, counts)
	if !counts.isShared() {
		return
	}
	if c.levels != nil {
		c.levels.learn(c.targets)
	}
	if c.blend != nil {
		c.learnBlend(ev.Label)
	}
}

// lastLabel returns the outcome of the last label as a prediction, with that of the frequencies of classes after it where there is a mixture.
func (c *Cycle) lastLabel(versus compared) outcome {
	p := c.mixture.part(lastLabelPart)
	if !versus.hasLast || p != nil && !p.present {
		return outcome{}
	}
	o := outcome{present: true, correct: versus.last, class: versus.before}
	if p != nil {
		o.lossy, o.loss = true, c.mixture.loss(p, nil, c.targets)
		chance := min(max(p.value[min(int(o.class), len(p.value)-1)], leastProbability), 1-leastProbability)
		o.score = float32(math.Log(chance) - math.Log1p(-chance))
	}
	return o
}

// limited returns what a label counts as: the nearest end of the range of those before it where it is an outlier of them.
func (c *Cycle) limited(label float64) float64 {
	if low, high := c.numbers.labels(); label < low || label > high {
		return min(max(label, low), high)
	}
	return label
}

// learnAs makes the label of an event another, in the event and in c.targets.
func (c *Cycle) learnAs(label float64, ev *event.Event) {
	if label != ev.Label {
		ev.Label = label
		c.target.Encode(c.targets, ev)
	}
}

// Relearn folds a stored event in again, without scoring it: after a restart, for what lies between the last cut and the ledger.
func (c *Cycle) Relearn(position Position, payload []byte, first bool) error {
	return c.again(position, payload, first, func(ev *event.Event, counts *counted) {
		if c.knows(position) {
			return
		}
		c.learner.gather(ev)
		learnPart(c.learner, ev, c.targets, counts)
		c.numbers.take(ev)
		for _, beside := range c.companions {
			beside.learner.gather(ev)
			beside.learn(ev, counts)
		}
		c.since.add(position, payload, counts.clone())
	})
}

// Recall gives a stored event from before the last cut to what learns on from refit to refit and starts anew with the process: without scoring it, after a
// restart, before Relearn. Unless it is recent only the learner on names takes it up, which takes microseconds; others take up to hundreds.
func (c *Cycle) Recall(payload []byte, first, recent bool) error {
	return c.again(Position{}, payload, first, func(ev *event.Event, counts *counted) {
		c.numbers.take(ev)
		for _, beside := range c.companions {
			if _, names := beside.learner.(*namesLearner); beside.lasting && (recent || names) {
				beside.learner.gather(ev)
				beside.learn(ev, counts)
			}
		}
	})
}

// again decodes a stored event for something to learn from it.
func (c *Cycle) again(position Position, payload []byte, first bool, learn func(*event.Event, *counted)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Lock()
	defer c.figures.Unlock()
	var ev event.Event
	if len(c.pool) >= maxPool {
		clear(c.pool)
	}
	if err := DecodeEvent(&ev, payload, c.pool); err != nil {
		return err
	}
	if c.popular != nil {
		c.popular.choose(&ev)
	}
	if !first && c.config.Train.FoldIn.Enabled && c.target.Encode(c.targets, &ev) {
		label := ev.Label
		c.learnAs(c.limited(label), &ev)
		ev.Weight = c.weights.take(ev.Weight)
		counts := &c.admitted[0]
		c.cap.take(counts, &ev, position)
		if learn(&ev, counts); counts.isShared() {
			c.numbers.learn(label)
		}
	}
	return nil
}

// How often the live model is compared with the published one, and by how much its window loss may exceed it before it starts again.
const (
	liveCheckEvery = 1000
	liveTolerance  = 1.05
)

// checkLive starts the fold-in again from the champion if it has become worse than no fold-in at all. Where consumers have an update of another form, that
// it predicts worse than this says nothing of the champion.
func (c *Cycle) checkLive() {
	if c.goodEnough--; c.goodEnough > 0 {
		return
	}
	c.goodEnough = liveCheckEvery
	w := c.progressive.window()
	if c.champion == nil || c.published.isUpdate() && c.race.chosen != formFoldIn || w[published].N < liveCheckEvery || w[foldIn].N != w[published].N {
		return
	}
	numeric := c.target.IsNumeric()
	if w[foldIn].judged(numeric) > liveTolerance*w[published].judged(numeric) {
		c.learner = c.newLearner(c.champion, nil)
		c.resets++
		c.goodEnough = len(c.progressive.ring)
	}
}

// Install makes a refit the champion and starts the fold-in on it, with the events learned since its cut. It may run beside Observe,
// which waits only for the last few of them.
func (c *Cycle) Install(ch *Champion) {
	c.mu.Lock()
	defer c.mu.Unlock() // also after a panic, which the daemon survives
	consumers := frozen{model: ch.Model, vocab: ch.Vocabulary, popular: ch.popular}
	ch = ch.plain(&c.schema)
	next, beside := c.newLearner(ch, c.learner), c.newCompanions(ch, c.companions)
	if _, ok := next.(*gradientLearner); ok { // its carried experts are shared with the running one: hand over in one piece
		c.install(ch, consumers, next, beside)
		return
	}
	c.since.cut(ch.Version.Cut)
	var ev event.Event
	targets := make([]float64, c.target.Outputs())
	pending, done := c.since.from(0)
	low, high := c.numbers.labels()
	heaviest := c.weights.most()
	last := 2 * len(pending)
	for round := 0; round < installRounds && len(pending) > installBatch && len(pending) < last-last/installGain; round++ {
		func() {
			c.mu.Unlock()
			defer c.mu.Lock()
			c.relearn(next, beside, pending, &ev, targets, low, high, heaviest)
		}()
		last = len(pending)
		pending, done = c.since.from(done)
	}
	c.relearn(next, beside, pending, &ev, targets, low, high, heaviest)
	c.install(ch, consumers, next, beside)
}

// Install learns installBatch events while Observe waits. It lets it wait for more after installRounds, or when what came during a round is not less than
// the round by an installGain-th: Observe is then as fast as Install, as when a backlog is read, and every further round would learn for nothing.
const (
	installBatch  = 256
	installRounds = 6
	installGain   = 8
)

// maxPool is how many names of relearned events are kept for the next ones.
const maxPool = 4096

func (c *Cycle) relearn(l learner, companions []*companion, events []pending, ev *event.Event, targets []float64, low, high, heaviest float64) {
	if !c.config.Train.FoldIn.Enabled {
		return
	}
	for _, p := range events {
		if len(c.pool) >= maxPool {
			clear(c.pool)
		}
		if DecodeEvent(ev, p.payload, c.pool) != nil || !c.target.Encode(targets, ev) {
			continue
		}
		if ev.Label < low || ev.Label > high { // as limited
			ev.Label = min(max(ev.Label, low), high)
			c.target.Encode(targets, ev)
		}
		ev.Weight = min(ev.Weight, heaviest)
		l.gather(ev)
		learnPart(l, ev, targets, p.counts)
		for _, beside := range companions {
			if !beside.lasting {
				beside.learner.gather(ev)
				beside.learn(ev, p.counts)
			}
		}
	}
	clear(c.pool)
}

func (c *Cycle) install(ch *Champion, refit frozen, next foldInLearner, companions []*companion) {
	c.figures.Lock()
	defer c.figures.Unlock()
	if c.Forwarded {
		c.known.reach(ch.Version.Cut, ch.Watermark)
	}
	c.champion, c.learner, c.companions, c.instead, c.rejections = ch, next, c.goOn(ch, companions), nil, 0
	c.unfollow()
	c.endMaking()
	c.published, c.turned = &consumed{frozen: refit, refit: refit, means: ch.means, limit: ch.outputLimit()}, false
	if ch.holdout.seen() > 0 {
		c.guard.held = ch.holdout
	}
	c.guard.support(&ch.Version)
}

// Update returns the live model as an ordinary model over the champion's vocabulary plus what was learned since, or nil without a
// champion. NextUpdate says whether consumers should have it.
func (c *Cycle) Update() *Champion {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.champion == nil {
		return nil
	}
	forms := c.forms(false)
	return c.update(&forms)
}

// update returns an update in the form that they are made of.
func (c *Cycle) update(forms *[numForms]made) *Champion {
	of := &forms[c.race.chosen]
	if of.model == nil {
		of = &forms[formFoldIn]
	}
	u := of.of(c.champion)
	u.CutShort = nil // that of the refit
	u.Version.FeatureMap = mapText(of.vocab.Map)
	c.noteLive(u)
	asUpdate(&u.Version)
	u.Version.K, u.Version.Features = u.Model.NumBasis, u.Vocabulary.NumColumns()
	return u
}

// Configure takes up a configuration that differs in what train.lambda, train.time_budget and publish.gate say, from the next refit on.
// Call it from the goroutine that calls Install.
func (c *Cycle) Configure(m *config.Model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Lock()
	defer c.figures.Unlock()
	c.config = m
}

// Champion returns the last promoted refit, or nil.
func (c *Cycle) Champion() *Champion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.champion
}
