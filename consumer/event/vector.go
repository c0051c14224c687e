package event

import (
	"bytes"
	"io"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// Vector is an optional field with a list of numbers, such as an embedding of a text: a list, or text that is a list in
// JSON. An event has its numbers behind those of the schema's numeric fields, NaN where it lacks the field.
type Vector struct {
	Name string
	Dim  int // how many numbers there are; lists of another length are refused
}

// vectorAt returns where the numbers of a vector begin in an event.
func (s *Schema) vectorAt(index int) int {
	at := len(s.Numeric)
	for i := range index {
		at += s.Vectors[i].Dim
	}
	return at
}

// dimOf returns how many numbers the vector of a field has.
func (s *Schema) dimOf(f *field) int { return s.Vectors[f.targets[0].index].Dim }

// vector stores the n-th number of a vector.
func (p *parse) vector(f *field, t target, n int, v *Value) {
	s := &p.d.schema
	if p.first != "" || n > s.Vectors[t.index].Dim { // endVector refuses the length
		return
	}
	x, r := p.number(v)
	if r != "" {
		p.fail(r, f, t.role, v.kind, true)
	}
	p.ev.Numeric[s.vectorAt(t.index)+n-1] = x
}

// endVector refuses a vector of another length than the schema says.
func (p *parse) endVector(f *field, t target, n int) {
	if want := p.d.schema.Vectors[t.index].Dim; n != want && p.first == "" {
		p.fail(WrongType, f, t.role, '[', false)
		p.length = n
	}
}

// vectorText reads a vector that is text.
func (p *parse) vectorText(f *field, t target, v *Value) {
	var text []byte
	if v.kind == '"' {
		text = p.text(v)
	}
	if len(text) == 0 || text[0] != '[' {
		p.fail(WrongType, f, t.role, v.kind, false)
		return
	}
	dec, n := jsontext.NewDecoder(bytes.NewReader(bytes.Clone(text))), 0
	_, err := dec.ReadToken()
	for ; err == nil && dec.PeekKind() != ']'; n++ {
		var raw jsontext.Value
		if raw, err = dec.ReadValue(); err == nil {
			element := jsonValue(raw)
			p.vector(f, t, n+1, &element)
		}
	}
	if err == nil {
		_, err = dec.ReadToken() // the end of the list
	}
	if _, more := dec.ReadToken(); err != nil || more != io.EOF {
		p.fail(WrongType, f, t.role, v.kind, false)
		return
	}
	p.endVector(f, t, n)
}

// emptyVectors makes an event lack all vectors.
func (s *Schema) emptyVectors(ev *Event) {
	for i := len(s.Numeric); i < len(ev.Numeric); i++ {
		ev.Numeric[i] = math.NaN()
	}
}
