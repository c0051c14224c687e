package sketch

import (
	"fmt"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// Room in a piece for what one more record may bring: two rows, three ledger rows, a checkpoint and those it drops (one
// at most for each doubling of their age), the counters, aux, a marker, a time bound and a note.
const (
	spareOps   = 2 + 3 + 1 + 7 + 3 + 1 + 1
	joinOps    = 256 // more of an outcome, or of an event that it may be joined to: see Store.align
	spareBytes = 24 << 10
)

// Classify fills Role and Replayed of the records, from the settings and the ledger alone, so that the caller can score
// and learn from a part before it is applied. The records must not be changed between Classify and Apply. It does not
// wait for an Apply of an earlier part:
// what that one will have applied counts as not there yet.
func (s *Store) Classify(p *Part) {
	s.classify(p, s.heads.of(ledger.Partition{Topic: p.Topic, Number: p.Partition}))
}

func (s *Store) classify(p *Part, at head) {
	p.classified = s
	draw := policy.NewDrawer(s.settings.Seed, s.settings.HoldoutFraction)
	var sum [32]byte
	for i := range p.Records {
		r := &p.Records[i]
		r.Replayed = r.Offset < at.next
		if r.Fate != Applied || r.Aside {
			continue
		}
		if s.settings.Identity != "" {
			sum = draw.ByBytes(policy.DomainIdentity, r.Identity)
		} else {
			sum = draw.ByOffset(p.Topic, at.incarnation, p.Partition, r.Offset)
		}
		r.id = policy.Identity(sum[:16])
		if s.settings.HoldoutBy != "" {
			sum = draw.ByBytes(policy.DomainEntity, r.HoldoutKey)
		}
		r.Role = draw.Role(&sum)
		if s.settings.Grouped() {
			sum = draw.ByBytes(policy.DomainGroup, r.Group)
			r.group = policy.Identity(sum[:16])
		}
	}
}

// Apply takes a part into the state, as ApplyAll does.
func (s *Store) Apply(p *Part, aux []byte) error { return s.ApplyAll([]*Part{p}, aux) }

// ApplyAll takes parts into the state, in their order. Rows, evictions, counts and ledger change together, durably;
// what is too big for one transaction is applied in pieces, each a whole number of records, and aux, which is opaque
// and replaces the last one unless it is nil, is written with the last piece. Records below the ledger's next are
// ignored: they are in the state.
//
// A *GapError or an error wrapping ErrPart or ErrOutboxFull means that nothing was applied and the store can still be
// used. Any other error is one of storage: the commit may or may not be durable, every later write returns the same
// error, and the process has to open the state again.
func (s *Store) ApplyAll(parts []*Part, aux []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if len(aux) > MaxAuxBytes {
		return fmt.Errorf("sketch: aux has %d bytes, at most %d: %w", len(aux), MaxAuxBytes, ErrPart)
	}
	if err := s.admit(parts); err != nil {
		return err
	}
	for _, p := range parts {
		if err := s.take(p, aux); err != nil {
			return err
		}
	}
	return s.commit(aux)
}

// admit returns why the parts cannot be applied in this order, if they cannot.
func (s *Store) admit(parts []*Part) error {
	reached := make(map[ledger.Partition]int64, len(parts)) // by the parts before
	room := s.room()
	for _, p := range parts {
		at := ledger.Partition{Topic: p.Topic, Number: p.Partition}
		place, ok := s.ledger.Current(p.Topic, p.Partition)
		if !ok {
			return fmt.Errorf("sketch: %s/%d: partition was not begun: %w", p.Topic, p.Partition, ErrPart)
		}
		next := max(s.ledger.At(place).Next, reached[at])
		if err := p.check(&s.settings); err != nil {
			return err
		}
		if p.LogStart > next {
			return &GapError{Topic: p.Topic, Partition: p.Partition, Next: next, LogStart: p.LogStart}
		}
		if p.Base > next {
			return fmt.Errorf("sketch: %s/%d: part starts at offset %d, the ledger's next is %d: %w", p.Topic,
				p.Partition, p.Base, next, ErrPart)
		}
		var unfit int
		if room, unfit = p.fit(next, room); unfit >= 0 {
			return fmt.Errorf("sketch: %s/%d: offset %d was rejected: %w", p.Topic, p.Partition,
				p.Records[unfit].Offset, ErrOutboxFull)
		}
		reached[at] = max(next, p.Next)
	}
	return nil
}

// take steps through a part that was admitted. A piece that gets too big is committed, without aux, for which there is
// always room.
func (s *Store) take(p *Part, aux []byte) error {
	place, _ := s.ledger.Current(p.Topic, p.Partition)
	l := s.ledger.At(place)
	if p.classified != s {
		s.classify(p, head{next: l.Next, incarnation: l.Incarnation})
	}
	if err := s.putSchemas(p.Schemas); err != nil {
		return err
	}
	maxOps, maxBytes := s.backend.Limits()
	for i := range p.Records {
		r := &p.Records[i]
		if r.Offset < l.Next {
			continue
		}
		if ops := len(s.pending.Ops); ops > 0 &&
			(!s.hasRoomFor(r, int(maxOps)-ops-len(s.pending.Changed)-len(s.pending.Bounds)) ||
				s.pending.Bytes+int64(r.keptBytes()+len(aux)+spareBytes)+r.entityBytes(p.Topic) > maxBytes) {
			if err := s.commit(nil); err != nil {
				return err
			}
		}
		if err := s.step(l, place, r, p.Outcomes); err != nil {
			return s.stop(err)
		}
	}
	if l.Next < p.Next {
		l.Holes += p.Next - l.Next
		l.Next = p.Next
		s.touch(place)
	}
	return nil
}

// hasRoomFor reports whether so many ops suffice for a record and the rows that it may put out.
func (s *Store) hasRoomFor(r *Record, ops int) bool {
	if ops -= spareOps + len(r.Entities); s.settings.Joined() {
		ops -= joinOps
	}
	return ops >= MaxCostOfRow/MinCost || ops >= s.costOf(r.Payload)/MinCost // the cost is asked for near the end alone
}

// step accounts for one record and offers it to its reservoir.
func (s *Store) step(l *ledger.Account, place int32, r *Record, isOutcome bool) error {
	if r.Offset > l.Next {
		l.Holes += r.Offset - l.Next
	}
	l.Next = r.Offset + 1
	s.touch(place)
	switch r.Fate {
	case Control:
		l.Control++
		return nil
	case Aborted:
		l.Aborted++
		return nil
	case Rejected:
		l.Rejected++
		s.reasons[r.Reason]++
		s.pending.Counted = true
		s.post(l, r)
	case Applied:
		l.Applied++
		if !r.Aside {
			l.Eligible[r.Role]++
			l.Watermark = max(l.Watermark, r.Time)
		}
		if r.Bound != 0 {
			s.bind(place, r)
		}
		for i := range r.Entities {
			s.pending.PutEntity(l.Topic, l.Partition, &r.Entities[i])
		}
		if r.Aside {
			break
		}
		if isOutcome {
			if err := s.fold(l, r); err != nil {
				return err
			}
		} else if err := s.keep(l, place, r); err != nil {
			return err
		}
	}
	l.Chain(r.Offset, r.CRC, r.Fate)
	if l.Records()%s.checkpointEvery == 0 {
		s.checkpoint(place)
	}
	return nil
}

// keep offers an applied record to the reservoir of its role.
func (s *Store) keep(l *ledger.Account, place int32, r *Record) error {
	if res := s.samples.Of(r.Role, r.group); res != s.samples.All[r.Role] {
		res.Eligible++
		s.pending.Counted = true
	}
	if r.Forgotten {
		return nil
	}
	return s.offer(l, place, r)
}

// offer offers a row to the reservoir of its role, which takes it unless it has the row already, or better ones.
func (s *Store) offer(l *ledger.Account, place int32, r *Record) error {
	res, key := s.samples.Of(r.Role, r.group), codec.MakeRowKey(r.Role, r.id)
	rank, threshold, evicted := res.Rank(r.id.H(), r.Weight, r.Time), res.Threshold, res.Evicted
	if s.settings.Joined() && s.samples.StubsOf(r.Role).Excludes(rank) { // what came of it may have been given up
		res.Lose(rank)
		s.pending.Counted = true
		s.align(r.Role)
		return nil
	}
	if res.Refuse(rank, r.id) { // most of a long log: what the row costs need not be known
		if threshold != res.Threshold || evicted != res.Evicted {
			s.pending.Counted = true
			s.align(r.Role)
		}
		return nil
	}
	e := reservoir.MakeEntry(rank, r.id, place, uint32(codec.RowBytes(l.Topic, r.group, r.Payload)),
		uint32(s.costOf(r.Payload)))
	if old := res.Find(r.id); old != nil {
		s.duplicates++
		newer, err := s.replaces(key, l, r)
		if err != nil || !newer {
			return err
		}
		s.ledger.At(old.Place).Rows[r.Role]--
		s.touch(old.Place)
		res.Replace(old, &e)
		l.Rows[r.Role]++
		s.pending.PutRow(key, false, l.Topic, storedOf(l, r))
		return nil
	}
	kept, out := res.Offer(e, r.group)
	s.pending.Counted = s.pending.Counted || threshold != res.Threshold || evicted != res.Evicted
	if kept {
		l.Rows[r.Role]++
		s.pending.PutRow(key, true, l.Topic, storedOf(l, r))
	}
	for i := range out {
		s.ledger.At(out[i].Place).Rows[r.Role]--
		s.touch(out[i].Place)
		s.pending.DropRow(codec.MakeRowKey(r.Role, out[i].ID))
	}
	s.align(r.Role)
	return nil
}

// storedOf returns what is stored of a record, but for the topic.
func storedOf(l *ledger.Account, r *Record) *codec.Row {
	return &codec.Row{Incarnation: l.Incarnation, Partition: l.Partition, Offset: r.Offset, Time: r.Time,
		Weight: r.Weight, Group: r.group, Payload: r.Payload}
}

// costOf returns what a row costs.
func (s *Store) costOf(payload []byte) int {
	if s.cost == nil {
		return MinCost + len(payload)
	}
	return min(max(s.cost(payload), MinCost), MaxCostOfRow)
}

// replaces reports whether r is newer than the row kept under key: by event time, then topic, partition, offset.
func (s *Store) replaces(key codec.RowKey, l *ledger.Account, r *Record) (newer bool, err error) {
	compare := func(value []byte) error {
		old, err := codec.DecodeRow(key[:], value)
		if err != nil {
			return err
		}
		switch topic := string(old.Topic); {
		case r.Time != old.Time:
			newer = r.Time > old.Time
		case l.Topic != topic:
			newer = l.Topic > topic
		case l.Partition != old.Partition:
			newer = l.Partition > old.Partition
		default:
			newer = r.Offset > old.Offset
		}
		return nil
	}
	if value, ok := s.pending.RowValue(key); ok {
		err = compare(value)
		return newer, err
	}
	err = s.backend.View(func(c storage.Cut) error {
		value, err := c.Get(key[:])
		if err != nil {
			return err
		}
		return compare(value)
	})
	return newer, err
}
