package event

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event/framing"
)

// The formats of values and keys, by the names of the configuration.
const (
	FormatJSON       = "json"
	FormatAvro       = "avro"
	FormatProtobuf   = "protobuf"
	FormatJSONSchema = "json_schema" // JSON behind the frame of a schema
	FormatAuto       = "auto"        // what the schema of each record says, JSON where a record has no frame
)

// Formats are all of them.
var Formats = []string{FormatJSON, FormatAvro, FormatProtobuf, FormatJSONSchema, FormatAuto}

// A Writer is a schema by which values were written.
type Writer struct {
	Format     string // FormatAvro, FormatProtobuf or FormatJSONSchema
	Text       string // .avsc, .proto or JSON Schema; a FileDescriptorSet where IsSet
	IsSet      bool
	References []Reference // in the order in which they need one another
}

// A Reference is another schema that one needs, by the name it has there.
type Reference struct{ Name, Text string }

// Writers know schemas. They are safe for concurrent use.
type Writers interface {
	// Writer returns the schema of an ID, nil where it is not known yet: the record has to wait for it.
	Writer(id framing.ID) *Writer
}

// A Program reads the values that were written by one schema. It is for one decoder.
type Program interface {
	// Run puts what was asked for into slots. ok is false where the bytes are not what the schema says; at is the
	// place, by names of the schema.
	Run(s *Slots, f *framing.Frame) (at string, ok bool)
	// Finds reports whether values of the schema may have something for a slot.
	Finds(slot int) bool
}

// A Compiler makes the program of a schema for a tree of what is asked for. reader, if not nil, is the schema by which
// values are read: its aliases are other names, and its defaults are what older values lack.
type Compiler func(w, reader *Writer, root *Member, maxDepth int) (Program, error)

// Reading says of which formats records are.
type Reading struct {
	Format, Key string              // of values, and of keys
	Compilers   map[string]Compiler // of the binary formats, by name
	Outliners   map[string]Outliner // of all formats with schemas, by name; nil for nothing said of types
	Writers     Writers             // a registry's; nil without one
	Fixed       *Writer             // input.schema_file: of all values, or the reader's where there are Writers
	// Lost, if not nil, is called before the first event by a schema that has nothing for a field of the model, or
	// another type.
	Lost func(id framing.ID, field string)
	// Changed, if not nil, says why values of a schema that was known are not to be read any more; "" if they are.
	Changed func(id framing.ID) string
	// Doubt, if not nil, is asked before bytes that do not fit their schema are rejected: whether they have to wait.
	Doubt func(id framing.ID) (wait bool)
}

// A Wait is the outcome of a record whose schema is not known yet: it is no event, and is not rejected either.
type Wait struct {
	ID      framing.ID
	Why     string // where the schema is known and of no use
	Changed bool   // the schema is not what it was: waiting does not help
}

// reading is Reading with the programs that were compiled.
type reading struct {
	Reading
	programs map[programOf]*compiled
	recent   *compiled // of recentOf, nil for none: most records are of the schema of the one before
	recentOf programOf
	last     string        // the format of the value that was read last
	frame    framing.Frame // of the value at hand: here it is no allocation
	isFirst  bool          // first is to be judged
	first    judged        // the schema of the value at hand
}

// programOf is what a program is for.
type programOf struct {
	id   framing.ID
	root *Member
}

// judged is a schema that is to be judged by what values of it have.
type judged struct {
	*compiled
	programOf
	frame framing.Frame // of the first such value
}

// compiled is what became of a schema.
type compiled struct {
	writer  *Writer
	program Program   // nil for a JSON Schema
	says    []Logical // of a JSON Schema
	judged  bool      // lost was called, once it was known which message values are
}

// Read has the decoder take values and keys in these formats.
func (d *Mapped) Read(r Reading) {
	d.reading = reading{Reading: r, programs: make(map[programOf]*compiled)}
}

