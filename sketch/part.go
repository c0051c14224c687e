package sketch

import (
	"errors"
	"fmt"
	"math"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/policy"
)

// Limits of one record. Validate events against them before they are applied.
const (
	MaxPayloadBytes = 256 << 10
	MaxReasonBytes  = 64
	MaxDetailBytes  = 128 // of Detail.Expected and Detail.Got together
	MaxAuxBytes     = 512 << 10
	MaxEntities     = 64
)

// A Record is one offset of a part. Identity, HoldoutKey, Group and Payload may be reused by the caller once Apply has
// returned.
type Record struct {
	Offset int64
	Fate   Fate
	CRC    uint32 // of the record's key, value and timestamp; bound into the ledger's digest

	// Of a rejected record: why, what else there is to say of it (nil for nothing), with what a DeadLetter keeps of its
	// key and headers, and the bytes of its value, -1 if it has none.
	Reason string
	Detail *Detail
	Size   int
	Quiet  bool // of a rejected record: no DeadLetter is kept of it

	// Of applied records, and the first and the last of rejected ones: their time stamp, and what a DeadLetter keeps of
	// their value.
	Time       int64   // event time, milliseconds
	Weight     float64 // > 0 and finite; 1 where events have none
	Identity   []byte  // value of the identity field; nil unless Options.Identity is set
	HoldoutKey []byte  // value of the hold-out field; nil unless Options.HoldoutBy is set
	Group      []byte  // class of the label or value of the cap's field; nil unless Options.Quotas or CapBy is set
	// Of an outcome, whose Identity is that of the event that it is of: what it says, finite; or that it takes back what
	// the partition has said of it so far.
	Value     float64
	TakesBack bool
	// of an event that was ahead of this time, milliseconds, and has another Time for that: kept, see TimeBound; else 0
	Bound     int64
	Forgotten bool // the event is counted, but kept out of the samples: what Forgets said of it
	// Aside is a record that is applied and no event: it changes Entities alone, has no role, and leaves the watermark.
	// All applied records of a partition are, or none.
	Aside bool
	// Payload is what Sample gives back, at most MaxPayloadBytes; of a rejected record at most MaxDeadLetterBytes, with
	// Detail.Key and Detail.Headers.
	Payload []byte
	// Entities are those of an applied record that change with it, whether or not it enters a sample; at most
	// MaxEntities.
	Entities []Entity

	// Filled by Classify.
	Role     Role
	Replayed bool // below the ledger's next: already in the state, and ignored by Apply

	id, group policy.Identity
}

// ID returns the identity of an applied record that Classify has seen: an event and its outcomes have the same.
func (r *Record) ID() Identity { return r.id }

// A Part is a stretch of one partition: the offsets Base..Next-1. Those without a record are holes.
type Part struct {
	Topic     string
	Partition int32
	LogStart  int64 // the log's first offset, as the same fetch reported it
	Base      int64 // where the fetch was asked to start
	Next      int64 // where the next fetch starts
	Outcomes  bool  // its events are outcomes: no rows, but what came of rows
	Records   []Record
	Schemas   []Schema // that records of the part need, and the state lacks

	classified *Store // the store that filled role and id of the records
}

// keptBytes returns how much of a record is kept.
func (r *Record) keptBytes() int {
	n := len(r.Payload)
	if r.Detail != nil {
		n += len(r.Detail.Key) + len(r.Detail.Headers)
	}
	return n
}

// check returns an error wrapping ErrPart if the part contradicts itself.
func (p *Part) check(s *policy.Settings) error {
	bad := func(offset int64, why error) error {
		return fmt.Errorf("sketch: %s/%d: offset %d: %w: %w", p.Topic, p.Partition, offset, why, ErrPart)
	}
	if p.Base < 0 || p.Next < p.Base {
		return bad(p.Base, fmt.Errorf("part ends at %d", p.Next))
	}
	if p.Outcomes && !s.Joined() {
		return bad(p.Base, errors.New("outcomes, which the settings do not join"))
	}
	low := p.Base
	for i := range p.Records {
		r := &p.Records[i]
		if r.Offset < low || r.Offset >= p.Next {
			return bad(r.Offset, fmt.Errorf("record outside %d..%d", low, p.Next-1))
		}
		low = r.Offset + 1
		if err := r.check(s, p.Outcomes); err != nil {
			return bad(r.Offset, err)
		}
	}
	return nil
}

// check returns how a record contradicts itself or the settings, if it does.
func (r *Record) check(s *policy.Settings, isOutcome bool) error {
	switch r.Fate {
	case Control, Aborted:
		return nil
	case Rejected:
		return r.checkRejected()
	case Applied:
		if isOutcome && (len(r.Payload)+len(r.Entities) > 0 || math.IsNaN(r.Value-r.Value)) {
			return fmt.Errorf("outcome with %d bytes, %d entities and value %g, want none and a finite number",
				len(r.Payload), len(r.Entities), r.Value)
		}
		return r.checkApplied(s)
	}
	return fmt.Errorf("unknown fate %d", r.Fate)
}

func (r *Record) checkRejected() error {
	if r.Reason == "" || len(r.Reason) > MaxReasonBytes {
		return fmt.Errorf("reason of %d bytes, want 1 to %d", len(r.Reason), MaxReasonBytes)
	}
	if d := r.Detail; d != nil && len(d.Expected)+len(d.Got) > MaxDetailBytes {
		return fmt.Errorf("detail of %d bytes, at most %d are kept", len(d.Expected)+len(d.Got), MaxDetailBytes)
	}
	if n := r.keptBytes(); n > MaxDeadLetterBytes {
		return fmt.Errorf("%d bytes of a rejected record, at most %d are kept", n, MaxDeadLetterBytes)
	}
	return nil
}

func (r *Record) checkApplied(s *policy.Settings) error {
	switch {
	case !(r.Weight > 0 && r.Weight <= codec.MaxWeight):
		return fmt.Errorf("weight %g, want a positive finite number", r.Weight)
	case len(r.Payload) > MaxPayloadBytes:
		return fmt.Errorf("payload of %d bytes, at most %d are kept", len(r.Payload), MaxPayloadBytes)
	case len(r.Entities) > MaxEntities:
		return fmt.Errorf("%d entities, at most %d are kept", len(r.Entities), MaxEntities)
	case r.Aside:
	case (s.Identity != "") != (r.Identity != nil):
		return fmt.Errorf("identity bytes given: %t, identity field: %q", r.Identity != nil, s.Identity)
	case (s.HoldoutBy != "") != (r.HoldoutKey != nil):
		return fmt.Errorf("hold-out bytes given: %t, hold-out field: %q", r.HoldoutKey != nil, s.HoldoutBy)
	case s.Grouped() != (r.Group != nil):
		return fmt.Errorf("class or entity bytes given: %t, quotas or a cap: %t", r.Group != nil, s.Grouped())
	}
	return nil
}
