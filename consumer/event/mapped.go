package event

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Record is what an event may be made of.
type Record struct {
	Value []byte // nil for a tombstone
	Key   []byte // nil for none
	// as in a record of the protocol: their number, then each name and value behind its length, all as varints; empty
	// for none
	Headers []byte
	Time    int64 // the record's time stamp in milliseconds since 1970, negative for none
}

// Mapped decodes the records of topics that were not made for a schema: it makes of a record the JSON object that the
// schema asks for, by a Mapping, and lets a JSON decode that. It is not safe for concurrent use.
type Mapped struct {
	json    *JSON
	mapping *Mapping
	fields  []mappedField
	when    []asked
	op      int // slot of a Debezium envelope's operation
	spec    int // slot of specversion in a structured CloudEvent

	// Of a Debezium envelope: see debezium.go.
	payloadSlot int
	schemaSlot  int
	schemaText  []byte // of schema
	schema      connectSchema
	texts       []textMember
	inText      bool   // what is read is an object that was text
	ofText      []bool // by slot: the value was in such an object

	value    [2]*member // paths into the value; the second of a structured CloudEvent
	key      *member
	slots    [][]byte // values found, by slot; nil for none
	stamp    []byte
	flat     []byte
	unquoted []byte
	missing  *Missing
}

// maxConditionShown bounds what a rejection says of a condition.
const maxConditionShown = 80

// place is where a source is: a slot, or what is not in JSON.
type place struct {
	source *Source
	slot   int // -1 for what is no JSON
	scale  int // of a DECIMAL, noScale where the mapping gives none
}

// asked is the place of a condition, and whether the mapping takes text there for a number.
type asked struct {
	place
	asNumber bool
}

type mappedField struct {
	givenField
	place
	constant []byte // JSON
	isNumber bool
	asNumber bool
	tallied  int // index in Missing, -1 for fields without an entry
}

// member is a member of an object that is asked for, or leads to one.
type member struct {
	slot    int // -1 for none
	members map[string]*member
}

// Missing counts, for decoders of one mapping together, the events that have nothing where the mapping says that a
// field is.
type Missing struct {
	Fields []string // of the mapping that have a path
	Events atomic.Int64
	counts []atomic.Int64
}

// NewMissing counts for a mapping.
func NewMissing(m *Mapping) *Missing {
	t := new(Missing)
	for i := range m.Fields {
		if !m.Fields[i].From.IsZero() {
			t.Fields = append(t.Fields, m.Fields[i].Name)
		}
	}
	t.counts = make([]atomic.Int64, len(t.Fields))
	return t
}

// Count returns how many of the events lacked the i-th of Fields.
func (t *Missing) Count(i int) int64 { return t.counts[i].Load() }

// NewMapped returns a decoder of records. The mapping must be valid for the schema; missing, if not nil, counts for it.
func NewMapped(s Schema, l Limits, m *Mapping, missing *Missing) *Mapped {
	d := &Mapped{json: NewJSON(s, l), mapping: m, op: -1, spec: -1, payloadSlot: -1, schemaSlot: -1,
		key: newMember(), value: [2]*member{newMember(), newMember()}, missing: missing}
	for _, g := range s.given() {
		f := mappedField{givenField: g, tallied: -1, isNumber: s.isNumber(g.role), place: place{scale: noScale}}
		own := Source{path: []string{g.name}} // without an entry
		if m.Envelope == Debezium {
			own.path = []string{"after", g.name}
		}
		f.source = &own
		if i := slices.IndexFunc(m.Fields, func(e MappedField) bool { return e.Name == g.name }); i >= 0 {
			e := &m.Fields[i]
			f.source, f.asNumber = &e.From, e.AsNumber
			if e.IsDecimal {
				f.scale, f.isNumber = e.Scale, true
			}
			if e.From.IsZero() {
				f.constant = appendText(nil, []byte(e.Constant), f.isNumber)
			} else if missing != nil {
				f.tallied = slices.Index(missing.Fields, g.name)
			}
		}
		if f.constant == nil {
			scale := f.scale
			f.place = d.place(f.source)
			f.scale = scale
		}
		d.fields = append(d.fields, f)
	}
	for i := range m.When {
		at := d.place(&m.When[i].of)
		for _, f := range d.fields {
			if f.slot == at.slot && at.slot >= 0 {
				at.scale = min(at.scale, f.scale) // one that is given
			}
		}
		d.when = append(d.when, asked{at, slices.ContainsFunc(d.fields, func(f mappedField) bool {
			return f.asNumber && at.slot >= 0 && f.slot == at.slot
		})})
	}
	switch m.Envelope {
	case Debezium:
		d.op = d.place(&Source{path: []string{"op"}}).slot
		d.payloadSlot, d.schemaSlot = d.root("payload"), d.root("schema")
		d.ofText = make([]bool, len(d.slots))
	case CloudEvents:
		d.spec = d.slot()
		d.value[1].add(d.spec, "specversion")
	}
	return d
}