// notReasons are the reasons of bytes that are not of a format.
var notReasons = map[string]Reason{
	FormatJSON: NotJSON, FormatJSONSchema: NotJSON, FormatAuto: NotJSON, FormatAvro: NotAvro, FormatProtobuf: NotProtobuf,
}

// framed finds what is asked for in a value or key that may have a frame. It returns JSON to be read in place of the
// value, nil if the value was read.
func (d *Mapped) framed(format string, value, headers []byte, isKey bool, root *Member) ([]byte, *Rejection, *Wait) {
	r := &d.reading
	f := &r.frame
	if !f.Cut(value, headers, isKey, d.json.limits.MaxEventBytes) {
		return nil, &Rejection{Reason: notReasons[format], Expected: "a frame whose data can be decompressed",
			Got: "other bytes"}, nil
	}
	hasRegistry := r.Writers != nil
	switch {
	case f.ID == (framing.ID{}) && (format == FormatAuto || format == FormatJSONSchema) && looksLikeJSON(value):
		r.note(FormatJSON, isKey)
		return value, nil, nil
	case format == FormatJSONSchema && !hasRegistry: // the value says itself what it has
		r.note(FormatJSONSchema, isKey)
		return f.Data, nil, nil
	case hasRegistry && f.ID.IsNone():
		return nil, &Rejection{Reason: notReasons[format], Expected: "the frame of a schema registry, or its headers",
			Got: "neither"}, nil
	}
	id := f.ID
	if !hasRegistry {
		id = framing.ID{}
	}
	c, wait := r.recent, r.changed(&id)
	if wait == nil && (c == nil || r.recentOf.root != root || r.recentOf.id != id) {
		c, wait = d.compiled(id, root)
	}
	switch {
	case wait != nil:
		return nil, nil, wait
	case format == FormatAuto:
		format = c.writer.Format
	case format != c.writer.Format:
		return nil, &Rejection{Reason: notReasons[format], Expected: format + " for " + id.String(),
			Got: c.writer.Format}, nil
	}
	r.note(format, isKey)
	program := c.program
	if program == nil {
		if !c.judged {
			(&judged{c, programOf{id, root}, *f}).judge(d)
		}
		d.says = c.says
		return f.Data, nil, nil
	}
	at, ok := program.Run(&d.slots, f)
	if !ok && !hasRegistry && f.Style != framing.NoFrame && f.Style != framing.HeaderFrame {
		// The first byte may be the value's own: without a registry nothing says whether there is a frame.
		d.slots.reset()
		*f = framing.Frame{Data: value}
		_, ok = program.Run(&d.slots, f)
	}
	if !c.judged {
		if first := (judged{c, programOf{id, root}, *f}); isKey || !ok {
			first.judge(d)
		} else {
			r.isFirst, r.first = true, first
		}
	}
	if d.slots.over {
		return nil, d.json.rejection(TooLarge), nil
	}
	if !ok {
		if r.Doubt != nil && r.Doubt(id) {
			return nil, nil, &Wait{ID: id}
		}
		if wait := r.changed(&id); wait != nil {
			return nil, nil, wait
		}
		return nil, &Rejection{Reason: notReasons[format], Expected: "bytes of " + id.String() + at, Got: "others"}, nil
	}
	return nil, nil, nil
}

// note notes of which format a value is.
func (r *reading) note(format string, isKey bool) {
	if !isKey && r.last != format {
		r.last = format
	}
}

// Format returns the format of the value of the record that was decoded last.
func (d *Mapped) Format() string { return d.reading.last }

// changed returns what a record waits for whose schema is not what it was, nil if it is.
func (r *reading) changed(id *framing.ID) *Wait {
	if r.Changed == nil {
		return nil
	}
	if why := r.Changed(*id); why != "" {
		return &Wait{ID: *id, Why: why, Changed: true}
	}
	return nil
}

