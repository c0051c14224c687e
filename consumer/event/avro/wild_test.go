package avro

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// wild makes random schemas of writers, what readers made of them, and values.
type wild struct {
	r     *rand.Rand
	names int
	named []*wildType // by which a schema may refer to them, those around the one that is made among them
}

// wildType is a type of a schema. Types with a name are the same where they are the same type.
type wildType struct {
	kind    string // of Avro, or one of logicals
	name    string
	aliases []string
	fields  []wildField
	of      []*wildType // of a list, of a map, or of a union
	symbols []string
	other   string // the default of an enum
	size    int    // of a fixed; the scale of a decimal
}

// wildField is a field of a record.
type wildField struct {
	name    string
	aliases []string
	def     string // JSON, "" for none
	of      *wildType
}

// logicals are the types with a logical type, and what they are written as.
var logicals = map[string]string{
	"date": `"int"`, "time-millis": `"int"`, "time-micros": `"long"`, "timestamp-millis": `"long"`,
	"timestamp-micros": `"long"`, "timestamp-nanos": `"long"`, "local-timestamp-millis": `"long"`,
	"local-timestamp-micros": `"long"`, "local-timestamp-nanos": `"long"`, "uuid": `"string"`, "decimal": `"bytes"`,
}

var wildKinds = append([]string{"null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum",
	"duration", "fixed-decimal", "fixed-uuid"}, slices.Sorted(func(yield func(string) bool) {
	for name := range logicals {
		if !yield(name) {
			return
		}
	}
})...)

// name returns a new name.
func (w *wild) name(prefix string) string {
	w.names++
	return fmt.Sprint(prefix, w.names)
}

func (w *wild) one(n int) bool { return w.r.IntN(n) == 0 }

// make returns a type. Records are in records, themselves too, behind a union with null or in a list.
func (w *wild) make(depth int) *wildType {
	n := w.r.IntN(12)
	if depth <= 0 {
		n = 11
	}
	t := new(wildType)
	switch {
	case n < 2:
		return w.record(depth)
	case n == 2:
		t.kind, t.of = "array", []*wildType{w.make(depth - 1)}
	case n == 3:
		t.kind, t.of = "map", []*wildType{w.make(depth - 1)}
	case n < 7:
		t.kind = "union"
		has := map[string]bool{}
		for range 1 + w.r.IntN(4) {
			b := w.make(depth - 1)
			if w.one(2) && !has["null"] {
				b = &wildType{kind: "null"}
			}
			if key := b.key(); b.kind != "union" && !has[key] {
				has[key] = true
				t.of = append(t.of, b)
			}
		}
		if len(t.of) == 0 {
			t.of = []*wildType{{kind: "null"}, {kind: "string"}}
		}
	case n == 7 && len(w.named) > 0:
		again := w.named[w.r.IntN(len(w.named))]
		if again.kind != "record" {
			return again
		}
		t.kind, t.of = "union", []*wildType{{kind: "null"}, again} // it may be around this one
	default:
		t.kind = wildKinds[w.r.IntN(len(wildKinds))]
		switch t.kind {
		case "fixed", "enum", "duration", "fixed-decimal", "fixed-uuid":
			t.name, t.size = w.name("n."+string("ab"[w.r.IntN(2)])+".N"), w.r.IntN(9)+1
			for i := range 1 + w.r.IntN(4) {
				t.symbols = append(t.symbols, fmt.Sprint("S", i))
			}
			if t.other = ""; w.one(2) {
				t.other = t.symbols[w.r.IntN(len(t.symbols))]
			}
			w.named = append(w.named, t)
		case "decimal":
			t.size = w.r.IntN(4)
		}
	}
	return t
}

func (w *wild) record(depth int) *wildType {
	t := &wildType{kind: "record", name: w.name([]string{"R", "n.a.R", "n.b.R"}[w.r.IntN(3)])}
	w.named = append(w.named, t)
	for range 1 + w.r.IntN(5) {
		t.fields = append(t.fields, wildField{name: w.name("f"), of: w.make(depth - 1)})
	}
	return t
}

