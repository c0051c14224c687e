package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// tensorHeader returns the header of model.safetensors for a shape: the length of the JSON as 8 bytes little-endian, the JSON itself,
// padded with spaces so that the numbers start at a multiple of 8. A shape has one header and no other: a reader compares bytes, so there is no
// offset, name or shape in a file that it would have to trust.
func tensorHeader(d, m, k int, linear bool) (header []byte, numbers int, err error) {
	// The products stay below 2^63: see the limits in contents.go.
	total := int64(d)*int64(k) + int64(k)*int64(m) + int64(m)
	if linear {
		total += int64(d) * int64(m)
	}
	if total > maxModelBytes/8 {
		return nil, 0, fmt.Errorf("%d parameters (%d features, %d basis vectors, %d outputs), the limit is %d: lower train.max_features or train.max_basis",
			total, d, k, m, maxModelBytes/8)
	}
	text := []byte(`{"__metadata__":{"format":"refitd 1"}`)
	offset := 0
	tensor := func(name string, shape ...int) {
		size := 8
		for _, n := range shape {
			size *= n
		}
		rows, columns := shape[0], ""
		if len(shape) > 1 {
			columns = fmt.Sprintf(",%d", shape[1])
		}
		text = fmt.Appendf(text, `,%q:{"dtype":"F64","shape":[%d%s],"data_offsets":[%d,%d]}`, name, rows, columns, offset, offset+size)
		offset += size
	}
	tensor("basis", d, k)
	tensor("weights", k, m)
	if linear {
		tensor("linear", d, m)
	}
	tensor("bias", m)
	text = append(text, '}')
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), int(total), nil
}

// encodeTensors returns the bytes of model.safetensors: F64, little-endian, basis d×k, weights k×m, linear d×m if there is one, bias m.
func encodeTensors(c *Contents) ([]byte, error) {
	header, numbers, err := tensorHeader(c.NumFeatures, c.NumOutputs, c.NumBasis, c.Linear != nil)
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, len(header)+8*numbers), header...)
	for _, values := range [][]float64{c.Basis, c.Weights, c.Linear, c.Bias} {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return b, nil
}

// decodeTensors sets the parameters of c, whose shape is known from the manifest. Memory is taken only once the length is right.
func decodeTensors(c *Contents, b []byte) error {
	d, m, k := c.NumFeatures, c.NumOutputs, c.NumBasis
	for _, linear := range []bool{false, true} {
		header, numbers, err := tensorHeader(d, m, k, linear)
		if err != nil {
			return fmt.Errorf("model.safetensors: %w: %w", ErrFormat, err)
		}
		if !bytes.HasPrefix(b, header) {
			continue
		}
		if len(b) != len(header)+8*numbers {
			return fmt.Errorf("model.safetensors: %w: %d bytes, want %d", ErrFormat, len(b), len(header)+8*numbers)
		}
		b = b[len(header):]
		take := func(n int) []float64 {
			values := make([]float64, n)
			for i := range values {
				values[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
			}
			b = b[8*n:]
			return values
		}
		c.Basis, c.Weights = take(d*k), take(k*m)
		if linear {
			c.Linear = take(d * m)
		}
		c.Bias = take(m)
		return nil
	}
	return fmt.Errorf("model.safetensors: %w: the header is not the one of %d features, %d outputs and %d basis vectors in F64", ErrFormat, d, m, k)
}
