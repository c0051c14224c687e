package tensor

import (
	"encoding/binary"
	"math"

	"github.com/refitd/refitd/daemon/web/inference"
	"github.com/refitd/refitd/daemon/web/request"
)

// FromMessage returns the inputs of a request, whose elements are in raw_input_contents or in the tensors themselves.
// It shares memory with the request. Its errors are a *request.Error.
func FromMessage(ask *inference.ModelInferRequest) ([]RequestTensor, error) {
	raw := ask.RawInputContents
	if len(raw) > 0 && len(raw) != len(ask.Inputs) {
		return nil, request.BadRequest("raw_input_contents has %d elements for %d inputs", len(raw), len(ask.Inputs))
	}
	var inputs []RequestTensor
	for i, in := range ask.Inputs {
		t := RequestTensor{Name: in.Name, Datatype: in.Datatype, binary: []byte{}}
		for _, n := range in.Shape {
			if n != int64(int(n)) {
				return nil, request.BadRequest("inputs: the tensor %q has the shape %v", in.Name, in.Shape)
			}
			t.Shape = append(t.Shape, int(n))
		}
		switch {
		case len(raw) > 0 && in.Contents != nil:
			return nil, request.BadRequest("inputs: the tensor %q has contents, and raw_input_contents is there, too", in.Name)
		case len(raw) == 0:
			t.binary = appendContents(t.binary, in)
		case len(raw[i]) > 0:
			t.binary = raw[i]
		}
		inputs = append(inputs, t)
	}
	return inputs, nil
}

// appendContents appends the contents of a tensor as raw_input_contents has them.
func appendContents(b []byte, in *inference.ModelInferRequest_InferInputTensor) []byte {
	c := in.Contents
	switch in.Datatype {
	case "BYTES":
		for _, v := range c.GetBytesContents() {
			b = append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
		}
	case "INT64":
		for _, v := range c.GetInt64Contents() {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
	case "FP64":
		for _, v := range c.GetFp64Contents() {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	case "FP32":
		for _, v := range c.GetFp32Contents() {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}