// key is the same for two types that a union cannot have together.
func (t *wildType) key() string {
	switch {
	case t.name != "":
		return t.name
	case logicals[t.kind] != "":
		return strings.Trim(logicals[t.kind], `"`)
	}
	return t.kind
}

// text returns the schema. A type that is known is named, by its short name where the namespace around it is its own.
func (w *wild) text(t *wildType, space string, known map[*wildType]bool) string {
	ownSpace, short := "", t.name
	if i := strings.LastIndexByte(t.name, '.'); i >= 0 {
		ownSpace, short = t.name[:i], t.name[i+1:]
	}
	if t.name != "" && known[t] {
		if ownSpace == space && w.one(2) {
			return strconv.Quote(short)
		}
		return strconv.Quote(t.name)
	}
	head := ""
	if t.name != "" {
		known[t] = true
		head = fmt.Sprintf(`"name":%q,"namespace":%q`, short, ownSpace)
		if ownSpace == space && space != "" && w.one(2) { // inherited
			head = fmt.Sprintf(`"name":%q`, short)
		} else if ownSpace != "" && w.one(2) {
			head = fmt.Sprintf(`"name":%q`, t.name)
		}
		if len(t.aliases) > 0 {
			head += `,"aliases":["` + strings.Join(t.aliases, `","`) + `"]`
		}
	}
	switch t.kind {
	case "record":
		var fields []string
		for _, f := range t.fields {
			one := fmt.Sprintf(`{"name":%q,"type":%s`, f.name, w.text(f.of, ownSpace, known))
			if f.def != "" {
				one += `,"default":` + f.def
			}
			if len(f.aliases) > 0 {
				one += `,"aliases":["` + strings.Join(f.aliases, `","`) + `"]`
			}
			fields = append(fields, one+"}")
		}
		return `{"type":"record",` + head + `,"fields":[` + strings.Join(fields, ",") + `]}`
	case "union":
		var list []string
		for _, b := range t.of {
			list = append(list, w.text(b, space, known))
		}
		return "[" + strings.Join(list, ",") + "]"
	case "array":
		return `{"type":"array","items":` + w.text(t.of[0], space, known) + `}`
	case "map":
		return `{"type":"map","values":` + w.text(t.of[0], space, known) + `}`
	case "enum":
		if t.other != "" {
			head += fmt.Sprintf(`,"default":%q`, t.other)
		}
		return `{"type":"enum",` + head + `,"symbols":["` + strings.Join(t.symbols, `","`) + `"]}`
	case "fixed":
		return fmt.Sprintf(`{"type":"fixed",%s,"size":%d}`, head, t.size)
	case "duration":
		return `{"type":"fixed",` + head + `,"size":12,"logicalType":"duration"}`
	case "fixed-uuid":
		return `{"type":"fixed",` + head + `,"size":16,"logicalType":"uuid"}`
	case "fixed-decimal":
		return fmt.Sprintf(`{"type":"fixed",%s,"size":%d,"logicalType":"decimal","precision":2,"scale":%d}`, head, t.size,
			t.size%3)
	case "decimal":
		return fmt.Sprintf(`{"type":"bytes","logicalType":"decimal","precision":9,"scale":%d}`, t.size)
	}
	if as := logicals[t.kind]; as != "" {
		return fmt.Sprintf(`{"type":%s,"logicalType":%q}`, as, t.kind)
	}
	return strconv.Quote(t.kind)
}

