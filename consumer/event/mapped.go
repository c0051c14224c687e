package event

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event/framing"
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

// Mapped decodes records by a Mapping and a format: what is asked for is found in a record, of whichever format, and
// put into the event. It is not safe for concurrent use.
type Mapped struct {
	json    *JSON // which checks the fields, and reads records that are JSON
	mapping *Mapping
	fields  []mappedField
	when    []asked
	op      int // slot of a Debezium envelope's operation
	spec    int // slot of specversion in a structured CloudEvent

	payloadSlot int        // of a Debezium envelope
	inline      []inline   // schemas within values and keys
	says        []Logical  // the JSON Schema of the value at hand
	value       [2]*Member // paths into the value; the second of a structured CloudEvent
	key         *Member
	slots       Slots // what was found
	unquoted    []byte
	missing     *Missing
	reading     reading
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
	constant []byte // text
	to       *field
	isSlot   bool // what a slot has is what it is
	isNumber bool
	asNumber bool
	tallied  int // index in Missing, -1 for fields without an entry
}

// NewMapped returns a decoder of records. The mapping must be valid for the schema; missing, if not nil, counts for it.
func NewMapped(s Schema, l Limits, m *Mapping, missing *Missing) *Mapped {
	d := &Mapped{json: NewJSON(s, l), mapping: m, op: -1, spec: -1, payloadSlot: -1,
		key: newMember(), value: [2]*Member{newMember(), newMember()}, missing: missing}
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
				f.constant = []byte(e.Constant)
			} else if missing != nil {
				f.tallied = slices.Index(missing.Fields, g.name)
			}
		}
		if f.constant == nil {
			scale := f.scale
			f.place = d.place(f.source)
			f.scale = scale
		}
		f.isSlot = f.slot >= 0 && f.constant == nil && f.source.kind != fromAttribute && m.Envelope != Debezium
		f.to = d.json.fields[g.name]
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
	d.slots.maxList = l.MaxMulti
	switch m.Envelope {
	case Debezium:
		d.op = d.place(&Source{path: []string{"op"}}).slot
		d.payloadSlot = d.root("payload")
	case CloudEvents:
		d.spec = d.slot()
		d.value[1].add(d.spec, "specversion")
	}
	for _, root := range []*Member{d.value[0], d.value[1], d.key} {
		d.addInline(root)
	}
	if m.Envelope == Debezium {
		d.slots.ofText = make([]bool, len(d.slots.values))
	}
	return d
}

func (d *Mapped) slot() int {
	d.slots.values = append(d.slots.values, Value{})
	return len(d.slots.values) - 1
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
		if d.mapping.Envelope == Debezium {
			at.add(slot, append([]string{"payload"}, path...)...)
		}
	case behind != nil:
		d.value[1].add(slot, append(behind, path...)...)
	case d.mapping.Envelope == Debezium:
		at.add(slot, append([]string{"payload"}, path...)...)
	}
	return place{s, slot, noScale}
}

// Decode implements Decoder for a value that has no key and no headers, as in a file.
func (d *Mapped) Decode(ev *Event, value []byte, recordTime int64) *Rejection {
	rejection, _ := d.DecodeRecord(ev, &Record{Value: value, Time: recordTime})
	return rejection
}

// DecodeRecord stores the event of a record in ev and returns nil, or returns why it is none: Filtered, RemovalRequest,
// or one of the reasons of Decode. A record whose schema is not known yet is neither: it waits.
func (d *Mapped) DecodeRecord(ev *Event, r *Record) (*Rejection, *Wait) {
	return d.decode(ev, r, false)
}

// BorrowRecord is DecodeRecord for events that are stored and not learned. Names of ev may alias the record: they must
// not be read any more once its bytes change.
func (d *Mapped) BorrowRecord(ev *Event, r *Record) (*Rejection, *Wait) { return d.decode(ev, r, true) }

func (d *Mapped) decode(ev *Event, r *Record, borrows bool) (*Rejection, *Wait) {
	rejection, wait := d.find(r)
	if rejection != nil || wait != nil {
		return rejection, wait
	}
	if rejection = d.fill(ev, r, borrows); rejection != nil {
		d.explainDecimal(rejection)
	}
	return rejection, nil
}

// Show returns what a record has for the fields of the schema, as a JSON object for people to read, or why it is no
// event, or what it waits for.
func (d *Mapped) Show(r *Record) ([]byte, *Rejection, *Wait) {
	if rejection, wait := d.find(r); rejection != nil || wait != nil {
		return nil, rejection, wait
	}
	out := []byte{'{'}
	for i := range d.fields {
		var v Value
		rejection := d.field(&v, &d.fields[i], r)
		switch {
		case rejection != nil:
			return nil, rejection, nil
		case v.isNone():
			continue
		case len(out) > 1:
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, d.fields[i].name) // the schema's names are UTF-8
		out = d.slots.appendJSON(append(out, ':'), &v)
	}
	return append(out, '}'), nil, nil
}

