// Package ingest takes batches of records through the whole path of one model: decode, score, fold in, and store in one
// transaction. A backtest feeds it decoded events instead of records. Records become events, events rows; nothing else
// knows both sides.
package ingest

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/negatives"
	"github.com/refitd/refitd/daemon/ingest/pasts"
	"github.com/refitd/refitd/sketch"
)

// Hooks are what the owner of an Ingest may set before the first batch.
type Hooks struct {
	// OnApplied, if not nil, is called after every stored batch, from one goroutine at a time.
	OnApplied func(Counts)
	// OutboxTrouble, if not nil, says why the store's outbox does not empty, or "".
	OutboxTrouble func() string
	// OnPanic, if not nil, is called after a panic of the decoder or the cycle on one record, maybe from several
	// goroutines at once.
	OnPanic func(topic string, partition int32, offset int64, value any)
	// OnChoice, if not nil, is called with each choice before it is learned from, in order, first with those of the
	// state from before the start. It must not keep the event, whose names it may, nor wait.
	OnChoice func(ev *event.Event, before bool)
	// OnPart, if not nil, sees every part before it is stored, with the fate and the role of its records. It must not
	// keep it.
	OnPart func(*sketch.Part)
	// Bounds, if not nil, says instead of the clock how new an event at an offset can be, in milliseconds: see
	// BoundsOf.
	Bounds func(topic string, partition int32, offset int64) int64
	// OnCatchUp, if not nil, is called when a catch-up begins, now and then while it lasts, and when it ends.
	OnCatchUp func(c CatchUp, at CatchUpStep)
	// OnUnlearned, if not nil, is called with how many rows panicked that were passed over by a catch-up.
	OnUnlearned func(rows int)
	// Traces has Counts say which traces the records of a batch belong to.
	Traces bool
	// Crashes, if not nil, notes what is in hand, and which record not to read any more.
	Crashes *crash.Journal
}

// pipeline has the parts between decoding and the store. It belongs to the goroutine of the Ingest.
type pipeline struct {
	parts     [1 + maxAhead]decoded // the part that is decoded, and those ahead of it
	turn      int                   // which of them is decoded
	ahead     []*learning           // the parts that are learned in parallel with the decoding, in order
	prescorer *cycle.BatchScorer
	queue     queue
}

// Ingest is a consumer.Queue for one model. It belongs to one goroutine. It is one type: the stations of a batch hand
// on the same memory.
type Ingest struct {
	Hooks

	readers      []*reader
	rowLimit     int // of rows.RowBytes
	observe      func(events []cycle.Observation, panicked func(i int, value any))
	run          []cycle.Observation // of the part that is learned
	store        *sketch.Store
	cycle        *cycle.Cycle
	holdoutField int // categorical field whose entities are held out whole, or -1
	identity     bool
	group        func(*event.Event) []byte // nil without quotas and cap
	model        *config.Model
	absence      event.Absence
	missing      *event.Missing          // nil without a mapping
	schemas      *formats.Schemas        // of writers; nil where records are JSON alone
	pasts        *pasts.Pasts            // nil without derived fields
	set          *tables.Set             // nil without tables
	tables       *tableRows              // of set; nil without tables
	open         *openEvents             // nil unless labels come later and are learned
	names        rows.Interner           // of events that a catch-up learns; nil without open
	choices      *negatives.Candidates   // nil unless events are choices
	filled       bool                    // choices has those of the store
	forgotten    []string                // fields of which values are forgotten
	newest       map[rows.Position]int64 // newest event time taken, by partition; the offset is 0
	clock        int64                   // the last latest
	catchUp      *catchUp
	ended        passed // of a catch-up that has ended, until a part is learned
	outlines     *outlines

	pipeline
	again func(r *sketch.Row, f func(payload []byte, first bool) error) error // of Relearn; nil before

	careful bool // each record of the part at hand is marked in flight alone, and nothing is learned in parallel
}