// value appends a value of a type. Lists are in blocks of either form.
func (w *wild) value(b []byte, t *wildType, depth int) []byte {
	long := func(n int64) []byte { return binary.AppendVarint(b, n) }
	sized := func(s string) []byte { return append(long(int64(len(s))), s...) }
	of := func(unit int64) []byte { return long((1_600_000_000+w.r.Int64N(1e8))*unit + w.r.Int64N(unit)) }
	switch t.kind {
	case "null":
		return b
	case "boolean":
		return append(b, byte(w.r.IntN(2)))
	case "int":
		return long(int64(int32(w.r.Uint32()) >> w.r.IntN(32)))
	case "long":
		return long(int64(w.r.Uint64()) >> w.r.IntN(64))
	case "float":
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(w.r.NormFloat64())))
	case "double":
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(w.r.NormFloat64()*100))
	case "string":
		return sized(w.word())
	case "uuid":
		return sized(fmt.Sprintf("00000000-0000-4000-8000-%012d", w.r.IntN(1e9)))
	case "bytes":
		return sized(w.word()) // a reader may take it for text
	case "decimal":
		return sized(string(w.bytes(1 + w.r.IntN(4))))
	case "fixed":
		return append(b, w.bytes(t.size)...)
	case "duration":
		return append(b, w.bytes(12)...)
	case "fixed-uuid":
		return append(b, w.bytes(16)...)
	case "fixed-decimal":
		return append(append(b, make([]byte, t.size-1)...), byte(w.r.IntN(100)))
	case "enum":
		return long(w.r.Int64N(int64(len(t.symbols))))
	case "date":
		return long(15_000 + w.r.Int64N(5000))
	case "time-millis":
		return long(w.r.Int64N(86_400_000))
	case "time-micros":
		return long(w.r.Int64N(86_400_000_000))
	case "timestamp-millis", "local-timestamp-millis":
		return of(1e3)
	case "timestamp-micros", "local-timestamp-micros":
		return of(1e6)
	case "timestamp-nanos", "local-timestamp-nanos":
		return of(1e9)
	case "record":
		for _, f := range t.fields {
			b = w.value(b, f.of, depth-1)
		}
		return b
	case "union":
		i := w.r.IntN(len(t.of))
		if null := slices.IndexFunc(t.of, func(t *wildType) bool { return t.kind == "null" }); depth < 0 && null >= 0 {
			i = null // else a record that has itself would have no end
		}
		return w.value(long(int64(i)), t.of[i], depth-1)
	}
	keys := []string{"k", "a.b", "é", "z y", "n"} // no map has one twice
	w.r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for n := w.r.IntN(3); n > 0 && depth > 0; n-- { // blocks of a list or a map
		var items []byte
		count := 1 + w.r.IntN(2)
		for range count {
			if t.kind == "map" {
				items = append(binary.AppendVarint(items, int64(len(keys[0]))), keys[0]...)
				keys = keys[1:]
			}
			items = w.value(items, t.of[0], depth-1)
		}
		if w.one(2) {
			b = binary.AppendVarint(binary.AppendVarint(b, int64(-count)), int64(len(items)))
		} else {
			b = binary.AppendVarint(b, int64(count))
		}
		b = append(b, items...)
	}
	return append(b, 0)
}

func (w *wild) word() string {
	return []string{"a", "bb", "é", "\U0001f600", "7", "-2.5", `"`, "n", "w", "z y"}[w.r.IntN(10)]
}

func (w *wild) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(w.r.Uint32())
	}
	return b
}

// promoted are the types that a reader may have in place of a writer's.
var promoted = map[string][]string{"int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"},
	"string": {"bytes"}, "bytes": {"string"}}

