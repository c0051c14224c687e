package event

import "github.com/go-json-experiment/json/jsontext"

// maxOthers is how many names outside the schema flat takes: each is compared with the others.
const maxOthers = 8

// flat reads an event of the usual form: one object of strings without escapes and of numbers, in which every field of
// the schema is as it should be. It reports false for anything else, good or bad, which decode then reads again; so it
// decides nothing but that an event is good, and that twice as fast. value is valid UTF-8.
func (p *parse) flat(value []byte) bool {
	var others [maxOthers][]byte
	numOthers := 0
	p.d.turn++
	i := space(value, 0)
	if i == len(value) || value[i] != '{' {
		return false
	}
	last := &p.d.before
	for closed := false; !closed; {
		i = space(value, i+1) // after the brace or a comma
		end := stringEnd(value, i)
		if end < 0 {
			return false
		}
		name := value[i+1 : end-1]
		f := last.after
		if f == nil || f.name != string(name) {
			f = p.d.fields[string(name)]
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
		raw := value[i:end]
		switch {
		case f == nil:
			if numOthers == maxOthers {
				return false
			}
			for _, other := range others[:numOthers] {
				if string(other) == string(name) {
					return false
				}
			}
			others[numOthers] = name
			numOthers++
		case f.turn == p.d.turn:
			return false // twice
		default:
			f.turn = p.d.turn
			last.after = f
			last = f
			if p.scalars(f, &Value{kind: kind, raw: raw}); p.first != "" {
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
