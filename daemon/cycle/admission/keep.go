package admission

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// The name and the version of what is kept of copies. Derived: the first version.
const (
	keptName    = "copies"
	keptVersion = 1
)

// keptCopies is what a restart has of the events that came, and of those of which copies were left out.
type keptCopies struct {
	Name    string   `json:"name"`
	Version int      `json:"version"`
	Fields  []string `json:"fields"` // whose values the keys are of
	Seed    uint64   `json:"seed"`
	Keys    []byte   `json:"keys"` // of copies.keys, oldest first; each list is of four bytes a key
	New     []byte   `json:"new"`  // of copies.isNew, a byte for each, the oldest first
	LeftOut int      `json:"left_out"`
	Flooded keptMark `json:"flooded"`
	Last    []byte   `json:"last"` // as Keys, of stuck
	Usual   []byte   `json:"usual"`
	Again   []byte   `json:"again"` // a byte for each of Usual
	Stuck   keptMark `json:"stuck"`
}

// keptMark has keys, with the events of them that counted.
type keptMark struct {
	Keys   []byte `json:"keys"`
	Events []byte `json:"events"` // a byte for each, 255 for more; of Stuck, how many are usual
}

// ErrKept: what was kept of copies is of another build or of other fields.
var ErrKept = errors.New("cycle: what was kept of copies cannot be used")

// Keep returns what Restore takes up: at most half a megabyte. It is nil where no copies are looked for.
func (c *EntityCap) Keep() []byte {
	if c.copies == nil || len(c.copies.keys) == 0 {
		return nil
	}
	of := c.copies
	k := keptCopies{Name: keptName, Version: keptVersion, Fields: of.fields.names, Seed: of.fields.seed,
		Keys: keptKeys(of.keys, of.next), LeftOut: of.leftOut, Flooded: keptMarks(of.flooded),
		Last:  keptKeys(of.stuck.last.keys, of.stuck.last.next),
		Usual: keptKeys(of.stuck.usual.keys, of.stuck.usual.next), Stuck: keptMarks(of.stuck.flooded)}
	for i := max(0, of.events-copiesWindow); i < of.events; i++ {
		k.New = append(k.New, byteOf(of.isNew[i%copiesWindow]))
	}
	for i := range of.stuck.usual.keys {
		k.Again = append(k.Again, byteOf(of.stuck.again[(of.stuck.usual.next+i)%len(of.stuck.usual.keys)]))
	}
	b, err := json.Marshal(&k)
	if err != nil {
		panic("cycle: copies are not representable as JSON: " + err.Error()) // plain numbers and bytes
	}
	return b
}

// Restore takes up what an earlier run has kept. Until the next event that is new, events are of a replay: of those
// that were left out as many are as were. An error, which may be ErrKept, changes nothing.
func (c *EntityCap) Restore(b []byte) error {
	if c.copies == nil {
		return nil
	}
	var k keptCopies
	if err := json.Unmarshal(b, &k); err != nil {
		return fmt.Errorf("%w: %w", ErrKept, err)
	}
	fields := *c.copies.fields
	switch {
	case k.Name != keptName || k.Version != keptVersion:
		return fmt.Errorf("%w: it is %q, version %d", ErrKept, k.Name, k.Version)
	case !slices.Equal(k.Fields, fields.names):
		return fmt.Errorf("%w: it is of the fields %q", ErrKept, k.Fields)
	case len(k.Keys) > 4*copiesMemory || len(k.Last) > 4*copiesWindow || len(k.Usual) > 4*stuckMemory ||
		len(k.Keys)%4+len(k.Last)%4+len(k.Usual)%4 > 0 || len(k.Again) != len(k.Usual)/4 || len(k.New) > copiesWindow ||
		k.LeftOut < 0 || k.Flooded.isWrong() || k.Stuck.isWrong():
		return fmt.Errorf("%w: lists of %d, %d, %d and %d bytes", ErrKept, len(k.Keys), len(k.New), len(k.Last),
			len(k.Usual))
	}
	fields.seed = k.Seed
	of := newCopiesOf(&fields)
	for key := range eachKey(k.Keys) {
		of.remember(key)
	}
	for i, is := range k.New {
		if of.isNew[i] = is != 0; of.isNew[i] {
			of.news++
		}
	}
	of.events, of.leftOut = len(k.New), k.LeftOut
	k.Flooded.restore(&of.flooded)
	for key := range eachKey(k.Last) {
		of.stuck.last.add(key)
	}
	for key := range eachKey(k.Usual) {
		of.stuck.usual.add(key)
	}
	for i, is := range k.Again {
		if of.stuck.again[i] = is != 0; is != 0 {
			of.stuck.agains++
		}
	}
	k.Stuck.restore(&of.stuck.flooded)
	of.replays = true
	c.copies = of
	return nil
}

func byteOf(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// keptKeys returns the bytes of keys from the oldest on.
func keptKeys(keys []uint32, oldest int) []byte {
	out := make([]byte, 0, 4*len(keys))
	for i := range keys {
		out = binary.LittleEndian.AppendUint32(out, keys[(oldest+i)%len(keys)])
	}
	return out
}

// eachKey is the inverse of keptKeys.
func eachKey(b []byte) func(func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for ; len(b) >= 4; b = b[4:] {
			if !yield(binary.LittleEndian.Uint32(b)) {
				return
			}
		}
	}
}

func keptMarks(of recent[uint16]) (k keptMark) {
	for _, marked := range []map[uint64]uint16{of.before, of.now} {
		for _, key := range slices.Sorted(maps.Keys(marked)) { // the same is kept of the same
			k.Keys = binary.LittleEndian.AppendUint32(k.Keys, uint32(key))
			k.Events = append(k.Events, byte(min(marked[key], 255)))
		}
	}
	return k
}

func (k *keptMark) isWrong() bool {
	return len(k.Keys) != 4*len(k.Events) || len(k.Events) > 2*copiesMarked
}

func (k *keptMark) restore(to *recent[uint16]) {
	at := 0
	for key := range eachKey(k.Keys) {
		to.put(uint64(key), uint16(k.Events[at]))
		at++
	}
}
