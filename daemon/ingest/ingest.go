// Package ingest takes batches of records through the whole path of one model: decode, score, fold in, and store in one transaction.
// A backtest feeds it decoded events instead of records. Records become events, events rows; nothing else knows both sides.
package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// Ingest is a consumer.Sink for one model. It belongs to one goroutine.
type Ingest struct {
	// OnApplied, if not nil, is called after every stored batch.
	OnApplied func(Counts)
	// OutboxTrouble, if not nil, says why the store's outbox does not empty, or "".
	OutboxTrouble func() string
	// OnPanic, if not nil, is told of a panic of the decoder or the cycle on one record.
	OnPanic func(topic string, partition int32, offset int64, value any)
	// OnPart, if not nil, sees every part before it is stored, with the fate and the role of its records. It must not keep it.
	OnPart func(*sketch.Part)

	decode       func(ev *consumer.Event, value []byte, recordTime int64) consumer.Reason
	observe      func(ev *consumer.Event, train bool, at cycle.Position, payload []byte)
	store        *sketch.Store
	cycle        *cycle.Cycle
	holdoutField int // categorical field whose entities are held out whole, or -1
	identity     bool
	group        func(*consumer.Event) []byte // nil without quotas and cap
	model        *config.Model
	forgotten    []string // fields of which values are forgotten

	part   sketch.Part
	events []consumer.Event // events[i] belongs to part.Records[i]
	arena  []byte
	counts Counts
}

// Counts says what became of the records of one batch.
type Counts struct {
	Topic      string
	Partition  int32
	Applied    int64
	Unlearned  int64 // of those, the ones on which the cycle panicked
	Replayed   int64
	Control    int64
	Aborted    int64
	Holes      int64
	Rejected   map[consumer.Reason]int64
	RejectedAt int64 // offset of the first of them
	Watermark  int64 // newest event time of the batch, milliseconds since 1970
}

// New returns the ingest of a model into its store and cycle. Without a cycle (nil) events are stored and nothing is learned.
func New(m *config.Model, store *sketch.Store, c *cycle.Cycle) *Ingest {
	g := &Ingest{decode: NewDecoder(m).Decode, store: store, cycle: c, group: groupOf(m), model: m,
		holdoutField: slices.Index(m.Schema.Categorical, m.Sample.Holdout.By), identity: m.Schema.Identity != ""}
	if c != nil {
		g.observe = c.Observe
	}
	if store != nil { // nil of a reader that only asks for offsets
		g.forgotten = store.ForgottenFields()
	}
	return g
}

// NewDecoder returns the decoder of a model's events.
func NewDecoder(m *config.Model) *consumer.Decoder {
	limits := consumer.DefaultLimits()
	limits.MaxEventBytes = int(m.Input.MaxEventBytes)
	limits.MaxIDBytes = int(m.Input.MaxIDBytes)
	limits.MaxFutureSkew = m.Input.MaxFutureSkew.Std()
	return consumer.NewDecoder(m.Schema.Consumer(), limits)
}

// StoreOptions returns the options of the store that keeps a model's sample.
func StoreOptions(m *config.Model) sketch.Options {
	o := sketch.Options{
		Size: m.Sample.Size, HalfLife: m.Sample.HalfLife.Std(), HoldoutFraction: m.Sample.Holdout.Fraction,
		HoldoutSize: m.Sample.Holdout.Size, HoldoutHalfLife: m.Sample.Holdout.HalfLife.Std(), HoldoutBy: m.Sample.Holdout.By,
		Identity: m.Schema.Identity, Weighted: m.Schema.Weight != "", ConfigHash: m.SampleHash(), DrawSeed: m.Sample.Seed == nil,
		Rules: rulesOf(m), CapBy: m.Sample.Cap.By, CapShare: m.Sample.Cap.Share,
	}
	for _, q := range m.Sample.Quotas {
		o.Quotas = append(o.Quotas, sketch.Quota{Class: string(q.Class), Share: q.Share})
	}
	if m.Sample.Seed != nil {
		o.Seed = *m.Sample.Seed
	}
	return o
}

