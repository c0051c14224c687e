package verify

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/refitd/refitd/consumer"
	encoded "github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/sketch"
)

// tableRow is a row of a table in a state.
type tableRow struct {
	*tables.Row
	value []byte
}

// tableRowsOf returns the rows of a partition of a table, by their key, and the offset of the oldest.
func tableRowsOf(s *sketch.Store, topic string, number int32) (out map[sketch.Digest]tableRow, oldest int64,
	err error) {
	out, oldest = make(map[sketch.Digest]tableRow), math.MaxInt64
	err = s.Entities(topic, number, func(e sketch.Entity) error {
		row, err := tables.DecodeRow(topic, number, e.Value, make(encoded.Interner))
		if err == nil {
			if out[e.Key] = (tableRow{row, bytes.Clone(e.Value)}); !row.Ended {
				oldest = min(oldest, row.Offset)
			}
		}
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("verify: rows of %s/%d: %w", topic, number, err)
	}
	return out, oldest, nil
}

// tableSink is the sink of the log of a table that notes which keys have a rejected record, and where the last one is:
// a state keeps the row that such a key had before, and compaction takes the record of that row out of the log.
type tableSink struct {
	consumer.Sink
	name       string // of the table
	hasHistory bool
	keys       map[int64]sketch.Digest
	rejected   map[sketch.Digest]int64
}

// Apply is called for one batch at a time, which is stored when it returns.
func (s *tableSink) Apply(ctx context.Context, b *consumer.Batch) error {
	s.keys = make(map[int64]sketch.Digest, len(b.Records))
	for i := range b.Records {
		if r := &b.Records[i]; r.Key != nil {
			s.keys[r.Offset] = ingest.TableKey(s.name, r.Key)
		}
	}
	return s.Sink.Apply(ctx, b)
}

// note learns what came of the records of the batch.
func (s *tableSink) note(p *sketch.Part) {
	for i := range p.Records {
		if key, ok := s.keys[p.Records[i].Offset]; ok && p.Records[i].Fate == sketch.Rejected {
			s.rejected[key] = p.Records[i].Offset
		}
	}
}

// table compares the rows of a partition of a table with those that its log gives. Compaction leaves the last record of
// each key, which is all that rows follow from: they are proved though accounts are not. Below a bound a state has
// fewer rows than a compacted log gives, where rows were given up before others went: all are older than those it has.
// What a key said before is not in a compacted log, nor in a state that began to keep it when it had read some.
func (p *proof) table() error {
	l := p.ledger
	have, oldest, err := tableRowsOf(p.store, l.Topic, l.Partition)
	if err != nil {
		return p.stateError(err)
	}
	want, _, err := tableRowsOf(p.memory, l.Topic, l.Partition)
	if err != nil {
		return err
	}
	same := func(a, b tableRow) bool { return bytes.Equal(a.value, b.value) }
	if p.tables.hasHistory && (p.compacted || !p.state.OfLog) {
		same = func(a, b tableRow) bool { return a.Row.Has(b.Row) }
	}
	lost, double, altered := int64(0), int64(0), int64(0)
	for key, row := range want {
		other, ok := have[key]
		switch {
		case !ok && p.compacted && row.Offset < oldest && len(have) > 0:
		case !ok:
			lost++
		case other.Offset != row.Offset || !same(other, row):
			altered++
		}
	}
	for key, row := range have {
		if _, ok := want[key]; !ok && !(p.compacted && (row.Ended || p.tables.rejected[key] > row.Offset)) {
			double++
		}
	}
	if lost+double+altered > 0 {
		p.log.Error("rows of the table are not what the log gives", "lost", lost, "double", double, "altered", altered)
		p.out.Lost, p.out.Double, p.out.Digest = p.out.Lost+lost, p.out.Double+double, digestMismatch
	}
	return nil
}
