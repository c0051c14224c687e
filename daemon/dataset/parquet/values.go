package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Value is a value of a column, in the part that its type has. Bytes are part of a page and must not be changed.
type Value struct {
	Int   int64 // true and false are 1 and 0
	Float float64
	Bytes []byte
	Null  bool // of a list: a member that is none
}

// Encodings.
const (
	encodingPlain           = 0
	encodingPlainDictionary = 2
	encodingRLE             = 3
	encodingBitPacked       = 4
	encodingDelta           = 5
	encodingDeltaLength     = 6
	encodingDeltaBytes      = 7
	encodingDictionary      = 8
	encodingSplit           = 9
)

func encodingName(encoding int32) string {
	names := [...]string{"PLAIN", "GROUP_VAR_INT", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED",
		"DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"}
	if encoding < 0 || int(encoding) >= len(names) {
		return fmt.Sprintf("encoding %d", encoding)
	}
	return names[encoding]
}

// decoder gives the values of a page, one after the other.
type decoder interface {
	next(v *Value) error
}

// newDecoder begins with the values of a page.
func (l *leaf) newDecoder(encoding int32, b []byte, d *dictionary) (decoder, error) {
	isInt := l.physical == typeInt32 || l.physical == typeInt64
	isBytes := l.physical == typeByteArray || l.physical == typeFixed
	switch {
	case encoding == encodingPlain && l.physical == typeBoolean:
		return &plainBits{b: b}, nil
	case encoding == encodingPlain:
		return &plain{leaf: l, b: b}, nil
	case encoding == encodingDictionary || encoding == encodingPlainDictionary:
		if d == nil {
			return nil, errors.New("a page of places in a dictionary, and the column has no dictionary")
		}
		if len(b) == 0 || b[0] > 32 {
			return nil, errRuns
		}
		return &indexed{places: hybrid{b: b[1:], width: int(b[0])}, of: d}, nil
	case encoding == encodingRLE && l.physical == typeBoolean:
		runs, _, err := prefixed(b)
		return &runBits{hybrid{b: runs, width: 1}}, err
	case encoding == encodingDelta && isInt:
		d, err := newDeltas(b)
		return &deltaInts{deltas: d, narrow: l.physical == typeInt32}, err
	case encoding == encodingDeltaLength && l.physical == typeByteArray:
		return newDeltaTexts(b)
	case encoding == encodingDeltaBytes && isBytes:
		return newSharedTexts(b, l.width)
	case encoding == encodingSplit && l.width > 0 && l.physical != typeInt96:
		if len(b)%l.width != 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return &split{leaf: l, b: b, stride: len(b) / l.width}, nil
	}
	return nil, fmt.Errorf("the encoding %s is not supported for this type: write the column with another one",
		encodingName(encoding))
}

// prefixed cuts bytes that begin with their number off the rest.
func prefixed(b []byte) (part, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := binary.LittleEndian.Uint32(b)
	return b[4 : 4+n], b[4+n:], nil
}

// read takes a value of a fixed width out of its bytes.
func (l *leaf) read(b []byte, v *Value) {
	switch l.physical {
	case typeInt32:
		v.Int = int64(int32(binary.LittleEndian.Uint32(b)))
	case typeInt64:
		v.Int = int64(binary.LittleEndian.Uint64(b))
	case typeFloat:
		v.Float = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case typeDouble:
		v.Float = math.Float64frombits(binary.LittleEndian.Uint64(b))
	default:
		v.Bytes = b
	}
}

// plain reads values one behind the other.
type plain struct {
	leaf *leaf
	b    []byte
}

func (p *plain) next(v *Value) error {
	if p.leaf.physical == typeByteArray {
		part, rest, err := prefixed(p.b)
		if err != nil {
			return err
		}
		if len(part) > maxValue {
			return errLong
		}
		v.Bytes, p.b = part, rest
		return nil
	}
	w := p.leaf.width
	if len(p.b) < w {
		return io.ErrUnexpectedEOF
	}
	p.leaf.read(p.b[:w:w], v)
	p.b = p.b[w:]
	return nil
}

var errLong = fmt.Errorf("a value has more than %d bytes", maxValue)

type plainBits struct {
	b   []byte
	bit int
}

func (p *plainBits) next(v *Value) error {
	bit, ok := bitsAt(p.b, p.bit, 1)
	if !ok {
		return io.ErrUnexpectedEOF
	}
	v.Int = int64(bit)
	p.bit++
	return nil
}

type runBits struct{ hybrid }

func (r *runBits) next(v *Value) error {
	bit, err := r.hybrid.next()
	v.Int = int64(bit)
	return err
}

