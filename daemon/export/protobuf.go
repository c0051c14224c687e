package export

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is the wire form of one protobuf message. The numbers of the fields are those of onnx.proto (onnx/onnx, IR
// version 8): the few messages that a model needs are written directly rather than through 3,600 lines of generated
// code.
type message []byte

func (m *message) number(field protowire.Number, v int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(v))
}

func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

func (m *message) text(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

// elementType is TensorProto.DataType.
type elementType int64

const (
	float32Type elementType = 1
	int64Type   elementType = 7
	stringType  elementType = 8
	boolType    elementType = 9
	float64Type elementType = 11
)

// tensorHead is the beginning of a TensorProto: dims = 1, data_type = 2, name = 8.
func tensorHead(name string, t elementType, dims []int) message {
	var m message
	for _, d := range dims {
		m.number(1, int64(d))
	}
	m.number(2, int64(t))
	m.text(8, name)
	return m
}

// realTensor holds numbers as double or float: raw_data = 9.
func realTensor(name string, t elementType, dims []int, values []float64) message {
	m := tensorHead(name, t, dims)
	var raw []byte
	if t == float32Type {
		raw = make([]byte, 0, 4*len(values))
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(v)))
		}
	} else {
		raw = make([]byte, 0, 8*len(values))
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
		}
	}
	m.bytes(9, raw)
	return m
}

// intTensor holds int64 numbers: raw_data = 9. Without dims it is a scalar.
func intTensor(name string, dims []int, values []int64) message {
	m := tensorHead(name, int64Type, dims)
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	m.bytes(9, raw)
	return m
}

// stringTensor holds strings: string_data = 6.
func stringTensor(name string, values []string) message {
	m := tensorHead(name, stringType, []int{len(values)})
	for _, v := range values {
		m.text(6, v)
	}
	return m
}

// attribute is an AttributeProto: name = 1, i = 3, ints = 8, strings = 9, type = 20.
type attribute message

func intAttribute(name string, v int64) attribute {
	var m message
	m.text(1, name)
	m.number(3, v)
	m.number(20, 2) // INT
	return attribute(m)
}

func intsAttribute(name string, values []int64) attribute {
	var m message
	m.text(1, name)
	for _, v := range values {
		m.number(8, v)
	}
	m.number(20, 7) // INTS
	return attribute(m)
}

func stringsAttribute(name string, values []string) attribute {
	var m message
	m.text(1, name)
	for _, v := range values {
		m.text(9, v)
	}
	m.number(20, 8) // STRINGS
	return attribute(m)
}

// valueInfo is a ValueInfoProto: name = 1, type = 2 with tensor_type = 1, of elem_type = 1 and shape = 2. A dim is a
// number or a name.
func valueInfo(name string, t elementType, dims ...any) message {
	var shape message
	for _, d := range dims {
		var dim message
		switch d := d.(type) {
		case int:
			dim.number(1, int64(d))
		case string:
			dim.text(2, d)
		}
		shape.bytes(1, dim)
	}
	var tensor, kind, m message
	tensor.number(1, int64(t))
	tensor.bytes(2, shape)
	kind.bytes(1, tensor)
	m.text(1, name)
	m.bytes(2, kind)
	return m
}
