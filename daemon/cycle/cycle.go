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
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/solver"
)

// Cycle is the learning cycle of one model.
type Cycle struct {
	// Workers is the number of goroutines of a refit; 0 takes GOMAXPROCS. Results do not depend on it. Set it before
	// use.
	Workers int
	// Cold starts every refit from nothing, not from the live model: what warm starts are measured against. Set it
	// before use.
	Cold bool
	// Throttle, if not nil, returns what a refit calls between its blocks, as solver.Settings.Yield, given its context
	// and time budget, 0 for
	// none. Set it before use.
	Throttle func(ctx context.Context, budget time.Duration) (yield func())
	// Forwarded says that events come from the processes that read them, and may be in a refit before they come: Reach
	// and Known. Set it before use.
	Forwarded bool
	// Stored, if not nil, returns what of the events that were observed is stored, which updates say that they hold;
	// else they say what the refit
	// does. Set it before use.
	Stored func() updates.Stored

	config        *config.Model
	schema        event.Schema
	target        *encode.Target
	now           func() time.Time
	pool          rows.Interner // names of relearned events
	baselineField int           // categorical field of the item mean, or -1
	entityFields  []int         // categorical fields by whose names events are new or known
	nonForgetting []bool        // NonForgettingFields

	evicted atomic.Int64 // names that the fold-in gave up for others

	// reportMu is taken after mu by who changes what is told of losses, names, outliers and forms, and alone by who
	// tells it: an update that is made
	// holds mu for as long as it copies a million names, and whoever scrapes metrics does not wait for it.
	reportMu sync.Mutex

	mu         sync.Mutex // guards what follows; Refit and Install take it for short whiles beside Observe
	learner    experts.FoldInLearner
	experts    []*experts.Expert
	drift      drift.Watch
	alarms     []drift.DriftAlarm  // that nobody has taken
	numbers    *encode.NumberScale // what companions see of them
	weights    *encode.WeightScale // nil where events have no weights
	champion   *fitted.Fitted      // the last promoted refit
	rejections int
	failedFrom *solver.Model          // of the champion that a refit continued from and failed; nil without
	fallback   *task.Fallback         // nil unless there was a champion that cannot be read
	published  *updates.Served        // the champion or an update of it
	deltas     *updates.DeltaStream   // the newest update; nil without
	pending    *updates.Update        // of the live model, beside the newest one; nil without
	live       *updates.LiveCopy      // for Live; nil without
	liveAdded  *fitted.PopularWeights // that the last copy for Live has beside what was learned; nil for none
	frontier   updates.Frontier       // by events, while there are deltas
	known      updates.Frontier       // by refits and events, where these are forwarded
	comparison updates.UpdateComparison
	updates    bool        // consumers should have updates, by lag
	guard      guard.Guard // of updates against their refit
	// a chain of deltas ended because it was worse than its refit: consumers get that again
	chainEnded  bool
	heldBack    []guard.HeldBack        // that nobody has taken
	race        updates.VariantSelector // of what updates are made of
	interval    *mixture.IntervalLosses // nil unless they are watched
	progressive *evaluate.Progressive
	mixture     *mixture.Mixture // nil if what is live is the fold-in alone
	levels      *mixture.OrdinalMixture
	popular     *fitted.Popularity     // of choices; nil of events with labels
	rankings    *updates.Rankings      // the same
	stacked     *mixture.StackedUpdate // nil where versions hold no sums
	sgd         *experts.SGDBias       // a part of the mixture; nil for classes
	backlog     rows.Backlog
	resets      int
	names       evaluate.NameCounts
	goodEnough  int // events until the live model is compared with the published one again
	cap         *experts.EntityCap
	admitted    [pipelineMost]rows.Counted // of the events of a chunk

	batchScorer *BatchScorer // of events that come without a score
	score       updates.Score
	foldInOnly  folded // of an event that was not learned ahead
	pipeline    pipeline
	outputs     []float64 // of the mixture
	targets     []float64
	value       []float64 // of a baseline
}

