package rows

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/refitd/refitd/consumer/event"
)

// errPayload is returned for row bytes that are not an event of the schema.
var errPayload = errors.New("cycle: a stored row does not match the schema; the state was written with another one")

// payloadVersion defines the bytes of a row: a reader refuses any other.
const payloadVersion = 1

// AppendEvent appends the bytes of an event as rows store it: version, label, weight, time, then the fields in the
// order of the schema.
// Lists are preceded by their length, names by theirs. It takes one piece of memory for a dst that is nil.
func AppendEvent(dst []byte, ev *event.Event) []byte {
	if dst == nil {
		dst = make([]byte, 0, usualSize(ev))
	}
	dst = append(dst, payloadVersion)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(ev.Label))
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(ev.Weight))
	dst = binary.AppendVarint(dst, ev.Time)
	dst = event.AppendNames(dst, ev.Classes)
	dst = event.AppendNames(dst, ev.Categorical)
	dst = binary.AppendUvarint(dst, uint64(len(ev.Numeric)))
	for _, v := range ev.Numeric {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	dst = binary.AppendUvarint(dst, uint64(len(ev.Multi)))
	for _, names := range ev.Multi {
		dst = event.AppendNames(dst, names)
	}
	return dst
}

// usualSize returns the bytes of an event as rows store it, or some more, where names and lists are shorter than 128.
func usualSize(ev *event.Event) int {
	const (
		fixed = 1 + 8 + 8 + binary.MaxVarintLen64 // version, label, weight, time
		count = 1                                 // of what follows, or its length
	)
	size := fixed + 2*count + 8*len(ev.Numeric)
	add := func(names []string) {
		size += count
		for _, name := range names {
			size += count + len(name)
		}
	}
	add(ev.Classes)
	add(ev.Categorical)
	for _, names := range ev.Multi {
		add(names)
	}
	return size
}

// SetLabel replaces the label of a row.
func SetLabel(payload []byte, label float64) {
	binary.LittleEndian.PutUint64(payload[1:], math.Float64bits(label))
}

// Interner returns one string for equal bytes, so that a sample holds every name once.
type Interner map[string]string

func (in Interner) name(b []byte) string {
	if s, ok := in[string(b)]; ok {
		return s
	}
	s := string(b)
	in[s] = s
	return s
}

// DecodeEvent reads what AppendEvent wrote into ev, using its memory again.
func DecodeEvent(ev *event.Event, payload []byte, names Interner) error {
	r := payloadReader{rest: payload, names: names}
	if r.byte() != payloadVersion {
		return errPayload
	}
	ev.Label, ev.Weight = r.float(), r.float()
	t, n := binary.Varint(r.rest)
	if n <= 0 {
		return errPayload
	}
	ev.Time, r.rest = t, r.rest[n:]
	ev.Classes = r.list(ev.Classes)
	ev.Categorical = r.list(ev.Categorical)
	ev.Numeric = ev.Numeric[:0]
	for range r.count(8) {
		ev.Numeric = append(ev.Numeric, r.float())
	}
	multi := r.count(1)
	for len(ev.Multi) < multi {
		ev.Multi = append(ev.Multi, nil)
	}
	ev.Multi = ev.Multi[:multi]
	for f := range ev.Multi {
		ev.Multi[f] = r.list(ev.Multi[f])
	}
	ev.Identity = ""
	if r.failed || len(r.rest) > 0 {
		return errPayload
	}
	return nil
}

// RowBytes returns what a row takes in memory, rather more than less, whether or not it shares names with others: its
// bytes as they are stored and mapped and in the copy that a refit takes, the event they are decoded into, and the
// entries of its names in rows of numbers, in the table of names and in their counts. It is a function of the bytes
// alone.
func RowBytes(payload []byte) int {
	const header = 1 + 8 + 8
	r := payloadReader{rest: payload}
	r.take(header)
	_, n := binary.Varint(r.rest)
	r.take(max(n, 0))
	names := r.skip() + r.skip()
	numbers := r.count(8)
	r.take(8 * numbers)
	lists := r.count(1)
	for range lists {
		names += r.skip()
	}
	return rowBytes + 3*len(payload) + NameEntryBytes*names + 16*numbers + 32*lists
}

// MaxRowBytes returns a bound on the RowBytes of any row of so many bytes: a name takes at least one of them.
func MaxRowBytes(payload int) int { return rowBytes + (3+NameEntryBytes)*payload }

// skip passes over a list and returns its length.
func (r *payloadReader) skip() int {
	n := r.count(1)
	for range n {
		r.take(r.count(1))
	}
	return n
}

type payloadReader struct {
	rest   []byte
	names  Interner
	failed bool
}

func (r *payloadReader) take(n int) []byte {
	if n > len(r.rest) {
		r.failed = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *payloadReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *payloadReader) float() float64 {
	if b := r.take(8); b != nil {
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// count reads a length of things of at least size bytes each.
func (r *payloadReader) count(size int) int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(len(r.rest)/size) {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

func (r *payloadReader) list(dst []string) []string {
	dst = dst[:0]
	for range r.count(1) {
		dst = append(dst, r.names.name(r.take(r.count(1))))
	}
	return dst
}