// Apply decodes, scores, learns and stores a batch of a partition that the store knows. A *consumer.PauseError means that the outbox had room
// for the beginning only; any other error that the state cannot be trusted to go on: the consumer must stop.
func (g *Ingest) Apply(_ context.Context, b *consumer.Batch) error {
	g.start(b.Topic, b.Partition, b.LogStart, b.Base, b.Next)
	for i := range b.Records {
		r := &b.Records[i]
		switch r.Fate {
		case consumer.Control:
			g.add(sketch.Record{Offset: r.Offset, Fate: sketch.Control})
		case consumer.Aborted:
			g.add(sketch.Record{Offset: r.Offset, Fate: sketch.Aborted})
		default:
			ev := g.event()
			if reason := g.decodeRecord(ev, r); reason != "" {
				g.addRejected(r, reason)
				continue
			}
			g.addEvent(r.Offset, r.CRC, ev)
		}
	}
	return g.finish()
}

// Feed takes one decoded event as the next offset of a partition, as a backtest does.
func (g *Ingest) Feed(topic string, number int32, offset int64, ev *consumer.Event) error {
	g.start(topic, number, 0, offset, offset+1)
	*g.event() = *ev
	g.addEvent(offset, 0, ev)
	return g.finish()
}

func (g *Ingest) start(topic string, number int32, logStart, base, next int64) {
	g.part = sketch.Part{Topic: topic, Partition: number, LogStart: logStart, Base: base, Next: next, Records: g.part.Records[:0]}
	g.arena = g.arena[:0]
	g.counts = Counts{Topic: topic, Partition: number, Rejected: g.counts.Rejected}
	clear(g.counts.Rejected)
}

// event returns the event that goes with the next record.
func (g *Ingest) event() *consumer.Event {
	if n := len(g.part.Records); n < len(g.events) {
		return &g.events[n]
	}
	g.events = append(g.events, consumer.Event{})
	return &g.events[len(g.events)-1]
}

func (g *Ingest) add(r sketch.Record) {
	g.event() // keeps events in step with records
	g.part.Records = append(g.part.Records, r)
}

func (g *Ingest) addRejected(r *consumer.Record, reason consumer.Reason) {
	size := len(r.Value)
	if r.Value == nil {
		size = -1
	}
	g.add(sketch.Record{Offset: r.Offset, Fate: sketch.Rejected, CRC: r.CRC, Reason: string(reason), Time: r.Timestamp, Size: size,
		Payload: r.Value[:min(len(r.Value), sketch.MaxLetterBytes)]})
}

func (g *Ingest) addEvent(offset int64, crc uint32, ev *consumer.Event) {
	start := len(g.arena)
	g.arena = cycle.AppendEvent(g.arena, ev)
	r := sketch.Record{Offset: offset, Fate: sketch.Applied, CRC: crc, Time: ev.Time, Weight: ev.Weight, Payload: g.arena[start:len(g.arena):len(g.arena)]}
	if g.identity {
		r.Identity = []byte(ev.Identity)
	}
	if g.group != nil {
		r.Group = g.group(ev)
	}
	for _, field := range g.forgotten {
		for _, value := range valuesOf(g.model, field, ev) {
			r.Forgotten = r.Forgotten || g.store.Forgets(g.part.Topic, g.part.Partition, offset, field, []byte(value))
		}
	}
	if g.holdoutField >= 0 {
		r.HoldoutKey = []byte(ev.Categorical[g.holdoutField])
	}
	g.add(r)
}