// New returns the cycle of a model without a champion. now is the clock for training times; events are never timed.
func New(m *config.Model, now func() time.Time) (*Cycle, error) {
	schema := m.Schema.Event()
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		return nil, err
	}
	c := &Cycle{
		config:        m,
		schema:        schema,
		target:        target,
		now:           now,
		pool:          make(rows.Interner),
		baselineField: slices.Index(schema.Categorical, m.Evaluate.BaselineBy),
		goodEnough:    liveCheckEvery,
		comparison:    updates.UpdateComparison{Scale: evaluate.Fading{Rate: updates.UpdateFade}},
		race:          updates.NewVariantSelector(),
		outputs: make(
			[]float64,
			target.Outputs(),
		),
		targets:    make([]float64, target.Outputs()),
		value:      make([]float64, 1),
		foldInOnly: folded{outputs: make([]float64, target.Outputs())},
	}
	for f, name := range schema.Categorical {
		if slices.Contains(m.Train.FoldIn.By, name) || len(m.Train.FoldIn.By) == 0 {
			c.entityFields = append(c.entityFields, f)
		}
	}
	c.backlog.Most, c.cap, c.popular = rows.BacklogBytes(m), experts.NewEntityCap(m, &schema), fitted.NewPopularity(m)
	c.rankings = updates.NewRankings(m, &c.schema)
	c.nonForgetting = updates.NonForgettingFields(m, &schema)
	c.progressive = evaluate.NewProgressive(target, m.Evaluate.Window, len(c.entityFields) > 0)
	by := -1
	if len(m.Train.FoldIn.By) > 0 {
		by = slices.Index(schema.Categorical, m.Train.FoldIn.By[0])
	}
	c.guard = guard.New(target, by, m.Evaluate.Window)
	c.drift = drift.NewWatch(schema.Categorical)
	c.numbers, c.weights = encode.NewNumberScale(len(schema.Numeric), target), encode.NewWeightScale(&schema)
	c.learner, c.batchScorer = c.newLearner(nil, nil), c.NewBatchScorer()
	c.experts = c.newExperts(nil, append(c.onNumbers(), c.onPairwise()...))
	c.mixture = mixture.NewMixture(target, c.expertNames(), len(schema.Categorical), by, m.Train.FoldIn.MaxRows)
	c.sgd, c.levels = c.mixture.Sgd(), mixture.NewOrdinalMixture(target)
	if c.mixture != nil && mixture.HasStackedUpdate(m) {
		c.stacked = mixture.NewStackedUpdate(target, c.mixture)
	}
	return c, nil
}

// newLearner returns the fold-in that fits the champion: closed form if it has a posterior, or could have one and there
// is no champion.
func (c *Cycle) newLearner(ch *fitted.Fitted, last experts.Learner) experts.FoldInLearner {
	if ch != nil && ch.Posterior != nil || ch == nil && c.config.Train.Refit == "variational" {
		l := experts.NewFoldIn(c.config, &c.schema, c.target, ch)
		if p, ok := last.(*experts.FoldIn); ok {
			l.FoldIn.InheritLosses(p.FoldIn)
		}
		l.Slots.Evicted = &c.evicted
		return l
	}
	g, _ := last.(*experts.Gradient)
	l := experts.NewGradient(c.config, &c.schema, c.target, ch, g)
	l.Slots.Evicted = &c.evicted
	return l
}

// Observe scores an event with every predictor and then, if learn is true, lets the live model and the online baseline
// learn from it. Held-out events are learned from, too: no refit continues from what is live, so that they stay unseen
// by what is judged on them. position and payload are kept until the next refit is installed, so that what was learned
// while it ran is not lost; payload may be nil if nothing refits beside
// Observe. prescored is the event's score, or nil.
func (c *Cycle) Observe(ev *event.Event, learn bool, position rows.Position, payload []byte, prescored *updates.Score) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	of := [1]Observation{{Event: ev, Learn: learn, Position: position, Payload: payload, Prescored: prescored}}
	defer c.weigh(of[:])()
	c.admit(&of[0], &c.admitted[0])
	c.observe(&of[0], nil)
}

