package event

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// parse is the state of one Decode.
type parse struct {
	d           *JSON
	ev          *Event
	recordTime  int64
	borrows     bool   // names alias the value, which has no escapes
	borrowsText bool   // names alias what values of a formString have
	present     int    // required fields seen
	first       Reason // of the first field that is not as it should be; errors of syntax go before it

	// Of first:
	field     *field
	role      role
	kind      jsontext.Kind // of the value
	isElement bool          // which is one of a list
	length    int           // of a vector of another length than it should have
}

// fail notes what a value of a field should not be. The first one counts.
func (p *parse) fail(r Reason, f *field, as role, kind jsontext.Kind, element bool) {
	if p.first == "" {
		p.first, p.field, p.role, p.kind, p.isElement = r, f, as, kind, element
	}
}

// object reads the event. Its reason is one of syntax.
func (p *parse) object() Reason {
	dec := p.d.json
	if _, err := dec.ReadToken(); err != nil {
		return syntaxReason(err)
	}
	last := &p.d.before
	for n := 1; dec.PeekKind() != '}'; n++ {
		name, err := dec.ReadValue()
		if err != nil {
			return syntaxReason(err)
		}
		if n > p.d.names {
			return TooLarge
		}
		text := p.unquote(name)
		f := last.after
		if f == nil || f.name != string(text) {
			f = p.d.fields[string(text)]
		}
		kind := dec.PeekKind()
		if f != nil {
			last.after = f
			last = f
		}
		if f == nil || kind == 'n' {
			if f != nil {
				f.null = p.d.turn
			}
			if r := p.skip(kind); r != "" {
				return r
			}
			continue
		}
		f.turn = p.d.turn
		if r := p.value(f, kind); r != "" {
			return r
		}
	}
	_, err := dec.ReadToken()
	return syntaxReason(err)
}

// value reads the value of a field of the schema.
func (p *parse) value(f *field, kind jsontext.Kind) Reason {
	if kind == '[' || kind == '{' {
		p.count(f.targets)
		t := f.targets[0]
		if kind == '[' && p.takesList(f) {
			return p.list(f, t)
		}
		p.fail(WrongType, f, t.role, kind, false)
		return p.skip(kind)
	}
	raw, err := p.d.json.ReadValue()
	if err != nil {
		return syntaxReason(err)
	}
	p.scalars(f, &Value{kind: kind, raw: raw})
	return ""
}

// takesList reports whether a list may go to a field.
func (p *parse) takesList(f *field) bool {
	t := f.targets[0]
	return len(f.targets) == 1 &&
		(t.role == roleMulti || t.role == roleVector || t.role == roleLabel && p.d.schema.Task == Multilabel)
}

// put stores a list or an object of any format where a field goes.
func (p *parse) put(f *field, v *Value, slots *Slots) Reason {
	if v.form == formJSON {
		p.d.src = *bytes.NewBuffer(v.raw)
		p.d.json.Reset(&p.d.src, HalfPairs)
		return p.value(f, v.kind)
	}
	p.count(f.targets)
	t := f.targets[0]
	if v.form != formList || !p.takesList(f) {
		p.fail(WrongType, f, t.role, v.kind, false)
		return ""
	}
	list, elements := p.beginList(t), slots.list(v)
	for i := range elements {
		p.element(f, t, i+1, &elements[i], list)
	}
	p.endList(f, t, len(elements))
	return ""
}

// count notes that a field is there.
func (p *parse) count(targets []target) {
	for _, t := range targets {
		if p.d.needs(t) {
			p.present++
		}
	}
}

// needs reports whether an event must have what goes there.
func (d *JSON) needs(t target) bool {
	return t.role != roleWeight && !t.optional && (t.role >= roleCategorical || d.RequireLabel)
}

// scalars stores a string, number, true or false wherever the field goes.
func (p *parse) scalars(f *field, v *Value) {
	p.count(f.targets)
	for _, t := range f.targets {
		if t.role == roleVector {
			p.vectorText(f, t, v)
		} else if r := p.scalar(t, v); r != "" {
			p.fail(r, f, t.role, v.kind, false)
		}
	}
}

// list reads an array of ids.
func (p *parse) list(f *field, t target) Reason {
	dec := p.d.json
	if _, err := dec.ReadToken(); err != nil {
		return syntaxReason(err)
	}
	list := p.beginList(t)
	for n := 1; ; n++ {
		kind := dec.PeekKind()
		switch kind {
		case ']':
			_, err := dec.ReadToken()
			p.endList(f, t, n-1)
			return syntaxReason(err)
		case '[', '{':
			p.fail(WrongType, f, t.role, kind, true)
			if r := p.skip(kind); r != "" {
				return r
			}
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return syntaxReason(err)
		}
		p.element(f, t, n, &Value{kind: kind, raw: raw}, list)
	}
}

// beginList returns the list of the event that the names of a list go to.
func (p *parse) beginList(t target) *[]string {
	clear(p.d.seen)
	if t.role == roleMulti {
		return &p.ev.Multi[t.index]
	}
	return &p.ev.Classes
}

// element takes up the n-th element of a list.
func (p *parse) element(f *field, t target, n int, v *Value, list *[]string) {
	if t.role == roleVector {
		p.vector(f, t, n, v)
	} else {
		p.name(f, t, n, v, list)
	}
}

// endList takes up the end of a list of so many elements.
func (p *parse) endList(f *field, t target, n int) {
	if t.role == roleVector {
		p.endVector(f, t, n)
	}
}

// name adds the n-th element of a list of ids to those of the event, unless it is there already.
func (p *parse) name(f *field, t target, n int, v *Value, list *[]string) {
	if n > p.d.limits.MaxMulti {
		p.fail(TooLarge, f, t.role, v.kind, false)
	}
	if p.first != "" {
		return
	}
	id, r := p.id(v)
	if r == "" && t.role == roleLabel {
		r = p.known(id)
	}
	if r != "" {
		p.fail(r, f, t.role, v.kind, true)
	} else if !p.d.seen[id] {
		p.d.seen[id] = true
		*list = append(*list, id)
	}
}

// skip reads a value of any kind and depth.
func (p *parse) skip(kind jsontext.Kind) Reason {
	dec := p.d.json
	if kind != '{' && kind != '[' {
		_, err := dec.ReadValue()
		return syntaxReason(err)
	}
	for depth := dec.StackDepth(); ; {
		if _, err := dec.ReadToken(); err != nil {
			return syntaxReason(err)
		}
		now := dec.StackDepth()
		parent, length := dec.StackIndex(now)
		switch {
		case now > p.d.limits.MaxDepth:
			return TooDeep
		case parent == '{' && length > 2*int64(p.d.names): // names and values
			return TooLarge
		case now <= depth:
			return ""
		}
	}
}

// unquote returns the text of a JSON string, valid until the next call or read.
func (p *parse) unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	// An error says no more than that half a surrogate pair became U+FFFD: raw was validated when it was read.
	p.d.scratch, _ = jsontext.AppendUnquote(p.d.scratch[:0], raw)
	return p.d.scratch
}

// text returns the text of a string, valid until the next call or read.
func (p *parse) text(v *Value) []byte {
	if v.form == formJSON {
		return p.unquote(v.raw)
	}
	return v.raw
}

func syntaxReason(err error) Reason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, jsontext.ErrDuplicateName):
		return DuplicateKey
	}
	return NotJSON
}
