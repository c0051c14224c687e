package sketch

import (
	"fmt"
	"math"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/stub"
)

// The join of events and their outcomes. An outcome comes in another topic, before or after its event, with the
// identity of the event and a value. Both draw their priority from the keyed hash of that identity, so that what the
// samples keep of either side is a sample of the join.
//
// Of each role there are two bottom-k samples of equal capacity: the rows, and the identities that outcomes named. What
// one of them has given up, the other gives up too: a row whose outcome may have been lost would have a false label,
// and an outcome whose row is gone is of no use. So there is one threshold, the larger of the two, and above it both
// sides are complete. As each sample is a function of the set of its events, so is the threshold, and so is the join:
// order, repetition and lateness do not matter. An outcome below the threshold is dropped for good, since thresholds
// only rise; it counts in its ledger row as applied.
//
// Rows and outcomes are stored apart and meet when a cut is read, so that nothing depends on which of them was first.

// validateOutcomes refuses what outcomes cannot be sampled alike with: they have an identity and nothing else of the
// event.
func (o *Options) validateOutcomes() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("sketch: "+format, args...)) }
	switch o.Outcomes {
	case "":
		return nil
	case Earliest, Latest:
	default:
		bad("Outcomes is %q, want %q or %q", o.Outcomes, Earliest, Latest)
	}
	if o.Identity == "" {
		bad("Outcomes is set without Identity, by which outcomes and events are joined")
	}
	if o.HoldoutBy != "" {
		bad("Outcomes is set together with HoldoutBy: an outcome does not say whether the entity is held out")
	}
	return errs
}

// fold takes an outcome into the stub of its identity.
func (s *Store) fold(l *ledger.Account, r *Record) error {
	if r.Forgotten {
		return nil
	}
	stubs, key := s.samples.StubsOf(r.Role), stub.Key(r.Role, r.id)
	old := stubs.Find(r.id)
	if old == nil {
		if r.TakesBack {
			return nil
		}
		of := new(stub.Stub)
		of.Add(outcomeOf(l, r), Order(s.settings.Outcomes))
		s.offerStub(r.Role, r.id, of)
		return nil
	}
	of, err := s.stubAt(key)
	if err != nil {
		return err
	}
	changed := false
	if r.TakesBack {
		changed = of.TakeBack(l.Topic, l.Partition, l.Incarnation)
	} else {
		changed = of.Add(outcomeOf(l, r), Order(s.settings.Outcomes))
	}
	if changed {
		s.replaceStub(r.Role, old, of)
	}
	return nil
}

// replaceStub has a stub in the place of that of the same identity.
func (s *Store) replaceStub(role Role, old *reservoir.Entry, of *stub.Stub) {
	key, e := stub.Key(role, old.ID), stubEntry(old.Rank, old.ID, of)
	s.samples.StubsOf(role).Replace(old, &e)
	s.pending.PutAt(key, false, func(b []byte) []byte { return of.Append(b, key[:]) })
}

// offerStub offers the first outcomes of an identity to the stubs of its role.
func (s *Store) offerStub(role Role, id policy.Identity, of *stub.Stub) {
	stubs, key := s.samples.StubsOf(role), stub.Key(role, id)
	rank, threshold, evicted := stubs.Rank(id.H(), 1, 0), stubs.Threshold, stubs.Evicted
	if s.samples.All[role].Excludes(rank) {
		stubs.Lose(rank)
		s.pending.Counted = s.pending.Counted || threshold != stubs.Threshold || !evicted
		s.align(role)
		return
	}
	kept, out := stubs.Offer(stubEntry(rank, id, of), policy.Identity{})
	s.pending.Counted = s.pending.Counted || threshold != stubs.Threshold || evicted != stubs.Evicted
	if kept {
		s.pending.PutAt(key, true, func(b []byte) []byte { return of.Append(b, key[:]) })
	}
	for i := range out {
		s.pending.DropRow(stub.Key(role, out[i].ID))
	}
	s.align(role)
}

// align has each side of a role give up what the other has no counterpart of any more. A threshold rises to the least
// of the entries on its side, and both sides have about as many: how many the other side loses by it is geometric, and
// more than joinOps have a probability below 2⁻¹⁰⁰.
func (s *Store) align(role Role) {
	stubs := s.samples.StubsOf(role)
	if stubs == nil {
		return
	}
	rows := s.samples.All[role]
	for e := rows.Least(); e != nil && stubs.Excludes(e.Rank); e = rows.Least() {
		s.pending.Counted = true
		s.dropEntry(rows, rows.Lift())
	}
	for e := stubs.Least(); e != nil && rows.Excludes(e.Rank); e = stubs.Least() {
		s.pending.Counted = true
		s.dropEntry(stubs, stubs.Lift())
	}
}