// maxAhead is how many parts may be ahead of the one that is decoded: one that is learned and one that is ready for it.
// Learning takes longest, and does not wait then for another goroutine to be woken, which may take a millisecond on a
// virtual machine.
const maxAhead = 2

// learning is a part that is learned, or waits for those before it.
type learning struct {
	rejected int
	done     chan struct{}
	err      error // once done is closed
}

// decoded is what a part was decoded into: the i-th of both belongs to the i-th record.
type decoded struct {
	events  []event.Event
	formats []string        // empty where all are JSON
	scores  []updates.Score // empty if there was nothing to score with
}

// New is NewReading for records whose schemas, if they have any, are in the state.
func New(m *config.Model, store *sketch.Store, c *cycle.Cycle) *Ingest {
	var schemas *formats.Schemas
	if m.IsFramed() {
		schemas, _ = formats.NewSchemas(store) // a damaged one is not known, and found by Check
	}
	return NewReading(m, store, c, schemas)
}

// NewReading returns the ingest of a model into its store and cycle. Without a cycle (nil) events are stored and
// nothing is learned. schemas are those of the records, nil where all are JSON.
func NewReading(m *config.Model, store *sketch.Store, c *cycle.Cycle, schemas *formats.Schemas) *Ingest {
	g := &Ingest{
		store:        store,
		cycle:        c,
		group:        groupOf(m),
		model:        m,
		newest:       make(map[rows.Position]int64),
		rowLimit:     sketch.MaxCostOfRow,
		schemas:      schemas,
		holdoutField: slices.Index(m.Schema.Categorical, m.Sample.Holdout.By),
		identity:     m.Schema.Identity != "",
		catchUp:      newCatchUp(m),
		outlines:     newOutlines(m),
	}
	g.catchUp.observe = func(c CatchUp, at CatchUpStep) {
		if g.OnCatchUp != nil {
			g.OnCatchUp(c, at)
		}
	}
	if limit := int(m.RowLimit()); limit > 0 {
		g.rowLimit = min(limit, g.rowLimit)
	}
	if c != nil {
		g.observe, g.prescorer, g.open = c.ObserveAll, c.NewBatchScorer(), newOpenEvents(m, c.SaidBytes())
	}
	if mapping := m.Mapping(); mapping != nil {
		g.missing = event.NewMissing(mapping)
	}
	for range min(maxReaders, runtime.GOMAXPROCS(0)) {
		r := &reader{ingest: g, outcomes: newOutcomeDecoder(m, schemas)}
		if r.mapped = formats.NewRecordDecoder(m, schemas, g.missing); r.mapped == nil {
			d := formats.NewJSONDecoder(m)
			r.decode, r.borrow = d.Decode, d.Borrow
		}
		g.readers = append(g.readers, r)
	}
	schema := m.Schema.Event()
	if g.open != nil {
		g.names = make(rows.Interner)
	}
	g.absence, g.pasts, g.choices = schema.Absence(), pasts.New(m, store), negatives.New(m, negatives.Kept)
	if g.set = tables.New(m); c != nil {
		g.set = c.Tables()
	}
	g.tables = newTableRows(g, g.set)
	g.queue.init(store)
	g.Recalled()
	return g
}

// Recalled has what is ingested from now on look for the subjects that the store has forgotten.
func (g *Ingest) Recalled() { g.forgotten = g.store.ForgottenFields() }

// Missing counts the events that lack what the mapping of the model names; nil without a mapping. It may be asked while
// events are decoded.
func (g *Ingest) Missing() *event.Missing { return g.missing }

