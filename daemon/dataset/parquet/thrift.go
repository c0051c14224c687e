package parquet

import (
	"encoding/binary"
	"errors"
	"io"
)

// Types of fields in the compact protocol of Thrift, in which footers and page headers are written.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

// maxThriftDepth bounds structures in structures; those of Parquet have five levels.
const maxThriftDepth = 32

// errThrift says that bytes are not of the compact protocol.
var errThrift = errors.New("its description is not readable")

// thrift reads a message. The first error is kept, and all that is read after it is zero. What lists and texts
// claim to hold is never taken for more than the bytes that are left.
type thrift struct {
	b     []byte
	err   error
	depth int
}

func (t *thrift) fail(err error) {
	if t.err == nil {
		t.err = err
	}
	t.b = nil
}

func (t *thrift) byte() byte {
	if len(t.b) == 0 {
		t.fail(io.ErrUnexpectedEOF)
		return 0
	}
	c := t.b[0]
	t.b = t.b[1:]
	return c
}

func (t *thrift) uvarint() uint64 {
	v, n := binary.Uvarint(t.b)
	switch {
	case n == 0:
		t.fail(io.ErrUnexpectedEOF)
		return 0
	case n < 0:
		t.fail(errThrift)
		return 0
	}
	t.b = t.b[n:]
	return v
}

// int reads a whole number of any width.
func (t *thrift) int() int64 {
	v := t.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// int32 reads a whole number of 32 bits.
func (t *thrift) int32() int32 {
	v := t.int()
	if v != int64(int32(v)) {
		t.fail(errThrift)
		return 0
	}
	return int32(v)
}

// bytes reads n bytes, which stay part of the message.
func (t *thrift) bytes(n uint64) []byte {
	if n > uint64(len(t.b)) {
		t.fail(io.ErrUnexpectedEOF)
		return nil
	}
	b := t.b[:n]
	t.b = t.b[n:]
	return b
}

func (t *thrift) text() string { return string(t.bytes(t.uvarint())) }

// fields calls visit for each field of a structure. A visit that does not read its field leaves it: it is skipped.
func (t *thrift) fields(visit func(id int64, kind byte) (read bool)) {
	if t.depth++; t.depth > maxThriftDepth {
		t.fail(errThrift)
	}
	defer func() { t.depth-- }()
	for id := int64(0); t.err == nil; {
		head := t.byte()
		kind := head & 0x0f
		if head == 0 {
			return
		}
		if delta := int64(head >> 4); delta != 0 {
			id += delta
		} else {
			id = t.int()
		}
		if t.err == nil && !visit(id, kind) {
			t.skip(kind)
		}
	}
}

// list calls visit for each element of a list, which visit has to read.
func (t *thrift) list(visit func(kind byte)) {
	head := t.byte()
	n, kind := uint64(head>>4), head&0x0f
	if n == 15 {
		n = t.uvarint()
	}
	if n > uint64(len(t.b)) { // an element has a byte at least
		t.fail(io.ErrUnexpectedEOF)
	}
	for ; n > 0 && t.err == nil; n-- {
		visit(kind)
	}
}

func (t *thrift) skip(kind byte) {
	switch kind {
	case thriftTrue, thriftFalse:
	case thriftByte:
		t.byte()
	case thriftI16, thriftI32, thriftI64:
		t.uvarint()
	case thriftDouble:
		t.bytes(8)
	case thriftUUID:
		t.bytes(16)
	case thriftBinary:
		t.bytes(t.uvarint())
	case thriftList, thriftSet:
		t.skipList()
	case thriftMap:
		t.skipMap()
	case thriftStruct:
		t.fields(func(int64, byte) bool { return false })
	default:
		t.fail(errThrift)
	}
}

// skipElement is skip for an element of a list or map, in which true and false have a byte.
func (t *thrift) skipElement(kind byte) {
	if kind == thriftTrue || kind == thriftFalse {
		kind = thriftByte
	}
	t.skip(kind)
}

func (t *thrift) skipList() {
	if t.depth++; t.depth > maxThriftDepth {
		t.fail(errThrift)
	}
	t.list(t.skipElement)
	t.depth--
}

func (t *thrift) skipMap() {
	n := t.uvarint()
	if n == 0 {
		return
	}
	if t.depth++; t.depth > maxThriftDepth || n > uint64(len(t.b)) {
		t.fail(errThrift)
	}
	for kinds := t.byte(); n > 0 && t.err == nil; n-- {
		t.skipElement(kinds >> 4)
		t.skipElement(kinds & 0x0f)
	}
	t.depth--
}