// dictionary holds values, which pages name by their places in it.
type dictionary struct {
	leaf *leaf
	b    []byte
	ends []uint32 // of the values in b, for byte arrays
	n    uint32
}

// newDictionary takes apart a page of n values, which are plain.
func newDictionary(l *leaf, b []byte, n int) (*dictionary, error) {
	d := &dictionary{leaf: l, b: b, n: uint32(n)}
	if l.physical != typeByteArray {
		if l.width == 0 || n > len(b)/l.width {
			return nil, io.ErrUnexpectedEOF
		}
		return d, nil
	}
	if n > len(b)/4 {
		return nil, io.ErrUnexpectedEOF
	}
	d.ends = make([]uint32, n)
	at := uint64(0)
	for i := range d.ends {
		part, _, err := prefixed(b[at:])
		if err != nil {
			return nil, err
		}
		if len(part) > maxValue {
			return nil, errLong
		}
		at += 4 + uint64(len(part))
		d.ends[i] = uint32(at)
	}
	return d, nil
}

// indexed reads places in a dictionary.
type indexed struct {
	places hybrid
	of     *dictionary
}

func (x *indexed) next(v *Value) error {
	i, err := x.places.next()
	if err != nil {
		return err
	}
	d := x.of
	if i >= d.n {
		return fmt.Errorf("place %d of a dictionary of %d values", i, d.n)
	}
	if d.ends == nil {
		w := uint32(d.leaf.width)
		d.leaf.read(d.b[i*w:(i+1)*w:(i+1)*w], v)
		return nil
	}
	begin := uint32(4)
	if i > 0 {
		begin += d.ends[i-1]
	}
	v.Bytes = d.b[begin:d.ends[i]:d.ends[i]]
	return nil
}

type deltaInts struct {
	*deltas
	narrow bool
}

func (d *deltaInts) next(v *Value) (err error) {
	if v.Int, err = d.deltas.next(); d.narrow {
		v.Int = int64(int32(v.Int)) // differences wrap round
	}
	return err
}

// deltaTexts reads byte arrays whose lengths come first.
type deltaTexts struct {
	lengths *deltas
	b       []byte
}

func newDeltaTexts(b []byte) (*deltaTexts, error) {
	lengths, err := newDeltas(b)
	if err != nil {
		return nil, err
	}
	skipped := *lengths
	content, err := skipped.rest()
	return &deltaTexts{lengths, content}, err
}

func (d *deltaTexts) next(v *Value) error {
	n, err := d.lengths.next()
	switch n = int64(int32(n)); {
	case err != nil:
		return err
	case n < 0 || n > int64(len(d.b)):
		return io.ErrUnexpectedEOF
	case n > maxValue:
		return errLong
	}
	v.Bytes, d.b = d.b[:n:n], d.b[n:]
	return nil
}

// sharedTexts reads byte arrays that begin as the one before them.
type sharedTexts struct {
	shared *deltas
	ends   *deltaTexts
	before []byte
	width  int // of every value, 0 if they differ
}

func newSharedTexts(b []byte, width int) (*sharedTexts, error) {
	shared, err := newDeltas(b)
	if err != nil {
		return nil, err
	}
	skipped := *shared
	rest, err := skipped.rest()
	if err != nil {
		return nil, err
	}
	ends, err := newDeltaTexts(rest)
	return &sharedTexts{shared: shared, ends: ends, width: width}, err
}

func (s *sharedTexts) next(v *Value) error {
	n, err := s.shared.next()
	if err != nil {
		return err
	}
	if err := s.ends.next(v); err != nil {
		return err
	}
	n = int64(int32(n))
	if n < 0 || n > int64(len(s.before)) {
		return errDelta
	}
	if n+int64(len(v.Bytes)) > maxValue {
		return errLong
	}
	text := make([]byte, 0, int(n)+len(v.Bytes))
	s.before = append(append(text, s.before[:n]...), v.Bytes...)
	if v.Bytes = s.before; s.width > 0 && len(v.Bytes) != s.width {
		return errDelta
	}
	return nil
}

// split reads values whose first bytes come first, then their second ones.
type split struct {
	leaf   *leaf
	b      []byte
	stride int // values
	at     int
}

func (s *split) next(v *Value) error {
	if s.at >= s.stride {
		return io.ErrUnexpectedEOF
	}
	b := make([]byte, s.leaf.width)
	for i := range b {
		b[i] = s.b[i*s.stride+s.at]
	}
	s.at++
	s.leaf.read(b, v)
	return nil
}
