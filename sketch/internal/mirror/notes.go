package mirror

import (
	"bytes"
	"encoding/binary"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/piece"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// KeysOfNote bounds the keys of one note, so that its value stays small.
const KeysOfNote = 2048

// Noted is a key in a note; fresh says that the transaction made it.
type Noted struct {
	key   []byte
	fresh bool
}

// freshKey is a bit of a key's length in a note.
const freshKey = 1 << 15

func noteKey(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{codec.PrefixNote}, n) }

// eachNoted calls visit with the keys of a note.
func eachNoted(key, value []byte, visit func(k Noted) error) error {
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
		if err := visit(Noted{b[2 : 2+n], length&freshKey != 0}); err != nil {
			return err
		}
		b = b[2+n:]
	}
	return nil
}

// Notes is what a store keeps of its notes.
type Notes struct {
	On   bool
	next uint64 // number of the next note
	// number of the first note of which nothing can have been sent: an excerpt of those before it may have been, by an
	// earlier process, too
	handed  uint64
	Commits int64 // that changed something, since the start
	Sent    int64 // of those, the ones up to the last head that the copy has; -1 at the start
}

// FindNotes returns what a state has of notes.
func FindNotes(c storage.Cut) (Notes, error) {
	n := Notes{Sent: -1}
	err := c.Each([]byte{codec.PrefixNote}, func(key, value []byte) error {
		n.On = true
		if len(key) == 1+8 {
			n.next = binary.BigEndian.Uint64(key[1:]) + 1
		}
		_, err := codec.Unseal(key, value)
		return err
	})
	n.handed = n.next
	return n, err
}

// Everything is the prefixes of the keys that a copy needs which has nothing yet.
var Everything = []byte{codec.PrefixRow, codec.PrefixStub, codec.PrefixCheckpoint, codec.PrefixBound,
	codec.PrefixSchema}

// AllKeys returns the keys with some prefixes.
func AllKeys(c storage.Cut, prefixes ...byte) (keys []Noted, err error) {
	for _, prefix := range prefixes {
		if err := c.Each([]byte{prefix}, func(key, _ []byte) error {
			keys = append(keys, Noted{key: bytes.Clone(key)})
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// NoteKeys returns the keys of all notes there are.
func NoteKeys(c storage.Cut) (keys [][]byte, err error) {
	err = c.Each([]byte{codec.PrefixNote}, func(key, _ []byte) error {
		keys = append(keys, bytes.Clone(key))
		return nil
	})
	return keys, err
}

// AddChanges adds notes of what a piece changes to it.
func (n *Notes) AddChanges(p *piece.Piece) {
	ops := p.Ops
	var keys []Noted
	changed := false
	for i := range ops {
		o := &ops[i]
		if o.Skip || o.Key[0] == codec.PrefixNote {
			continue
		}
		changed = true
		if codec.IsMirrored(o.Key) {
			keys = append(keys, Noted{o.Key, o.Fresh})
		}
	}
	if changed {
		n.Commits++
	}
	for len(keys) > 0 {
		some := min(len(keys), KeysOfNote)
		n.Add(p, keys[:some])
		keys = keys[some:]
	}
}

// Add adds a note: length and freshKey u16 | key, for each key.
func (n *Notes) Add(p *piece.Piece, keys []Noted) {
	p.Put(noteKey(n.next), true, func(b, key []byte) []byte {
		from := len(b)
		for _, k := range keys {
			length := uint16(len(k.key))
			if k.fresh {
				length |= freshKey
			}
			b = append(binary.BigEndian.AppendUint16(b, length), k.key...)
		}
		return codec.Seal(key, b, from)
	})
	n.next++
}

// Read reads from a cut what the copy lacks after an excerpt, nil for none, in pairs of some limit bytes.
func (n *Notes) Read(c storage.Cut, limit int, after *Excerpt) (*Excerpt, error) {
	e := &Excerpt{commits: n.Commits, unsent: map[string]bool{}}
	var last []byte
	if after != nil {
		e.notes, e.unsent = after.notes, after.unsent
		last = e.notes[len(e.notes)-1]
	}
	size, whole, handed := 0, true, noteKey(n.handed)
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
		return eachNoted(key, value, func(k Noted) error {
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
		return e, err
	}
	e.Head, err = HeadOf(c)
	return e, err
}

// HandOut remembers that something of an excerpt may be sent.
func (n *Notes) HandOut(e *Excerpt) {
	if len(e.notes) > 0 {
		n.handed = max(n.handed, binary.BigEndian.Uint64(e.notes[len(e.notes)-1][1:])+1)
	}
}

// Taken remembers that the copy has an excerpt with its head, and returns the keys of the notes that it covers.
func (n *Notes) Taken(e *Excerpt) [][]byte {
	n.Sent = e.commits
	return e.notes
}