// explainDecimal says of a number that came as text how a DECIMAL without its scale is read, if it may be one.
func (d *Mapped) explainDecimal(r *Rejection) {
	if d.mapping.Envelope != Debezium || r.Reason != WrongType {
		return
	}
	for i := range d.fields {
		if f := &d.fields[i]; f.name == r.Field && f.isNumber && f.slot >= 0 && d.isUnscaled(&d.slots.values[f.slot]) {
			r.Expected += fmt.Sprintf(
				"; a DECIMAL in base64 needs its scale: input.mapping.fields: [{name: %s, path: %s, as: decimal:2}]",
				f.name, strings.Join(f.source.path, "."))
		}
	}
}

// find finds what is asked of a record, or returns why it is no event, or what it waits for.
func (d *Mapped) find(r *Record) (*Rejection, *Wait) {
	d.slots.reset()
	d.reading.isFirst = false
	j := d.json
	switch {
	case r.Value == nil && d.mapping.Envelope == Debezium:
		return removal("a tombstone"), nil
	case r.Value == nil:
		return j.rejection(NullValue), nil
	case len(r.Value) > j.limits.MaxEventBytes:
		return j.rejection(TooLarge), nil
	}
	root := d.value[0]
	if d.mapping.Envelope == CloudEvents && framing.HeaderOf(r.Headers, "ce_specversion") == nil {
		root = d.value[1]
	}
	rejection, wait := d.readAny(d.reading.Format, r.Value, r.Headers, false, root)
	if rejection != nil || wait != nil {
		return rejection, wait
	}
	if rejection := d.readTexts(); rejection != nil {
		d.judgeFirst(nil)
		return rejection, nil
	}
	if d.key.Leads() && len(r.Key) > 0 {
		// A key that is not of its format has no members: its fields are missing.
		if _, wait := d.readAny(d.reading.Key, r.Key, r.Headers, true, d.key); wait != nil {
			return nil, wait
		}
	}
	rejection = d.chosen(root, r)
	d.judgeFirst(rejection)
	return rejection, nil
}

// readAny finds what is asked for in a value or a key of a format.
func (d *Mapped) readAny(format string, value, headers []byte, isKey bool, root *Member) (*Rejection, *Wait) {
	d.says = nil
	if format != "" && format != FormatJSON {
		object, rejection, wait := d.framed(format, value, headers, isKey, root)
		if rejection != nil || wait != nil || object == nil {
			return rejection, wait
		}
		value = object
	} else {
		d.reading.note(FormatJSON, isKey)
	}
	if !utf8.Valid(value) {
		return d.json.rejection(NotUTF8), nil
	}
	if rejection := d.read(value, root); rejection != nil {
		return rejection, nil
	}
	d.interpret(d.says)
	d.readInline(root)
	return nil, nil
}

// chosen returns why what was found is no event by the envelope and the conditions.
func (d *Mapped) chosen(root *Member, r *Record) *Rejection {
	rejection := d.enveloped(root)
	if rejection != nil && rejection.Reason != RemovalRequest {
		return rejection
	}
	for i := range d.when {
		c := &d.mapping.When[i]
		if rejection != nil && c.of.kind == fromValue && c.of.path[0] == "after" {
			continue // which a row that was deleted does not have
		}
		v := d.at(&d.when[i].place, r)
		if d.when[i].asNumber && v.kind == '"' && len(d.textOf(&v)) > 0 {
			v = plainValue(d.textOf(&v))
		}
		if !c.holds(&v) {
			text := strings.ToValidUTF8(c.text[:min(len(c.text), maxConditionShown)], "")
			return &Rejection{
				Reason:   Filtered,
				Expected: "input.mapping.when: " + text,
				Got:      filteredKind(&v),
			}
		}
	}
	return rejection
}

