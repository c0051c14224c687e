package ingest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest/negatives"
	"github.com/refitd/refitd/sketch"
)

// Learn scores and learns the events of a part that another process has decoded and stores: applied records with the
// payload of a row. Nothing of them is stored here. It returns on how many the cycle panicked. A payload that is no
// event of the schema, or one later than latest, is an error, and then nothing is learned.
func (g *Ingest) Learn(p *sketch.Part, latest time.Time) (unlearned int64, err error) {
	d := &g.parts[g.turn]
	if err := g.decodePayloads(p, d, latest); err != nil {
		return 0, err
	}
	if err := g.fillChoices(); err != nil {
		return 0, err
	}
	g.prescore(p, d, false)
	unlearned, _ = g.observeRecords(p, d, false)
	return unlearned, nil
}

// Relearn has the cycle learn the events of such a part without scoring them: they were scored before a restart.
func (g *Ingest) Relearn(p *sketch.Part, latest time.Time) (unlearned int64, err error) {
	if err := g.decodePayloads(p, &g.parts[g.turn], latest); err != nil {
		return 0, err
	}
	if g.again == nil {
		g.again = negatives.Payloads(g.model)
	}
	for i := range p.Records {
		r := &p.Records[i]
		if r.Forgotten {
			continue
		}
		row := sketch.Row{Topic: p.Topic, Partition: p.Partition, Offset: r.Offset, Payload: r.Payload}
		panicked, err := learnRow(func() error {
			return g.again(&row, func(payload []byte, first bool) error {
				return g.cycle.Relearn(negatives.PlaceOf(&row), payload, first)
			})
		})
		if err != nil {
			return unlearned, err
		}
		if panicked {
			unlearned++
		}
	}
	return unlearned, nil
}

// A topic can have anything that others wrote into it.
var (
	errForwarded = errors.New("ingest: a forwarded event does not match the schema")
	errAhead     = errors.New("ingest: a forwarded event is far ahead of the clock here")
)

// decodePayloads decodes the events of a part.
func (g *Ingest) decodePayloads(p *sketch.Part, d *decoded, latest time.Time) error {
	if short := len(p.Records) - len(d.events); short > 0 {
		d.events = append(d.events, make([]event.Event, short)...)
	}
	d.scores = d.scores[:0]
	schema, names := g.model.Schema.Event(), make(map[string]string)
	for i := range p.Records {
		ev, r := &d.events[i], &p.Records[i]
		if err := rows.DecodeEvent(ev, r.Payload, names); err != nil {
			return fmt.Errorf("offset %d: %w", r.Offset, err)
		}
		if len(ev.Categorical) != len(schema.Categorical) || len(ev.Numeric) != len(schema.Numeric) ||
			len(ev.Multi) != len(schema.Multi) || slices.ContainsFunc([]float64{ev.Label, ev.Weight}, isNoNumber) ||
			ev.Weight <= 0 {
			return fmt.Errorf("offset %d: %w", r.Offset, errForwarded)
		}
		if ev.Time > latest.UnixMilli() {
			return fmt.Errorf("offset %d: %w", r.Offset, errAhead)
		}
		r.Time, r.Weight = ev.Time, ev.Weight
	}
	return nil
}

func isNoNumber(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
