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
	Rates     [][]posterior.RateIncrement `json:"rates"` // by part
}

// Encode returns the head and the rows of what was learned, for DecodeLearned. A row is
//
//	part u8 | field uvarint | length uvarint, name | versions u8 | Keep f64 each | LossKeep f64 | losses u8 | Loss f32 each | count uvarint | Added f32 each
//
// with floats in little-endian. A number that is too large for its type is infinite then, and its row is not applied.
func (l *Learned) Encode() (head []byte, rows [][]byte, err error) {
	h := learnedHead{Champion: l.Champion, Version: l.Version, From: l.From, To: l.To, Watermark: l.Watermark}
	for i, part := range l.Parts {
		h.Rates = append(h.Rates, part.Rates)
		for j := range part.Rows {
			rows = append(rows, part.Rows[j].append([]byte{byte(i)}))
		}
	}
	head, err = json.Marshal(&h)
	return head, rows, err
}

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

// DecodeLearned reads what Encode returned.
func DecodeLearned(head []byte, rows [][]byte) (*Learned, error) {
	var h learnedHead
	if err := json.Unmarshal(head, &h); err != nil {
		return nil, fmt.Errorf("cycle: what was learned: %w", err)
	}
	l := &Learned{Champion: h.Champion, Version: h.Version, From: h.From, To: h.To, Watermark: h.Watermark, Parts: make([]LearnedPart, len(h.Rates))}
	for i, rates := range h.Rates {
		l.Parts[i].Rates = rates
	}
	for _, b := range rows {
		d := decoder{rest: b}
		part := int(d.byte())
		row := LearnedRow{Field: int(d.uvarint(math.MaxInt32)), Name: string(d.bytes(d.uvarint(math.MaxInt32)))}
		inc := &posterior.Increment{Keep: d.doubles(int(d.byte())), LossKeep: d.double()}
		inc.Loss = d.singles(int(d.byte()))
		inc.Added = d.singles(d.uvarint(math.MaxInt32))
		if d.failed || len(d.rest) > 0 || part >= len(l.Parts) {
			return nil, errLearned
		}
		row.Increment = inc
		l.Parts[part].Rows = append(l.Parts[part].Rows, row)
	}
	return l, nil
}

// decoder reads the parts of a row. What is cut off reads as nothing, and failed says so.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.rest) {
		d.failed, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint(limit uint64) int {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > limit {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return int(v)
}

func (d *decoder) double() float64 {
	if b := d.bytes(8); b != nil {
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) doubles(n int) []float64 {
	if d.failed || 8*n > len(d.rest) {
		d.failed = true
		return nil
	}
	list := make([]float64, n)
	for i := range list {
		list[i] = d.double()
	}
	return list
}

func (d *decoder) singles(n int) []float64 {
	if d.failed || 4*n > len(d.rest) {
		d.failed = true
		return nil
	}
	list := make([]float64, n)
	for i := range list {
		list[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(d.bytes(4))))
	}
	return list
}
