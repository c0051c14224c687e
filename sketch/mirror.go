package sketch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// A mirrored store notes, in each transaction, the keys that it changes of what a copy elsewhere needs: rows,
// checkpoints and time bounds. The notes stay until the copy has them, so that no crash loses one. What the copy gets
// is read at one commit, together with the accounts of that commit: what came and went in between is not sent at all,
// not even as a tombstone, unless an excerpt may have been sent while it was there.

// A Pair is a key of the database with its value, sealed as it is stored. The value of a removed key is nil.
type Pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

// An Excerpt is what a copy of a store lacks at one commit.
type Excerpt struct {
	Pairs []Pair // rows, checkpoints and time bounds that changed
	Head  *Head  // nil if there are more changes, which the next excerpt has

	notes   [][]byte        // the notes that it and those before it cover
	commits int64           // of the store when it was made
	unsent  map[string]bool // keys that came and went before it or those before it were made: the copy has never had them
}

// A Head is the accounts that the pairs up to it belong to, as they are stored. With them a copy holds all that it
// needs of the records before their positions.
type Head struct {
	Settings []byte `json:"settings"`
	Counters []byte `json:"counters,omitempty"` // none while no record was rejected and no row put out
	Ledger   []Pair `json:"ledger"`
}

// mirror is what a store keeps of its notes.
type mirror struct {
	on   bool
	next uint64 // number of the next note
	// number of the first note of which nothing can have been sent: an excerpt of those before it may have been, by an
	// earlier process, too
	handed  uint64
	commits int64 // that changed something, since the start
	sent    int64 // of those, the ones up to the last head that the copy has; -1 at the start
}

// keysOfNote bounds the keys of one note, so that its value stays small.
const keysOfNote = 2048

// mirrored reports whether a copy needs a key.
func mirrored(key []byte) bool {
	switch key[0] {
	case codec.PrefixRow, codec.PrefixCheckpoint, codec.PrefixBound:
		return true
	}
	return false
}

// findNotes looks for the notes of a state.
func (s *Store) findNotes() error {
	s.mirror = mirror{sent: -1}
	err := s.backend.View(func(c storage.Cut) error {
		return c.Each([]byte{codec.PrefixNote}, func(key, value []byte) error {
			s.mirror.on = true
			if len(key) == 1+8 {
				s.mirror.next = binary.BigEndian.Uint64(key[1:]) + 1
			}
			_, err := codec.Unseal(key, value)
			return err
		})
	})
	s.pending.noted, s.mirror.handed = s.mirror.on, s.mirror.next
	return err
}

// startMirror has a state that notes nothing begin to, with everything there is.
func (s *Store) startMirror() error {
	if s.mirror.on {
		return nil
	}
	s.pending.noted = true
	s.pending.put([]byte{codec.PrefixNote}, true, func(b, key []byte) []byte { return codec.Seal(key, b, len(b)) })
	s.mirror.on = true
	return s.noteAll()
}

// Resend notes everything, for a copy that was lost, or that has lost something.
func (s *Store) Resend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.mirror.on {
		return s.err
	}
	s.mirror.sent = -1
	return s.noteAll()
}

