package cycle

import (
	"math"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// Cycle is the learning cycle of one model. It is one type: a method for each thing that callers ask of it, under one
// lock.
type Cycle struct {
	*common
	Options
	backlog     rows.Backlog  // events since the sample of the refit under way was taken; guarded by mu
	batchScorer *BatchScorer  // of events that come without a score
	score       updates.Score // scratch for those
	ensemble
	watch
	progress
	publisher
	lineage
}

// New returns the cycle of a model without a champion. now is the clock for training times; events are never timed.
func New(m *config.Model, now func() time.Time) (*Cycle, error) {
	schema := m.Schema.Event()
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		return nil, err
	}
	c := &Cycle{
		common: &common{
			config:        m,
			schema:        schema,
			target:        target,
			now:           now,
			tables:        tables.New(m),
			baselineField: slices.Index(schema.Categorical, m.Evaluate.BaselineBy),
		},
		ensemble: ensemble{
			pool:    make(rows.Interner),
			outputs: make([]float64, target.Outputs()),
			targets: make([]float64, target.Outputs()),
			value:   make([]float64, 1),
		},
		progress: progress{
			goodEnough: liveCheckEvery,
		},
		publisher: publisher{
			comparison: updates.NewUpdateComparison(),
			race:       updates.NewVariantSelector(),
		},
	}
	// One value, shared: a lock, the target and the champion are the same for all of them.
	c.ensemble.common, c.watch.common, c.progress.common = c.common, c.common, c.common
	c.publisher.common, c.lineage.common = c.common, c.common
	for f, name := range schema.Categorical {
		if slices.Contains(m.Train.FoldIn.By, name) || len(m.Train.FoldIn.By) == 0 {
			c.entityFields = append(c.entityFields, f)
		}
	}
	c.backlog.Most, c.ensemble.cap, c.ensemble.popular = rows.BacklogBytes(m), admission.NewEntityCap(m, &schema),
		fitted.NewPopularity(m)
	c.publisher.rankings = updates.NewRankings(m, &c.schema)
	c.nonForgetting = updates.NonForgettingFields(m, &schema)
	c.progress.progressive = evaluate.NewProgressive(target, m.Evaluate.Window, len(c.entityFields) > 0)
	c.watch.drift = drift.NewWatch(m, schema.Categorical)
	c.ensemble.numbers, c.ensemble.weights = encode.NewNumberScale(len(schema.Numeric), target), encode.NewWeightScale(m)
	c.ensemble.learner, c.batchScorer = c.ensemble.newLearner(nil, nil), c.NewBatchScorer()
	setting := c.ensemble.setting()
	baselines := baselineSetting(setting)
	c.publisher.guard = guard.New(target, baselines.By, m.Evaluate.Window)
	c.publisher.guard.Tables, c.ensemble.cap.Tables = c.tables, c.tables
	c.publisher.guard.Flooded = c.ensemble.cap.IsFlooded
	c.ensemble.experts = c.ensemble.newExperts(nil, setting.NewLasting())
	c.ensemble.linear = setting.NewLinear()
	c.ensemble.mixture = mixture.NewMixture(setting.Names(), baselines)
	c.ensemble.startSleep()
	if c.ensemble.sgd = c.ensemble.mixture.Sgd(); !m.LeavesOut(mixture.PartLevels) {
		c.ensemble.levels = mixture.NewOrdinalMixture(target)
	}
	if c.ensemble.mixture != nil && mixture.HasStackedUpdate(m) {
		c.ensemble.stacked = mixture.NewStackedUpdate(target, c.ensemble.mixture)
	}
	if c.publisher.rankings == nil && mixture.IsPooled(target) && !m.LeavesOut(pooledVariant.name) {
		c.ensemble.pooled = mixture.NewPooledUpdate(target)
	}
	return c, nil
}

