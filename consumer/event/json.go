package event

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bound what one event may hold.
type Limits struct {
	MaxEventBytes int // bytes of the value, default 64 KiB
	MaxIDBytes    int // bytes of an id or class after unescaping, default 256
	MaxDepth      int // nested objects and arrays, the event itself being 1; default 32
	MaxMulti      int // elements of a list before duplicates are removed, default 1024
	// largest magnitude of a number, default 1e15: below it whole numbers and squares are harmless
	MaxNumber     float64
	MaxFutureSkew time.Duration // an event time further ahead of the record's becomes the record's, default 5 min
}

// DefaultLimits returns the defaults named at the fields.
func DefaultLimits() Limits {
	return Limits{
		MaxEventBytes: 64 << 10,
		MaxIDBytes:    256,
		MaxDepth:      32,
		MaxMulti:      1024,
		MaxNumber:     1e15,
		MaxFutureSkew: 5 * time.Minute,
	}
}

// JSON decodes the JSON events of one schema. It is not safe for concurrent use.
//
// Every field that the schema names must be there, except the weight and the optional ones; null counts as absent.
// Names are compared byte by byte, so that RATING is not rating but an unknown field, and unknown fields are ignored.
// What a field may be:
//
//   - an id (categorical, identity, class, element of a list): a string, or a whole number written without point and exponent, which
//     is read as its decimal text; equal elements of a list count once
//   - a number (numeric, weight, label of regression, ordinal and binary): a JSON number; -0 becomes 0. A string that spells NaN or an
//     infinity is not_finite, any other string wrong_type. A binary label may also be true or false
//   - a binary label of a schema with Positive: an id, of which true and false are two more
//   - a time: a number in the schema's unit, rounded to milliseconds, or a string by RFC 3339
type JSON struct {
	// RequireLabel is true for learning. If false, as for scoring, label, time and identity may be absent too; they are
	// still checked if present.
	RequireLabel bool

	schema Schema
	limits Limits
	unit   Unit // of schema.TimeUnit
	fields map[string]*field
	order  []*field // in the order of the schema: label, time, identity, weight, categorical, numeric, multi
	names  int      // of one object at most
	must   int      // fields that must be present for scoring; learning needs mustLearn more

	mustLearn int
	absent    []target // the optional fields, which prepare makes absent
	before    field    // sentinel before the first field of an event
	turn      uint64   // counts events
	shape     []named  // names of the event that flat read last, in their order; no other one twice

	kindWeight float64 // of the event at hand: see Schema.Kinds
	classes    map[string]bool

	src     bytes.Buffer
	json    *jsontext.Decoder
	scratch []byte
	joined  []byte // of a cross
	seen    map[string]bool
	seed    maphash.Seed
	recent  [internSlots]string
}

// role is what the schema makes of a field.
type role uint8

const (
	roleLabel role = iota
	roleTime
	roleWeight
	roleIdentity
	roleCategorical
	roleNumeric
	roleMulti
	roleVector
)

// target is where a field goes: a role and the index in the schema's list.
type target struct {
	role     role
	index    int
	optional bool
}

type field struct {
	name    string
	targets []target
	turn    uint64 // of the last event that has it
	null    uint64 // of the last event that has null there
	after   *field // the one that came next in the last event: producers keep their order
}

// HalfPairs lets strings have the escape of half a surrogate pair, as RFC 8259 (section 8.2) does and writers leave
// where they cut an emoji in two. It means U+FFFD. The option lets bytes through that are not UTF-8, too: readers check
// those first.
var HalfPairs = jsontext.AllowInvalidUTF8(true)

// maxNames bounds the names of one object, because each has to be compared with the others: 1024 take a quarter of a
// millisecond. A schema with more fields has room for twice as many.
const maxNames = 1024

// internSlots is the size of the table of recent ids of at most internBytes: ids repeat, and 16,384 of them are 1 MiB.
const (
	internSlots = 16_384
	internBytes = 64
)

// NewJSON returns a decoder that requires a label. The schema must be valid: a known task, at least one feature.
func NewJSON(s Schema, l Limits) *JSON {
	d := &JSON{
		RequireLabel: true,
		schema:       s,
		limits:       l,
		unit:         unitOf(s.TimeUnit),
		fields:       make(map[string]*field),
		classes:      make(map[string]bool),
		json:         jsontext.NewDecoder(new(bytes.Buffer), HalfPairs),
		seen:         make(map[string]bool),
		seed:         maphash.MakeSeed(),
	}
	claim := func(name string, r role, index int, count *int) {
		if d.fields[name] == nil {
			d.fields[name] = &field{name: name}
			d.order = append(d.order, d.fields[name])
		}
		t := target{r, index, r >= roleCategorical && slices.Contains(s.Optional, name)}
		if d.fields[name].targets = append(d.fields[name].targets, t); t.optional {
			d.absent = append(d.absent, t)
		} else {
			*count++
		}
	}
	if s.Label != "" {
		claim(s.Label, roleLabel, 0, &d.mustLearn)
	}
	if s.Time != "" {
		claim(s.Time, roleTime, 0, &d.mustLearn)
	}
	if s.Identity != "" {
		claim(s.Identity, roleIdentity, 0, &d.mustLearn)
	}
	if s.Weight != "" {
		claim(s.Weight, roleWeight, 0, new(int))
	}
	for i, f := range s.Categorical[:s.NumGiven()] {
		if !s.IsGivenName(i, false) {
			d.absent = append(d.absent, target{roleCategorical, i, true})
			continue
		}
		claim(f, roleCategorical, i, &d.must)
	}
	for i, f := range s.Numeric {
		if !s.IsGivenNumber(i) {
			d.absent = append(d.absent, target{roleNumeric, i, true})
			continue
		}
		claim(f, roleNumeric, i, &d.must)
	}
	for i, f := range s.Multi {
		if s.IsGivenName(i, true) {
			claim(f, roleMulti, i, &d.must)
		}
	}
	for i := range s.Vectors {
		claim(s.Vectors[i].Name, roleVector, i, &d.must)
	}
	for _, c := range s.Classes {
		d.classes[c] = true
	}
	d.names = max(maxNames, 2*len(d.fields))
	return d
}

