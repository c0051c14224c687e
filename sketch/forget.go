package sketch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/refitd/refitd/sketch/internal/audit"
	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// ForgetSubject writes down, durably, that the events of a subject up to now are to be forgotten, and starts a new
// lineage. Erase then takes its rows out. A subject forgotten again is forgotten up to now.
func (s *Store) ForgetSubject(field string, value []byte) (Marker, error) {
	m, err := s.mark(field, value)
	if err != nil || s.home == nil {
		return m, err
	}
	return m, s.bearWitness() // a state that is made in the place of this one learns of it there
}

func (s *Store) mark(field string, value []byte) (Marker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return Marker{}, s.err
	}
	if field == "" || len(value) == 0 {
		return Marker{}, fmt.Errorf("sketch: forget %q = %q: want a field and a value", field, value)
	}
	m := Marker{Field: field, Hash: SubjectHash(field, value), Cut: s.ledger.Positions()}
	if field == s.settings.Identity {
		draw := policy.NewDrawer(s.settings.Seed, 0)
		sum := draw.ByBytes(policy.DomainIdentity, value)
		m.Row = sum[:len(policy.Identity{})]
	}
	if old, ok := s.markers[m.Hash]; ok {
		m.Rows = old.Rows
		ledger.Extend(&m, old.Cut) // a state made anew has not come as far as the one that it was first forgotten in
	}
	s.settings.Renew(s.ledger.Positions())
	s.sealAll()
	if s.settings.CapBy != "" && s.settings.CapBy != field {
		s.settings.NotOfLog = true // which rows the cap had put out before those that leave now is not known
	}
	s.putMarker(&m)
	s.pending.PutSettings(&s.settings)
	return m, s.commit(nil)
}

func (s *Store) putMarker(m *Marker) {
	s.pending.Put(append([]byte{codec.PrefixMarker}, m.Hash[:]...), false,
		func(b, key []byte) []byte { return codec.AppendMarker(b, key, m) })
	s.markers[m.Hash] = *m
}

func (s *Store) sortedMarkers() []Marker {
	return slices.SortedFunc(maps.Values(s.markers), func(a, b Marker) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), slices.Compare(a.Hash[:], b.Hash[:]))
	})
}

// ForgottenFields returns the fields of the markers: those whose values Forgets has to be asked about.
func (s *Store) ForgottenFields() []string {
	var fields []string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.sortedMarkers() {
		if !slices.Contains(fields, m.Field) {
			fields = append(fields, m.Field)
		}
	}
	return fields
}

// Forgets reports whether an event that has the value in the field is to stay out of the samples: what Record.Forgotten
// is set to.
func (s *Store) Forgets(topic string, number int32, offset int64, field string, value []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.markers[SubjectHash(field, value)]
	if !ok {
		return false
	}
	place, begun := s.ledger.Current(topic, number)
	at, ok := ledger.CutOf(&m, topic, number)
	return ok && begun && s.ledger.At(place).Incarnation == at.Incarnation && offset < at.Next
}

// Erase takes out the rows of all subjects that ForgetSubject was called for and whose rows are not out yet; values
// returns the values that a payload has in a field. Rows leave in pieces, with the accounts. After a crash in
// between, call Erase again: a state with unfinished markers needs it before anything is applied. It returns the
// number of rows taken out.
func (s *Store) Erase(ctx context.Context, values func(field string, payload []byte) [][]byte) (rows int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	for _, m := range s.sortedMarkers() {
		if m.Done {
			continue
		}
		victims, err := s.rowsOf(ctx, &m, values)
		if err != nil {
			return rows, err
		}
		for r, entries := range victims {
			if err := s.expel(s.samples.All[r], entries, len(entries), func(n int) {
				m.Rows += int64(n)
				s.putMarker(&m)
			}); err != nil {
				return rows, err
			}
			rows += len(entries)
		}
		if err := s.eraseStub(&m); err != nil {
			return rows, err
		}
		m.Done = true
		s.putMarker(&m)
		if err := s.commit(nil); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// rowsOf returns the entries of a marker's rows by reservoir, in the order of s.samples.all.
func (s *Store) rowsOf(ctx context.Context, m *Marker,
	values func(field string, payload []byte) [][]byte) ([][]reservoir.Entry, error) {
	out := make([][]reservoir.Entry, len(s.samples.All))
	err := s.backend.View(func(c storage.Cut) error {
		_, err := s.frame().Scan(ctx, c, func(row *audit.Scanned) error {
			if at, ok := ledger.CutOf(m, string(row.Topic), row.Partition); !ok || row.Incarnation > at.Incarnation ||
				row.Incarnation == at.Incarnation && row.Offset >= at.Next {
				return nil
			}
			match := m.Row != nil && string(m.Row) == string(row.ID[:])
			for _, value := range values(m.Field, row.Payload) {
				match = match || SubjectHash(m.Field, value) == m.Hash
			}
			if match {
				place := s.ledger.Place(string(row.Topic), row.Partition, row.Incarnation)
				out[row.Sample] = append(out[row.Sample], s.entryOf(row, place))
			}
			return nil
		})
		return err
	})
	return out, err
}

// expel takes entries out of a reservoir, in pieces, each with the accounts it changes; the threshold learns of those
// from the index losers on. note is called with the number of rows of each piece before it is committed.
func (s *Store) expel(r *reservoir.Reservoir, entries []reservoir.Entry, losers int, note func(n int)) error {
	if len(entries) == 0 {
		return nil
	}
	ids := make(map[policy.Identity]bool, len(entries))
	maxOps, maxBytes := s.backend.Limits()
	n := 0
	for i := range entries {
		e := &entries[i]
		if ops := len(s.pending.Ops); ops > 0 &&
			(int64(ops+len(s.pending.Changed)+spareOps) > maxOps || s.pending.Bytes+spareBytes > maxBytes) {
			note(n)
			if err := s.commit(nil); err != nil {
				return err
			}
			n = 0
		}
		if i >= losers {
			r.Lose(e.Rank)
			s.pending.Counted = true
		}
		s.dropEntry(r, *e)
		ids[e.ID] = true
		n++
	}
	note(n)
	if err := s.commit(nil); err != nil {
		return err
	}
	r.Discard(ids)
	return nil
}

// Purge rewrites the storage so that what was deleted leaves the files too. Nothing else may use the store during the
// call.
func (s *Store) Purge() error {
	d, ok := s.backend.(*storage.Disk)
	if !ok {
		return nil
	}
	key := []byte{codec.PrefixPurge}
	if err := d.Purge(key, codec.Seal(key, nil, 0)); err != nil {
		return fmt.Errorf("sketch: purge: %w", err)
	}
	return nil
}
