package backtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/choices"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/schedule"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
)

// The consumers that a backtest can play: one that takes refits alone, one that takes every version, and one that takes
// every version and folds in the last events of the entity. deltas:T is one that takes every version and, each T of the
// clock, the deltas that follow it; +history adds the events of the entity.
const (
	consumerRefits  = "refits"
	consumerUpdates = "updates"
	consumerHistory = "history"
	consumerDeltas  = "deltas:"
	withHistory     = "+history"
)

// consumerEvents is how many events of an entity the consumer with a history keeps, the newest.
const consumerEvents = 100

// backtestConsumer is a program that uses the versions of a backtest, by the library of such programs. It scores every
// event before it is learned from.
type backtestConsumer struct {
	mode     string
	every    time.Duration // between deltas; 0 takes none
	schedule schedule.Schedule
	schema   *event.Schema
	target   *encode.Target
	model    *snapshot.Model // nil before the first version
	version  int
	seen     int64 // events so far
	held     int64 // of these, that the model has learned from
	noFoldIn string

	scratch   snapshot.Scratch
	outputs   []float64
	targets   []float64
	field     int  // whose names have a history, -1 for none
	folds     bool // the newest version can fold in
	histories map[string]*entityHistory
	all, tail *evaluate.Quality // tail is nil before the last tenth begins
	folded    int64
	choices   *choices.Known // of the backtest; nil unless events are choices

	hits, tailHits choices.Hits
}

// entityHistory is what the consumer keeps of one entity.
type entityHistory struct {
	events  []snapshot.LabelledEvent // the newest, oldest first
	numbers []int64                  // which they were of all
	overlay *snapshot.Overlay        // of a version
	version int
}

func (b *backtest) newConsumers() error {
	for i, mode := range b.Consumer {
		if slices.Contains(b.Consumer[:i], mode) {
			continue
		}
		every, history, err := parseConsumer(mode)
		if err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--consumer"}
		}
		target, err := encode.NewTarget(b.Model, nil)
		if err != nil {
			return report.Exit(report.ExitUsage, err)
		}
		schema := b.Model.Schema.Event()
		c := &backtestConsumer{
			mode:      mode,
			every:     every,
			schema:    &schema,
			target:    target,
			field:     -1,
			outputs:   make([]float64, target.Outputs()),
			targets:   make([]float64, target.Outputs()),
			histories: make(map[string]*entityHistory),
			all:       evaluate.NewQuality(target, nil),
			choices:   b.choices,
		}
		if by := b.Model.Train.FoldIn.By; history && len(by) > 0 {
			c.field = slices.Index(schema.Categorical, by[0])
		}
		b.consumers = append(b.consumers, c)
	}
	return nil
}

// parseConsumer reads a mode.
func parseConsumer(mode string) (every time.Duration, history bool, err error) {
	text, history := strings.CutSuffix(mode, withHistory)
	text, deltas := strings.CutPrefix(text, consumerDeltas)
	if !deltas {
		if slices.Contains([]string{consumerRefits, consumerUpdates, consumerHistory}, mode) {
			return 0, mode == consumerHistory, nil
		}
		return 0, false, fmt.Errorf(
			"%q is no consumer: write refits, updates, history, deltas:1s or deltas:1s+history, with any time between deltas",
			mode,
		)
	}
	if every, err = time.ParseDuration(text); err != nil || every <= 0 {
		return 0, false, fmt.Errorf(
			"%q is no consumer of deltas: write deltas:1s or deltas:1s+history, with any time between deltas", mode)
	}
	return every, history, nil
}

// shortestDeltas returns the shortest time between deltas that a consumer asks for, 0 without.
func shortestDeltas(modes []string) (shortest time.Duration, err error) {
	for _, mode := range modes {
		every, _, err := parseConsumer(mode)
		if err != nil {
			return 0, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--consumer"}
		}
		if every > 0 && (shortest == 0 || every < shortest) {
			shortest = every
		}
	}
	return shortest, nil
}

// follow gives the consumers of deltas for which it is time what the deltas so far make of the newest update.
func (b *backtest) follow(now time.Time, model *snapshot.Model) {
	for _, c := range b.consumers {
		if c.every > 0 && c.schedule.DeltaDue(c.every, now, b.summary.Events, b.cycle.HasChanged) {
			c.schedule.DeltaTaken(now, b.summary.Events)
			if model != nil && model != c.model {
				c.model, c.version, c.held = model, c.version+1, c.seen
			}
		}
	}
}

// take gives the consumers a version that was published.
func (b *backtest) take(ch *fitted.Fitted) error {
	if len(b.consumers) == 0 || ch.Version.Decision != publish.Promoted {
		return nil
	}
	contents := ch.Contents(b.Model)
	contents.Tensors = strings.ToUpper(b.Model.Publish.Tensors)
	m, err := scorer.NewModel(contents)
	if err != nil {
		return err
	}
	for _, c := range b.consumers {
		if c.mode == consumerRefits && ch.Version.Kind != "refit" {
			continue
		}
		c.model, c.version, c.held, c.folds, c.noFoldIn = m, c.version+1, c.seen, m.HistoryField() != "", contents.NoFoldIn
	}
	return nil
}