// newLearner returns the fold-in that fits the champion: closed form if it has a posterior, or could have one and there
// is no champion.
func (e *ensemble) newLearner(ch *fitted.Fitted, last experts.Learner) experts.FoldInLearner {
	if ch != nil && ch.Posterior != nil || ch == nil && e.config.Train.Refit == "variational" {
		l := experts.NewFoldIn(e.config, &e.schema, e.target, ch)
		if p, ok := last.(*experts.FoldIn); ok {
			l.FoldIn.InheritLosses(p.FoldIn)
		}
		l.Slots.Evicted = &e.evicted
		e.follow(l, ch)
		return l
	}
	// A fold-in of the other kind has nothing to pass on: g is nil then.
	g, _ := last.(*experts.Gradient)
	l := experts.NewGradient(e.config, &e.schema, e.target, ch, g)
	l.Slots.Evicted = &e.evicted
	return l
}

// Observe scores an event with every predictor and then, if learn is true, lets the live model and the online baseline
// learn from it. Held-out events are learned from, too: no refit continues from what is live, so that they stay unseen
// by what is judged on them. position and payload are kept until the next refit is installed, so that what was learned
// while it ran is not lost; payload may be nil if no refit runs concurrently. prescored is the event's score, or
// nil.
func (c *Cycle) Observe(ev *event.Event, learn bool, position rows.Position, payload []byte, prescored *updates.Score) {
	c.observeChunk([]Observation{{Event: ev, Learn: learn, Position: position, Payload: payload, Prescored: prescored}},
		func(_ int, fault any) { panic(fault) })
}

// observe is Observe of event i of a chunk, which the fold-in and the experts have predicted and learned.
func (c *Cycle) observe(of *Observation, i int) {
	ev, prescored := of.Event, of.Prescored
	if (c.publisher.deltas != nil || c.publisher.pending != nil) && of.Position.Topic != "" {
		c.publisher.frontier.Add(of.Position, ev)
	}
	if c.ensemble.popular != nil && of.Learn && of.counts.IsAll() {
		c.ensemble.popular.Choose(ev)
	}
	alone := &c.ensemble.pipeline.folded[i]
	if !alone.scored {
		return
	}
	c.target.Encode(c.ensemble.targets, ev)
	if of.Stage == Final {
		if c.judge(of); !of.Learn {
			return
		}
	}
	var o [evaluate.NumRoles]evaluate.EventOutcome
	var versus evaluate.Compared
	if of.Stage == Whole {
		versus = c.progress.progressive.Compare(c.ensemble.targets)
	}
	if !versus.Known {
		versus.Base = ev.Label
	}
	// 1. What consumers would have said: scored in advance by another goroutine, unless they have had something else
	// since.
	if served := c.publisher.published.Load(); served != nil {
		if prescored == nil || prescored.Of != served {
			prescored = &c.score
			c.batchScorer.take(served)
			c.batchScorer.score(prescored, ev, c.ensemble.targets)
		}
		o[evaluate.Published], o[evaluate.Baseline0], o[evaluate.Baseline1] = prescored.Published, prescored.Baseline0,
			prescored.Baseline1
		versus.Slice = prescored.Slice
		if prescored.Compared && of.counts.IsShared() && of.Stage == Whole {
			c.compareUpdates(prescored, ev)
		}
		if of.Stage <= Shown {
			c.progress.names.Total += prescored.Names.Total
			c.progress.names.Unseen += prescored.Names.Unseen
		}
	}
	// 2. What the live model says, all before any part of it learns from the event.
	o[evaluate.FoldIn] = alone.outcome
	o[evaluate.Live] = c.mix(ev, i, prescored)
	if c.ensemble.sgd != nil {
		o[evaluate.Baseline2] = evaluate.NumberOutcome(c.target, ev, c.ensemble.sgd.Value(), c.ensemble.value,
			c.ensemble.targets)
	} else {
		o[evaluate.Baseline1] = c.ensemble.lastLabel(versus)
	}
	if l := c.ensemble.linear; l != nil {
		l.Take(ev)
		o[evaluate.Baseline2] = evaluate.Outcome(c.target, ev, l.Predict(ev), c.ensemble.targets)
	}
	// 3. The figures of the report, or what they are made of once the label is final.
	switch of.Stage {
	case Whole:
		c.report(&o, versus, of)
	case Shown:
		c.say(of, i, &o, prescored)
		return
	}
	// 4. A label that takes the place of an earlier one moves what that one had moved.
	if alone.correction != nil {
		c.correct(of, alone.correction)
	}
	if !alone.learned {
		return
	}
	label := ev.Label
	defer func() { ev.Label = label }()
	// 5. Learning. An outlier counts as the end of the range of labels before it; the caller gets the event back as it
	// was.
	c.ensemble.learnAs(alone.label, ev)
	isWhole := of.Stage == Whole // else all that follows is judged once the label is final
	if of.counts.IsShared() && isWhole {
		c.publisher.guard.Observe(ev, &o[evaluate.Published])
	}
	if c.config.Train.FoldIn.Enabled {
		if _, closed := c.ensemble.learner.(*experts.FoldIn); !closed && of.counts.IsShared() && isWhole {
			alone.alarms = c.watchDrift(o[evaluate.Live].Judged(c.target.IsNumeric()),
				c.publisher.refitLoss(&o[evaluate.Published], prescored))
		}
		for _, a := range alone.alarms {
			c.alarmed(a, ev)
		}
		// Last, as it may replace the fold-in.
		c.checkLive()
	}
	switch {
	case c.ensemble.mixture == nil:
	case isWhole:
		c.ensemble.learnMixed(ev, of.counts)
	default:
		c.ensemble.mixture.LearnBaselines(ev, c.ensemble.targets, of.counts)
	}
	if l := c.ensemble.linear; l != nil {
		if l.Learn(ev, of.counts); of.counts.IsShared() {
			l.LearnNumbers(label)
		}
	}
	// Kept for Install, which lets the next fold-in learn what came while its refit ran.
	if of.Payload != nil {
		c.backlog.Add(of.Position, of.Payload, of.counts.Clone())
	}
}