// reader returns what a reader has in place of a type: fields in another order, by another name, gone and new, other
// types, branches and symbols.
func (w *wild) reader(t *wildType, made map[*wildType]*wildType) *wildType {
	if old := made[t]; old != nil {
		return old
	}
	n := new(wildType)
	*n = *t
	if made[t] = n; t.name != "" && w.one(3) {
		n.name, n.aliases = w.name("n.c.N"), []string{t.name}
	}
	switch t.kind {
	case "record":
		n.fields = nil
		for _, f := range t.fields {
			if w.one(6) {
				continue
			}
			if f.of = w.reader(f.of, made); w.one(4) {
				f.name, f.aliases = w.name("g"), []string{w.name("no"), f.name}
			}
			n.fields = append(n.fields, f)
		}
		for range w.r.IntN(3) {
			f := wildField{name: w.name("h"), of: (&wild{r: w.r, names: 1000 + 100*w.names}).make(2)}
			w.names += 100
			if f.def = w.def(f.of, 3); f.def != "" {
				n.fields = append(n.fields, f)
			}
		}
		w.r.Shuffle(len(n.fields), func(i, j int) { n.fields[i], n.fields[j] = n.fields[j], n.fields[i] })
	case "array", "map":
		n.of = []*wildType{w.reader(t.of[0], made)}
	case "union":
		n.of = nil
		has := map[string]bool{}
		for _, b := range t.of {
			has[b.key()] = true
		}
		for _, b := range t.of {
			one := w.reader(b, made)
			if one.kind == "union" {
				one = one.of[1]
			}
			if key := one.key(); key != b.key() && has[key] { // it would be read as another one
				one = b
			} else {
				has[key] = true
			}
			n.of = append(n.of, one)
		}
		if b := (&wildType{kind: []string{"null", "int", "string", "double"}[w.r.IntN(4)]}); !has[b.kind] {
			n.of = append(n.of, b)
		}
		w.r.Shuffle(len(n.of), func(i, j int) { n.of[i], n.of[j] = n.of[j], n.of[i] })
	case "enum":
		n.symbols = slices.Clone(t.symbols)
		w.r.Shuffle(len(n.symbols), func(i, j int) { n.symbols[i], n.symbols[j] = n.symbols[j], n.symbols[i] })
		if n.symbols = append(n.symbols, "New"); w.one(2) {
			n.symbols, n.other = n.symbols[1:], "New"
		}
	}
	if list := promoted[t.kind]; list != nil && w.one(3) {
		n.kind = list[w.r.IntN(len(list))]
	}
	if n.name == "" && n.kind != "union" && n.kind != "null" && w.one(6) {
		return &wildType{kind: "union", of: []*wildType{{kind: "null"}, n}}
	}
	return n
}

// def returns the default of a type as JSON, "" for none.
func (w *wild) def(t *wildType, depth int) string {
	switch t.kind {
	case "null":
		return "null"
	case "boolean":
		return "true"
	case "int", "long", "date", "timestamp-millis", "time-millis", "time-micros", "local-timestamp-millis":
		return fmt.Sprint(w.r.IntN(20_000))
	case "timestamp-micros", "timestamp-nanos", "local-timestamp-micros", "local-timestamp-nanos":
		return fmt.Sprint(w.r.Int64N(1e15))
	case "float", "double":
		return fmt.Sprint(float64(w.r.IntN(100)) / 4)
	case "string":
		return strconv.Quote(w.word())
	case "bytes", "decimal":
		return `"\u0001\u00ff"`
	case "fixed", "fixed-uuid", "duration":
		n := map[string]int{"fixed": t.size, "fixed-uuid": 16, "duration": 12}[t.kind]
		return `"` + strings.Repeat(`\u00fe`, n) + `"`
	case "enum":
		return strconv.Quote(t.symbols[w.r.IntN(len(t.symbols))])
	case "union":
		return w.def(t.of[0], depth)
	case "array", "map":
		one := w.def(t.of[0], depth-1)
		switch {
		case one == "" || w.one(4):
			return map[string]string{"array": "[]", "map": "{}"}[t.kind]
		case t.kind == "array":
			return "[" + one + "," + one + "]"
		}
		return `{"k":` + one + `,"a.b":` + one + `}`
	case "record":
		var members []string
		for i := range t.fields {
			f := &t.fields[i]
			one := w.def(f.of, depth-1)
			if one == "" || depth < 0 {
				return ""
			}
			if w.one(3) { // its own is that of the one around it, too
				f.def = one
				continue
			}
			members = append(members, fmt.Sprintf("%q:%s", f.name, one))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	return ""
}
