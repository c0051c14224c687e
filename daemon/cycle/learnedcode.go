package cycle

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver/posterior"
)

// learnedHead is what Encode writes of Learned beside its rows.
type learnedHead struct {
	Champion  string                      `json:"champion"`
	Version   int64                       `json:"version"`
	From      []report.Cut                `json:"from,omitempty"`
	To        []report.Cut                `json:"to,omitempty"`
	Watermark int64                       `json:"watermark,omitempty"`
	Rates     [][]posterior.RateIncrement `json:"rates"`            // by part
	Format    int                         `json:"format,omitempty"` // of the events; 0 of a build that did not say
	Judged    []string                    `json:"judged,omitempty"` // by events
}

// Encode returns the head and the rows of what was learned, for DecodeLearned. A row is
//
//	part u8 | field uvarint | length uvarint, name | versions u8 | Keep f64 each | LossKeep f64 | losses u8 | Loss f32 each | count uvarint | Added f32 each
//
// and an event
//
//	255 u8 | length uvarint, payload | of each learned part and each baseline: count uvarint, Outputs f32 each
//
// A row that begins with another number from 128 on is left out where it is read: it is of a later version.
//
// The head names the parts that outputs are of, and the format of events: what another build says of other parts is left out.
//
// Floats are in little-endian. A number that is too large for its type is infinite then, and its row is not applied.
func (l *Learned) Encode() (head []byte, rows [][]byte, err error) {
	h := learnedHead{Champion: l.Champion, Version: l.Version, From: l.From, To: l.To, Watermark: l.Watermark,
		Format: l.Format, Judged: l.Judged}
	for i, part := range l.Parts {
		h.Rates = append(h.Rates, part.Rates)
		for j := range part.Rows {
			rows = append(rows, part.Rows[j].append([]byte{byte(i)}))
		}
	}
	for i := range l.Events {
		e := &l.Events[i]
		b := append(binary.AppendUvarint([]byte{eventRow}, uint64(len(e.Payload))), e.Payload...)
		for _, out := range e.Outputs {
			b = appendSingle(binary.AppendUvarint(b, uint64(len(out))), out)
		}
		rows = append(rows, b)
	}
	head, err = json.Marshal(&h)
	return head, rows, err
}

// What other rows have in place of a part: those from firstKind on, of which eventRow is an event.
const (
	firstKind = 128
	eventRow  = math.MaxUint8
)

func (r *LearnedRow) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(r.Field))
	b = append(binary.AppendUvarint(b, uint64(len(r.Name))), r.Name...)
	inc := r.Increment
	b = append(b, byte(len(inc.Keep)))
	for _, v := range inc.Keep {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(inc.LossKeep))
	b = appendSingle(append(b, byte(len(inc.Loss))), inc.Loss)
	return appendSingle(binary.AppendUvarint(b, uint64(len(inc.Added))), inc.Added)
}

func appendSingle(b []byte, list []float64) []byte {
	for _, v := range list {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return b
}

var errLearned = errors.New("cycle: a row of what was learned cannot be read")

// maxStretch is how many offsets of a partition one Learned can be of. A process writes one each second, or later what it could not write for hours.
const maxStretch = 1 << 31

// errStretch: a To that is too large would make all that comes of the partition later count as known.
var errStretch = errors.New("cycle: what was learned is of offsets that one process cannot have read")

// check refuses offsets and times that cannot be true.
func (h *learnedHead) check() error {
	if len(h.From) != len(h.To) || h.Version < 0 || h.Watermark < 0 {
		return errStretch
	}
	for i, from := range h.From {
		to := h.To[i]
		if from.Topic != to.Topic || from.Partition != to.Partition || from.Next < 0 || to.Next < from.Next || to.Next-from.Next > maxStretch {
			return errStretch
		}
	}
	return nil
}

// DecodeLearned reads what Encode returned.
func DecodeLearned(head []byte, rows [][]byte) (*Learned, error) {
	var h learnedHead
	if err := json.Unmarshal(head, &h); err != nil {
		return nil, fmt.Errorf("cycle: what was learned: %w", err)
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	l := &Learned{Champion: h.Champion, Version: h.Version, From: h.From, To: h.To, Watermark: h.Watermark,
		Format: h.Format, Judged: h.Judged, Parts: make([]LearnedPart, len(h.Rates))}
	for i, rates := range h.Rates {
		l.Parts[i].Rates = rates
	}
	for _, b := range rows {
		r := payloadReader{rest: b}
		part := int(r.byte())
		if part == eventRow {
			e := ToldEvent{Payload: r.take(r.count(1))}
			for !r.failed && len(r.rest) > 0 {
				var out []float64 // nil of a part that had none
				if n := r.count(4); n > 0 {
					out = r.singles(n)
				}
				e.Outputs = append(e.Outputs, out)
			}
			if r.failed {
				return nil, errLearned
			}
			l.Events = append(l.Events, e)
			continue
		}
		if part >= firstKind {
			continue
		}
		row := LearnedRow{Field: r.uvarint(math.MaxInt32), Name: string(r.take(r.count(1)))}
		inc := &posterior.Increment{Keep: r.floats(int(r.byte())), LossKeep: r.float()}
		inc.Loss = r.singles(int(r.byte()))
		inc.Added = r.singles(r.count(4))
		if r.failed || len(r.rest) > 0 || part >= len(l.Parts) {
			return nil, errLearned
		}
		row.Increment = inc
		l.Parts[part].Rows = append(l.Parts[part].Rows, row)
	}
	return l, nil
}
