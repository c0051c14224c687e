package tables

import (
	"encoding/binary"
	"errors"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// errRow is returned for bytes that AppendRow has not written.
var errRow = errors.New("tables: a stored row of a table cannot be read: it is damaged, or another build wrote it")

// A row in the state begins with a zero byte, with which no past of an entity begins, and the version of its form. Both
// are of the stored form. Chosen by hand.
const (
	rowTag     = 0
	rowVersion = 1
)

// AppendRow appends the bytes of a row in the state: tag, version, offset, then the event as rows.AppendEvent does.
func AppendRow(dst []byte, offset int64, ev *event.Event) []byte {
	dst = append(dst, rowTag, rowVersion)
	dst = binary.AppendUvarint(dst, uint64(offset))
	return rows.AppendEvent(dst, ev)
}

// DecodeRow reads what AppendRow wrote of a partition.
func DecodeRow(topic string, partition int32, value []byte, names rows.Interner) (*Row, error) {
	if len(value) < 2 || value[0] != rowTag || value[1] != rowVersion {
		return nil, errRow
	}
	offset, n := binary.Uvarint(value[2:])
	if n <= 0 {
		return nil, errRow
	}
	r := &Row{Topic: topic, Partition: partition, Offset: int64(offset), Bytes: len(value)}
	if rows.DecodeEvent(&r.Event, value[2+n:], names) != nil || len(r.Event.Categorical) == 0 {
		return nil, errRow
	}
	return r, nil
}

// recordVersion defines the bytes of a set in the record of a refit: a reader refuses any other.
const recordVersion = 1

// AppendRecord appends the rows that count, by table and name, for the record of a refit: the same rows give the same
// bytes. A nil Set has none.
func (s *Set) AppendRecord(dst []byte) []byte {
	if s == nil {
		return dst
	}
	dst = binary.AppendUvarint(append(dst, recordVersion), uint64(len(s.tables)))
	var b []byte
	for i := range s.tables {
		list := s.Rows(i)
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, r := range list {
			b = rows.AppendEvent(b[:0], &r.Event)
			dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...)
		}
	}
	return dst
}

// EachNamed calls yield, until it returns false, with the bytes of a row of events that names an entity and nothing
// else, for each entity that has a row.
func (s *Set) EachNamed(yield func(payload []byte) bool) {
	for i := range s.NumTables() {
		for _, r := range s.Rows(i) {
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
	if s == nil || len(b) == 0 || b[0] != recordVersion {
		return nil, errRecord
	}
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
			r := new(Row)
			if rows.DecodeEvent(&r.Event, b[:size], names) != nil || !s.tables[i].fits(&r.Event) {
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

// Fits reports whether an event has the columns of a table.
func (s *Set) Fits(table int, ev *event.Event) bool { return s.tables[table].fits(ev) }

func (t *table) fits(ev *event.Event) bool {
	return len(ev.Categorical) == 1+len(t.categorical) && len(ev.Numeric) == len(t.numeric) &&
		len(ev.Multi) == len(t.multi) && ev.Categorical[0] != ""
}
