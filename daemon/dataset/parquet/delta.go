package parquet

import (
	"encoding/binary"
	"errors"
)

var errDelta = errors.New("its differences are not readable")

// maxDeltaBlock bounds a block of differences; writers have 128 or 256 values in one.
const maxDeltaBlock = 1 << 16

// deltas reads whole numbers that are written as differences (DELTA_BINARY_PACKED).
type deltas struct {
	b         []byte // behind the block in hand
	miniature int    // values of a part of one
	parts     int
	total     uint64 // values that are left
	value     int64
	first     bool // value is one that next has not given

	smallest int64
	widths   []byte // of the parts that are left
	packed   []byte // of the part in hand
	width    int
	bit      int
	left     int // values of the part in hand
}

func newDeltas(b []byte) (*deltas, error) {
	d := &deltas{b: b, first: true}
	block, parts := d.uvarint(), d.uvarint()
	d.total = d.uvarint()
	d.value = d.varint()
	if d.b == nil || block == 0 || block > maxDeltaBlock || parts == 0 || block%parts != 0 || block/parts%8 != 0 {
		return nil, errDelta
	}
	d.parts, d.miniature = int(parts), int(block/parts)
	return d, nil
}

// uvarint reads a number; afterwards b is nil if there was none.
func (d *deltas) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b = nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *deltas) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *deltas) next() (int64, error) {
	if d.total == 0 {
		return 0, errDelta
	}
	d.total--
	if d.first {
		d.first = false
		return d.value, nil
	}
	if d.left == 0 {
		if err := d.begin(); err != nil {
			return 0, err
		}
	}
	v, ok := bitsAt(d.packed, d.bit, d.width)
	if !ok {
		return 0, errDelta
	}
	d.bit += d.width
	d.left--
	d.value += d.smallest + int64(v)
	return d.value, nil
}

// begin reads the beginning of the next part, and of its block where it is the first.
func (d *deltas) begin() error {
	if len(d.widths) == 0 {
		d.smallest = d.varint()
		if d.b == nil || len(d.b) < d.parts {
			return errDelta
		}
		d.widths, d.b = d.b[:d.parts], d.b[d.parts:]
	}
	d.width, d.widths = int(d.widths[0]), d.widths[1:]
	if d.width > 64 {
		return errDelta
	}
	bytes := min(d.miniature/8*d.width, len(d.b)) // the last part may be cut off behind its values
	d.packed, d.b = d.b[:bytes:bytes], d.b[bytes:]
	d.bit, d.left = 0, d.miniature
	return nil
}

// rest returns what follows the numbers, which it skips.
func (d *deltas) rest() ([]byte, error) {
	left := d.total
	if d.first && left > 0 {
		left--
	}
	for left > 0 {
		if err := d.begin(); err != nil {
			return nil, err
		}
		left -= min(left, uint64(d.left))
	}
	return d.b, nil
}