func newMember() *member { return &member{slot: -1, members: make(map[string]*member)} }

// add says which slot a path leads to.
func (m *member) add(slot int, path ...string) {
	for _, name := range path {
		if m.members[name] == nil {
			m.members[name] = newMember()
		}
		m = m.members[name]
	}
	m.slot = slot
}

// at returns the slot of a path, -1 if it has none yet.
func (m *member) at(path ...string) int {
	for _, name := range path {
		if m = m.members[name]; m == nil {
			return -1
		}
	}
	return m.slot
}

func (d *Mapped) slot() int {
	d.slots = append(d.slots, nil)
	return len(d.slots) - 1
}

// root returns the slot of a member of the value, which the envelope has around the payload.
func (d *Mapped) root(name string) int {
	if slot := d.value[0].at(name); slot >= 0 {
		return slot
	}
	slot := d.slot()
	d.value[0].add(slot, name)
	return slot
}

// place gives a source a slot, or that of an equal one.
func (d *Mapped) place(s *Source) place {
	at, behind := d.value[0], []string(nil)
	path := s.path
	switch s.kind {
	case fromValue:
		if d.mapping.Envelope == CloudEvents {
			behind = []string{"data"}
		}
	case fromKey:
		at = d.key
	case fromAttribute: // of a structured event, in the value; else it is a header
		if slot := d.value[1].at(s.name); slot >= 0 {
			return place{s, slot, noScale}
		}
		slot := d.slot()
		d.value[1].add(slot, s.name)
		return place{s, slot, noScale}
	default:
		return place{s, -1, noScale}
	}
	if slot := at.at(path...); slot >= 0 {
		return place{s, slot, noScale}
	}
	slot := d.slot()
	at.add(slot, path...)
	switch {
	case s.kind == fromKey:
	case behind != nil:
		d.value[1].add(slot, append(behind, path...)...)
	case d.mapping.Envelope == Debezium:
		at.add(slot, append([]string{"payload"}, path...)...)
	}
	return place{s, slot, noScale}
}

// Decode implements Decoder for a value that has no key and no headers, as in a file.
func (d *Mapped) Decode(ev *Event, value []byte, recordTime int64) *Rejection {
	return d.DecodeRecord(ev, &Record{Value: value, Time: recordTime})
}

// DecodeRecord stores the event of a record in ev and returns nil, or returns why it is none: Filtered, RemovalRequest,
// or one of the reasons of Decode.
func (d *Mapped) DecodeRecord(ev *Event, r *Record) *Rejection {
	flat, rejection := d.Flatten(r)
	if rejection != nil {
		return rejection
	}
	if rejection = d.json.Decode(ev, flat, r.Time); rejection != nil {
		d.explainDecimal(rejection)
	}
	return rejection
}

// explainDecimal says of a number that came as text how a DECIMAL without its scale is read, if it may be one.
func (d *Mapped) explainDecimal(r *Rejection) {
	if d.mapping.Envelope != Debezium || r.Reason != WrongType {
		return
	}
	for i := range d.fields {
		if f := &d.fields[i]; f.name == r.Field && f.isNumber && f.slot >= 0 && isUnscaled(d.slots[f.slot]) {
			r.Expected += fmt.Sprintf(
				"; a DECIMAL in base64 needs its scale: input.mapping.fields: [{name: %s, path: %s, as: decimal:2}]",
				f.name,
				strings.Join(f.source.path, "."),
			)
		}
	}
}

