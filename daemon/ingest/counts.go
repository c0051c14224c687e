package ingest

import (
	"slices"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/format"
)

// Counts says what became of the records of one batch. It is one type: a field for each count.
type Counts struct {
	Topic      string
	Partition  int32
	Outcomes   bool // they are outcomes, which are no events
	Applied    int64
	Unlearned  int64  // of those, the ones on which the cycle panicked
	Passed     int64  // of those, the ones that a catch-up stored and did not learn
	Open       int    // events in memory that wait for their label, and keys of outcomes that wait for their event
	Dropped    int64  // events that do not wait any more: there are too many
	Bounded    int64  // of those, the ones whose time was ahead of the clock and was replaced
	WrongUnit  int64  // of those, the ones whose time is of another unit than the schema's, as it seems
	TrueUnit   string // of the first of them
	WrongAt    int64  // offset of the first of them
	Replayed   int64
	Tabled     int64 // records of a table, which are no events
	Control    int64
	Aborted    int64
	Holes      int64
	Rejected   map[event.Cause]int64
	RejectedAt int64            // offset of the first of them that was not asked for, or else of the first
	Rejection  event.Rejection  // of that one
	Rejects    []Reject         // the first of them, without those that are filtered
	Absent     map[string]int64 // events that lack it, by optional field
	Formats    map[string]int64 // events of it, by format
	Schemas    int              // that were stored with the batch
	Watermark  int64            // newest event time of the batch, milliseconds since 1970
	Base, Next int64            // first offset of the batch, and the one after its last
	Began      time.Time        // when its decoding began
	Traces     []string         // the first traceparents of its records' headers, where Hooks.Traces is set
}

// maxTraces bounds Counts.Traces: a span has few links, a batch thousands of records.
const maxTraces = 32

// trace notes the traces that records belong to, as W3C Trace Context has them.
func (c *Counts) trace(records []consumer.Record) {
	for i := 0; i < len(records) && len(c.Traces) < maxTraces; i++ {
		if headers := records[i].Headers; len(headers) > 0 {
			if v := framing.HeaderOf(headers, "traceparent"); v != nil && !slices.Contains(c.Traces, string(v)) {
				c.Traces = append(c.Traces, string(v))
			}
		}
	}
}

func (c *Counts) lacks(field string) {
	if c.Absent == nil {
		c.Absent = make(map[string]int64)
	}
	c.Absent[field]++
}

// countFormats counts applied events by the formats of their records, of which most are that of the one before.
func (c *Counts) countFormats(formats []string, records []sketch.Record) {
	c.Formats = make(map[string]int64)
	for i := 0; i < len(records); {
		format, n := formats[i], int64(0)
		for ; i < len(records) && formats[i] == format; i++ {
			if r := &records[i]; r.Fate == sketch.Applied && !r.Replayed {
				n++
			}
		}
		if n > 0 {
			c.Formats[format] += n
		}
	}
}

// checkUnit counts an applied event whose time seems to be of another unit than the schema says.
func (c *Counts) checkUnit(unit string, r *sketch.Record) {
	seems := formats.TrueUnit(unit, r.Time)
	if seems == "" {
		return
	}
	if c.WrongUnit++; c.WrongUnit == 1 {
		c.TrueUnit, c.WrongAt = seems, r.Offset
	}
}

// count counts a record; o makes the outline of a rejected one.
func (c *Counts) count(r *sketch.Record, o *outlines) {
	switch r.Fate {
	case sketch.Control:
		c.Control++
	case sketch.Aborted:
		c.Aborted++
	case sketch.Rejected:
		if c.Rejected == nil {
			c.Rejected = make(map[event.Cause]int64)
		}
		rejection := event.Rejection{
			Reason:   event.Reason(r.Reason),
			Field:    r.Detail.Field,
			Expected: r.Detail.Expected,
			Got:      r.Detail.Got,
		}
		if c.Rejection.Reason == "" || c.Rejection.Reason == event.Filtered && rejection.Reason != event.Filtered {
			c.RejectedAt, c.Rejection = r.Offset, rejection
		}
		c.Rejected[rejection.Cause()]++
		if rejection.Reason != event.Filtered && len(c.Rejects) < maxRejects {
			c.Rejects = append(c.Rejects, o.rejectOf(r, rejection))
		}
	}
}

// countsOf adds up what became of the records of a ledger.
func countsOf(ledger []sketch.LedgerRow) (n format.Counts) {
	for i := range ledger {
		l := &ledger[i]
		n.Applied, n.Rejected, n.Control = n.Applied+l.Applied, n.Rejected+l.Rejected, n.Control+l.Control
		n.Aborted, n.Holes, n.Gap = n.Aborted+l.Aborted, n.Holes+l.Holes, n.Gap+l.Gap
	}
	return n
}

// Stored returns how far the log is stored.
func Stored(m *config.Model, store *sketch.Store) updates.Stored {
	ledger := store.Ledger()
	events, watermark := eventsOf(m, ledger)
	n := countsOf(events)
	out := updates.Stored{Events: &n, Watermark: max(0, watermark)}
	for i := range ledger {
		l := &ledger[i]
		out.Cut = append(out.Cut, report.Cut{Topic: l.Topic, Partition: l.Partition, Next: l.Next})
	}
	return out
}