// StoreOptions returns the options of the store that keeps a model's sample.
func StoreOptions(m *config.Model) sketch.Options {
	o := sketch.Options{
		Size: m.Sample.Size, HalfLife: m.Sample.HalfLife.Std(), HoldoutFraction: m.Sample.Holdout.Fraction,
		HoldoutSize: m.Sample.Holdout.Size, HoldoutHalfLife: m.Sample.Holdout.HalfLife.Std(), HoldoutBy: m.Sample.Holdout.By,
		Identity: m.Schema.Identity, Weighted: m.Schema.Weight != "" || len(m.Schema.EventWeights) > 0,
		ConfigHash: m.SampleHash(), DrawSeed: m.Sample.Seed == nil,
		Rules: binding.Rules(m), CapBy: m.Sample.Cap.By, CapShare: m.Sample.Cap.Share,
	}
	o.MaxCost, o.Cost = int64(m.Sample.MaxBytes), rows.RowBytes
	if of := &m.Input.Outcomes; of.IsSet() {
		if o.Outcomes = sketch.Earliest; of.Reward == config.RewardLast {
			o.Outcomes = sketch.Latest
		}
	}
	for _, q := range m.Sample.Quotas {
		o.Quotas = append(o.Quotas, sketch.Quota{Class: string(q.Class), Share: q.Share})
	}
	if m.Sample.Seed != nil {
		o.Seed = *m.Sample.Seed
	}
	return o
}

// Apply is Take and Flush.
func (g *Ingest) Apply(ctx context.Context, b *consumer.Batch) error {
	err := g.Take(ctx, b)
	return cmp.Or(g.Flush(), err)
}

// Take decodes a batch of a partition that the store knows, while those before are learned and stored, and leaves it
// to be learned and stored. A *consumer.PauseError means that the outbox had room for the beginning only, a
// *consumer.HaltError that the next record is quarantined; any other error, which may be of an earlier batch, that
// the state cannot be trusted any more: the consumer must stop.
func (g *Ingest) Take(_ context.Context, b *consumer.Batch) error {
	j, err := g.queue.next()
	if err != nil {
		return err
	}
	records, next, halt := g.outOfQuarantine(b)
	if halt != nil && next == b.Base {
		g.queue.drop(j)
		return halt
	}
	j.start(b.Topic, b.Partition, b.LogStart, b.Base, next, len(records))
	careful := g.suspects(&j.part)
	if careful { // nothing else is in hand then
		if err := g.learned(len(g.ahead)); err != nil {
			return err
		}
		g.careful = true
		defer func() { g.careful = false }()
	}
	if table := g.model.TableOf(b.Topic); table >= 0 {
		return g.takeTable(table, j, records, halt)
	}
	j.part.Outcomes = g.model.Input.Outcomes.Has(b.Topic)
	j.counts.Outcomes = j.part.Outcomes
	if j.left = min(b.HighWatermark, b.LastStable) - next; halt != nil { // nothing more of it comes
		j.left = 0
	}
	if g.cycle != nil && !careful {
		var ended passed
		if j.thin, ended = g.catchUp.next(&j.part, j.left); ended != nil {
			g.ended = ended
		}
	}
	waiting := g.read(j, records)
	if waiting != nil { // for what is not known yet; those before it are stored first
		records = records[:len(j.part.Records)]
		if err := g.Flush(); err != nil {
			return err
		}
	}
	full, err := g.fit(j)
	if err != nil {
		return err
	}
	if err := g.prepare(j, records, &g.parts[g.turn]); err != nil {
		return err
	}
	if !full && !careful && waiting == nil {
		j.passed, g.ended = g.ended, nil
		return cmp.Or(g.learnAsync(j), halt)
	}
	return g.takeNow(j, full, waiting, halt)
}

// takeNow learns the part that was decoded last, unless nothing of it is left, and returns what the consumer does after
// it: halt, a pause until the outbox has room, or one until a schema is known.
func (g *Ingest) takeNow(j *job, full bool, waiting *event.Wait, halt error) error {
	next := j.part.Next
	if (full || waiting != nil) && len(j.part.Records) == 0 {
		g.queue.drop(j)
	} else {
		if !j.aside {
			j.passed, g.ended = g.ended, nil
		}
		if err := g.learn(j, &g.parts[g.turn]); err != nil {
			return err
		}
	}
	switch {
	case full:
		return g.pause(next)
	case waiting != nil:
		return g.waitFor(waiting, next)
	}
	return halt
}