// finish scores and learns the events in order, then stores the part with the progressive sums.
func (g *Ingest) finish() error {
	p := &g.part
	full := g.store.FitOutbox(p)
	if full && len(p.Records) == 0 {
		return g.pause()
	}
	g.store.Classify(p)
	if g.OnPart != nil {
		g.OnPart(p)
	}
	for i := range p.Records {
		r := &p.Records[i]
		switch {
		case r.Replayed:
			g.counts.Replayed++
		case r.Fate == sketch.Applied:
			if g.cycle != nil {
				g.observeRecord(&g.events[i], r)
			}
			g.counts.Applied++
			g.counts.Watermark = max(g.counts.Watermark, r.Time)
		default:
			g.count(r)
		}
	}
	var sums []byte
	if g.cycle != nil {
		var err error
		if sums, err = g.cycle.Sums(); err != nil {
			return fmt.Errorf("ingest: progressive sums: %w", err)
		}
	}
	if err := g.store.Apply(p, sums); err != nil {
		return err
	}
	if g.OnApplied != nil {
		g.counts.Holes = p.Next - p.Base - int64(len(p.Records))
		g.OnApplied(g.counts)
	}
	if full {
		return g.pause()
	}
	return nil
}

// pause asks the consumer to wait: the outbox has no room for what follows the part.
func (g *Ingest) pause() error {
	reason := "as many rejected records wait for the dead-letter topic as input.dead_letter.max_rows allows"
	if g.OutboxTrouble != nil {
		if why := g.OutboxTrouble(); why != "" {
			reason += "; " + why
		}
	}
	return &consumer.PauseError{Next: g.part.Next, Reason: reason}
}

func (g *Ingest) count(r *sketch.Record) {
	switch r.Fate {
	case sketch.Control:
		g.counts.Control++
	case sketch.Aborted:
		g.counts.Aborted++
	case sketch.Rejected:
		if g.counts.Rejected == nil {
			g.counts.Rejected = make(map[consumer.Reason]int64)
		}
		if len(g.counts.Rejected) == 0 {
			g.counts.RejectedAt = r.Offset
		}
		g.counts.Rejected[consumer.Reason(r.Reason)]++
	}
}

// TakeSample reads a consistent cut of the store as a refit wants it.
func TakeSample(store *sketch.Store) (*cycle.Sample, error) {
	s, err := store.Sample()
	if err != nil {
		return nil, err
	}
	out := &cycle.Sample{Train: payloads(s.Train), Select: payloads(s.Select), Gate: payloads(s.Gate), Weights: s.TrainWeights(),
		Digest: s.Digest.String(), Watermark: s.Watermark, Lineage: s.Lineage}
	for i := range s.Ledger {
		l, n := &s.Ledger[i], &out.Events
		n.Applied, n.Rejected, n.Control = n.Applied+l.Applied, n.Rejected+l.Rejected, n.Control+l.Control
		n.Aborted, n.Holes, n.Gap = n.Aborted+l.Aborted, n.Holes+l.Holes, n.Gap+l.Gap
	}
	for _, c := range s.Cut {
		out.Cut = append(out.Cut, report.Cut{Topic: c.Topic, Partition: c.Partition, Next: c.Next})
	}
	return out, nil
}

func payloads(rows []sketch.Row) [][]byte {
	out := make([][]byte, len(rows))
	for i := range rows {
		out[i] = rows[i].Payload
	}
	return out
}

// Relearn folds in the training rows of a sample from after a cut, oldest first: what a restart knows of the time since the last refit. Rows on
// which the cycle panics are left out and counted.
func Relearn(c *cycle.Cycle, s *sketch.Sample, cut []report.Cut) (panicked int, err error) {
	next := make(map[cycle.Position]int64, len(cut))
	for _, p := range cut {
		next[cycle.Position{Topic: p.Topic, Partition: p.Partition}] = p.Next
	}
	var rows []*sketch.Row
	for i := range s.Train {
		if r := &s.Train[i]; r.Offset >= next[cycle.Position{Topic: r.Topic, Partition: r.Partition}] {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b *sketch.Row) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	for _, r := range rows {
		p, err := relearnRow(c, r)
		if err != nil {
			return panicked, err
		}
		if p {
			panicked++
		}
	}
	return panicked, nil
}
