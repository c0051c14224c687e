package rowmath

import (
	"math"
	"runtime"
)

// cosineReach is up to where cosine reduces its argument itself. math.Cos does it in the same way up to 2²⁹. Chosen by
// hand.
const cosineReach = 1 << 20

// Cosine is math.Cos to the bit, of numbers in any order: where that branches by octant, which no processor foresees,
// this evaluates both polynomials and takes the bits of one (Cephes; Moshier 1989, as package math has it). Elsewhere
// than on amd64 compilers may fuse operations otherwise in one than in the other: it is math.Cos there.
func Cosine(x float64) float64 {
	const (
		quarter1 = 7.85398125648498535156e-1 // π/4 in three parts
		quarter2 = 3.77489470793079817668e-8
		quarter3 = 2.69515142907905952645e-15
	)
	x = math.Abs(x)
	if !(x < cosineReach) || runtime.GOARCH != "amd64" {
		return math.Cos(x)
	}
	octant := int64(x * (4 / math.Pi))
	octant += octant & 1 // the nearest even one
	y := float64(octant)
	z := ((x - y*quarter1) - y*quarter2) - y*quarter3
	zz := z * z
	sine := z + z*zz*((((((1.58962301576546568060e-10*zz)+-2.50507477628578072866e-8)*zz+
		2.75573136213857245213e-6)*zz+-1.98412698295895385996e-4)*zz+8.33333333332211858878e-3)*zz+
		-1.66666666666666307295e-1)
	even := 1.0 - 0.5*zz + zz*zz*((((((-1.13585365213876817300e-11*zz)+2.08757008419747316778e-9)*zz+
		-2.75573141792967388112e-7)*zz+2.48015872888517045348e-5)*zz+-1.38888888888730564116e-3)*zz+
		4.16666666666665929218e-2)
	// Octants modulo 8: 0 is the cosine, 2 minus the sine, 4 minus the cosine, 6 the sine.
	isSine := -uint64(octant >> 1 & 1)
	bits := math.Float64bits(sine)&isSine | math.Float64bits(even)&^isSine
	return math.Float64frombits(bits ^ uint64((octant>>1^octant>>2)&1)<<63)
}