// mix returns the outcome of the mixture on event i of a chunk.
func (c *Cycle) mix(ev *event.Event, i int, prescored *updates.Score) evaluate.EventOutcome {
	alone := &c.ensemble.pipeline.folded[i]
	if c.ensemble.mixture == nil {
		return alone.outcome
	}
	// The refit is a part of the mixture like the others. An update is not: it is one of the parts already.
	refit := c.publisher.refitOutputs(prescored)
	c.ensemble.predicted = c.ensemble.predicted[:0]
	for k := range c.ensemble.experts {
		c.ensemble.predicted = append(c.ensemble.predicted, c.ensemble.pipeline.outputsOf(k, i))
	}
	c.ensemble.mixture.Combine(ev, alone.outputs, refit, c.ensemble.experts, c.ensemble.predicted)
	c.ensemble.predictMixed(alone.outputs, refit)
	if c.target.IsNumeric() {
		o := evaluate.NumberOutcome(c.target, ev, c.ensemble.mixture.Value(), c.ensemble.value, c.ensemble.targets)
		switch {
		case o.Lossy:
		case c.ensemble.levels == nil:
			o.Lossy, o.Loss = alone.outcome.Lossy, alone.outcome.Loss
		default:
			o.Lossy, o.Loss = true, evaluate.BoundedError(c.ensemble.levels.Loss(c.ensemble.targets))
		}
		return o
	}
	c.ensemble.mixture.Outputs(c.ensemble.outputs)
	return evaluate.Outcome(c.target, ev, c.ensemble.outputs, c.ensemble.targets)
}

// refitLoss returns the loss of the last refit by which predictors are compared, NaN without one.
func (u *publisher) refitLoss(consumers *evaluate.EventOutcome, prescored *updates.Score) float64 {
	switch {
	case u.published.Load() == nil:
		return math.NaN()
	case prescored.Compared:
		return prescored.Refit
	}
	return consumers.Judged(u.target.IsNumeric())
}