// Decode implements Decoder. An object without nesting is read by flat, any other by jsontext.
func (d *JSON) Decode(ev *Event, value []byte, recordTime int64) *Rejection {
	return d.read(ev, value, recordTime, false)
}

func (d *JSON) read(ev *Event, value []byte, recordTime int64, borrows bool) *Rejection {
	switch {
	case value == nil:
		return d.rejection(NullValue)
	case len(value) > d.limits.MaxEventBytes:
		return d.rejection(TooLarge)
	case !utf8.Valid(value):
		return d.rejection(NotUTF8)
	}
	d.prepare(ev, recordTime)
	if p := (parse{d: d, ev: ev, recordTime: recordTime, borrows: borrows}); !p.flat(value) {
		if r := d.decode(ev, value, recordTime); r != nil {
			if r.Reason == MissingField && isConnectNull(value) {
				return d.rejection(NullValue)
			}
			return r
		}
	}
	d.extend(ev)
	return nil
}

// decode reads any value that is UTF-8 and not too long.
func (d *JSON) decode(ev *Event, value []byte, recordTime int64) *Rejection {
	d.prepare(ev, recordTime)
	d.src = *bytes.NewBuffer(value)
	d.json.Reset(&d.src, HalfPairs)
	d.turn++

	p := parse{d: d, ev: ev, recordTime: recordTime}
	if kind := d.json.PeekKind(); kind != '{' {
		if r := p.skip(kind); r != "" {
			return d.rejection(r)
		}
		return NoObject(kind)
	}
	if r := p.object(); r != "" {
		return d.rejection(r)
	}
	for _, c := range value[d.json.InputOffset():] {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return d.rejection(TrailingData)
		}
	}
	return p.complete()
}

// complete returns why the fields that were read make no event, if they do not.
func (p *parse) complete() *Rejection {
	switch {
	case p.first != "":
		return p.rejection()
	case !p.hasAll():
		return p.missing()
	case !p.hasTime():
		return p.d.rejection(TimeInvalid)
	}
	return nil
}

// finish checks that the event is complete, and adds what follows from its fields.
func (d *JSON) finish(p *parse) *Rejection {
	if r := p.complete(); r != nil {
		return r
	}
	d.extend(p.ev)
	return nil
}

// extend adds what follows from the fields of an event.
func (d *JSON) extend(ev *Event) {
	ev.Weight *= d.kindWeight
	if len(d.schema.Cross) > 0 {
		d.joined = d.schema.crosses(ev, d.joined, d.intern)
	}
}

// hasAll reports whether every field is there that has to be.
func (p *parse) hasAll() bool {
	d := p.d
	return p.present >= d.must && (!d.RequireLabel || p.present >= d.must+d.mustLearn)
}

// hasTime reports whether the event has a time field, needs no time, or can take the time of the record.
func (p *parse) hasTime() bool {
	return p.d.schema.Time != "" || !p.d.RequireLabel || p.recordTime >= 0 && p.recordTime <= maxTime
}

func (d *JSON) prepare(ev *Event, recordTime int64) {
	s := &d.schema
	ev.Label, ev.Time, ev.Weight, ev.Identity = 0, recordTime, 1, ""
	if d.kindWeight = 1; s.Choices {
		ev.Label = 1
	}
	ev.Categorical = slices.Grow(ev.Categorical[:0], len(s.Categorical))[:len(s.Categorical)]
	numbers := s.vectorAt(len(s.Vectors))
	ev.Numeric = slices.Grow(ev.Numeric[:0], numbers)[:numbers]
	s.emptyVectors(ev)
	ev.Multi = slices.Grow(ev.Multi[:0], len(s.Multi))[:len(s.Multi)]
	ev.Empty()
	for _, t := range d.absent {
		switch t.role {
		case roleCategorical:
			ev.Categorical[t.index] = ""
		case roleNumeric:
			ev.Numeric[t.index] = math.NaN()
		}
	}
}

// keptNames is the longest list whose memory an event keeps for the next one: there are thousands of events, and few
// long lists.
const keptNames = 64

// Empty takes the names out of the lists of an event, whose memory it keeps for the next one unless they were long.
func (ev *Event) Empty() {
	for i := range ev.Multi {
		ev.Multi[i] = emptied(ev.Multi[i])
	}
	ev.Classes = emptied(ev.Classes)
}

// emptied returns a list without its names, and without its memory if it was long.
func emptied(list []string) []string {
	if cap(list) > keptNames {
		return nil
	}
	clear(list[:cap(list)])
	return list[:0]
}

// intern returns string(b), without an allocation if b was among the recent ids.
func (d *JSON) intern(b []byte) string {
	if len(b) > internBytes {
		return string(b)
	}
	slot := &d.recent[maphash.Bytes(d.seed, b)%internSlots]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}
