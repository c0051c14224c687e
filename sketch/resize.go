package sketch

import (
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
)

// resize brings the state from its settings to those chosen, which differ in sizes and in what is bound to no sample. A
// sample that gets less room keeps exactly the rows that one of that size would have kept from the beginning; where one
// gets more, all keep what there is and say since when they are under-filled. Either starts a new lineage. Rows that
// have to go leave in pieces; a crash in between leaves settings that say so.
func (s *Store) resize(chosen policy.Settings) error {
	if s.settings.Size == chosen.Size && s.settings.HoldoutSize == chosen.HoldoutSize && !s.recosts(&chosen) {
		s.settings = chosen
		if chosen.Unsettled {
			return s.trim()
		}
		s.pending.PutSettings(&s.settings)
		return s.commit(nil)
	}
	s.sealAll()
	partial, since := chosen.Partial, chosen.Since
	chosen.Renew(s.ledger.Positions())
	if !s.samples.Resize(&chosen) {
		chosen.Partial, chosen.Since = partial, since
	}
	chosen.Unsettled = true
	s.settings = chosen
	s.pending.PutSettings(&s.settings)
	if err := s.commit(nil); err != nil {
		return err
	}
	return s.trim()
}

// recosts sets what the samples may cost by the settings chosen, of equal sizes, and reports whether one of them has
// now less room than its rows take, or more than it once had too little of.
func (s *Store) recosts(chosen *policy.Settings) bool {
	was := s.settings
	grows := s.samples.Resize(chosen)
	over := s.samples.AreOver()
	if grows || over {
		s.samples.Resize(&was)
	}
	return grows || over
}

// trim takes out the rows for which the capacities have no room, then removes the remark that there may be some.
func (s *Store) trim() error {
	for _, r := range s.samples.All {
		entries, losers := r.Surplus()
		if err := s.expel(r, entries, len(entries)-losers, func(int) {}); err != nil {
			return err
		}
		if r.PerGroup > 0 && r.Evicted && len(r.Entries) < r.Capacity {
			s.settings.Partial = true // a smaller cap put out rows in whose place others once stood
			s.settings.Since = s.ledger.Positions()
		}
	}
	if err := s.alignAll(); err != nil {
		return err
	}
	s.settings.Unsettled = false
	s.pending.PutSettings(&s.settings)
	return s.commit(nil)
}

// Align gives up the rows that o, a sample of the same events under the same settings, has no longer room for or never
// let in: an under-filled sample holds the events above its threshold, and this one, read from the log at once, may
// hold more. A row at the threshold stays if o has it: a shard whose threshold was raised keeps the very row that
// another sample put out. For comparisons in memory; what it gives up is not marked anywhere.
func (s *Store) Align(o *Store) error {
	o.mu.Lock()
	counts, least := o.counters(), map[policy.Identity]bool{}
	for i, r := range o.samples.All {
		_, threshold := counts.Of(i)
		for _, e := range r.Entries {
			if e.Rank == threshold {
				least[e.ID] = true
			}
		}
	}
	o.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.samples.All {
		evicted, threshold := counts.Of(i)
		if !evicted {
			continue
		}
		var out []reservoir.Entry
		for _, e := range r.Entries {
			if e.Rank < threshold || e.Rank == threshold && !least[e.ID] {
				out = append(out, e)
			}
		}
		if len(out) > 0 && !s.settings.Partial {
			s.settings.Partial = true
			s.pending.PutSettings(&s.settings)
		}
		if err := s.expel(r, out, 0, func(int) {}); err != nil {
			return err
		}
	}
	return nil
}