// refitOutputs returns those of the last promoted refit, nil without one.
func (u *publisher) refitOutputs(prescored *updates.Score) []float64 {
	if u.published.Load() == nil || prescored == nil || u.config.LeavesOut(mixture.PartRefit) {
		return nil
	}
	if len(prescored.RefitOutputs) > 0 {
		return prescored.RefitOutputs
	}
	return prescored.Outputs
}

// predictMixed has the stacking and the ordinal mixture predict an event that the mixture has predicted. foldIn and
// refit are the outputs of the fold-in and of the last promoted refit.
func (e *ensemble) predictMixed(foldIn, refit []float64) {
	if e.stacked != nil {
		e.takeStacked(foldIn)
	}
	if e.levels != nil {
		var link *encode.LevelLink
		if e.champion != nil {
			link = e.champion.Link
		}
		e.levels.Predict(foldIn, refit, e.mixture.Value(), link)
	}
}

// learnMixed has the mixture, the stacking and the ordinal mixture learn the event that they have predicted.
func (e *ensemble) learnMixed(ev *event.Event, counts *rows.Counted) {
	e.mixture.Learn(ev, e.targets, counts)
	if counts.IsShared() {
		e.judgeMixed(ev)
	}
}

// judgeMixed is learnMixed of the stacking and the ordinal mixture alone.
func (e *ensemble) judgeMixed(ev *event.Event) {
	if e.levels != nil {
		e.levels.Learn(e.targets)
	}
	if e.stacked != nil {
		e.learnStacked(ev.Label)
	}
}

// lastLabel returns the outcome of the last label as a prediction, with that of the frequencies of classes after it
// where there is a mixture.
func (e *ensemble) lastLabel(versus evaluate.Compared) evaluate.EventOutcome {
	p := e.mixture.Part(baselines.PartLastLabel)
	if !versus.HasLast || p != nil && !p.Present {
		return evaluate.EventOutcome{}
	}
	o := evaluate.EventOutcome{Present: true, Correct: versus.Last, Class: versus.Before}
	if p != nil {
		o.Lossy, o.Loss = true, e.mixture.Loss(p, nil, e.targets)
		chance := min(max(p.Value[min(int(o.Class), len(p.Value)-1)], evaluate.LeastProbability),
			1-evaluate.LeastProbability)
		o.Score = float32(math.Log(chance) - math.Log1p(-chance))
	}
	return o
}

// winsorised returns what a label counts as: the nearest end of the range of those before it where it is an outlier of
// them.
func (e *ensemble) winsorised(label float64) float64 {
	if low, high := e.numbers.Labels(); label < low || label > high {
		return min(max(label, low), high)
	}
	return label
}

// learnAs makes the label of an event another, in the event and in c.targets.
func (e *ensemble) learnAs(label float64, ev *event.Event) {
	if label != ev.Label {
		ev.Label = label
		e.target.Encode(e.targets, ev)
	}
}

// Relearn folds a stored event in again, without scoring it: after a restart, for what lies between the last cut and
// the ledger.
func (c *Cycle) Relearn(position rows.Position, payload []byte, first bool) error {
	return c.ensemble.again(position, payload, first, func(ev *event.Event, counts *rows.Counted) {
		if c.knows(position) {
			return
		}
		c.ensemble.learner.Gather(ev)
		experts.LearnPart(c.ensemble.learner, ev, c.ensemble.targets, counts)
		c.ensemble.takeNumbers(ev)
		for _, expert := range c.ensemble.experts {
			expert.Relearn(ev, counts)
		}
		c.backlog.Add(position, payload, counts.Clone())
	})
}

// Recall gives a stored event from before the last cut to what learns on from refit to refit and starts anew with the
// process: without scoring it, after a restart, before Relearn. Unless it is recent only the learner on names takes it
// up, which takes microseconds; others take up to hundreds.
func (e *ensemble) Recall(payload []byte, first, recent bool) error {
	return e.again(rows.Position{}, payload, first, func(ev *event.Event, counts *rows.Counted) {
		e.takeNumbers(ev)
		for _, expert := range e.experts {
			if _, names := expert.Learner.(*experts.Pairwise); expert.Lasting && (recent || names) {
				expert.Relearn(ev, counts)
			}
		}
	})
}