// prepare does what needs the order of the parts, and of their events, before a part is learned.
func (g *Ingest) prepare(j *job, records []consumer.Record, d *decoded) error {
	defer g.inHand(crash.Decoding, &j.part)()
	g.bound(j, records, d)
	if err := g.derive(j, d); err != nil {
		return err
	}
	if j.part.Outcomes {
		d.scores = d.scores[:0]
		return nil
	}
	if g.open != nil { // what is predicted needs a label of the task, and looks at none
		for i := range j.part.Records {
			d.events[i].Label = g.model.Input.Outcomes.Default
		}
	}
	g.join(d, &j.part)
	g.prescore(&j.part, d, j.thin)
	return nil
}

// learnAsync has the part that was decoded last learned after those ahead of it. It waits until there is room for it
// there, and returns the error of one that was waited for.
func (g *Ingest) learnAsync(j *job) error {
	if len(g.ahead) == maxAhead {
		if err := g.learned(1); err != nil {
			return err
		}
	}
	l, part := &learning{rejected: j.rejected, done: make(chan struct{})}, &g.parts[g.turn]
	var before *learning
	if n := len(g.ahead); n > 0 {
		before = g.ahead[n-1]
	}
	g.ahead, g.turn = append(g.ahead, l), (g.turn+1)%len(g.parts)
	go func() {
		defer close(l.done)
		if before != nil {
			<-before.done
			if l.err = before.err; l.err != nil {
				return
			}
		}
		l.err = g.learn(j, part)
	}()
	return nil
}

// learned waits for the first n of the parts that are learned in parallel with the decoding.
func (g *Ingest) learned(n int) (err error) {
	for _, l := range g.ahead[:n] {
		<-l.done
		err = cmp.Or(err, l.err)
	}
	g.ahead = append(g.ahead[:0], g.ahead[n:]...)
	return err
}

// Flush waits until all that was taken is stored.
func (g *Ingest) Flush() error {
	err := g.learned(len(g.ahead))
	return cmp.Or(g.queue.wait(), err)
}

// Feed takes one decoded event as the next offset of a partition, as a backtest does, and stores it.
func (g *Ingest) Feed(topic string, number int32, offset int64, ev *event.Event) error {
	j, err := g.queue.next()
	if err != nil {
		return err
	}
	j.start(topic, number, 0, offset, offset+1, 1)
	j.fed, j.part.Records = true, j.part.Records[:1]
	j.arenas = append(j.arenas[:0], g.fill(&j.part.Records[0], &j.part, offset, 0, ev, j.arena(0)))
	g.store.Classify(&j.part)
	d := &decoded{events: []event.Event{*ev}}
	if g.open != nil {
		d.events[0].Label = g.model.Input.Outcomes.Default
	}
	if err := g.derive(j, d); err != nil {
		return err
	}
	g.join(d, &j.part)
	return cmp.Or(g.learn(j, d), g.Flush())
}

// learn scores and learns the events in order, then queues the part with the progressive sums, unless it was fed.
func (g *Ingest) learn(j *job, d *decoded) (err error) {
	p := &j.part
	defer g.inHand(crash.Learning, p)()
	if g.OnPart != nil {
		g.OnPart(p)
	}
	if g.cycle != nil && !j.aside {
		if err := g.observePart(j, d); err != nil {
			return err
		}
	}
	g.countPart(j, d)
	c := &j.counts
	if g.schemas != nil {
		p.Schemas = g.schemas.TakeFresh()
		c.Schemas = len(p.Schemas)
	}
	if g.cycle != nil && !j.fed {
		if j.sums, err = g.cycle.Sums(); err != nil {
			return fmt.Errorf("ingest: progressive sums: %w", err)
		}
	}
	c.Holes = p.Next - p.Base - int64(len(p.Records))
	g.queue.add(j, g.OnApplied)
	return nil
}

