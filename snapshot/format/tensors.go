package format

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// The types of the numbers in model.safetensors. Models score in float64 whatever the type; F32 halves the file and
// rounds every parameter, by 6e-8 of its value at most.
const (
	F64 = "F64"
	F32 = "F32"
)

// tensorBytes returns the size of a number of a type, 0 for one that this build does not know.
func tensorBytes(dtype string) int {
	return map[string]int{F64: 8, F32: 4}[dtype]
}

// TensorHeader returns the header of model.safetensors for a shape: the length of the JSON as 8 bytes little-endian,
// the JSON itself, padded with spaces so that the numbers start at a multiple of 8. A shape has one header of each type
// and no other: a reader compares bytes, so there is no offset, name or shape in a file that it would have to trust.
func TensorHeader(d, m, k int, linear bool, fm *FeatureMap, dtype string) (header []byte, numbers int, err error) {
	// The products stay below 2^63: see the limits in contents.go.
	total := int64(d)*int64(k) + int64(k)*int64(m) + int64(m)
	if linear {
		total += int64(d) * int64(m)
	}
	var tables []table
	if fm != nil {
		tables = append([]table{{"map_weights", nil, []int{fm.NumColumns(), m}}}, fm.tables()...)
	}
	for _, t := range tables {
		total += t.size()
	}
	if total > MaxModelBytes/8 { // of memory, where every number takes 8 bytes
		return nil, 0, fmt.Errorf("%d parameters (%d features, %d basis vectors, %d outputs), the limit is %d: "+
			"lower train.max_features, train.max_basis or train.feature_map", total, d, k, m, MaxModelBytes/8)
	}
	text := []byte(`{"__metadata__":{"format":"refitd 1"}`)
	offset := 0
	tensor := func(name string, shape ...int) {
		size := tensorBytes(dtype)
		for _, n := range shape {
			size *= n
		}
		rows, columns := shape[0], ""
		if len(shape) > 1 {
			columns = fmt.Sprintf(",%d", shape[1])
		}
		text = fmt.Appendf(text, `,%q:{"dtype":%q,"shape":[%d%s],"data_offsets":[%d,%d]}`, name, dtype, rows, columns,
			offset, offset+size)
		offset += size
	}
	tensor("basis", d, k)
	tensor("weights", k, m)
	if linear {
		tensor("linear", d, m)
	}
	tensor("bias", m)
	for _, t := range tables {
		tensor(t.name, t.shape...)
	}
	text = append(text, '}')
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), int(total), nil
}

// Rounded returns the contents with the parameters that readers of their type will have.
func (c *Contents) Rounded() *Contents {
	if c.Tensors != F32 {
		return c
	}
	r := *c
	lists := []*[]float64{&r.Basis, &r.Weights, &r.Linear, &r.Bias, &r.MapWeights}
	if fm := c.Schema.FeatureMap; fm != nil {
		copied := *fm
		r.Schema.FeatureMap = &copied
		for _, t := range copied.tables() {
			lists = append(lists, t.values)
		}
	}
	for _, values := range lists {
		if *values == nil {
			continue // no linear term or map
		}
		to := make([]float64, len(*values))
		for i, v := range *values {
			to[i] = float64(float32(v))
		}
		*values = to
	}
	return &r
}

// EncodeTensors returns the bytes of model.safetensors: little-endian, basis d×k, weights k×m, linear d×m if there is
// one, bias m, and of a feature map its weights and tables.
func EncodeTensors(c *Contents) ([]byte, error) {
	dtype := cmp.Or(c.Tensors, F64)
	header, numbers, err := TensorHeader(c.NumFeatures, c.NumOutputs, c.NumBasis, c.Linear != nil, c.Schema.FeatureMap,
		dtype)
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, len(header)+tensorBytes(dtype)*numbers), header...)
	lists := [][]float64{c.Basis, c.Weights, c.Linear, c.Bias, c.MapWeights}
	if fm := c.Schema.FeatureMap; fm != nil {
		for _, t := range fm.tables() {
			lists = append(lists, *t.values)
		}
	}
	for _, values := range lists {
		for _, v := range values {
			if dtype == F32 {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
			} else {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
		}
	}
	return b, nil
}

// DecodeTensors sets the parameters of c and their type; their shape is known from the manifest. Memory is taken only
// once the length is right. The parameters may lie in b, which must not change any more.
func DecodeTensors(c *Contents, b []byte) error {
	d, m, k := c.NumFeatures, c.NumOutputs, c.NumBasis
	for _, form := range []struct {
		dtype  string
		linear bool
	}{{F64, false}, {F64, true}, {F32, false}, {F32, true}} {
		header, numbers, err := TensorHeader(d, m, k, form.linear, c.Schema.FeatureMap, form.dtype)
		if err != nil {
			return fmt.Errorf("model.safetensors: %w: %w", disk.ErrFormat, err)
		}
		if !bytes.HasPrefix(b, header) {
			continue
		}
		size := tensorBytes(form.dtype)
		if len(b) != len(header)+size*numbers {
			return fmt.Errorf("model.safetensors: %w: %d bytes, want %d", disk.ErrFormat, len(b), len(header)+size*numbers)
		}
		b = b[len(header):]
		take := func(n int) []float64 {
			values := inPlace(b, n, form.dtype)
			if values != nil {
				b = b[size*n:]
				return values
			}
			values = make([]float64, n)
			for i := range values {
				if form.dtype == F32 {
					values[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[size*i:])))
				} else {
					values[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[size*i:]))
				}
			}
			b = b[size*n:]
			return values
		}
		c.Tensors = form.dtype
		c.Basis, c.Weights = take(d*k), take(k*m)
		if form.linear {
			c.Linear = take(d * m)
		}
		c.Bias = take(m)
		if fm := c.Schema.FeatureMap; fm != nil {
			c.MapWeights = take(fm.NumColumns() * m)
			for _, t := range fm.tables() {
				*t.values = take(int(t.size()))
			}
		}
		return nil
	}
	return fmt.Errorf(
		"model.safetensors: %w: the header is not the one of %d features, %d outputs and %d basis vectors in F64 or F32",
		disk.ErrFormat,
		d,
		m,
		k,
	)
}

// inPlace returns the first n numbers of a type in b without copying them, nil if they do not lie there as this machine
// has them.
func inPlace(b []byte, n int, dtype string) []float64 {
	if n == 0 || dtype != F64 || binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil
	}
	first := unsafe.Pointer(&b[:8*n][0])
	if uintptr(first)%unsafe.Alignof(float64(0)) != 0 {
		return nil
	}
	return unsafe.Slice((*float64)(first), n)
}