// observe is Observe of an event that the fold-in has predicted and learned from ahead, unless ahead is nil.
func (c *Cycle) observe(of *Observation, ahead *folded) {
	ev, prescored := of.Event, of.Prescored
	if (c.deltas != nil || c.pending != nil) && of.Position.Topic != "" {
		c.frontier.Add(of.Position, ev)
	}
	if c.popular != nil && of.Learn && of.counts.IsAll() {
		c.popular.Choose(ev)
	}
	if of.First || !c.target.Encode(c.targets, ev) {
		return // a class the model does not know: the decoder rejects those, unless the schema lists none
	}
	var o [evaluate.NumRoles]evaluate.EventOutcome
	versus := c.progressive.Compare(c.targets)
	if !versus.Known {
		versus.Base = ev.Label
	}
	if c.published != nil {
		if prescored == nil || prescored.Of != c.published {
			prescored = &c.score
			c.batchScorer.take(c.published)
			c.batchScorer.score(prescored, ev, c.targets)
		}
		o[evaluate.Published], o[evaluate.Baseline0], o[evaluate.Baseline1] = prescored.Published, prescored.Baseline0,
			prescored.Baseline1
		versus.Slice = prescored.Slice
		if prescored.Compared && of.counts.IsShared() {
			c.compareUpdates(prescored, ev)
		}
		c.names.Total += prescored.Names.Total
		c.names.Unseen += prescored.Names.Unseen
	}
	alone := ahead
	if ahead == nil {
		alone = &c.foldInOnly
		c.numbers.Take(ev)
		c.predictFoldIn(alone, ev, c.targets)
	}
	o[evaluate.FoldIn] = alone.outcome
	o[evaluate.Live] = c.mix(ev, alone, prescored)
	if c.sgd != nil {
		o[evaluate.Baseline2] = evaluate.NumberOutcome(c.target, ev, c.sgd.Value(), c.value, c.targets)
	} else {
		o[evaluate.Baseline1] = c.lastLabel(versus)
	}
	versus.Beyond = !of.counts.IsShared()
	c.progressive.Add(&o, versus)
	if c.interval != nil {
		c.interval.Add(&o, versus, c.mixture, ev, c.targets)
	}
	if !of.Learn || c.knows(of.Position) || of.counts.IsNone() {
		return
	}
	label := ev.Label
	defer func() { ev.Label = label }()
	if ahead == nil {
		alone.label = c.winsorised(label)
	}
	c.learnAs(alone.label, ev)
	if of.counts.IsShared() {
		c.guard.Observe(ev, &o[evaluate.Published])
	}
	if c.config.Train.FoldIn.Enabled {
		if ahead == nil {
			experts.LearnPart(c.learner, ev, c.targets, of.counts)
		}
		for _, beside := range c.experts {
			if of.counts.IsShared() {
				beside.Note(ev)
			}
			beside.Learn(ev, of.counts)
		}
		if ahead == nil {
			alone.alarms = nil
		}
		if ahead == nil && of.counts.IsShared() {
			c.numbers.Learn(label)
			alone.alarms = c.watchDrift(
				o[evaluate.Live].Judged(c.target.IsNumeric()),
				c.refitLoss(&o[evaluate.Published], prescored),
			)
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
		c.backlog.Add(of.Position, of.Payload, of.counts.Clone())
	}
}

// mix returns the outcome of the mixture on an event of which the fold-in makes alone.
func (c *Cycle) mix(ev *event.Event, alone *folded, prescored *updates.Score) evaluate.EventOutcome {
	if c.mixture == nil {
		return alone.outcome
	}
	consumers := c.consumersOutputs(prescored)
	c.mixture.Predict(ev, alone.outputs, consumers, c.experts)
	c.predictMixed(alone.outputs, consumers)
	if c.target.IsNumeric() {
		o := evaluate.NumberOutcome(c.target, ev, c.mixture.Value(), c.value, c.targets)
		switch {
		case o.Lossy:
		case c.levels == nil:
			o.Lossy, o.Loss = alone.outcome.Lossy, alone.outcome.Loss
		default:
			o.Lossy, o.Loss = true, evaluate.BoundedError(c.levels.Loss(c.targets))
		}
		return o
	}
	c.mixture.Outputs(c.outputs)
	return evaluate.Outcome(c.target, ev, c.outputs, c.targets)
}

// refitLoss returns the loss of the last refit by which predictors are compared, NaN without one.
func (c *Cycle) refitLoss(consumers *evaluate.EventOutcome, prescored *updates.Score) float64 {
	switch {
	case c.published == nil:
		return math.NaN()
	case prescored.Compared:
		return prescored.Refit
	}
	return consumers.Judged(c.target.IsNumeric())
}

// consumersOutputs returns those of the version that consumers have, nil without one.
func (c *Cycle) consumersOutputs(prescored *updates.Score) []float64 {
	if c.published == nil || prescored == nil {
		return nil
	}
	return prescored.Outputs
}

// predictMixed has what stands on the mixture predict the event that this has predicted, of which the fold-in and the
// version of consumers have outputs.
func (c *Cycle) predictMixed(foldIn, consumers []float64) {
	if c.stacked != nil {
		c.takeStacked(foldIn)
	}
	if c.levels != nil {
		var link *encode.LevelLink
		if c.champion != nil {
			link = c.champion.Link
		}
		c.levels.Predict(foldIn, consumers, c.mixture.Value(), link)
	}
}

// learnMixed has the mixture, and what stands on it, learn the event that they have predicted.
func (c *Cycle) learnMixed(ev *event.Event, counts *rows.Counted) {
	c.mixture.Learn(ev, c.targets, counts)
	if !counts.IsShared() {
		return
	}
	if c.levels != nil {
		c.levels.Learn(c.targets)
	}
	if c.stacked != nil {
		c.learnStacked(ev.Label)
	}
}

// lastLabel returns the outcome of the last label as a prediction, with that of the frequencies of classes after it
// where there is a mixture.
func (c *Cycle) lastLabel(versus evaluate.Compared) evaluate.EventOutcome {
	p := c.mixture.Part(experts.LastLabelPart)
	if !versus.HasLast || p != nil && !p.Present {
		return evaluate.EventOutcome{}
	}
	o := evaluate.EventOutcome{Present: true, Correct: versus.Last, Class: versus.Before}
	if p != nil {
		o.Lossy, o.Loss = true, c.mixture.Loss(p, nil, c.targets)
		chance := min(
			max(p.Value[min(int(o.Class), len(p.Value)-1)], evaluate.LeastProbability),
			1-evaluate.LeastProbability,
		)
		o.Score = float32(math.Log(chance) - math.Log1p(-chance))
	}
	return o
}

// winsorised returns what a label counts as: the nearest end of the range of those before it where it is an outlier of
// them.
func (c *Cycle) winsorised(label float64) float64 {
	if low, high := c.numbers.Labels(); label < low || label > high {
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

// Relearn folds a stored event in again, without scoring it: after a restart, for what lies between the last cut and
// the ledger.
func (c *Cycle) Relearn(position rows.Position, payload []byte, first bool) error {
	return c.again(position, payload, first, func(ev *event.Event, counts *rows.Counted) {
		if c.knows(position) {
			return
		}
		c.learner.Gather(ev)
		experts.LearnPart(c.learner, ev, c.targets, counts)
		c.numbers.Take(ev)
		for _, beside := range c.experts {
			beside.Learner.Gather(ev)
			beside.Learn(ev, counts)
		}
		c.backlog.Add(position, payload, counts.Clone())
	})
}

// Recall gives a stored event from before the last cut to what learns on from refit to refit and starts anew with the
// process: without scoring it, after a restart, before Relearn. Unless it is recent only the learner on names takes it
// up, which takes microseconds; others take up to hundreds.
func (c *Cycle) Recall(payload []byte, first, recent bool) error {
	return c.again(rows.Position{}, payload, first, func(ev *event.Event, counts *rows.Counted) {
		c.numbers.Take(ev)
		for _, beside := range c.experts {
			if _, names := beside.Learner.(*experts.Pairwise); beside.Lasting && (recent || names) {
				beside.Learner.Gather(ev)
				beside.Learn(ev, counts)
			}
		}
	})
}

// again decodes a stored event for something to learn from it.
func (c *Cycle) again(
	position rows.Position,
	payload []byte,
	first bool,
	learn func(*event.Event, *rows.Counted),
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	var ev event.Event
	if len(c.pool) >= maxPool {
		clear(c.pool)
	}
	if err := rows.DecodeEvent(&ev, payload, c.pool); err != nil {
		return err
	}
	if c.popular != nil {
		c.popular.Choose(&ev)
	}
	if !first && c.config.Train.FoldIn.Enabled && c.target.Encode(c.targets, &ev) {
		label := ev.Label
		c.learnAs(c.winsorised(label), &ev)
		ev.Weight = c.weights.Take(ev.Weight)
		counts := &c.admitted[0]
		c.cap.Take(counts, &ev, position)
		if learn(&ev, counts); counts.IsShared() {
			c.numbers.Learn(label)
		}
	}
	return nil
}

// How often the live model is compared with the published one, and by how much its window loss may exceed it before it
// starts again.
const (
	liveCheckEvery = 1000
	liveTolerance  = 1.05
)

// checkLive starts the fold-in again from the champion if it has become worse than no fold-in at all. Where consumers
// have an update of another form, that
// it predicts worse than this says nothing of the champion.
func (c *Cycle) checkLive() {
	if c.goodEnough--; c.goodEnough > 0 {
		return
	}
	c.goodEnough = liveCheckEvery
	w := c.progressive.Window()
	if c.champion == nil || c.published.IsUpdate() && c.race.Chosen != mixture.FormFoldIn ||
		w[evaluate.Published].N < liveCheckEvery ||
		w[evaluate.FoldIn].N != w[evaluate.Published].N {
		return
	}
	numeric := c.target.IsNumeric()
	if w[evaluate.FoldIn].Judged(numeric) > liveTolerance*w[evaluate.Published].Judged(numeric) {
		c.learner = c.newLearner(c.champion, nil)
		c.resets++
		c.goodEnough = len(c.progressive.Ring)
	}
}

// Install makes a refit the champion and starts the fold-in on it, with the events learned since its cut. It may run
// beside Observe,
// which waits only for the last few of them.
func (c *Cycle) Install(ch *fitted.Fitted) {
	c.mu.Lock()
	defer c.mu.Unlock() // also after a panic, which the daemon survives
	consumers := fitted.FixedModel{Model: ch.Model, Vocab: ch.Vocabulary, Popular: ch.Popular}
	ch = ch.Plain(&c.schema)
	next, beside := c.newLearner(ch, c.learner), c.newExperts(ch, c.experts)
	// its carried experts are shared with the running one: hand over in one piece
	if _, ok := next.(*experts.Gradient); ok {
		c.install(ch, consumers, next, beside)
		return
	}
	c.backlog.Cut(ch.Version.Cut)
	var ev event.Event
	targets := make([]float64, c.target.Outputs())
	pending, done := c.backlog.From(0)
	low, high := c.numbers.Labels()
	heaviest := c.weights.Most()
	last := 2 * len(pending)
	for round := 0; round < installRounds && len(pending) > installBatch && len(pending) < last-last/installGain; round++ {
		func() {
			c.mu.Unlock()
			defer c.mu.Lock()
			c.relearn(next, beside, pending, &ev, targets, low, high, heaviest)
		}()
		last = len(pending)
		pending, done = c.backlog.From(done)
	}
	c.relearn(next, beside, pending, &ev, targets, low, high, heaviest)
	c.install(ch, consumers, next, beside)
}

// Install learns installBatch events while Observe waits. It lets it wait for more after installRounds, or when what
// came during a round is not less than the round by an installGain-th: Observe is then as fast as Install, as when a
// backlog is read, and every further round would learn for nothing.
const (
	installBatch  = 256
	installRounds = 6
	installGain   = 8
)

// maxPool is how many names of relearned events are kept for the next ones.
const maxPool = 4096

func (c *Cycle) relearn(
	l experts.Learner,
	companions []*experts.Expert,
	events []rows.Pending,
	ev *event.Event,
	targets []float64,
	low, high, heaviest float64,
) {
	if !c.config.Train.FoldIn.Enabled {
		return
	}
	for _, p := range events {
		if len(c.pool) >= maxPool {
			clear(c.pool)
		}
		if rows.DecodeEvent(ev, p.Payload, c.pool) != nil || !c.target.Encode(targets, ev) {
			continue
		}
		if ev.Label < low || ev.Label > high { // as limited
			ev.Label = min(max(ev.Label, low), high)
			c.target.Encode(targets, ev)
		}
		ev.Weight = min(ev.Weight, heaviest)
		l.Gather(ev)
		experts.LearnPart(l, ev, targets, p.Counts)
		for _, beside := range companions {
			if !beside.Lasting {
				beside.Learner.Gather(ev)
				beside.Learn(ev, p.Counts)
			}
		}
	}
	clear(c.pool)
}

func (c *Cycle) install(
	ch *fitted.Fitted,
	refit fitted.FixedModel,
	next experts.FoldInLearner,
	companions []*experts.Expert,
) {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	if c.Forwarded {
		c.known.Advance(ch.Version.Cut, ch.Watermark)
	}
	c.champion, c.learner, c.experts, c.fallback, c.rejections = ch, next, c.carryOver(ch, companions), nil, 0
	c.stopDeltas()
	c.endPending()
	c.published, c.chainEnded = &updates.Served{
		FixedModel: refit,
		Refit:      refit,
		Means:      ch.Means,
		Limit:      ch.OutputLimit(),
	}, false
	if guard.Seen(&ch.Holdout) > 0 {
		c.guard.Held = ch.Holdout
	}
	c.guard.Support(&ch.Version)
}

// Update returns the live model as an ordinary model over the champion's vocabulary plus what was learned since, or nil
// without a
// champion. NextUpdate says whether consumers should have it.
func (c *Cycle) Update() *fitted.Fitted {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.champion == nil {
		return nil
	}
	forms := c.candidates(false)
	return c.update(&forms)
}

// update returns an update in the form that they are made of.
func (c *Cycle) update(forms *[mixture.NumForms]updates.Candidate) *fitted.Fitted {
	of := &forms[c.race.Chosen]
	if of.Model == nil {
		of = &forms[mixture.FormFoldIn]
	}
	u := of.Of(c.champion)
	u.CutShort = nil // that of the refit
	u.Version.FeatureMap = encode.MapText(of.Vocab.Map)
	c.noteLive(u)
	convex.AsUpdate(&u.Version)
	u.Version.K, u.Version.Features = u.Model.NumBasis, u.Vocabulary.NumColumns()
	return u
}

// Configure takes up a configuration that differs in what train.lambda, train.time_budget and publish.gate say, from
// the next refit on.
// Call it from the goroutine that calls Install.
func (c *Cycle) Configure(m *config.Model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	c.config = m
}

// Champion returns the last promoted refit, or nil.
func (c *Cycle) Champion() *fitted.Fitted {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.champion
}