// observePart scores and learns a part, after what has to be known before its first event.
func (g *Ingest) observePart(j *job, d *decoded) error {
	if err := g.fillChoices(); err != nil {
		return err
	}
	if j.passed != nil {
		if err := g.learnPassed(j.passed); err != nil {
			return err
		}
	}
	if g.open != nil {
		if !g.open.filled || j.passed != nil {
			if err := g.open.fill(g.store); err != nil {
				return err
			}
		}
	}
	c := &j.counts
	c.Unlearned, c.Passed = g.observeRecords(&j.part, d, j.thin)
	if g.open != nil {
		g.open.wait(&j.part, j.left)
		c.Open, c.Dropped = len(g.open.due)+len(g.open.over), g.open.takeDropped()
	}
	return nil
}

// countPart counts what became of the records of a part.
func (g *Ingest) countPart(j *job, d *decoded) {
	p, c := &j.part, &j.counts
	for i := range p.Records {
		r := &p.Records[i]
		switch {
		case r.Replayed:
			c.Replayed++
		case r.Fate == sketch.Applied && j.aside:
			c.Tabled++
		case r.Fate == sketch.Applied:
			if r.Bound != 0 {
				c.Bounded++
			}
			if g.model.Schema.Time != "" {
				c.checkUnit(g.model.Schema.TimeUnit, r)
			}
			if len(g.absence) > 0 && !p.Outcomes {
				g.absence.Each(&d.events[i], c.lacks)
			}
			c.Applied++
			c.Watermark = max(c.Watermark, r.Time)
		default:
			c.count(r, g.outlines)
		}
	}
	switch {
	case c.Applied == 0:
	case len(d.formats) == 0: // all of them
		c.Formats = map[string]int64{event.FormatJSON: c.Applied}
	default:
		c.countFormats(d.formats, p.Records)
	}
}

// fillChoices notes the choices of the state before the first ones that are learned.
func (g *Ingest) fillChoices() error {
	if g.choices == nil || g.filled {
		return nil
	}
	if err := g.choices.Fill(g.store, g.OnChoice); err != nil {
		return fmt.Errorf("ingest: choices of the state: %w", err)
	}
	g.filled = true
	return nil
}

// fit cuts the part before what the outbox has no room for. What is ahead of it may take room: if that matters it is
// waited for.
func (g *Ingest) fit(j *job) (cut bool, err error) {
	for i := range j.part.Records {
		if j.part.Records[i].Fate == sketch.Rejected {
			j.rejected++
		}
	}
	if j.rejected == 0 {
		return false, nil
	}
	ahead := 0
	for _, l := range g.ahead {
		ahead += l.rejected
	}
	if j.rejected+ahead+g.queue.rejected() <= g.store.OutboxRoom() {
		return false, nil
	}
	if err := g.Flush(); err != nil {
		return false, err
	}
	return g.store.FitOutbox(&j.part), nil
}

// pause asks the consumer to wait: the outbox has no room for what follows the part.
func (g *Ingest) pause(next int64) error {
	reason := "as many rejected records wait for the dead-letter topic as input.dead_letter.max_rows allows"
	if g.OutboxTrouble != nil {
		if why := g.OutboxTrouble(); why != "" {
			reason += "; " + why
		}
	}
	return &consumer.PauseError{Next: next, Reason: reason}
}

// waitFor asks the consumer to offer a record again later: the schema by which it was written is not known. Of a schema
// that has changed an operator has to decide.
func (g *Ingest) waitFor(w *event.Wait, next int64) error {
	if w.Changed {
		return &consumer.HaltError{Next: next, Reason: w.Why}
	}
	reason := w.Why
	if reason == "" {
		reason = g.schemas.Trouble()
	} else {
		reason = w.ID.String() + " cannot be used: " + reason
	}
	return &consumer.PauseError{Next: next, Reason: "the schema of a record is not known: " + reason +
		" (kafka.schema_registry)"}
}

// leastInclusion keeps the events that a row is for finite.
const leastInclusion = 1e-9

// recalled is how many rows from before the cut all learners that start anew with the process take up again: a second
// or two of the slowest.
const recalled = 10_000