// consume shows an event to the consumers, the negatives of a choice before it.
func (b *backtest) consume(ev *event.Event, offset int64) error {
	for _, c := range b.consumers {
		for negative := range b.ingest.Negatives(ev, rows.Position{Topic: backtestTopic, Offset: offset}) {
			if err := c.observe(negative, true); err != nil {
				return err
			}
		}
		if err := c.observe(ev, !b.ingest.IsFirst(ev)); err != nil {
			return err
		}
	}
	if b.choices == nil {
		return nil
	}
	if b.cycle.Champion() != nil { // else consumers have nothing to compare with
		place := b.choices.PopularPlace(ev)
		b.popular.all.Add(place)
		b.popular.tail.Add(place)
	}
	b.choices.Note(ev)
	return nil
}

// backtestPopular is what a consumer finds that needs no model: the most popular names so far.
type backtestPopular struct{ all, tail choices.Hits }

// consumerPopular is its mode in reports.
const consumerPopular = "popularity"

func (p *backtestPopular) report() report.BacktestConsumer {
	r := report.BacktestConsumer{
		Mode:      consumerPopular,
		All:       report.Metrics{N: p.all.N()},
		LastTenth: report.Metrics{N: p.tail.N()},
	}
	p.all.AddTo(&r.All)
	p.tail.AddTo(&r.LastTenth)
	return r
}

// observe scores an event, and then knows it. What is not judged counts for lists alone: a choice of a new name,
// because no negative drawn for it is new.
func (c *backtestConsumer) observe(ev *event.Event, judged bool) error {
	if !c.target.Encode(c.targets, ev) {
		return nil
	}
	in := fitted.InputOf(c.schema, ev)
	h := c.historyOf(ev)
	if c.model != nil {
		version := choices.Lister(c.model)
		switch over, err := c.overlay(h); {
		case err != nil:
			return err
		case over != nil:
			over.Score(c.outputs, &in, &c.scratch)
			c.folded++
			version = over
		default:
			c.model.Score(c.outputs, &in, &c.scratch)
		}
		if c.choices != nil && ev.Label > 0 {
			place, err := c.choices.Place(version, ev, &in, &c.scratch)
			if err != nil {
				return err
			}
			c.hits.Add(place)
			c.tailHits.Add(place)
		}
		if judged {
			c.all.Add(ev, c.outputs, c.targets)
		}
		if c.tail != nil && judged {
			c.tail.Add(ev, c.outputs, c.targets)
		}
	}
	c.seen++
	if h == nil {
		return nil
	}
	return h.add(c, ev, in)
}

// historyOf returns the history of the entity of an event, nil without one.
func (c *backtestConsumer) historyOf(ev *event.Event) *entityHistory {
	if c.field < 0 || ev.Categorical[c.field] == "" {
		return nil
	}
	name := ev.Categorical[c.field]
	h, ok := c.histories[name]
	if !ok {
		h = new(entityHistory)
		c.histories[name] = h
	}
	return h
}

// overlay returns the newest version with the history folded in, nil without one.
func (c *backtestConsumer) overlay(h *entityHistory) (*snapshot.Overlay, error) {
	if h == nil || !c.folds || len(h.events) == 0 {
		return nil, nil
	}
	if h.overlay == nil || h.version != c.version {
		for i := range h.events {
			h.events[i].Held = h.numbers[i] < c.held
		}
		over, err := c.model.Fold(h.events)
		if err != nil {
			return nil, err
		}
		h.overlay, h.version = over, c.version
	}
	return h.overlay, nil
}

// add appends an event to a history.
func (h *entityHistory) add(c *backtestConsumer, ev *event.Event, in snapshot.Input) error {
	e := snapshot.LabelledEvent{
		Input: snapshot.Input{Categorical: slices.Clone(in.Categorical), Numeric: slices.Clone(in.Numeric),
			Multi: make([][]string, len(in.Multi))},
		Label:   ev.Label,
		Classes: slices.Clone(ev.Classes),
		Weight:  ev.Weight,
	}
	for f, names := range in.Multi {
		e.Multi[f] = slices.Clone(names)
	}
	if len(h.events) == consumerEvents {
		h.events, h.numbers = slices.Delete(h.events, 0, 1), slices.Delete(h.numbers, 0, 1)
	}
	h.events, h.numbers = append(h.events, e), append(h.numbers, c.seen-1)
	if h.overlay == nil || h.version != c.version {
		return nil
	}
	over, err := h.overlay.Learn(&e)
	if err == nil {
		h.overlay = over
	}
	return err
}

// behind returns the RMSE of numbers, else the loss, of a consumer less that of the live model.
func behind(consumer, live *report.Metrics) *report.Number {
	a, b := consumer.RMSE, live.RMSE
	if a == nil || b == nil {
		a, b = consumer.Loss, live.Loss
	}
	if a == nil || b == nil {
		return nil
	}
	return report.Some(float64(*a) - float64(*b))
}

// report returns what the consumer made of the events; live is what the live model made of the last tenth.
func (c *backtestConsumer) report(live *report.Metrics) report.BacktestConsumer {
	if c.tail == nil { // the run was interrupted before
		c.tail = evaluate.NewQuality(c.target, nil)
	}
	r := report.BacktestConsumer{Mode: c.mode, All: *c.all.Metrics(), LastTenth: *c.tail.Metrics(), Folded: c.folded}
	c.hits.AddTo(&r.All)
	c.tailHits.AddTo(&r.LastTenth)
	if live != nil {
		r.BehindLive = behind(&r.LastTenth, live)
	}
	if strings.HasSuffix(c.mode, consumerHistory) {
		r.NoFoldIn = c.noFoldIn
	}
	return r
}