// alignAll is align of all roles, in pieces: however many entries that are.
func (s *Store) alignAll() error {
	for role := range NumRoles {
		stubs, rows := s.samples.StubsOf(role), s.samples.All[role]
		if stubs == nil {
			return nil
		}
		for _, side := range []struct{ of, by *reservoir.Reservoir }{{rows, stubs}, {stubs, rows}} {
			if !side.by.Evicted || side.by.Threshold == math.MaxUint64 {
				continue
			}
			if err := s.expel(side.of, side.of.Below(side.by.Threshold+1), 0, func(int) {}); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropEntry deletes what is stored of an entry that was taken out of a reservoir.
func (s *Store) dropEntry(r *reservoir.Reservoir, e reservoir.Entry) {
	if r.Stubs {
		s.pending.DropRow(stub.Key(r.Role, e.ID))
		return
	}
	s.ledger.At(e.Place).Rows[r.Role]--
	s.touch(e.Place)
	s.pending.DropRow(codec.MakeRowKey(r.Role, e.ID))
}

func outcomeOf(l *ledger.Account, r *Record) Outcome {
	return Outcome{Topic: l.Topic, Partition: l.Partition, Incarnation: l.Incarnation, Offset: r.Offset, Time: r.Time,
		Value: r.Value}
}

// stubEntry is what is kept in memory of a stub, which is of no partition.
func stubEntry(rank uint64, id policy.Identity, of *stub.Stub) reservoir.Entry {
	return reservoir.MakeEntry(rank, id, -1, uint32(of.Size()), 0)
}

// stubAt returns the stub at a key, as the piece at hand leaves it.
func (s *Store) stubAt(key codec.RowKey) (of *stub.Stub, err error) {
	if value, ok := s.pending.RowValue(key); ok {
		return stub.Decode(key[:], value)
	}
	err = s.backend.View(func(c storage.Cut) error {
		value, err := c.Get(key[:])
		if err == nil {
			of, err = stub.Decode(key[:], value)
		}
		return err
	})
	return of, err
}

// loadStubs takes the stubs of a cut into memory.
func (s *Store) loadStubs(c storage.Cut) error {
	return s.frame().ScanStubs(c, nil, func(role Role, id policy.Identity, of *stub.Stub, _ []byte) error {
		r := s.samples.StubsOf(role)
		r.Load(stubEntry(r.Rank(id.H(), 1, 0), id, of), policy.Identity{})
		return nil
	})
}

// eraseStub takes out the outcomes of a forgotten identity from before the cut of its marker. Where a state forgets up
// to now, which is what ForgetSubject does, that is the whole stub.
func (s *Store) eraseStub(m *Marker) error {
	if m.Row == nil || !s.settings.Joined() {
		return nil
	}
	id := policy.Identity(m.Row)
	for role := range NumRoles {
		stubs, key := s.samples.StubsOf(role), stub.Key(role, id)
		old := stubs.Find(id)
		if old == nil {
			continue
		}
		of, err := s.stubAt(key)
		if err != nil {
			return err
		}
		if of.Erase(m) {
			stubs.Take(id)
			s.pending.DropRow(key)
			continue
		}
		s.replaceStub(role, old, of)
	}
	return nil
}

// mergeStub takes what came of one identity in the partitions of a shard. Where nothing is left there, what is here
// goes by the thresholds or the marker of its subject, which are here too.
func (s *Store) mergeStub(m *Share, p *Pair) error {
	if p.Value == nil {
		return nil
	}
	role, id, _ := stub.ParseKey(p.Key)
	of, err := stub.Decode(p.Key, p.Value)
	if err != nil {
		return err
	}
	only := m.Only
	if only == nil {
		only = func(string, int32) bool { return true }
	}
	of.Keep(only, func(o *Outcome) bool { // from Next on they are of a process that ended before its head
		place := s.ledger.Place(o.Topic, o.Partition, o.Incarnation)
		return place >= 0 && o.Offset < s.ledger.At(place).Next && o.Offset >= s.ledger.At(place).Start
	})
	for _, marker := range s.markers {
		if marker.Row != nil && policy.Identity(marker.Row) == id {
			of.Erase(&marker)
		}
	}
	if len(of.Places()) == 0 {
		return nil
	}
	if err := s.commitIfFull(int64(stub.MaxBytes), 1+joinOps); err != nil {
		return err
	}
	old := s.samples.StubsOf(role).Find(id)
	if old == nil {
		s.offerStub(role, id, of)
		return nil
	}
	have, err := s.stubAt(stub.Key(role, id))
	if err == nil && have.Merge(of) {
		s.replaceStub(role, old, have)
	}
	return err
}

// checkStub is CheckPair of a stub.
func (s *Store) checkStub(p *Pair, owns func(topic string, partition int32) bool) error {
	of, err := stub.Decode(p.Key, p.Value)
	if err != nil {
		return err
	}
	for _, o := range of.Places() {
		if !owns(o.Topic, o.Partition) {
			return fmt.Errorf("sketch: outcomes of %s/%d, which is not its partition: %w", o.Topic, o.Partition, ErrForeign)
		}
	}
	return nil
}

// Stubs returns how many identities have outcomes that are kept, whether or not their event is in the sample, and what
// they take stored.
func (s *Store) Stubs() (n int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.samples.All {
		if r.Stubs {
			n += len(r.Entries)
			bytes += r.Bytes
		}
	}
	return n, bytes
}
