package ingest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/sketch"
)

// Rows of tables are a function of the log, partition by partition: the last record of a key counts, one without a
// value removes it, and of more rows than there may be those written longest ago are given up, first those of keys that
// were removed and have a history. The state has them with the ledger of their partition. Events are stored without
// what tables know of their entities.

// tableRows has the rows of the tables of a model, as the state has them. It belongs to the goroutine of the Ingest.
type tableRows struct {
	model      *config.Model
	store      *sketch.Store
	set        *tables.Set
	readers    []*reader // by table
	partitions map[consumer.TopicPartition]*tablePartition
	loaded     bool
	names      rows.Interner
}

// tablePartition has the rows of a partition by the hash of their key, in a ring from the one written last to the one
// written first; and in another one those that say nothing but their history.
type tablePartition struct {
	next        int64 // offset: what is below it has been noted
	byKey       map[sketch.Digest]*tableRow
	ring, ended tableRow
	bytes       int64
}

type tableRow struct {
	key          sketch.Digest
	row          *tables.Row
	newer, older *tableRow
}

// newTableRows returns the rows that a store has, nil for a model without tables.
func newTableRows(g *Ingest, set *tables.Set) *tableRows {
	if set == nil {
		return nil
	}
	t := &tableRows{model: g.model, store: g.store, set: set}
	for i := range g.model.Tables {
		of := g.model.Tables[i].Model(g.model)
		t.readers = append(t.readers, &reader{ingest: g, mapped: formats.NewTableRecordDecoder(of, g.schemas)})
	}
	_ = t.load() // once more at the first record of a table, which returns the error
	return t
}

// LoadTables puts the rows that a store has into the set of a model, in place of those that it has.
func LoadTables(m *config.Model, store *sketch.Store, set *tables.Set) error {
	if set == nil {
		return nil
	}
	return (&tableRows{model: m, store: store, set: set}).load()
}

