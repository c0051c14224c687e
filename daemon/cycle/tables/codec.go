package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// errRow is returned for bytes that AppendRow has not written.
var errRow = errors.New("tables: a stored row of a table cannot be read: it is damaged, or another build wrote it")

// A row in the state begins with a zero byte, with which no past of an entity begins, and the version of its form,
// which is another of rows with vectors, and of rows with a history. All are of the stored form. Chosen by hand.
const (
	rowTag         = 0
	rowVersion     = 1
	vectorVersion  = 2
	historyVersion = 3

	rowHead = 2 + binary.MaxVarintLen64 // tag, version and offset
)

// AppendRow appends the bytes of a row in the state: tag, version, offset, the vectors if it has some, then the event
// as rows.AppendEvent does, or in its place the history.
func AppendRow(dst []byte, r *Row) []byte {
	version := byte(rowVersion)
	switch {
	case r.History != nil:
		dst = binary.AppendUvarint(append(dst, rowTag, historyVersion), uint64(r.Offset))
		return append(dst, r.History...)
	case r.Vectors != nil:
		version = vectorVersion
	}
	dst = append(dst, rowTag, version)
	dst = binary.AppendUvarint(dst, uint64(r.Offset))
	if r.Vectors != nil {
		dst = appendVectors(dst, r.Vectors)
	}
	return rows.AppendEvent(dst, &r.Event)
}

// appendVectors appends how many numbers there are, and each in 4 bytes.
func appendVectors(dst []byte, vectors []float32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(vectors)))
	for _, v := range vectors {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}

// decodeVectors is the inverse of appendVectors. It returns what follows.
func decodeVectors(b []byte) (vectors []float32, rest []byte, ok bool) {
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)-n)/4 {
		return nil, nil, false
	}
	vectors, b = make([]float32, count), b[n:]
	for i := range vectors {
		vectors[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return vectors, b[4*count:], true
}

// DecodeRow reads what AppendRow wrote of a partition.
func DecodeRow(topic string, partition int32, value []byte, names rows.Interner) (*Row, error) {
	if len(value) < 2 || value[0] != rowTag || value[1] < rowVersion || value[1] > historyVersion {
		return nil, errRow
	}
	offset, n := binary.Uvarint(value[2:])
	if n <= 0 {
		return nil, errRow
	}
	r, rest, ok := &Row{Topic: topic, Partition: partition, Offset: int64(offset), Bytes: len(value)}, value[2+n:], true
	switch value[1] {
	case historyVersion:
		if r.History = bytes.Clone(rest); !r.newest(names) {
			return nil, errRow
		}
		return r, nil
	case vectorVersion:
		r.Vectors, rest, ok = decodeVectors(rest)
	}
	if !ok || rows.DecodeEvent(&r.Event, rest, names) != nil || len(r.Event.Categorical) == 0 {
		return nil, errRow
	}
	return r, nil
}

// recordVersion defines the bytes of a set in the record of a refit, recordOfVectors those of one with vectors,
// recordOfHistory those of one with histories: a reader refuses any other.
const (
	recordVersion   = 1
	recordOfVectors = 2
	recordOfHistory = 3
)

// recordVersionOf returns the form of the record of a set.
func (s *Set) recordVersionOf() byte {
	if slices.ContainsFunc(s.tables, func(t table) bool { return t.config.HasHistory() }) {
		return recordOfHistory
	}
	if slices.ContainsFunc(s.tables, func(t table) bool { return len(t.config.Vector) > 0 }) {
		return recordOfVectors
	}
	return recordVersion
}

// AppendRecord appends the rows that count, by table and name, for the record of a refit: the same rows give the same
// bytes. Where a table has histories they are all rows, as the state has them. A nil Set has none.
func (s *Set) AppendRecord(dst []byte) []byte {
	if s == nil {
		return dst
	}
	version := s.recordVersionOf()
	dst = binary.AppendUvarint(append(dst, version), uint64(len(s.tables)))
	var b []byte
	for i := range s.tables {
		list := s.Rows(i)
		if version == recordOfHistory {
			list = s.all(i)
		}
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, r := range list {
			switch b = b[:0]; version {
			case recordOfHistory:
				b = append(binary.AppendUvarint(b, uint64(len(r.Topic))), r.Topic...)
				b = AppendRow(binary.AppendUvarint(b, uint64(r.Partition)), r)
			case recordOfVectors:
				b = rows.AppendEvent(appendVectors(b, r.Vectors), &r.Event)
			default:
				b = rows.AppendEvent(b, &r.Event)
			}
			dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...)
		}
	}
	return dst
}

// EachNamed calls yield, until it returns false, with the bytes of a row of events that names an entity and nothing
// else, for each entity that has a row.
func (s *Set) EachNamed(yield func(payload []byte) bool) {
	for i := range s.NumTables() {
		for _, r := range s.all(i) {
			ev := event.Event{Categorical: make([]string, len(s.schema.Categorical)),
				Numeric: make([]float64, len(s.schema.Numeric)), Multi: make([][]string, len(s.schema.Multi))}
			ev.Categorical[s.tables[i].of] = r.Name()
			if !yield(rows.AppendEvent(nil, &ev)) {
				return
			}
		}
	}
}

var errRecord = errors.New("tables: the rows of tables that were kept with a refit cannot be read")

// ReadRecord is the inverse of AppendRecord, for the model of the refit.
func ReadRecord(m *config.Model, b []byte) (*Set, error) {
	s := New(m)
	next := func() (int, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > uint64(len(b)-n) {
			return 0, false
		}
		b = b[n:]
		return int(v), true
	}
	if s == nil || len(b) == 0 || b[0] != s.recordVersionOf() {
		return nil, errRecord
	}
	version := b[0]
	b = b[1:]
	if n, ok := next(); !ok || n != len(s.tables) {
		return nil, errRecord
	}
	names := make(rows.Interner)
	for i := range s.tables {
		n, ok := next()
		if !ok {
			return nil, errRecord
		}
		for range n {
			size, ok := next()
			if !ok {
				return nil, errRecord
			}
			r := recordedRow(version, b[:size], names)
			if r == nil || !s.Fits(i, r) {
				return nil, errRecord
			}
			b = b[size:]
			s.Put(i, r)
		}
	}
	if len(b) > 0 {
		return nil, errRecord
	}
	return s, nil
}

// recordedRow reads a row of the record of a set, nil if it cannot be read.
func recordedRow(version byte, b []byte, names rows.Interner) *Row {
	r, ok := new(Row), true
	switch version {
	case recordOfHistory:
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil
		}
		topic, rest := string(b[n:n+int(size)]), b[n+int(size):]
		number, n := binary.Uvarint(rest)
		if n <= 0 || number > math.MaxInt32 {
			return nil
		}
		r, _ = DecodeRow(topic, int32(number), rest[n:], names)
		return r
	case recordOfVectors:
		r.Vectors, b, ok = decodeVectors(b)
	}
	if !ok || rows.DecodeEvent(&r.Event, b, names) != nil {
		return nil
	}
	return r
}

// Fits reports whether a row has the columns of a table. It may lack vectors.
func (s *Set) Fits(table int, r *Row) bool {
	t := &s.tables[table]
	return (len(r.Vectors) == 0 || 4*len(r.Vectors) == t.config.VectorBytes()) && t.fits(&r.Event)
}

// fits reports whether what a row says has the columns of the table.
func (t *table) fits(ev *event.Event) bool {
	return len(ev.Categorical) == 1+len(t.categorical) && len(ev.Numeric) == len(t.numeric) &&
		len(ev.Multi) == len(t.multi) && ev.Categorical[0] != ""
}