// Flatten returns the JSON object that a record is decoded as, valid until the next call, or why it is none.
func (d *Mapped) Flatten(r *Record) ([]byte, *Rejection) {
	clear(d.slots)
	clear(d.ofText)
	d.texts = d.texts[:0]
	j := d.json
	switch {
	case r.Value == nil && d.mapping.Envelope == Debezium:
		return nil, removal("a tombstone")
	case r.Value == nil:
		return nil, j.rejection(NullValue)
	case len(r.Value) > j.limits.MaxEventBytes:
		return nil, j.rejection(TooLarge)
	case !utf8.Valid(r.Value):
		return nil, j.rejection(NotUTF8)
	}
	root := d.value[0]
	if d.mapping.Envelope == CloudEvents && header(r.Headers, "ce_specversion") == nil {
		root = d.value[1]
	}
	if rejection := d.read(r.Value, root); rejection != nil {
		return nil, rejection
	}
	if rejection := d.readTexts(); rejection != nil {
		return nil, rejection
	}
	if len(d.key.members) > 0 && utf8.Valid(r.Key) {
		_ = d.read(r.Key, d.key) // a key that is no JSON has no members: its fields are missing
	}
	rejection := d.enveloped(root)
	if rejection != nil && rejection.Reason != RemovalRequest {
		return nil, rejection
	}
	for i := range d.when {
		c := &d.mapping.When[i]
		if rejection != nil && c.of.kind == fromValue && c.of.path[0] == "after" {
			continue // which a row that was deleted does not have
		}
		raw, isText := d.at(&d.when[i].place, r)
		if d.when[i].asNumber && !isText && len(raw) > 0 && raw[0] == '"' {
			d.unquoted, _ = jsontext.AppendUnquote(d.unquoted[:0], raw) // it was read as JSON
			raw, isText = d.unquoted, true
		}
		if !c.holds(raw, isText) {
			text := strings.ToValidUTF8(c.text[:min(len(c.text), maxConditionShown)], "")
			return nil, &Rejection{
				Reason:   Filtered,
				Expected: "input.mapping.when: " + text,
				Got:      filteredKind(raw, isText),
			}
		}
	}
	if rejection != nil {
		return nil, rejection
	}
	return d.object(r)
}

// enveloped says what an envelope without an event is.
func (d *Mapped) enveloped(root *member) *Rejection {
	if d.spec >= 0 && root == d.value[1] && isNone(d.slots[d.spec]) {
		return &Rejection{
			Reason:   MissingField,
			Field:    "specversion",
			Expected: "a CloudEvent: ce_ headers, or its attributes and data in JSON",
			Got:      "neither",
		}
	}
	if d.op < 0 {
		return nil
	}
	if d.slots[d.op] == nil && string(d.slots[d.payloadSlot]) == "null" {
		return removal("a tombstone")
	}
	switch op := d.slots[d.op]; string(op) {
	case `"c"`, `"u"`, `"r"`:
		return nil
	case `"d"`:
		return removal("one of a row that was deleted")
	case "", "null":
		return &Rejection{Reason: MissingField, Field: "op", Expected: "a Debezium envelope, with op", Got: "nothing"}
	}
	return &Rejection{Reason: Filtered, Expected: "a change of a row: op c, u or r", Got: "another"}
}

// filteredKind names the type of a value for which a condition does not hold.
func filteredKind(raw []byte, isText bool) string {
	switch {
	case raw == nil:
		return "nothing"
	case isText:
		return "another string"
	}
	kind := jsontext.Value(raw).Kind()
	if kind == '"' || kind == '0' {
		return "another " + kindNoun(kind)
	}
	return kindName(kind)
}

func removal(what string) *Rejection {
	return &Rejection{Reason: RemovalRequest, Expected: "an event", Got: what}
}

// object makes the object of the schema's fields.
func (d *Mapped) object(r *Record) ([]byte, *Rejection) {
	if d.missing != nil {
		d.missing.Events.Add(1)
	}
	d.flat = append(d.flat[:0], '{')
	for i := range d.fields {
		f := &d.fields[i]
		raw, isText := f.constant, false
		if raw == nil {
			if raw, isText = d.at(&f.place, r); isText && !utf8.Valid(raw) {
				return nil, d.json.rejection(NotUTF8)
			}
		}
		if f.asNumber {
			raw, isText = d.asNumber(raw, isText)
		}
		if isNone(raw) {
			if f.tallied >= 0 {
				d.missing.counts[f.tallied].Add(1)
			}
			continue
		}
		if len(d.flat) > 1 {
			d.flat = append(d.flat, ',')
		}
		d.flat, _ = jsontext.AppendQuote(d.flat, f.name) // the schema's names are UTF-8
		d.flat = append(d.flat, ':')
		switch {
		case isText:
			d.flat = appendText(d.flat, raw, f.isNumber || f.asNumber)
		default:
			d.flat = append(d.flat, raw...)
		}
	}
	d.flat = append(d.flat, '}')
	return d.flat, nil
}

// asNumber returns the number of a value that may be text: 1 and 0 for true and false. Empty text and NaN give
// nothing: writers of text use them for a missing number. Other text is returned without its quotes.
func (d *Mapped) asNumber(raw []byte, isText bool) ([]byte, bool) {
	if !isText {
		switch {
		case string(raw) == "true":
			return []byte("1"), false
		case string(raw) == "false":
			return []byte("0"), false
		case len(raw) == 0 || raw[0] != '"':
			return raw, false
		}
		d.unquoted, _ = jsontext.AppendUnquote(d.unquoted[:0], raw) // it was read as JSON
		raw = d.unquoted
	}
	if len(raw) == 0 || bytes.EqualFold(raw, []byte("nan")) {
		return nil, false
	}
	return raw, true
}