// load reads what the store has, once.
func (t *tableRows) load() error {
	if t.loaded {
		return nil
	}
	t.set.Clear()
	t.partitions, t.names = make(map[consumer.TopicPartition]*tablePartition), make(rows.Interner)
	for _, l := range t.store.Ledger() {
		table := t.model.TableOf(l.Topic)
		if table < 0 {
			continue
		}
		in := t.at(l.Topic, l.Partition)
		in.next = l.Next
		var list []*tableRow
		err := t.store.Entities(l.Topic, l.Partition, func(e sketch.Entity) error {
			row, err := t.decode(table, l.Topic, l.Partition, e.Value)
			if err == nil {
				list = append(list, &tableRow{key: e.Key, row: row})
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("ingest: table of %s/%d: %w", l.Topic, l.Partition, err)
		}
		slices.SortFunc(list, func(a, b *tableRow) int { return int(a.row.Offset - b.row.Offset) })
		for _, r := range list {
			in.push(r)
			t.set.Put(table, r.row)
		}
	}
	t.loaded = true
	return nil
}

func (t *tableRows) decode(table int, topic string, partition int32, value []byte) (*tables.Row, error) {
	row, err := tables.DecodeRow(topic, partition, value, t.names)
	if err == nil && !t.set.Fits(table, row) {
		err = fmt.Errorf("a row of table %s has other columns than the configuration", t.model.Tables[table].Name)
	}
	return row, err
}

// at returns the rows of a partition.
func (t *tableRows) at(topic string, number int32) *tablePartition {
	at := consumer.TopicPartition{Topic: topic, Partition: number}
	in := t.partitions[at]
	if in == nil {
		in = &tablePartition{byKey: make(map[sketch.Digest]*tableRow)}
		in.ring.newer, in.ring.older = &in.ring, &in.ring
		in.ended.newer, in.ended.older = &in.ended, &in.ended
		t.partitions[at] = in
	}
	return in
}

func (in *tablePartition) push(r *tableRow) {
	in.byKey[r.key] = r
	in.bytes += int64(r.row.Bytes)
	ring := &in.ring
	if r.row.Ended {
		ring = &in.ended
	}
	r.older, r.newer = ring.older, ring
	r.older.newer, ring.older = r, r
}

func (in *tablePartition) remove(r *tableRow) {
	delete(in.byKey, r.key)
	in.bytes -= int64(r.row.Bytes)
	r.newer.older, r.older.newer = r.older, r.newer
}

// take decodes a record of a table into the record of a part, and returns what it waits for.
func (t *tableRows) take(table int, p *sketch.Part, to *sketch.Record, from *consumer.Record, arena []byte,
	latestAt func(offset int64) int64) ([]byte, *event.Wait) {
	*to = sketch.Record{Offset: from.Offset, CRC: from.CRC, Time: from.Timestamp, Weight: 1, Aside: true}
	switch from.Fate {
	case consumer.Control:
		to.Fate = sketch.Control
		return arena, nil
	case consumer.Aborted:
		to.Fate = sketch.Aborted
		return arena, nil
	}
	to.Fate = sketch.Applied
	ev := new(event.Event)
	r := t.readers[table]
	r.ingest.hold(p.Topic, p.Partition, from.Offset)
	defer r.ingest.release()
	rejection, wait := r.decodeRecord(p, ev, from)
	isRemoval := rejection != nil && from.Key != nil &&
		(rejection.Reason == event.RemovalRequest || rejection.Reason == event.NullValue)
	switch {
	case wait != nil:
		return arena, wait
	case isRemoval:
		ev = nil
	case rejection != nil:
		return reject(to, from, rejection, arena), nil
	}
	return t.keep(table, p, to, from, ev, arena, latestAt), nil
}

// keep puts a row into the tables, or takes that of its key out if ev is nil, and notes in the record of a part what
// changes.
func (t *tableRows) keep(table int, p *sketch.Part, to *sketch.Record, from *consumer.Record, ev *event.Event,
	arena []byte, latestAt func(offset int64) int64) []byte {
	in, key := t.at(p.Topic, p.Partition), t.keyOf(table, from, ev)
	if from.Offset < in.next {
		return arena
	}
	in.next = from.Offset + 1
	old := in.byKey[key]
	var kept *tables.Row
	if ev == nil || !t.forgets(table, p, from.Offset, ev) {
		var was *tables.Row
		if old != nil {
			was = old.row
		}
		if kept = t.after(table, p, to, from, was, ev, latestAt); kept == was {
			return arena
		}
	}
	var value []byte // nil to take the row away
	if kept != nil {
		start := len(arena)
		arena = tables.AppendRow(arena, kept)
		value = arena[start:len(arena):len(arena)]
		if len(value) > t.mostBytes(table) { // the key keeps the row that it has
			return reject(to, from, &event.Rejection{Reason: event.TooLarge,
				Expected: "a row that the table has room for", Got: "more"}, arena[:start])
		}
		kept.Bytes = len(value)
	}
	if old != nil {
		in.remove(old)
		t.set.Remove(table, old.row)
	}
	if old != nil || kept != nil {
		to.Entities = append(to.Entities, sketch.Entity{Key: key, Value: value})
	}
	if kept == nil {
		return arena
	}
	if old != nil {
		t.set.Changed(table, old.row, kept)
	}
	row := &tableRow{key: key, row: kept}
	in.push(row)
	t.set.Put(table, row.row)
	t.evict(table, in, to)
	return arena
}

// mostBytes returns how many bytes a row may take.
func (t *tableRows) mostBytes(table int) int {
	return int(min(int64(t.model.Tables[table].MaxBytes), sketch.MaxPayloadBytes))
}

// after returns the row of a key after a record, whose event is nil if it has no value: nil for none, the old one if
// nothing changes.
func (t *tableRows) after(table int, p *sketch.Part, to *sketch.Record, from *consumer.Record, old *tables.Row,
	ev *event.Event, latestAt func(offset int64) int64) *tables.Row {
	c, time := &t.model.Tables[table], max(0, from.Timestamp)
	if ev != nil && c.Time != "" {
		time = max(0, ev.Time)
	}
	if c.HasHistory() && !from.Appended { // then the time of what the key has counts
		if latest := latestAt(from.Offset); time > latest {
			time, to.Bound = 0, latest
			if old != nil {
				time = old.Event.Time
			}
		}
	}
	if ev != nil {
		ev.Time = time
	}
	row := &tables.Row{Topic: p.Topic, Partition: p.Partition, Offset: from.Offset}
	switch {
	case c.HasHistory():
		if !row.Follow(old, time, ev, c.History, t.mostBytes(table), t.names) {
			return old
		}
	case ev == nil:
		return nil
	default:
		row.Event = *ev
		row.TakeVectors(len(c.Numeric))
	}
	return row
}

// evict gives up the rows written longest ago while there are more than there may be. One record brings at most as many
// as an entity's record may change; the next one continues.
func (t *tableRows) evict(table int, in *tablePartition, to *sketch.Record) {
	c := &t.model.Tables[table]
	for len(to.Entities) < sketch.MaxEntities && (len(in.byKey) > c.MaxRows || in.bytes > int64(c.MaxBytes)) {
		oldest := in.ended.newer
		if oldest == &in.ended {
			oldest = in.ring.newer
		}
		in.remove(oldest)
		t.set.Remove(table, oldest.row)
		to.Entities = append(to.Entities, sketch.Entity{Key: oldest.key})
	}
}

// keyOf returns under which key the state has the row of a record: the hash of the record's key, or of the entity's
// name where records have none.
func (t *tableRows) keyOf(table int, from *consumer.Record, ev *event.Event) sketch.Digest {
	name := t.model.Tables[table].Name
	if from.Key != nil {
		return TableKey(name, from.Key)
	}
	return sketch.SubjectHash("table "+name+" name", []byte(ev.Categorical[0]))
}

// TableKey returns under which key the state has the row of a record of a table that has a key.
func TableKey(table string, key []byte) sketch.Digest { return sketch.SubjectHash("table "+table, key) }

// forgets reports whether a record is of a subject that was forgotten after it.
func (t *tableRows) forgets(table int, p *sketch.Part, offset int64, ev *event.Event) bool {
	of := t.model.Tables[table].Of
	return slices.Contains(t.readers[table].ingest.forgotten, of) &&
		t.store.Forgets(p.Topic, p.Partition, offset, of, []byte(ev.Categorical[0]))
}

// takeTable is Take of a batch of a table: its rows are known to the events that are taken after it, and to none
// before, and stored in the order of the batches.
func (g *Ingest) takeTable(table int, j *job, records []consumer.Record, halt error) error {
	if err := cmp.Or(g.tables.load(), g.learned(len(g.ahead))); err != nil {
		return err
	}
	room := g.store.OutboxRoom()
	if room < len(records) { // what waits to be stored may need it
		if err := g.Flush(); err != nil {
			return err
		}
		room = g.store.OutboxRoom()
	}
	j.aside = true
	j.part.Records = j.part.Records[:len(records)]
	full, waiting := g.readTable(table, j, records, room)
	if waiting == nil && g.schemas != nil {
		g.schemas.Arrived()
	}
	g.store.Classify(&j.part)
	if waiting != nil { // those before it are stored first
		if err := g.Flush(); err != nil {
			return err
		}
	}
	cut, err := g.fit(j)
	if err != nil {
		return err
	}
	return g.takeNow(j, full || cut, waiting, halt)
}

// readTable takes the records of a part into the tables, up to one that waits for a schema, or to a rejected one that
// the outbox has no room for: rows behind it would be known, but not stored.
func (g *Ingest) readTable(table int, j *job, records []consumer.Record, room int) (full bool, waiting *event.Wait) {
	p := &j.part
	defer g.inHand(crash.Decoding, p)()
	in, latestAt := g.tables.at(p.Topic, p.Partition), g.latestOf(p)
	arena, stored := j.arena(0), in.next
	for i := range records {
		to := &p.Records[i]
		arena, waiting = g.tables.take(table, p, to, &records[i], arena, latestAt)
		if waiting == nil && to.Fate == sketch.Rejected && !to.Quiet && to.Offset >= stored {
			room--
		}
		if full = room < 0; full || waiting != nil {
			in.next = min(in.next, max(stored, records[i].Offset)) // it comes again
			p.Records = p.Records[:i]
			p.Next, j.counts.Next = records[i].Offset, records[i].Offset
			break
		}
	}
	j.arenas[0] = arena
	return full, waiting
}

// join gives the events of a part what the tables know of their entities.
func (g *Ingest) join(d *decoded, p *sketch.Part) {
	if g.set == nil {
		return
	}
	events, rows := 0, make([]int, g.set.NumTables())
	for i := range p.Records {
		if r := &p.Records[i]; r.Fate == sketch.Applied && !r.Replayed {
			found := g.set.Join(&d.events[i])
			events++
			for t := range rows {
				rows[t] += int(found >> t & 1)
			}
		}
	}
	g.set.Cover(events, rows)
}

// Tables returns the rows of the tables, nil of a model without any.
func (g *Ingest) Tables() *tables.Set { return g.set }

// FeedTable takes one decoded row as the next offset of a partition of a table, as a backtest does, and stores it.
func (g *Ingest) FeedTable(topic string, number int32, offset int64, ev *event.Event) error {
	table := g.model.TableOf(topic)
	if err := g.tables.load(); err != nil {
		return err
	}
	j, err := g.queue.next()
	if err != nil {
		return err
	}
	j.start(topic, number, 0, offset, offset+1, 1)
	j.aside, j.fed, j.part.Records = true, true, j.part.Records[:1]
	// The time is taken as it is, as that of a broker: no clock bounds what a file has.
	to, from := &j.part.Records[0], &consumer.Record{Offset: offset, Timestamp: ev.Time, Appended: true}
	*to = sketch.Record{Offset: offset, Fate: sketch.Applied, Time: ev.Time, Weight: 1, Aside: true}
	j.arenas = append(j.arenas[:0], g.tables.keep(table, &j.part, to, from, ev, j.arena(0), nil))
	g.store.Classify(&j.part)
	return cmp.Or(g.learn(j, &g.parts[g.turn]), g.Flush())
}
