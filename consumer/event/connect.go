package event

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Kafka Connect gives types of JSON and Avro a meaning by a name. Its JSON converter writes the schema around each
// value: {"schema": {"fields": [{"field": "at", "name": "io.debezium.time.MicroTimestamp", …}, …]},
// "payload": {"at": …, …}}. A Decimal is the unscaled number in base64 there, and the schema has its scale.

// ConnectDecimal is the name of a DECIMAL.
const ConnectDecimal = "org.apache.kafka.connect.data.Decimal"

// ConnectUnit returns the unit of a number that is a time by the name that Kafka Connect or Debezium gives its type,
// ModelUnit where the name says nothing of a time.
func ConnectUnit(name string) Unit {
	switch name {
	case "io.debezium.time.Date", "org.apache.kafka.connect.data.Date":
		return Days
	case "io.debezium.time.Timestamp", "org.apache.kafka.connect.data.Timestamp":
		return Milliseconds
	case "io.debezium.time.MicroTimestamp":
		return Microseconds
	case "io.debezium.time.NanoTimestamp":
		return Nanoseconds
	}
	return ModelUnit
}

// A Logical is what a schema says of the numbers, or the text, at a slot.
type Logical struct {
	Slot      int
	Unit      Unit // of a time; ModelUnit for none
	IsDecimal bool // text there is an unscaled number in base64
	Scale     int  // of that number
}

// inline is the schema that values may have next to their payload, with what the last one says.
type inline struct {
	root       *Member
	schemaSlot int
	payload    *Member
	text       []byte // of the schema that says
	says       []Logical
}

// addInline has schemas read wherever members of a payload are asked for.
func (d *Mapped) addInline(root *Member) {
	var walk func(m *Member)
	walk = func(m *Member) {
		if payload := m.Member("payload"); payload.Leads() {
			if m.Member("schema").Slot() < 0 {
				m.add(d.slot(), "schema")
			}
			d.inline = append(d.inline, inline{root: root, schemaSlot: m.Member("schema").Slot(), payload: payload})
		}
		for _, name := range m.Names() {
			walk(m.Member(name))
		}
	}
	walk(root)
}

// readInline gives what was found by root the meaning that a schema within the value says. Schemas are alike from
// record to record: the last one is kept.
func (d *Mapped) readInline(root *Member) {
	for i := range d.inline {
		in := &d.inline[i]
		v := &d.slots.values[in.schemaSlot]
		if in.root != root || v.kind != '{' || v.form != formJSON {
			continue
		}
		if !bytes.Equal(v.raw, in.text) {
			var schema connectSchema
			_ = json.Unmarshal(v.raw, &schema) // one of another form says nothing
			in.text, in.says = append(in.text[:0], v.raw...), schema.logicals(in.says[:0], in.payload)
		}
		d.interpret(in.says)
	}
}

// interpret makes values of JSON what a schema says that they are.
func (d *Mapped) interpret(says []Logical) {
	for _, l := range says {
		v := &d.slots.values[l.Slot]
		switch {
		case v.form != formJSON:
		case v.kind == '0':
			v.unit = l.Unit
		case v.kind == '"' && l.IsDecimal:
			if text, ok := decimalText(nil, d.textOf(v), l.Scale); ok {
				*v = plainValue(text)
			}
		}
	}
}

// logicalsOf returns what the leaves of a schema say of what is asked for.
func logicalsOf(leaves []Leaf, root *Member) (list []Logical) {
	for _, l := range leaves {
		slot := root.at(l.Path...)
		if slot >= 0 && (l.Unit != ModelUnit || l.Kind == LeafDecimal) {
			list = append(list, Logical{Slot: slot, Unit: l.Unit, IsDecimal: l.Kind == LeafDecimal, Scale: l.Scale})
		}
	}
	return list
}

// connectSchema is what is read of a schema of Kafka Connect.
type connectSchema struct {
	Field      string
	Name       string
	Parameters struct{ Scale string }
	Fields     []connectSchema
}

// logicals appends what the schema says of what is asked for.
func (s *connectSchema) logicals(list []Logical, at *Member) []Logical {
	if slot := at.Slot(); slot >= 0 {
		if s.Name == ConnectDecimal {
			if scale, err := strconv.Atoi(s.Parameters.Scale); err == nil {
				list = append(list, Logical{Slot: slot, IsDecimal: true, Scale: scale})
			}
		} else if unit := ConnectUnit(s.Name); unit != ModelUnit {
			list = append(list, Logical{Slot: slot, Unit: unit})
		}
	}
	for i := range s.Fields {
		if next := at.Member(s.Fields[i].Field); next != nil {
			list = s.Fields[i].logicals(list, next)
		}
	}
	return list
}
