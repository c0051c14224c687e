package event

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

// header returns the value of the last header of a name, nil if no header has the name.
func header(headers []byte, name string) (value []byte) {
	field := func() (b []byte, ok bool) {
		size, n := binary.Varint(headers)
		if n <= 0 || size > int64(len(headers)-n) {
			return nil, false
		}
		if headers = headers[n:]; size < 0 {
			return nil, true
		}
		b, headers = headers[:size:size], headers[size:]
		return b, true
	}
	count, n := binary.Varint(headers)
	if n <= 0 {
		return nil
	}
	headers = headers[n:]
	for range count {
		key, ok := field()
		v, also := field()
		if !ok || !also {
			return value
		}
		if string(key) == name {
			value = v
		}
	}
	return value
}