// again decodes a stored event for something to learn from it.
func (e *ensemble) again(position rows.Position, payload []byte, first bool,
	learn func(*event.Event, *rows.Counted)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reportMu.Lock()
	defer e.reportMu.Unlock()
	var ev event.Event
	if len(e.pool) >= maxPool {
		clear(e.pool)
	}
	if err := rows.DecodeEvent(&ev, payload, e.pool); err != nil {
		return err
	}
	e.tables.Join(&ev)
	ev.Weight = e.weights.Take(ev.Weight)
	counts := &e.admitted[0]
	e.cap.Take(counts, &ev, position)
	if e.popular != nil && counts.IsAll() {
		e.popular.Choose(&ev)
	}
	if !first && e.config.Train.FoldIn.Enabled && e.target.Encode(e.targets, &ev) {
		label := ev.Label
		e.learnAs(e.winsorised(label), &ev)
		if learn(&ev, counts); counts.IsShared() {
			e.numbers.Learn(label)
			for _, expert := range e.experts {
				expert.LearnNumbers(label)
			}
		}
	}
	return nil
}

// How often the live model is compared with the published one, and by how much its window loss may exceed it before it
// starts again. Chosen by hand.
const (
	liveCheckEvery = 1000
	liveTolerance  = 1.05
)

// checkLive starts the fold-in again from the champion if it has become worse than no fold-in at all. Where consumers
// have another variant, a worse prediction than that says nothing about the champion.
func (c *Cycle) checkLive() {
	if c.progress.goodEnough--; c.progress.goodEnough > 0 {
		return
	}
	c.progress.goodEnough = liveCheckEvery
	// Only windows of the same events can be compared.
	w := c.progress.progressive.Window()
	if c.champion == nil || c.publisher.published.Load().IsUpdate() && c.publisher.race.Chosen != mixture.FormFoldIn ||
		w[evaluate.Published].N < liveCheckEvery ||
		w[evaluate.FoldIn].N != w[evaluate.Published].N {
		return
	}
	numeric := c.target.IsNumeric()
	if w[evaluate.FoldIn].Judged(numeric) > liveTolerance*w[evaluate.Published].Judged(numeric) {
		c.ensemble.learner = c.ensemble.newLearner(c.champion, nil)
		c.progress.resets++
		c.progress.goodEnough = len(c.progress.progressive.Ring)
	}
}

// Update returns the live model as an ordinary model over the champion's vocabulary plus what was learned since, or nil
// without a champion. NextUpdate says whether consumers should have it.
func (c *Cycle) Update() *fitted.Fitted {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.champion == nil {
		return nil
	}
	c.ensemble.begin()
	forms := c.ensemble.candidates(false)
	return c.update(&forms)
}

// update returns an update in the chosen variant.
func (c *Cycle) update(forms *[mixture.NumForms]updates.Candidate) *fitted.Fitted {
	of := &forms[c.publisher.race.Chosen]
	if of.Model == nil {
		of = &forms[mixture.FormFoldIn]
	}
	u := of.Of(c.champion)
	u.Tables = c.tables.Snapshot()
	u.CutShort = nil // that of the refit
	u.Version.FeatureMap = encode.MapText(of.Vocab.Map)
	c.ensemble.noteLive(u)
	convex.AsUpdate(&u.Version)
	u.Version.K, u.Version.Features = u.Model.NumBasis, u.Vocabulary.NumColumns()
	return u
}

// Configure takes up a configuration that differs in what train.lambda, train.time_budget and publish.gate say, from
// the next refit on.
// Call it from the goroutine that calls Install.
func (s *common) Configure(m *config.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportMu.Lock()
	defer s.reportMu.Unlock()
	s.config = m
}

// Champion returns the last promoted refit, or nil.
func (s *common) Champion() *fitted.Fitted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.champion
}
