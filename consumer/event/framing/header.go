package framing

import "encoding/binary"

// Header is a header of a record. A nil value is none.
type Header struct {
	Name  string
	Value []byte
}

// AppendHeaders appends headers in the form that records in Kafka have them in: how many there are, then each name and
// value behind its length, in zigzag.
func AppendHeaders(dst []byte, headers ...Header) []byte {
	dst = binary.AppendVarint(dst, int64(len(headers)))
	for _, h := range headers {
		dst = append(binary.AppendVarint(dst, int64(len(h.Name))), h.Name...)
		if h.Value == nil {
			dst = binary.AppendVarint(dst, -1)
			continue
		}
		dst = append(binary.AppendVarint(dst, int64(len(h.Value))), h.Value...)
	}
	return dst
}

// headerReader reads the headers of a record one by one.
type headerReader struct {
	rest []byte
	left int64 // that rest should have
}

// readHeaders returns a reader, which has nothing to read where the bytes are no headers.
func readHeaders(headers []byte) (r headerReader) {
	if count, n := binary.Varint(headers); n > 0 {
		r = headerReader{headers[n:], count}
	}
	return r
}

// next returns the next header; ok is false behind the last whole one.
func (r *headerReader) next() (name, value []byte, ok bool) {
	if r.left <= 0 {
		return nil, nil, false
	}
	r.left--
	if name, ok = r.field(); ok {
		value, ok = r.field()
	}
	return name, value, ok
}

// field returns the bytes behind a length, nil for a negative one.
func (r *headerReader) field() (b []byte, ok bool) {
	size, n := binary.Varint(r.rest)
	if n <= 0 || size > int64(len(r.rest)-n) {
		return nil, false
	}
	if r.rest = r.rest[n:]; size < 0 {
		return nil, true
	}
	b, r.rest = r.rest[:size:size], r.rest[size:]
	return b, true
}

// CutHeaders returns the beginning of the headers of a record that has at most limit bytes and no half of a header. Its
// number stays that of all headers. Nil without headers, or without room for their number.
func CutHeaders(headers []byte, limit int) []byte {
	r := readHeaders(headers)
	if r.left <= 0 {
		return nil
	}
	end := len(headers) - len(r.rest)
	if end > limit {
		return nil
	}
	for {
		_, _, ok := r.next()
		next := len(headers) - len(r.rest)
		if !ok || next > limit {
			return headers[:end:end]
		}
		end = next
	}
}

// Headers returns the whole headers of a record, or of its beginning, and how many there were before it was cut.
func Headers(b []byte) (list []Header, all int64) {
	r := readHeaders(b)
	all = max(0, r.left)
	for {
		name, value, ok := r.next()
		if !ok {
			return list, all
		}
		list = append(list, Header{string(name), value})
	}
}

// HeaderOf returns the value of the last header of a name, nil if no header has the name.
func HeaderOf(headers []byte, name string) (value []byte) {
	for r := readHeaders(headers); ; {
		key, v, ok := r.next()
		if !ok {
			return value
		}
		if string(key) == name {
			value = v
		}
	}
}
