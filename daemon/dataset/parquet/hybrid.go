package parquet

import (
	"encoding/binary"
	"errors"
	"io"
)

var errRuns = errors.New("its runs are not readable")

// hybrid reads runs of equal values and of packed bits: levels, places in a dictionary, true and false.
type hybrid struct {
	b     []byte
	width int // bits of a value
	run   uint64
	value uint32 // of the run
	// packed, unless it is nil, are the bits of the run, of which bit is the next.
	packed []byte
	bit    int
}

func (h *hybrid) next() (uint32, error) {
	for h.run == 0 {
		if err := h.begin(); err != nil {
			return 0, err
		}
	}
	h.run--
	if h.packed == nil {
		return h.value, nil
	}
	v, ok := bitsAt(h.packed, h.bit, h.width)
	if h.bit += h.width; !ok {
		return 0, io.ErrUnexpectedEOF
	}
	return uint32(v), nil
}

// begin reads the header of the next run.
func (h *hybrid) begin() error {
	head, n := binary.Uvarint(h.b)
	if n <= 0 {
		return errors.Join(errRuns, io.ErrUnexpectedEOF)
	}
	h.b = h.b[n:]
	h.run, h.packed, h.bit = head>>1, nil, 0
	if head&1 == 0 {
		bytes := (h.width + 7) / 8
		if bytes > len(h.b) {
			return errors.Join(errRuns, io.ErrUnexpectedEOF)
		}
		h.value = 0
		for i := range bytes {
			h.value |= uint32(h.b[i]) << (8 * i)
		}
		if h.width < 32 && h.value>>h.width != 0 {
			return errRuns
		}
		h.b = h.b[bytes:]
		return nil
	}
	groups := h.run
	h.run, h.value = groups*8, 0
	if h.width == 0 { // all are 0
		if groups > maxGroups {
			return errRuns
		}
		return nil
	}
	if groups > uint64(len(h.b)/h.width)+1 { // the last one may be cut off behind its values
		return errors.Join(errRuns, io.ErrUnexpectedEOF)
	}
	bytes := min(groups*uint64(h.width), uint64(len(h.b)))
	h.packed, h.b = h.b[:bytes:bytes], h.b[bytes:]
	return nil
}

// maxGroups bounds the groups of eight values of a run, as Parquet does.
const maxGroups = 1 << 31

// bitsAt returns width bits from bit on, at most 64, the lowest first; ok is false if they are not all there.
func bitsAt(b []byte, bit, width int) (v uint64, ok bool) {
	if width == 0 {
		return 0, true
	}
	first, last := bit/8, (bit+width-1)/8
	if last >= len(b) {
		return 0, false
	}
	shift := bit % 8
	v = uint64(b[first]) >> shift
	for i := first + 1; i <= last; i++ {
		v |= uint64(b[i]) << (8*(i-first) - shift)
	}
	if width < 64 {
		v &= 1<<width - 1
	}
	return v, true
}