func (s *Store) noteAll() error {
	var keys []noted
	err := s.backend.View(func(c storage.Cut) error {
		for _, prefix := range []byte{codec.PrefixRow, codec.PrefixCheckpoint, codec.PrefixBound} {
			if err := c.Each([]byte{prefix}, func(key, _ []byte) error {
				keys = append(keys, noted{key: bytes.Clone(key)})
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for len(keys) > 0 {
		n := min(len(keys), keysOfNote)
		s.putNote(keys[:n])
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
	if s.err != nil || !s.mirror.on {
		return s.err
	}
	var keys [][]byte
	if err := s.backend.View(func(c storage.Cut) error {
		return c.Each([]byte{codec.PrefixNote}, func(key, _ []byte) error {
			keys = append(keys, bytes.Clone(key))
			return nil
		})
	}); err != nil {
		return err
	}
	s.mirror.on, s.pending.noted = false, false
	slices.Reverse(keys) // the key that says that there are notes is the first, and goes last
	return s.dropNotes(keys)
}

// noteChanges adds notes of what the pending piece changes.
func (s *Store) noteChanges() {
	ops := s.pending.ops
	var keys []noted
	changed := false
	for i := range ops {
		o := &ops[i]
		if o.Skip || o.Key[0] == codec.PrefixNote {
			continue
		}
		changed = true
		if mirrored(o.Key) {
			keys = append(keys, noted{o.Key, o.Fresh})
		}
	}
	if changed {
		s.mirror.commits++
	}
	for len(keys) > 0 {
		n := min(len(keys), keysOfNote)
		s.putNote(keys[:n])
		keys = keys[n:]
	}
}

// noted is a key in a note; fresh says that the transaction made it.
type noted struct {
	key   []byte
	fresh bool
}

// freshKey is a bit of a key's length in a note.
const freshKey = 1 << 15

// putNote adds a note: length and freshKey u16 | key, for each key.
func (s *Store) putNote(keys []noted) {
	s.pending.put(noteKey(s.mirror.next), true, func(b, key []byte) []byte {
		from := len(b)
		for _, k := range keys {
			n := uint16(len(k.key))
			if k.fresh {
				n |= freshKey
			}
			b = append(binary.BigEndian.AppendUint16(b, n), k.key...)
		}
		return codec.Seal(key, b, from)
	})
	s.mirror.next++
}

func noteKey(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{codec.PrefixNote}, n) }

// eachNoted calls visit with the keys of a note.
func eachNoted(key, value []byte, visit func(k noted) error) error {
	b, err := codec.Unseal(key, value)
	if err != nil {
		return err
	}
	for len(b) > 0 {
		if len(b) < 2 {
			return fault.Corrupt("note at key %x ends inside a length", key)
		}
		length := binary.BigEndian.Uint16(b)
		n := int(length &^ freshKey)
		if n == 0 || len(b)-2 < n {
			return fault.Corrupt("note at key %x ends inside a key", key)
		}
		if err := visit(noted{b[2 : 2+n], length&freshKey != 0}); err != nil {
			return err
		}
		b = b[2+n:]
	}
	return nil
}

// Excerpt returns what the copy lacks, in pairs of some limit bytes, or nil if it has everything. An excerpt without
// a head is continued by the next call, with it as after. Apply may run concurrently. When the copy has everything up
// to a head, the caller must call Mirrored; until then, and after a crash, the same is returned again. With always,
// an excerpt without changes is returned, too.
func (s *Store) Excerpt(limit int, after *Excerpt, always bool) (*Excerpt, error) {
	s.mu.Lock()
	on, commits, sent, handed := s.mirror.on, s.mirror.commits, s.mirror.sent, noteKey(s.mirror.handed)
	s.mu.Unlock()
	if !on || after == nil && commits == sent && !always { // then there are no notes either
		return nil, nil
	}
	e := &Excerpt{commits: commits, unsent: map[string]bool{}}
	var last []byte
	if after != nil {
		e.notes, e.unsent = after.notes, after.unsent
		last = e.notes[len(e.notes)-1]
	}
	size, whole := 0, true
	err := s.backend.View(func(c storage.Cut) error {
		seen := map[string]bool{}
		err := c.Each([]byte{codec.PrefixNote}, func(key, value []byte) error {
			if len(key) == 1 || bytes.Compare(key, last) <= 0 {
				return nil
			}
			if size >= limit {
				whole = false
				return nil
			}
			e.notes = append(e.notes, bytes.Clone(key))
			unsent := bytes.Compare(key, handed) >= 0
			return eachNoted(key, value, func(k noted) error {
				if seen[string(k.key)] {
					return nil
				}
				seen[string(k.key)] = true
				value, err := c.Get(k.key)
				switch {
				case err != nil:
					return err
				case value != nil:
					delete(e.unsent, string(k.key))
				case unsent && k.fresh || e.unsent[string(k.key)]:
					e.unsent[string(k.key)] = true
					return nil
				}
				e.Pairs = append(e.Pairs, Pair{bytes.Clone(k.key), bytes.Clone(value)})
				size += len(k.key) + len(value)
				return nil
			})
		})
		if err != nil || !whole {
			return err
		}
		e.Head, err = headOf(c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sketch: excerpt: %w", err)
	}
	if len(e.notes) > 0 {
		s.mu.Lock()
		s.mirror.handed = max(s.mirror.handed, binary.BigEndian.Uint64(e.notes[len(e.notes)-1][1:])+1)
		s.mu.Unlock()
	}
	return e, nil
}

// Head returns the accounts at the last commit.
func (s *Store) Head() (h *Head, err error) {
	err = s.backend.View(func(c storage.Cut) error {
		h, err = headOf(c)
		return err
	})
	return h, err
}

// PartitionOf returns the partition of a key of Head.Ledger, of a checkpoint or a time bound.
func PartitionOf(key []byte) (topic string, number int32, err error) {
	after := 0
	if len(key) > 0 {
		if after = codec.KeyTail[key[0]]; key[0] == codec.PrefixBound {
			after = codec.KeyTail[codec.PrefixCheckpoint]
		}
	}
	tail := len(key) - after
	if after == 0 || tail < 3 {
		return "", 0, fmt.Errorf("sketch: key %.40q: %w", key, ErrForeign)
	}
	return string(key[1 : tail-1]), int32(binary.BigEndian.Uint32(key[tail:])), nil
}

// headOf reads the accounts of a cut.
func headOf(c storage.Cut) (*Head, error) {
	h := new(Head)
	for _, v := range []struct {
		prefix byte
		to     *[]byte
	}{{codec.PrefixSettings, &h.Settings}, {codec.PrefixCounters, &h.Counters}} {
		value, err := c.Get([]byte{v.prefix})
		if err != nil {
			return nil, err
		}
		*v.to = bytes.Clone(value)
	}
	if err := addCarried(c, h); err != nil {
		return nil, err
	}
	for _, prefix := range []byte{codec.PrefixArchive, codec.PrefixLedger} {
		if err := c.Each([]byte{prefix}, func(key, value []byte) error {
			h.Ledger = append(h.Ledger, Pair{bytes.Clone(key), bytes.Clone(value)})
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Mirrored drops the notes of an excerpt with a head that the copy has, and of those before it, durably, and keeps a
// mark of that head where it had notes, or anyhow: see Mark.
func (s *Store) Mirrored(e *Excerpt, mark []byte, anyhow bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.mirror.sent = e.commits
	if len(e.notes) > 0 || anyhow {
		s.pending.put([]byte{codec.PrefixNote}, false,
			func(b, key []byte) []byte { return codec.Seal(key, append(b, mark...), len(b)) })
	}
	return s.dropNotes(e.notes)
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
		s.pending.drop(key)
	}
	return s.commit(nil)
}

// A Threshold is what the rank of a row of a sample has to reach, once an event was put out of it.
type Threshold struct {
	Evicted bool   `json:"evicted"`
	Rank    uint64 `json:"rank"`
}

// Thresholds returns those of the samples, in an order that follows from the settings. What is below them is not in the
// sample of any events that include those applied: they only rise.
func (s *Store) Thresholds() []Threshold {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Threshold, len(s.samples.All))
	for i, r := range s.samples.All {
		out[i] = Threshold{r.Evicted, r.Sealed()}
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
	below := r.Below(t.Rank)
	if len(r.Entries)-len(below) < r.Capacity && r.MaxCost == 0 && !s.settings.Partial {
		s.settings.Partial, s.settings.Since = true, s.ledger.Positions()
		s.pending.putSettings(&s.settings)
	}
	// From the smallest up, so that a crash in between leaves none below the threshold.
	if err := s.expel(r, below, 0, func(int) {}); err != nil {
		return 0, err
	}
	r.Lose(t.Rank)
	s.pending.counted = true
	return len(below), nil
}
