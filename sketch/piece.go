package sketch

import (
	"encoding/binary"
	"fmt"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// A piece is what one transaction will write.
type piece struct {
	ops     []storage.Op
	rows    map[codec.RowKey]int32 // sample rows among ops
	changed []int32                // ledger rows to write, by touch
	touched []bool                 // those, by their place
	bounds  []*bound               // time bounds to write, by bind
	counted bool                   // whether the counters changed
	noted   bool                   // whether rows take room in a note, too
	slab    []byte                 // keys and values of ops
	bytes   int64                  // what ops and ledger rows take, rather more than the backend counts

	entities map[string]int32 // among ops, by key
}

// opOverhead is more than what Badger adds to the bytes of a key and a value (12 in v4.9).
const opOverhead = 16

func (p *piece) reset() {
	clear(p.ops)
	clear(p.rows)
	clear(p.entities)
	for _, place := range p.changed {
		p.touched[place] = false
	}
	for _, b := range p.bounds {
		b.pending = false
	}
	p.ops, p.slab, p.changed, p.bounds, p.counted, p.bytes = p.ops[:0], p.slab[:0], p.changed[:0], p.bounds[:0], false, 0
}

// add appends an op whose key and value were appended to slab from start on; the value starts at mid.
func (p *piece) add(start, mid int, fresh bool) {
	b := p.slab[start:len(p.slab):len(p.slab)]
	o := storage.Op{Key: b[: mid-start : mid-start], Fresh: fresh}
	if mid < len(p.slab) {
		o.Value = b[mid-start:]
	}
	p.ops = append(p.ops, o)
	p.bytes += int64(len(b)) + opOverhead
	if p.noted && mirrored(o.Key) {
		p.bytes += 2 + int64(len(o.Key))
	}
}

// put sets a key; encode appends the value, sealed for the key.
func (p *piece) put(key []byte, fresh bool, encode func(b, key []byte) []byte) {
	start := len(p.slab)
	p.slab = append(p.slab, key...)
	mid := len(p.slab)
	p.slab = encode(p.slab, key)
	p.add(start, mid, fresh)
}

func (p *piece) drop(key []byte) { p.put(key, false, func(b, _ []byte) []byte { return b }) }

func (p *piece) putSettings(settings *policy.Settings) {
	p.put([]byte{codec.PrefixSettings}, false,
		func(b, key []byte) []byte { return codec.AppendSettings(b, key, settings) })
}

func (p *piece) putRow(k codec.RowKey, fresh bool, topic string, r *codec.Row) {
	if i, ok := p.rows[k]; ok {
		fresh = p.ops[i].Fresh
		p.ops[i].Skip = true
	}
	p.rows[k] = int32(len(p.ops))
	start := len(p.slab)
	p.slab = append(p.slab, k[:]...)
	mid := len(p.slab)
	p.slab = codec.AppendRow(p.slab, k[:], topic, r)
	p.add(start, mid, fresh)
}

// dropRow deletes a sample row, or forgets it if this piece made it.
func (p *piece) dropRow(k codec.RowKey) {
	if i, ok := p.rows[k]; ok {
		p.ops[i].Skip = true
		delete(p.rows, k)
		if p.ops[i].Fresh {
			return
		}
	}
	p.drop(k[:])
}

// touch marks a ledger row to be written.
func (s *Store) touch(place int32) {
	p := &s.pending
	for int(place) >= len(p.touched) {
		p.touched = append(p.touched, false)
	}
	if !p.touched[place] {
		p.touched[place] = true
		p.changed = append(p.changed, place)
		l := s.ledger.At(place)
		p.bytes += int64(2*len(l.Topic) + len(l.Halted) + 2*codec.AccountBytes)
	}
}

// commit writes the pending piece and, unless it is nil, aux. Nothing pending is no transaction.
func (s *Store) commit(aux []byte) error {
	p := &s.pending
	if len(p.ops) == 0 && len(p.changed) == 0 && aux == nil {
		return nil
	}
	for _, place := range p.changed {
		l := s.ledger.At(place)
		if err := l.Audit(); err != nil {
			return s.stop(err)
		}
		p.put(codec.AccountKey(l), false, func(b, key []byte) []byte { return codec.AppendAccount(b, key, l) })
	}
	for _, b := range p.bounds {
		key := binary.BigEndian.AppendUint64(codec.BoundPrefix(s.ledger.At(b.place)), uint64(b.From))
		p.put(key, false, func(dst, key []byte) []byte { return codec.AppendBound(dst, key, &b.TimeBound) })
	}
	if p.counted {
		c := s.counters()
		p.put([]byte{codec.PrefixCounters}, false, func(b, key []byte) []byte { return codec.AppendCounters(b, key, &c) })
	}
	if aux != nil {
		p.put([]byte{codec.PrefixAux}, false,
			func(b, key []byte) []byte { return codec.Seal(key, append(b, aux...), len(b)) })
	}
	if s.mirror.on {
		s.noteChanges()
	}
	if s.note != nil {
		change, err := storage.ChangeOf(s.backend, p.ops)
		if err == nil {
			err = s.note(change)
		}
		if err != nil {
			return s.stop(err)
		}
	}
	if err := failpoint.At(failpoint.SketchCommit); err != nil {
		return s.stop(err)
	}
	if err := s.backend.Commit(p.ops); err != nil {
		return s.stop(err)
	}
	if err := failpoint.At(failpoint.SketchCommitted); err != nil {
		return s.stop(err)
	}
	if aux != nil {
		s.aux = append(s.aux[:0], aux...)
	}
	s.show(p.changed...)
	p.reset()
	return nil
}

// commitIfFull commits what is pending, without aux, unless so many ops and bytes more fit into the piece.
func (s *Store) commitIfFull(bytes int64, ops int) error {
	maxOps, maxBytes := s.backend.Limits()
	if len(s.pending.ops) > 0 &&
		(int64(len(s.pending.ops)+len(s.pending.changed)+ops+spareOps) > maxOps || s.pending.bytes+bytes+
			spareBytes > maxBytes) {
		return s.commit(nil)
	}
	return nil
}

// stop makes err the answer to every later write.
func (s *Store) stop(err error) error {
	s.err = fmt.Errorf("sketch: %w, open the state again: %w", ErrStorage, err)
	return s.err
}

func (s *Store) counters() codec.Counters {
	c := codec.Counters{Reasons: s.reasons}
	for role, r := range s.samples.All[:NumRoles] {
		c.Evicted[role], c.Threshold[role] = r.Evicted, r.Threshold
	}
	for _, r := range s.samples.All[NumRoles:] {
		c.Classes = append(c.Classes, codec.ClassCount{Evicted: r.Evicted, Threshold: r.Threshold, Eligible: r.Eligible})
	}
	return c
}