// compiled returns what became of a schema for a tree, or what it waits for.
func (d *Mapped) compiled(id framing.ID, root *Member) (c *compiled, wait *Wait) {
	r := &d.reading
	of := programOf{id, root}
	if c = r.programs[of]; c != nil {
		r.recent, r.recentOf = c, of
		return c, nil
	}
	c = new(compiled)
	w, reader := r.Fixed, (*Writer)(nil)
	if r.Writers != nil {
		if w, reader = r.Writers.Writer(id), r.Fixed; w == nil {
			return c, &Wait{ID: id}
		}
	}
	if w == nil {
		return c, &Wait{ID: id, Why: "neither kafka.schema_registry.url nor input.schema_file is set"}
	}
	if root == d.key || reader != nil && reader.Format != w.Format {
		reader = nil
	}
	if c.writer = w; w.Format != FormatJSONSchema {
		compile := r.Compilers[w.Format]
		if compile == nil {
			return c, &Wait{ID: id, Why: "no decoder of the format " + w.Format}
		}
		var err error
		if c.program, err = compile(w, reader, root, d.json.limits.MaxDepth); err != nil {
			return c, &Wait{ID: id, Why: err.Error()}
		}
	} else if outline := r.Outliners[w.Format]; outline != nil {
		leaves, _ := outline(w, nil, d.json.limits.MaxDepth) // one of another form says nothing
		c.says = logicalsOf(leaves, root)
	}
	r.programs[of] = c
	return c, nil
}

// judgeFirst judges the schema of the value at hand if none of it was before. That of a record that is filtered, by
// what the schema has, is none of the model: its topic has records of several kinds.
func (d *Mapped) judgeFirst(rejection *Rejection) {
	first := &d.reading.first
	if !d.reading.isFirst {
		return
	}
	d.reading.isFirst = false
	if rejection == nil || rejection.Reason != Filtered || slices.ContainsFunc(d.when, func(a asked) bool {
		return a.slot >= 0 && !first.program.Finds(a.slot)
	}) {
		first.judge(d)
	}
}

// judge says, before the first event by a schema, what the model loses by it.
func (of *judged) judge(d *Mapped) {
	if of.judged = true; d.reading.Lost != nil {
		lost := func(field string) { d.reading.Lost(of.id, field) }
		if of.program != nil {
			d.lost(of.program, of.root, lost)
		}
		d.unfit(of.writer, &of.frame, of.root, lost)
	}
}

// lost says for which fields of the model a schema has nothing.
func (d *Mapped) lost(p Program, root *Member, lost func(field string)) {
	for i := range d.fields {
		if f := &d.fields[i]; d.isIn(f, root) && !p.Finds(f.slot) {
			lost(f.name)
		}
	}
}

// Lacks returns the fields of the values of records for which a schema has nothing, and those for which it has another
// type. Of Protobuf it is about the first message, of a JSON Schema about the members that it lists.
func (d *Mapped) Lacks(w *Writer) (nothing, unfit []string, err error) {
	reader := d.reading.Fixed
	if reader != nil && reader.Format != w.Format {
		reader = nil
	}
	root := d.value[0]
	lacks := func(field string) { nothing = append(nothing, field) }
	if compile := d.reading.Compilers[w.Format]; compile != nil {
		p, err := compile(w, reader, root, d.json.limits.MaxDepth)
		if err != nil {
			return nil, nil, err
		}
		d.lost(p, root, lacks)
	} else {
		leaves, err := d.reading.Outliners[w.Format](w, nil, d.json.limits.MaxDepth)
		if err != nil {
			return nil, nil, err
		}
		d.unlisted(leaves, root, lacks)
	}
	d.unfit(w, new(framing.Frame), root, func(field string) { unfit = append(unfit, field) })
	return nothing, unfit, nil
}

// looksLikeJSON reports whether a value begins as a JSON object does.
func looksLikeJSON(value []byte) bool {
	i := space(value, 0)
	return i < len(value) && jsontext.Value(value[i:]).Kind() == '{'
}

// Asked returns the tree of what is asked for in values, for which a Compiler makes programs.
func (d *Mapped) Asked() *Member { return d.value[0] }
