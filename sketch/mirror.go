package sketch

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/mirror"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// findNotes looks for the notes of a state.
func (s *Store) findNotes() (err error) {
	err = s.backend.View(func(c storage.Cut) error {
		s.mirror, err = mirror.FindNotes(c)
		return err
	})
	s.pending.Noted = s.mirror.On
	return err
}

// startMirror has a state that notes nothing begin to, with everything there is. One that does notes its schemas again:
// builds before schemas were sent have noted none, and a copy cannot say that it lacks one.
func (s *Store) startMirror() error {
	if s.mirror.On {
		return s.noteAll(codec.PrefixSchema)
	}
	s.pending.Noted = true
	s.pending.Put([]byte{codec.PrefixNote}, true, func(b, key []byte) []byte { return codec.Seal(key, b, len(b)) })
	s.mirror.On = true
	return s.noteAll(mirror.Everything...)
}

// Resend notes everything, for a copy that was lost, or that has lost something.
func (s *Store) Resend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.mirror.On {
		return s.err
	}
	s.mirror.Sent = -1
	return s.noteAll(mirror.Everything...)
}

// noteAll notes all keys with some prefixes.
func (s *Store) noteAll(prefixes ...byte) error {
	var keys []mirror.Noted
	err := s.backend.View(func(c storage.Cut) (err error) {
		keys, err = mirror.AllKeys(c, prefixes...)
		return err
	})
	if err != nil {
		return err
	}
	for len(keys) > 0 {
		n := min(len(keys), mirror.KeysOfNote)
		s.mirror.Add(&s.pending, keys[:n])
		keys = keys[n:]
		if err := s.commitIfFull(0, 1); err != nil {
			return err
		}
	}
	return s.commit(nil)
}

// Unmirror ends the notes of a store that no copy follows any more, and drops those there are.
func (s *Store) Unmirror() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.mirror.On {
		return s.err
	}
	var keys [][]byte
	if err := s.backend.View(func(c storage.Cut) (err error) {
		keys, err = mirror.NoteKeys(c)
		return err
	}); err != nil {
		return err
	}
	s.mirror.On, s.pending.Noted = false, false
	slices.Reverse(keys) // the key that says that there are notes is the first, and goes last
	return s.dropNotes(keys)
}

// Excerpt returns what the copy lacks, in pairs of some limit bytes, or nil if it has everything. An excerpt without
// a head is continued by the next call, with it as after. Apply may run concurrently. When the copy has everything up
// to a head, the caller must call Mirrored; until then, and after a crash, the same is returned again. With always,
// an excerpt without changes is returned, too.
func (s *Store) Excerpt(limit int, after *Excerpt, always bool) (*Excerpt, error) {
	s.mu.Lock()
	notes := s.mirror
	s.mu.Unlock()
	if !notes.On || after == nil && notes.Commits == notes.Sent && !always { // then there are no notes either
		return nil, nil
	}
	var e *Excerpt
	err := s.backend.View(func(c storage.Cut) (err error) {
		e, err = notes.Read(c, limit, after)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sketch: excerpt: %w", err)
	}
	s.mu.Lock()
	s.mirror.HandOut(e)
	s.mu.Unlock()
	return e, nil
}

// Head returns the accounts at the last commit.
func (s *Store) Head() (h *Head, err error) {
	err = s.backend.View(func(c storage.Cut) error {
		h, err = mirror.HeadOf(c)
		return err
	})
	return h, err
}

// Mirrored drops the notes of an excerpt with a head that the copy has, and of those before it, durably, and keeps a
// mark of that head where it had notes, or anyhow: see Mark.
func (s *Store) Mirrored(e *Excerpt, mark []byte, anyhow bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	notes := s.mirror.Taken(e)
	if len(notes) > 0 || anyhow {
		s.pending.Put([]byte{codec.PrefixNote}, false,
			func(b, key []byte) []byte { return codec.Seal(key, append(b, mark...), len(b)) })
	}
	return s.dropNotes(notes)
}

// Mark returns what Mirrored has kept last, empty before: a copy without that head has lost something.
func (s *Store) Mark() (mark []byte, err error) {
	err = s.backend.View(func(c storage.Cut) error {
		mark, _, err = storage.Stored(c, []byte{codec.PrefixNote}, codec.Unseal)
		mark = bytes.Clone(mark)
		return err
	})
	return mark, err
}

func (s *Store) dropNotes(keys [][]byte) error {
	for _, key := range keys {
		if err := s.commitIfFull(0, 1); err != nil {
			return err
		}
		s.pending.Drop(key)
	}
	return s.commit(nil)
}

// Thresholds returns those of the samples, in an order that follows from the settings. What is below them is not in the
// sample of any events that include those applied: they only rise.
func (s *Store) Thresholds() []Threshold {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Threshold, len(s.samples.All))
	for i, r := range s.samples.All {
		out[i] = Threshold{Evicted: r.Evicted, Rank: r.Sealed()}
	}
	return out
}

// Full reports whether a training sample has all the rows that it may have, after more events than those: only its
// events then decide its threshold.
func (s *Store) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.samples.All, func(r *reservoir.Reservoir) bool {
		return r.Role == Train && r.IsFull()
	})
}

// Raise gives up the rows below thresholds of a sample of more events, under the same settings: they are not in it, and
// neither is what this store will yet apply below them. It returns how many those were. Lower thresholds change
// nothing.
func (s *Store) Raise(t []Threshold) (dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if len(t) != len(s.samples.All) {
		return 0, fmt.Errorf("sketch: raise %d thresholds of %d samples: %w", len(t), len(s.samples.All), ErrPart)
	}
	t = s.joint(t)
	for i := range t {
		n, err := s.raise(s.samples.All[i], t[i])
		dropped += n
		if err != nil {
			return dropped, err
		}
	}
	return dropped, s.commit(nil)
}

func (s *Store) raise(r *reservoir.Reservoir, t Threshold) (dropped int, err error) {
	if !t.Evicted || r.Evicted && t.Rank <= r.Threshold {
		return 0, nil
	}
	joined := s.settings.Joined()
	below := r.Below(t.Rank)
	if joined && t.Rank < math.MaxUint64 { // of the other side it may be what was put out
		below = r.Below(t.Rank + 1)
	}
	if len(r.Entries)-len(below) < r.Capacity && r.MaxCost == 0 && !s.settings.Partial && !joined {
		s.settings.Partial, s.settings.Since = true, s.ledger.Positions()
		s.pending.PutSettings(&s.settings)
	}
	// From the smallest up, so that a crash in between leaves none below the threshold.
	if err := s.expel(r, below, 0, func(int) {}); err != nil {
		return 0, err
	}
	r.Lose(t.Rank)
	s.pending.Counted = true
	return len(below), nil
}

// joint makes the thresholds of both sides of joined samples the larger one, so that neither has at any time what the
// other has given up.
func (s *Store) joint(t []Threshold) []Threshold {
	t = slices.Clone(t)
	for i, r := range s.samples.All {
		if rows := &t[r.Role]; r.Stubs && t[i].Evicted && (!rows.Evicted || rows.Rank < t[i].Rank) {
			*rows = t[i]
		} else if r.Stubs {
			t[i] = *rows
		}
	}
	return t
}
