package parquet

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Text returns the text of a value as CSV would have it. Whole numbers among numbers have no point, so that they
// can be names; times are RFC 3339.
func (c *Column) Text(v *Value) string {
	switch c.form {
	case asDecimal:
		return c.decimal(v)
	case asUUID:
		h := hex.EncodeToString(v.Bytes)
		return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
	case asHalf:
		return numberText(half(binary.LittleEndian.Uint16(v.Bytes)), 32)
	case asTimeOfDay:
		return at(v.Int, c.unit).Format("15:04:05.999999999")
	}
	switch c.Kind {
	case Bool:
		return strconv.FormatBool(v.Int != 0)
	case Whole:
		return strconv.FormatInt(v.Int, 10)
	case Unsigned:
		if c.narrow {
			return strconv.FormatUint(uint64(uint32(v.Int)), 10)
		}
		return strconv.FormatUint(uint64(v.Int), 10)
	case Number:
		if c.narrow {
			return numberText(v.Float, 32)
		}
		return numberText(v.Float, 64)
	case Time:
		if v.Bytes != nil {
			return int96(v.Bytes).Format(time.RFC3339Nano)
		}
		return at(v.Int, c.unit).Format(time.RFC3339Nano)
	case Date:
		return at(v.Int*24*60*60, 1).Format(time.DateOnly)
	}
	return string(v.Bytes)
}

func numberText(v float64, bits int) string {
	const exact = 1 << 53
	if v == math.Trunc(v) && math.Abs(v) < exact {
		return strconv.FormatFloat(v+0, 'f', -1, bits) // -0 + 0 is 0
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}

// at returns the time that is n units after 1970 began; a second has so many.
func at(n, units int64) time.Time {
	seconds := n / units
	return time.Unix(seconds, (n-seconds*units)*(1e9/units)).UTC()
}

// int96 reads nanoseconds of a Julian day.
func int96(b []byte) time.Time {
	const julianEpoch = 2440588 // of 1970-01-01
	day := int64(int32(binary.LittleEndian.Uint32(b[8:])))
	return time.Unix((day-julianEpoch)*24*60*60, int64(binary.LittleEndian.Uint64(b))).UTC()
}

// half reads a number of 16 bits.
func half(b uint16) float64 {
	sign, exponent, fraction := b>>15, int(b>>10&0x1f), float64(b&0x3ff)
	v := math.Ldexp(fraction, -24)
	switch {
	case exponent == 0x1f && fraction == 0:
		v = math.Inf(1)
	case exponent == 0x1f:
		return math.NaN()
	case exponent > 0:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if sign != 0 {
		return -v
	}
	return v
}

const (
	maxScale        = 1000 // decimals of a number
	maxDecimalBytes = 128  // of one before its decimals are set apart, which is more than any program has
)

// decimal writes a decimal number without zeros at its end.
func (c *Column) decimal(v *Value) string {
	digits := strconv.FormatInt(v.Int, 10)
	if v.Bytes != nil {
		if len(v.Bytes) > maxDecimalBytes {
			return fmt.Sprintf(
				"a decimal number of %d bytes",
				len(v.Bytes),
			) // which is no number, and is refused as that
		}
		n := new(big.Int).SetBytes(v.Bytes)
		if len(v.Bytes) > 0 && v.Bytes[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v.Bytes))))
		}
		digits = n.String()
	}
	digits, negative := strings.CutPrefix(digits, "-")
	if missing := c.scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, decimals := digits[:len(digits)-c.scale], strings.TrimRight(digits[len(digits)-c.scale:], "0")
	if decimals != "" {
		whole += "." + decimals
	}
	if negative {
		return "-" + whole
	}
	return whole
}
