package format

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestInPlace(t *testing.T) {
	b := binary.NativeEndian.AppendUint64(make([]byte, 8), math.Float64bits(1.5))
	if got := inPlace(b[8:], 1, F64); binary.NativeEndian.Uint16([]byte{1, 0}) == 1 &&
		(len(got) != 1 || cap(got) != 1 || got[0] != 1.5) {
		t.Errorf("an aligned number: %v", got)
	}
	if got := inPlace(b[1:], 1, F64); got != nil {
		t.Errorf("a number at an odd address: %v", got)
	}
}

func TestNotFinite(t *testing.T) {
	for n := range 14 {
		values := make([]float64, n)
		for i := range values {
			values[i] = math.MaxFloat64
		}
		if at := notFinite(values); at != -1 {
			t.Errorf("%v: position %d", values, at)
		}
		for i := range values {
			for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				values[i] = v
				if at := notFinite(values); at != i {
					t.Errorf("%v: position %d, want %d", values, at, i)
				}
			}
			values[i] = -math.MaxFloat64
		}
	}
}