// enveloped says what an envelope without an event is.
func (d *Mapped) enveloped(root *Member) *Rejection {
	if d.spec >= 0 && root == d.value[1] && d.slots.values[d.spec].isNone() {
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
	op := &d.slots.values[d.op]
	if op.kind == 0 && d.slots.values[d.payloadSlot].kind == 'n' {
		return removal("a tombstone")
	}
	if op.isNone() {
		return &Rejection{Reason: MissingField, Field: "op", Expected: "a Debezium envelope, with op", Got: "nothing"}
	}
	if op.kind == '"' {
		switch string(d.textOf(op)) {
		case "c", "u", "r":
			return nil
		case "d":
			return removal("one of a row that was deleted")
		}
	}
	return &Rejection{Reason: Filtered, Expected: "a change of a row: op c, u or r", Got: "another"}
}

// filteredKind names the type of a value for which a condition does not hold.
func filteredKind(v *Value) string {
	switch v.kind {
	case 0:
		return "nothing"
	case '"', '0':
		return "another " + kindNoun(v.kind)
	}
	return kindName(v.kind)
}

func removal(what string) *Rejection {
	return &Rejection{Reason: RemovalRequest, Expected: "an event", Got: what}
}

// fill puts what was found into the event. Text that is not the record's own is never borrowed: the next record takes
// its place.
func (d *Mapped) fill(ev *Event, r *Record, borrows bool) *Rejection {
	if d.missing != nil {
		d.missing.Events.Add(1)
	}
	j := d.json
	j.prepare(ev, r.Time)
	j.turn++
	p := parse{d: j, ev: ev, recordTime: r.Time, borrowsText: borrows && len(d.slots.scratch) == 0}
	var other Value
	for i := range d.fields {
		f, v := &d.fields[i], &other
		if f.isSlot && !f.asNumber && d.slots.values[f.slot].form != formPlain {
			v = &d.slots.values[f.slot] // as field would leave it
		} else if rejection := d.field(v, f, r); rejection != nil {
			return rejection
		}
		if v.isNone() {
			if f.tallied >= 0 {
				d.missing.counts[f.tallied].Add(1)
			}
			continue
		}
		if f.to.turn = j.turn; v.kind != '[' && v.kind != '{' {
			p.scalars(f.to, v)
		} else if reason := p.put(f.to, v, &d.slots); reason != "" {
			return j.rejection(reason)
		}
	}
	return j.finish(&p)
}

// field makes v what a record has for a field.
func (d *Mapped) field(v *Value, f *mappedField, r *Record) *Rejection {
	switch {
	case f.isSlot:
		*v = d.slots.values[f.slot]
	case f.constant != nil:
		*v = plainValue(f.constant)
	default:
		*v = d.at(&f.place, r)
	}
	if v.form == formPlain && !utf8.Valid(v.raw) {
		return d.json.rejection(NotUTF8)
	}
	if f.asNumber {
		*v = d.asNumber(*v)
	}
	if f.isNumber || f.asNumber {
		v.numeric()
	}
	return nil
}

// asNumber returns the number of a value that may be text: 1 and 0 for true and false. Empty text and NaN give
// nothing: writers of text use them for a missing number. Other text stays what it is.
func (d *Mapped) asNumber(v Value) Value {
	switch v.kind {
	case 't':
		v.Whole(1, ModelUnit)
	case 'f':
		v.Whole(0, ModelUnit)
	case '"':
		text := d.textOf(&v)
		if len(text) == 0 || bytes.EqualFold(text, []byte("nan")) {
			return Value{}
		}
		return plainValue(text)
	}
	return v
}

// textOf returns the text of a string, valid until the next call.
func (d *Mapped) textOf(v *Value) []byte {
	if v.form != formJSON {
		return v.raw
	}
	d.unquoted, _ = jsontext.AppendUnquote(d.unquoted[:0], v.raw) // it was read as JSON
	return d.unquoted
}

// at returns the value at a place.
func (d *Mapped) at(p *place, r *Record) (v Value) {
	if p.slot >= 0 && (d.slots.values[p.slot].kind != 0 || p.source.kind != fromAttribute) {
		if v = d.slots.values[p.slot]; d.mapping.Envelope == Debezium {
			return d.meant(p, v)
		}
		return v
	}
	switch p.source.kind {
	case fromHeader:
		return plainValue(framing.HeaderOf(r.Headers, p.source.name))
	case fromAttribute:
		return plainValue(framing.HeaderOf(r.Headers, "ce_"+p.source.name))
	case fromWholeKey:
		return plainValue(r.Key)
	}
	if r.Time >= 0 {
		v.Whole(stampIn(r.Time, d.json.schema.TimeUnit), ModelUnit)
	}
	return v
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

// read finds what is asked for in an object.
func (d *Mapped) read(value []byte, root *Member) *Rejection {
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
func (d *Mapped) members(p *parse, value []byte, at *Member) Reason {
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
			d.slots.values[next.slot] = Value{kind: kind, raw: raw}
			if d.slots.inText {
				d.slots.ofText[next.slot] = true
			}
		}
		if kind == '"' && next.Leads() && d.mapping.Envelope == Debezium && !d.slots.inText {
			d.slots.texts = append(d.slots.texts, textMember{raw: raw, at: next})
		}
	}
	_, err := dec.ReadToken()
	return syntaxReason(err)
}
