package tensor

import (
	"encoding/binary"
	"math"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
)

// The binary tensor data extension (triton-inference-server/server, docs/protocol/extension_binary_data.md): elements
// follow the JSON object of a request or an answer, in the order of their tensors, without gaps, in little-endian
// order. A BYTES is its length in 4 bytes and its bytes; a BOOL is a byte, 0 or 1; FP64 and FP32 are as IEEE 754 has
// them, and NaN is what null is in JSON. An INT64 is a name: the decimal text of a number in 8 bytes.

// LengthHeader has the length of the JSON object where something follows it.
const LengthHeader = "Inference-Header-Content-Length"

// BinaryPart are the parameters of a tensor whose elements follow the JSON object.
type BinaryPart struct {
	Size int `json:"binary_data_size"` // bytes of the elements
}

// Read reads an inference request, with the elements that follow its JSON object. Its errors are a *request.Error.
func Read(r *http.Request) (*InferRequest, error) {
	ask, length := new(InferRequest), r.Header.Get(LengthHeader)
	if length == "" {
		if err := request.ReadJSON(r, ask); err != nil {
			return nil, err
		}
		return ask, ask.takeBinary(nil)
	}
	in := request.InflightOf(r)
	body, err := in.ReadPlain()
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > len(body) {
		return nil, request.BadRequest("%s is %q: the length of the JSON object at the beginning of a body of %d bytes",
			LengthHeader, length, len(body))
	}
	if err := request.DecodeJSON(in, body[:n], ask); err != nil {
		return nil, err
	}
	return ask, ask.takeBinary(body[n:])
}

// takeBinary gives the inputs what follows the JSON object.
func (ask *InferRequest) takeBinary(rest []byte) error {
	for i := range ask.Inputs {
		t := &ask.Inputs[i]
		var parameters struct {
			Size *int64 `json:"binary_data_size"`
		}
		if len(t.Parameters) > 0 {
			err := request.Unmarshal(`the "parameters" of the input `+strconv.Quote(t.Name), t.Parameters, &parameters)
			if err != nil {
				return err
			}
		}
		n := parameters.Size
		switch {
		case n == nil:
			continue
		case *n < 0 || *n > int64(len(rest)):
			return request.BadRequest(
				"inputs: the tensor %q has binary_data_size %d, and %d bytes are left of what follows the JSON object, whose "+
					"length %s says",
				t.Name,
				*n,
				len(rest),
				LengthHeader,
			)
		case len(t.Data) > 0:
			return request.BadRequest("inputs: the tensor %q has both data and binary_data_size", t.Name)
		}
		t.binary, rest = rest[:*n:*n], rest[*n:]
	}
	if len(rest) > 0 {
		return request.BadRequest("inputs: %d bytes follow the JSON object that no tensor has in its binary_data_size",
			len(rest))
	}
	return nil
}

// width returns the bytes of an element, of a BYTES the fewest.
func width(datatype string) int {
	if datatype == "FP64" || datatype == "INT64" {
		return 8
	}
	return 4
}

// BinaryElements returns how many elements there can be at most in the binary part of a tensor.
func (t *RequestTensor) BinaryElements() int { return len(t.binary) / width(t.Datatype) }

// BinaryElements returns the elements of a tensor whose binary part has them. NaN means absent or, if that is nil, is
// refused.
func binaryElements[T string | float64](t *RequestTensor, want int, absent *T) ([]T, error) {
	rest, list := t.binary, make([]T, 0, min(want, t.BinaryElements()))
	for len(rest) > 0 {
		n := width(t.Datatype)
		if len(rest) < n {
			return nil, request.BadRequest("inputs: the binary part of the tensor %q ends within element %d", t.Name, len(list))
		}
		if len(list) == want {
			return nil, request.BadRequest("inputs: the tensor %q has more elements than the %d that its shape %v asks for",
				t.Name, want, t.Shape)
		}
		var v T
		switch p := any(&v).(type) {
		case *string:
			var err error
			if *p, n, err = t.binaryName(rest, len(list)); err != nil {
				return nil, err
			}
		case *float64:
			if *p = binaryNumber(rest[:n]); math.IsNaN(*p) {
				if absent == nil {
					return nil, request.BadRequest("inputs: the tensor %q has a NaN at %d", t.Name, len(list))
				}
				v = *absent
			}
		}
		list, rest = append(list, v), rest[n:]
	}
	if len(list) != want {
		return nil, request.BadRequest("inputs: the tensor %q has %d elements, its shape %v asks for %d", t.Name, len(list),
			t.Shape, want)
	}
	return list, nil
}

// binaryName returns the name at the start of rest, which is element at of the tensor, and its bytes there.
func (t *RequestTensor) binaryName(rest []byte, at int) (name string, size int, err error) {
	n := width(t.Datatype)
	if t.Datatype == "INT64" {
		return strconv.FormatInt(int64(binary.LittleEndian.Uint64(rest)), 10), n, nil
	}
	length := binary.LittleEndian.Uint32(rest)
	if int64(length) > int64(len(rest)-n) {
		return "", 0, request.BadRequest(
			"inputs: element %d of the tensor %q has %d bytes, and %d are left of its binary part",
			at, t.Name, length, len(rest)-n)
	}
	if name = string(rest[n : n+int(length)]); !utf8.ValidString(name) {
		return "", 0, request.BadRequest("inputs: element %d of the tensor %q is not UTF-8", at, t.Name)
	}
	return name, n + int(length), nil
}

// binaryNumber returns a number of four or eight bytes.
func binaryNumber(b []byte) float64 {
	if len(b) == 4 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// AppendElements appends what Values returned.
func AppendElements(b []byte, values any) []byte {
	switch list := values.(type) {
	case []report.Number:
		for _, v := range list {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
		}
	case []string:
		for _, v := range list {
			b = append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
		}
	case []bool:
		for _, v := range list {
			if v {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	return b
}

// Send writes an answer that is JSON and what follows it. It may write to the memory behind text.
func Send(w http.ResponseWriter, text, tail []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(LengthHeader, strconv.Itoa(len(text)))
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+len(tail)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(text, tail...))
}
