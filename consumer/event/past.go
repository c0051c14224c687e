package event

import (
	"encoding/binary"
	"errors"
)

// errPast is returned for bytes that AppendPast has not written.
var errPast = errors.New("a stored past of an entity cannot be read: it is damaged, or another build wrote it")

const pastVersion = 1

// AppendPast appends the bytes of a past: version, the two times, the number of events, the label and the lists of
// names. Integers are varints, lists and names are preceded by their lengths.
func AppendPast(dst []byte, p *Past) []byte {
	dst = append(dst, pastVersion)
	dst = binary.AppendVarint(dst, p.First)
	dst = binary.AppendVarint(dst, p.Time)
	dst = binary.AppendVarint(dst, p.Events)
	dst = AppendNames(dst, p.Label)
	dst = binary.AppendUvarint(dst, uint64(len(p.Last)))
	for _, list := range p.Last {
		dst = AppendNames(dst, list)
	}
	return dst
}

// AppendNames appends a list of names: their number, then each after its length, as uvarints.
func AppendNames(dst []byte, names []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, name := range names {
		dst = binary.AppendUvarint(dst, uint64(len(name)))
		dst = append(dst, name...)
	}
	return dst
}

// DecodePast reads what AppendPast wrote.
func DecodePast(b []byte) (*Past, error) {
	if len(b) == 0 || b[0] != pastVersion {
		return nil, errPast
	}
	r := pastReader{rest: b[1:]}
	p := &Past{First: r.number(), Time: r.number(), Events: r.number(), Label: r.names()}
	for range r.count() {
		p.Last = append(p.Last, r.names())
	}
	if r.failed || len(r.rest) > 0 {
		return nil, errPast
	}
	return p, nil
}

type pastReader struct {
	rest   []byte
	failed bool
}

func (r *pastReader) number() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads a number of things that take at least a byte each.
func (r *pastReader) count() int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(len(r.rest)-n) {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

func (r *pastReader) names() (list []string) {
	for range r.count() {
		n := r.count()
		list = append(list, string(r.rest[:n]))
		r.rest = r.rest[n:]
	}
	return list
}
