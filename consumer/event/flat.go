package event

import "github.com/go-json-experiment/json/jsontext"

// maxOthers is how many names outside the schema flat takes: each may have to be compared with the others.
const maxOthers = 8

// named is a name of an object, and the field of the schema that it is, nil for none.
type named struct {
	name  string
	field *field
}

// flatNames is how far flat is in the names of an event, which are the first ones of JSON.shape.
type flatNames struct {
	n       int
	others  int  // outside the schema
	changed bool // the event before had others, or in another order
}

// flatName reads the name that begins at i. It returns the field, nil for one outside the schema, and the index after
// the name, -1 for none or one that the event has already. Producers keep their order: a name where the event before
// had it is not looked up.
func (d *JSON) flatName(at *flatNames, value []byte, i int) (f *field, end int) {
	end = -1
	if !at.changed && at.n < len(d.shape) {
		f, end = d.shape[at.n].field, nameEnd(value, i, d.shape[at.n].name)
	}
	if end < 0 {
		at.changed = true
		if end = stringEnd(value, i); end < 0 {
			return nil, -1
		}
		name := value[i+1 : end-1]
		if f = d.fields[string(name)]; f == nil && isNameOf(d.shape[:at.n], name) {
			return nil, -1
		}
		d.shape = append(d.shape[:at.n], named{d.intern(name), f})
	}
	at.n++
	switch {
	case f == nil:
		if at.others++; at.others > maxOthers {
			return nil, -1
		}
	case f.turn == d.turn:
		return nil, -1 // twice
	default:
		f.turn = d.turn
	}
	return f, end
}

// nameEnd returns the index after the string that begins at i if it is that name, which has no escapes, else -1.
func nameEnd(b []byte, i int, name string) int {
	end := i + len(name) + 2
	if end <= len(b) && b[i] == '"' && b[end-1] == '"' && string(b[i+1:end-1]) == name {
		return end
	}
	return -1
}

func isNameOf(list []named, name []byte) bool {
	for i := range list {
		if list[i].name == string(name) {
			return true
		}
	}
	return false
}

// flat reads an event of the usual form: one object of strings without escapes and of numbers, in which every field of
// the schema is as it should be. It reports false for anything else, good or bad, which decode then reads again; so it
// decides nothing but that an event is good, and that twice as fast. value is valid UTF-8.
func (p *parse) flat(value []byte) bool {
	var names flatNames
	p.d.turn++
	i := space(value, 0)
	if i == len(value) || value[i] != '{' {
		return false
	}
	for closed := false; !closed; {
		i = space(value, i+1) // after the brace or a comma
		f, end := p.d.flatName(&names, value, i)
		if end < 0 {
			return false
		}
		if i = space(value, end); i == len(value) || value[i] != ':' {
			return false
		}
		i = space(value, i+1)
		kind := jsontext.Kind('"')
		if end = stringEnd(value, i); end < 0 {
			kind = '0'
			end = numberEnd(value, i)
		}
		if end < 0 {
			return false
		}
		if f != nil {
			if p.scalars(f, &Value{kind: kind, raw: value[i:end]}); p.first != "" {
				return false
			}
		}
		if i = space(value, end); i == len(value) {
			return false
		}
		switch value[i] {
		case '}':
			closed = true
		case ',':
		default:
			return false
		}
	}
	return space(value, i+1) == len(value) && p.hasAll() && p.hasTime()
}

// Borrow is Decode for events that are stored and not learned. Names of ev may alias value: they must not be read any
// more once its bytes change.
func (d *JSON) Borrow(ev *Event, value []byte, recordTime int64) *Rejection {
	return d.read(ev, value, recordTime, true)
}

// space returns the index of the first byte from i on that is not white space, or the length.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that begins at i. It returns -1 for a string with escapes, or if no
// string begins there.
func stringEnd(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for k, c := range b[i+1:] {
		switch {
		case c == '"':
			return i + k + 2
		case c < ' ' || c == '\\':
			return -1
		}
	}
	return -1
}

// numberEnd returns the index after the number that begins at i, -1 if no number begins there (RFC 8259, section 6).
func numberEnd(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	first := i
	if i = digits(b, i); i == first || b[first] == '0' && i > first+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		from := i + 1
		if i = digits(b, from); i == from {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from := i
		if i = digits(b, from); i == from {
			return -1
		}
	}
	return i
}

// digits returns the index after the digits that begin at i.
func digits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}
