package shard

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A Forwarded is a batch of events that a shard has decoded, for the trainer to learn from: one record of the live
// topic. The bytes of its events are for others to read.
type Forwarded struct {
	Shard     int
	Share     float64   // of the events of Stretches, those in Events; the others have larger hashes
	Stretches []Stretch // what the shard has read for the batch, by partition
	Events    []ForwardedEvent
}

// A Stretch is offsets of a partition, those of records that are no events included.
type Stretch struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Incarnation uint32 `json:"incarnation,omitempty"` // of the topic, as the shard's ledger counts them
	From        int64  `json:"from"`
	To          int64  `json:"to"`
}

// ForwardedEvent is an event of a Forwarded.
type ForwardedEvent struct {
	Stretch   int // of Stretches
	Offset    int64
	Forgotten bool // of a subject that is forgotten: it counts in the losses, and nothing is learned from it
	Payload   []byte
}

// The name and the version with which each record of the live topic begins. Earlier builds began with four bytes for
// the length of a header: an empty name.
const (
	liveName    = "events"
	liveVersion = 1
)

// forwardedHeader is the JSON before the events of a batch.
type forwardedHeader struct {
	Model     string    `json:"model"`
	Count     int       `json:"count"`
	Shard     int       `json:"shard"`
	Share     float64   `json:"share"`
	Stretches []Stretch `json:"stretches,omitempty"`
}

// anotherBuild is the error of a record that another build has written.
type anotherBuild struct {
	name    string
	version int
}

func (e *anotherBuild) Error() string {
	return fmt.Sprintf("it has %q, version %d, and this build reads %q, version %d: run the same build everywhere",
		e.name, e.version, liveName, liveVersion)
}

var errForwarded = errors.New("the record cannot be read")

// MaxStretch is how many offsets of a partition a batch can be of, or can leave out before it: a process reads 240,000
// events a second and writes a batch each forwardEvery, or later what it could not write for hours.
const MaxStretch = 1 << 31

const forgottenFlag = 1

// value returns the bytes of the record:
//
//	length u8, name | version u8 | length uvarint, header (JSON)
//
// and of each event
//
//	stretch uvarint | offset from the stretch's first uvarint | flags u8 | length uvarint, payload
func (b *Forwarded) value(model string, count int) ([]byte, error) {
	header, err := json.Marshal(&forwardedHeader{Model: model, Count: count, Shard: b.Shard, Share: b.Share,
		Stretches: b.Stretches})
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	out := append([]byte{byte(len(liveName))}, liveName...)
	out = binary.AppendUvarint(append(out, liveVersion), uint64(len(header)))
	out = append(out, header...)
	for i := range b.Events {
		e := &b.Events[i]
		flags := byte(0)
		if e.Forgotten {
			flags = forgottenFlag
		}
		out = binary.AppendUvarint(out, uint64(e.Stretch))
		out = binary.AppendUvarint(out, uint64(e.Offset-b.Stretches[e.Stretch].From))
		out = binary.AppendUvarint(append(out, flags), uint64(len(e.Payload)))
		out = append(out, e.Payload...)
	}
	return out, nil
}

// readForwarded reads a record of the live topic of a model. Payloads point into it.
func readForwarded(r *kgo.Record, model string, count int) (*Forwarded, error) {
	rest, err := afterName(r.Value)
	if err != nil {
		return nil, err
	}
	text, rest, ok := lengthAndBytes(rest)
	if !ok {
		return nil, errForwarded
	}
	var h forwardedHeader
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("%w: %w", errForwarded, err)
	}
	switch {
	case h.Model != model:
		return nil, fmt.Errorf("it is of model %q, not of %q: a model has a live topic for itself alone", h.Model,
			model)
	case h.Count != count:
		return nil, fmt.Errorf("it is of shard.count %d, which is %d here: all have to have the same", h.Count, count)
	case h.Shard < 0 || h.Shard >= count || !(h.Share >= 0 && h.Share <= 1) ||
		slices.ContainsFunc(h.Stretches, Stretch.isImpossible):
		return nil, errForwarded
	}
	b := &Forwarded{Shard: h.Shard, Share: h.Share, Stretches: h.Stretches}
	for len(rest) > 0 {
		var e ForwardedEvent
		if e, rest, ok = nextEvent(rest, h.Stretches); !ok {
			return nil, errForwarded
		}
		b.Events = append(b.Events, e)
	}
	return b, nil
}