// isNone reports whether there is no value, or null.
func isNone(raw []byte) bool { return raw == nil || string(raw) == "null" }

// appendText appends text as JSON: as the number that it is, where a number is asked for.
func appendText(dst, text []byte, isNumber bool) []byte {
	if isNumber && len(text) > 0 && numberEnd(text, 0) == len(text) {
		return append(dst, text...)
	}
	dst, _ = jsontext.AppendQuote(dst, text) // it is UTF-8
	return dst
}

// at returns the value at a place, nil if it is missing, and whether that is text rather than JSON.
func (d *Mapped) at(p *place, r *Record) (raw []byte, isText bool) {
	if p.slot >= 0 && (d.slots[p.slot] != nil || p.source.kind != fromAttribute) {
		if d.mapping.Envelope == Debezium {
			return d.meant(p, d.slots[p.slot])
		}
		return d.slots[p.slot], false
	}
	switch p.source.kind {
	case fromHeader:
		return header(r.Headers, p.source.name), true
	case fromAttribute:
		return header(r.Headers, "ce_"+p.source.name), true
	case fromWholeKey:
		return r.Key, true
	}
	if r.Time < 0 {
		return nil, false
	}
	d.stamp = strconv.AppendInt(d.stamp[:0], stampIn(r.Time, d.json.schema.TimeUnit), 10)
	return d.stamp, false
}

// stampIn turns milliseconds into a unit of the schema, whole seconds where that is it.
func stampIn(ms int64, unit string) int64 {
	switch unit {
	case "s":
		return ms / 1000
	case "us":
		return ms * 1000
	case "ns":
		return ms * 1e6
	}
	return ms
}

// header returns the value of the last header of a name, nil if no header has the name.
func header(headers []byte, name string) (value []byte) {
	field := func() (b []byte, ok bool) {
		size, n := binary.Varint(headers)
		if n <= 0 || size > int64(len(headers)-n) {
			return nil, false
		}
		if headers = headers[n:]; size < 0 {
			return nil, true
		}
		b, headers = headers[:size:size], headers[size:]
		return b, true
	}
	count, n := binary.Varint(headers)
	if n <= 0 {
		return nil
	}
	headers = headers[n:]
	for range count {
		key, ok := field()
		v, also := field()
		if !ok || !also {
			return value
		}
		if string(key) == name {
			value = v
		}
	}
	return value
}

// read finds what is asked for in an object.
func (d *Mapped) read(value []byte, root *member) *Rejection {
	j := d.json
	j.src = *bytes.NewBuffer(value)
	j.json.Reset(&j.src, HalfPairs)
	p := parse{d: j}
	kind := j.json.PeekKind()
	if kind != '{' {
		if r := p.skip(kind); r != "" {
			return j.rejection(r)
		}
		return NoObject(kind)
	}
	if r := d.members(&p, value, root); r != "" {
		return j.rejection(r)
	}
	for _, c := range value[j.json.InputOffset():] {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return j.rejection(TrailingData)
		}
	}
	return nil
}

// members reads an object that has what is asked for, or leads to it.
func (d *Mapped) members(p *parse, value []byte, at *member) Reason {
	dec := p.d.json
	if _, err := dec.ReadToken(); err != nil {
		return syntaxReason(err)
	}
	if dec.StackDepth() > p.d.limits.MaxDepth {
		return TooDeep
	}
	for n := 1; dec.PeekKind() != '}'; n++ {
		name, err := dec.ReadValue()
		if err != nil {
			return syntaxReason(err)
		}
		if n > p.d.names {
			return TooLarge
		}
		next := at.members[string(p.unquote(name))]
		kind := dec.PeekKind() // of the value, which begins behind the colon
		start := dec.InputOffset()
		var r Reason
		if next != nil && kind == '{' && len(next.members) > 0 {
			r = d.members(p, value, next)
		} else {
			r = p.skip(kind)
		}
		if r != "" {
			return r
		}
		if next == nil {
			continue
		}
		raw := bytes.TrimLeft(value[start:dec.InputOffset()], ": \t\r\n")
		if next.slot >= 0 {
			d.slots[next.slot] = raw
			if d.inText {
				d.ofText[next.slot] = true
			}
		}
		if kind == '"' && len(next.members) > 0 && d.mapping.Envelope == Debezium && !d.inText {
			d.texts = append(d.texts, textMember{raw, next})
		}
	}
	_, err := dec.ReadToken()
	return syntaxReason(err)
}
