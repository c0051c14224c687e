package piece

import (
	"encoding/binary"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// A Piece is what one transaction will write.
type Piece struct {
	Ops     []storage.Op
	rows    map[codec.RowKey]int32 // sample rows among Ops
	Changed []int32                // ledger rows to write, by Touch
	touched []bool                 // those, by their place
	Bounds  []*Bound               // time bounds to write, by PutBound
	Counted bool                   // whether the counters changed
	Noted   bool                   // whether rows take room in a note, too
	slab    []byte                 // keys and values of Ops
	Bytes   int64                  // what ops and ledger rows take, rather more than the backend counts

	entities map[string]int32 // among ops, by key
}

// Reset makes the piece empty, for reuse: it was committed, or is given up.
func (p *Piece) Reset() {
	clear(p.Ops)
	clear(p.rows)
	clear(p.entities)
	for _, place := range p.Changed {
		p.touched[place] = false
	}
	for _, b := range p.Bounds {
		b.pending = false
	}
	p.Ops, p.slab, p.Changed, p.Bounds, p.Counted, p.Bytes = p.Ops[:0], p.slab[:0], p.Changed[:0], p.Bounds[:0], false, 0
}

// add appends an op whose key and value were appended to slab from start on; the value starts at mid.
func (p *Piece) add(start, mid int, fresh bool) {
	b := p.slab[start:len(p.slab):len(p.slab)]
	o := storage.Op{Key: b[: mid-start : mid-start], Fresh: fresh}
	if mid < len(p.slab) {
		o.Value = b[mid-start:]
	}
	p.Ops = append(p.Ops, o)
	p.Bytes += int64(len(b)) + storage.OpOverhead
	if p.Noted && codec.IsMirrored(o.Key) {
		p.Bytes += 2 + int64(len(o.Key))
	}
}

// Put sets a key; encode appends the value, sealed for the key.
func (p *Piece) Put(key []byte, fresh bool, encode func(b, key []byte) []byte) {
	start := len(p.slab)
	p.slab = append(p.slab, key...)
	mid := len(p.slab)
	p.slab = encode(p.slab, key)
	p.add(start, mid, fresh)
}

// PutSealed sets a key to a value, sealed.
func (p *Piece) PutSealed(key []byte, fresh bool, value []byte) {
	p.Put(key, fresh, func(b, key []byte) []byte { return codec.Seal(key, append(b, value...), len(b)) })
}

// Drop deletes a key.
func (p *Piece) Drop(key []byte) { p.Put(key, false, func(b, _ []byte) []byte { return b }) }

// PutSettings writes the settings.
func (p *Piece) PutSettings(settings *policy.Settings) {
	p.Put([]byte{codec.PrefixSettings}, false,
		func(b, key []byte) []byte { return codec.AppendSettings(b, key, settings) })
}

// PutAccount writes an account.
func (p *Piece) PutAccount(l *ledger.Account) {
	p.Put(codec.AccountKey(l), false, func(b, key []byte) []byte { return codec.AppendAccount(b, key, l) })
}

// PutCounters writes the totals.
func (p *Piece) PutCounters(c *codec.Counters) {
	p.Put([]byte{codec.PrefixCounters}, false, func(b, key []byte) []byte { return codec.AppendCounters(b, key, c) })
}

// PutBound has the time bound of a partition of a topic written by putBounds, as it is then.
func (p *Piece) PutBound(b *Bound, topic string) {
	if !b.pending {
		b.pending = true
		p.Bounds = append(p.Bounds, b)
		p.Bytes += int64(len(topic) + boundBytes)
	}
}

// PutBounds writes the time bounds that putBound noted; at returns the account at a place.
func (p *Piece) PutBounds(at func(place int32) *ledger.Account) {
	for _, b := range p.Bounds {
		key := binary.BigEndian.AppendUint64(codec.BoundPrefix(at(b.Place)), uint64(b.From))
		p.Put(key, false, func(dst, key []byte) []byte { return codec.AppendBound(dst, key, &b.TimeBound) })
	}
}

// IsEmpty reports whether there is nothing to write.
func (p *Piece) IsEmpty() bool { return len(p.Ops) == 0 && len(p.Changed) == 0 }

// PutRow sets a sample row of a topic; see codec.AppendRow. fresh says that the state has no row at the key.
func (p *Piece) PutRow(k codec.RowKey, fresh bool, topic string, r *codec.Row) {
	p.PutAt(k, fresh, func(b []byte) []byte { return codec.AppendRow(b, k[:], topic, r) })
}

// PutAt is PutRow of what encode appends, sealed.
func (p *Piece) PutAt(k codec.RowKey, fresh bool, encode func(b []byte) []byte) {
	if i, ok := p.rows[k]; ok {
		fresh = p.Ops[i].Fresh
		p.Ops[i].Skip = true
	}
	if p.rows == nil {
		p.rows = make(map[codec.RowKey]int32)
	}
	p.rows[k] = int32(len(p.Ops))
	start := len(p.slab)
	p.slab = append(p.slab, k[:]...)
	mid := len(p.slab)
	p.slab = encode(p.slab)
	p.add(start, mid, fresh)
}

// RowValue returns the value that the piece sets at a key of a row; ok is false if it sets none.
func (p *Piece) RowValue(k codec.RowKey) (value []byte, ok bool) {
	i, ok := p.rows[k]
	if ok {
		value = p.Ops[i].Value
	}
	return value, ok
}

// DropRow deletes a sample row, or forgets it if this piece made it.
func (p *Piece) DropRow(k codec.RowKey) {
	if i, ok := p.rows[k]; ok {
		p.Ops[i].Skip = true
		delete(p.rows, k)
		if p.Ops[i].Fresh {
			return
		}
	}
	p.Drop(k[:])
}

// Touch marks the account l at a place to be written.
func (p *Piece) Touch(place int32, l *ledger.Account) {
	for int(place) >= len(p.touched) {
		p.touched = append(p.touched, false)
	}
	if !p.touched[place] {
		p.touched[place] = true
		p.Changed = append(p.Changed, place)
		p.Bytes += int64(2*len(l.Topic) + len(l.Halted) + 2*codec.AccountBytes)
	}
}

// PutEntity has an entity written with the piece at hand, once: the last value counts.
func (p *Piece) PutEntity(topic string, number int32, e *codec.Entity) {
	key := append(codec.EntityPrefix(topic, number), e.Key[:]...)
	if i, ok := p.entities[string(key)]; ok {
		p.Ops[i].Skip = true
	}
	if p.entities == nil {
		p.entities = make(map[string]int32)
	}
	p.entities[string(key)] = int32(len(p.Ops))
	if e.Value == nil {
		p.Drop(key)
		return
	}
	p.Put(key, false, func(b, key []byte) []byte { return codec.Seal(key, append(b, e.Value...), len(b)) })
}

// Bound is the last TimeBound of a partition.
type Bound struct {
	ledger.TimeBound
	Place   int32
	pending bool // in Piece.Bounds
}

// boundBytes is at least what a time bound takes in addition to its topic.
const boundBytes = 64