// afterName returns what follows the name and the version of a record.
func afterName(value []byte) (rest []byte, err error) {
	if len(value) == 0 || len(value) < int(value[0])+2 {
		return nil, errForwarded
	}
	n := 1 + int(value[0])
	if name, version := string(value[1:n]), int(value[n]); name != liveName || version != liveVersion {
		return nil, &anotherBuild{name, version}
	}
	return value[n+1:], nil
}

func (s Stretch) isImpossible() bool { return s.From < 0 || s.To < s.From || s.To-s.From > MaxStretch }

// nextEvent reads an event; ok is false where there is no event of the stretches.
func nextEvent(b []byte, of []Stretch) (e ForwardedEvent, rest []byte, ok bool) {
	stretch, n := binary.Uvarint(b)
	if n <= 0 || stretch >= uint64(len(of)) {
		return e, nil, false
	}
	at, k := binary.Uvarint(b[n:])
	s := &of[stretch]
	if n += k; k <= 0 || at >= uint64(s.To-s.From) || n >= len(b) {
		return e, nil, false
	}
	e = ForwardedEvent{Stretch: int(stretch), Offset: s.From + int64(at), Forgotten: b[n]&forgottenFlag != 0}
	e.Payload, rest, ok = lengthAndBytes(b[n+1:])
	return e, rest, ok
}

// lengthAndBytes reads a length and as many bytes.
func lengthAndBytes(b []byte) (read, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	return b[n : n+int(size) : n+int(size)], b[n+int(size):], true
}

// thinned keeps the events of a batch under a bound: those with the smallest hashes of their positions, so that it is
// the same ones whenever the same events come with the same share, and as many of each entity as it has events.
type thinned struct {
	Forwarded

	at     map[Stretch]int // place of a partition in Stretches: its topic, number and incarnation
	hashes []uint64        // of Events
	bytes  int             // of their payloads
	seen   int             // events
}

func newThinned(number int) *thinned {
	return &thinned{Forwarded: Forwarded{Shard: number, Share: 1}, at: make(map[Stretch]int)}
}

// stretch takes offsets up, and returns their place in Stretches.
func (t *thinned) stretch(s Stretch) int {
	of := Stretch{Topic: s.Topic, Partition: s.Partition, Incarnation: s.Incarnation}
	i, ok := t.at[of]
	if !ok {
		i = len(t.Stretches)
		t.at[of], t.Stretches = i, append(t.Stretches, s)
	}
	t.Stretches[i].To = max(t.Stretches[i].To, s.To)
	return i
}

// add takes an event up unless its hash is above the share. The payload is copied.
func (t *thinned) add(stretch int, offset int64, forgotten bool, payload []byte) {
	t.seen++
	s := &t.Stretches[stretch]
	hash := hashOf(s.Topic, s.Partition, offset)
	if hash >= threshold(t.Share) || offset < s.From {
		return
	}
	t.hashes, t.bytes = append(t.hashes, hash), t.bytes+len(payload)
	t.Events = append(t.Events, ForwardedEvent{stretch, offset, forgotten, slices.Clone(payload)})
}

// thinStep is by how much a share is lowered at a time: what is kept is between it and 1 times the bound.
const thinStep = 0.9

// thin lowers the share until there are no more events and bytes than that.
func (t *thinned) thin(events, bytes int) {
	for len(t.Events) > events || t.bytes > bytes {
		t.Share *= thinStep
		kept, limit := 0, threshold(t.Share)
		t.bytes = 0
		for i, hash := range t.hashes {
			if hash >= limit {
				continue
			}
			t.hashes[kept], t.Events[kept] = hash, t.Events[i]
			t.bytes += len(t.Events[kept].Payload)
			kept++
		}
		clear(t.Events[kept:])
		t.hashes, t.Events = t.hashes[:kept], t.Events[:kept]
	}
}

// threshold returns below which hashes are a share of all.
func threshold(share float64) uint64 {
	if share >= 1 {
		return math.MaxUint64
	}
	return uint64(share * math.MaxUint64)
}

// hashOf returns the hash of a position: FNV-1a of the partition, mixed with the offset by the finalizer of SplitMix64,
// so that neighbours are unlike.
func hashOf(topic string, partition int32, offset int64) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(topic) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h = (h^uint64(uint32(partition)))*1099511628211 + uint64(offset)*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
