package ingest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/sketch"
)

// Reject is a rejected record without what it says.
type Reject struct {
	Offset    int64
	Time      int64 // of the record, milliseconds since 1970
	Size      int   // bytes of its value, -1 if it had none
	Rejection event.Rejection
	Outline   string // of its value
}

// Bounds of what is kept of rejected records. Chosen by hand.
const (
	maxRejects   = 8   // of a batch
	maxOutline   = 600 // bytes of an outline, and a value more
	maxKnownName = 64  // bytes of a name that is shown
)

// envelopeNames are those of Debezium's envelope and of CloudEvents around the event.
var envelopeNames = []string{"payload", "before", "after", "op", "data"}

// outlines makes the outlines of a model's records. It is safe for concurrent use.
type outlines struct {
	known map[string]bool // names that may be shown: those of the schema and of the paths of the mapping
}

func newOutlines(m *config.Model) *outlines {
	o := &outlines{known: make(map[string]bool)}
	s := &m.Schema
	names := slices.Concat(envelopeNames, []string{s.Label, s.Time, s.Weight, s.Identity}, s.Categorical, s.Numeric,
		s.Multi)
	for _, f := range m.Input.Mapping.Fields {
		names = append(names, strings.Split(f.Path, ".")...)
	}
	for _, name := range names {
		if len(name) <= maxKnownName {
			o.known[name] = true
		}
	}
	return o
}

// of returns the outline of a rejected record's value: its objects and lists with a kind in place of each value, and
// with <name> in place of each name that is not known. Nothing of it depends on what a value is, but for its kind and
// the length of a string.
func (o *outlines) of(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	var b strings.Builder
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for b.Len() < maxOutline {
		kind := d.PeekKind()
		token, err := d.ReadToken()
		if err != nil {
			if d.InputOffset() < int64(len(value)) {
				fmt.Fprintf(&b, " <no JSON from byte %d of %d>", d.InputOffset(), len(value))
			}
			return strings.TrimSpace(b.String())
		}
		o.append(&b, d, kind, token)
	}
	return b.String() + " …"
}

// append adds a token, with what separates it from the one before.
func (o *outlines) append(b *strings.Builder, d *jsontext.Decoder, kind jsontext.Kind, token jsontext.Token) {
	opens, n := d.StackIndex(d.StackDepth())
	isName, isEnd := opens == '{' && n%2 == 1 && kind == '"', kind == '}' || kind == ']'
	text := b.String()
	switch {
	case isEnd || text == "" || strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[") ||
		strings.HasSuffix(text, ": "):
	default:
		b.WriteString(", ")
	}
	switch kind {
	case '"':
		s := token.String()
		switch {
		case isName && o.known[s]:
			b.WriteString(strconv.Quote(s))
		case isName:
			b.WriteString("<name>")
		default:
			fmt.Fprintf(b, "<string of %d>", len(s))
		}
	case '0':
		b.WriteString("<number>")
	case 't', 'f':
		b.WriteString("<true or false>")
	default:
		b.WriteByte(byte(kind))
		if kind == 'n' {
			b.WriteString("ull")
		}
	}
	if isName {
		b.WriteString(": ")
	}
}

// rejectOf returns a rejected record without what it says.
func (o *outlines) rejectOf(r *sketch.Record, rejection event.Rejection) Reject {
	return Reject{Offset: r.Offset, Time: r.Time, Size: r.Size, Rejection: rejection, Outline: o.of(r.Payload)}
}
