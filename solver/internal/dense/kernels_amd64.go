package dense

import "math"

//go:generate go -C gen run . -out ../dense_amd64.s -stubs ../stub_amd64.go -pkg dense

// A level is a set of instructions.
type level int

const (
	portable level = iota
	avx2           // and FMA
	avx512         // F and VL
)

// inUse is the best level of this machine. Only tests change it, to compare the levels.
var inUse = detect()

// The bits of the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID, and volume 1, section
// 13.3.
const (
	hasFMA, hasXSave, hasAVX = 1 << 12, 1 << 27, 1 << 28 // leaf 1, ecx; XSave: by the operating system
	hasAVX2                  = 1 << 5                    // leaf 7, ebx
	hasAVX512                = 1<<16 | 1<<31             // leaf 7, ebx: F and VL
	savedAVX                 = 1<<1 | 1<<2               // XMM and the upper halves of YMM
	savedAVX512              = savedAVX | 1<<5 | 1<<6 | 1<<7
)

// detect asks the processor for its instructions and the operating system, by XGETBV, for the registers that it saves.
func detect() level {
	leaves, _, _, _ := cpuid(0, 0)
	if leaves < 7 {
		return portable
	}
	_, _, ecx, _ := cpuid(1, 0)
	_, ebx, _, _ := cpuid(7, 0)
	saved := uint32(0)
	if ecx&hasXSave != 0 { // else there is no XGETBV
		saved = xgetbv()
	}
	return levelOf(ecx, ebx, saved)
}

// levelOf is the best level of a processor with ecx of leaf 1 and ebx of leaf 7, under a system that saves these
// registers.
func levelOf(ecx, ebx, saved uint32) level {
	const needed = hasFMA | hasXSave | hasAVX
	switch {
	case ecx&needed != needed || ebx&hasAVX2 == 0 || saved&savedAVX != savedAVX:
		return portable
	case ebx&hasAVX512 != hasAVX512 || saved&savedAVX512 != savedAVX512:
		return avx2
	}
	return avx512
}

type mulAddKernel func(dst *float64, stride int, a *[]float64, k, lo, n int, coef *float64, m int)

// mulAddKernels holds, per level, the kernels for 1, 2, … outputs.
var mulAddKernels = [...][]mulAddKernel{
	avx2: {mulAdd1AVX2, mulAdd2AVX2, mulAdd3AVX2, mulAdd4AVX2, mulAdd5AVX2, mulAdd6AVX2},
	avx512: {mulAdd1AVX512, mulAdd2AVX512, mulAdd3AVX512, mulAdd4AVX512, mulAdd5AVX512, mulAdd6AVX512, mulAdd7AVX512,
		mulAdd8AVX512, mulAdd9AVX512, mulAdd10AVX512, mulAdd11AVX512, mulAdd12AVX512, mulAdd13AVX512},
}

// mulAddColumns is the number of columns of a that one call of a kernel of MulAdd passes over, all rows of the tile
// before the next columns: few enough that the processor's prefetching follows them all (Intel's streamer keeps 32
// streams) and that another group of outputs finds their tile (256·8·24 bytes) in the caches. The terms are added to
// dst in the same order.
const mulAddColumns = 24

func mulAdd(dst []float64, stride int, a [][]float64, lo, n int, coef []float64, m int) {
	if inUse == portable {
		mulAddPortable(dst, stride, a, lo, n, coef, m)
		return
	}
	kernels := mulAddKernels[inUse]
	groups := (m + len(kernels) - 1) / len(kernels)
	for r := 0; r < len(a); r += mulAddColumns {
		k := min(mulAddColumns, len(a)-r)
		for g, c := 0, 0; g < groups; g++ {
			end := m * (g + 1) / groups
			kernels[end-c-1](&dst[c*stride], stride, &a[r], k, lo, n, &coef[r*m+c], m)
			c = end
		}
	}
}

// A dotAddKernel takes the sums of so many columns of a with the outputs of its place in dotAddKernels.
type dotAddKernel[T float32 | float64] struct {
	columns int
	run     func(dst *float64, a *[]T, lo, n int, b *T, stride, m int)
}

// dotAddKernels holds, per level, the kernels for 1, 2, … outputs, the most columns first.
var dotAddKernels = [...][][]dotAddKernel[float64]{
	avx2: {
		{{4, dotAdd4x1AVX2}, {1, dotAdd1x1AVX2}},
		{{3, dotAdd3x2AVX2}, {1, dotAdd1x2AVX2}},
		{{2, dotAdd2x3AVX2}, {1, dotAdd1x3AVX2}},
	},
	avx512: {
		{{8, dotAdd8x1AVX512}, {4, dotAdd4x1AVX512}, {1, dotAdd1x1AVX512}},
		{{8, dotAdd8x2AVX512}, {4, dotAdd4x2AVX512}, {1, dotAdd1x2AVX512}},
		{{8, dotAdd8x3AVX512}, {4, dotAdd4x3AVX512}, {1, dotAdd1x3AVX512}},
		{{4, dotAdd4x4AVX512}, {1, dotAdd1x4AVX512}},
		{{4, dotAdd4x5AVX512}, {1, dotAdd1x5AVX512}},
		{{4, dotAdd4x6AVX512}, {1, dotAdd1x6AVX512}},
		{{3, dotAdd3x7AVX512}, {1, dotAdd1x7AVX512}},
		{{3, dotAdd3x8AVX512}, {1, dotAdd1x8AVX512}},
	},
}

// dotAddSingleKernels holds those of float32s.
var dotAddSingleKernels = [...][][]dotAddKernel[float32]{
	avx2: {
		{{4, dotAddSingle4x1AVX2}, {1, dotAddSingle1x1AVX2}},
		{{3, dotAddSingle3x2AVX2}, {1, dotAddSingle1x2AVX2}},
		{{2, dotAddSingle2x3AVX2}, {1, dotAddSingle1x3AVX2}},
	},
	avx512: {
		{{8, dotAddSingle8x1AVX512}, {4, dotAddSingle4x1AVX512}, {1, dotAddSingle1x1AVX512}},
		{{8, dotAddSingle8x2AVX512}, {4, dotAddSingle4x2AVX512}, {1, dotAddSingle1x2AVX512}},
		{{8, dotAddSingle8x3AVX512}, {4, dotAddSingle4x3AVX512}, {1, dotAddSingle1x3AVX512}},
		{{4, dotAddSingle4x4AVX512}, {1, dotAddSingle1x4AVX512}},
		{{4, dotAddSingle4x5AVX512}, {1, dotAddSingle1x5AVX512}},
		{{4, dotAddSingle4x6AVX512}, {1, dotAddSingle1x6AVX512}},
		{{3, dotAddSingle3x7AVX512}, {1, dotAddSingle1x7AVX512}},
		{{3, dotAddSingle3x8AVX512}, {1, dotAddSingle1x8AVX512}},
	},
}

func dotAdd(dst []float64, a [][]float64, lo, n int, b []float64, stride, m int) {
	if n == 0 || inUse == portable {
		dotAddPortable(dst, a, lo, n, b, stride, m)
		return
	}
	dotAddBy(dotAddKernels[inUse], dst, a, lo, n, b, stride, m)
}

func dotAddSingle(dst []float64, a [][]float32, lo, n int, b []float32, stride, m int) {
	if inUse == portable {
		dotAddSinglePortable(dst, a, lo, n, b, stride, m)
		return
	}
	dotAddBy(dotAddSingleKernels[inUse], dst, a, lo, n, b, stride, m)
}

// The columns of b that a group of outputs takes stay in the first-level cache while those of a pass by. Groups are of
// equal size, so that one of 1, 2 or 3 outputs (AVX2: 1) is all there is, as its kernel expects.
func dotAddBy[T float32 | float64](kernels [][]dotAddKernel[T], dst []float64, a [][]T, lo, n int, b []T,
	stride, m int) {
	groups := (m + len(kernels) - 1) / len(kernels)
	for g, c := 0, 0; g < groups; g++ {
		end := m * (g + 1) / groups
		r := 0
		for _, kernel := range kernels[end-c-1] {
			for ; r+kernel.columns <= len(a); r += kernel.columns {
				kernel.run(&dst[r*m+c], &a[r], lo, n, &b[c*stride], stride, m)
			}
		}
		c = end
	}
}

func addScaled(dst []float64, f float64, x []float64) {
	switch inUse {
	case avx512:
		addScaledAVX512(&dst[0], f, &x[0], len(x))
	case avx2:
		addScaledAVX2(&dst[0], f, &x[0], len(x))
	default:
		addScaledPortable(dst, f, x)
	}
}

func scaleAdd(dst []float64, f float64, x []float64) {
	switch inUse {
	case avx512:
		scaleAddAVX512(&dst[0], f, &x[0], len(x))
	case avx2:
		scaleAddAVX2(&dst[0], f, &x[0], len(x))
	default:
		scaleAddPortable(dst, f, x)
	}
}

func addScaledProduct(dst []float64, f float64, x, y []float64) {
	switch inUse {
	case avx512:
		addScaledProductAVX512(&dst[0], f, &x[0], &y[0], len(dst))
	case avx2:
		addScaledProductAVX2(&dst[0], f, &x[0], &y[0], len(dst))
	default:
		addScaledProductPortable(dst, f, x, y)
	}
}

func dot(x, y []float64) float64 {
	sum := 0.0
	switch inUse {
	case avx512:
		dotAdd1x1AVX512(&sum, &x, 0, len(x), &y[0], 0, 1)
	case avx2:
		dotAdd1x1AVX2(&sum, &x, 0, len(x), &y[0], 0, 1)
	default:
		sum += dotPortable(x, y)
	}
	return sum
}

func exp(dst, src []float64) {
	switch inUse {
	case avx512:
		expAVX512(&dst[0], &src[0], len(src), &expConstants[0])
	case avx2:
		expAVX2(&dst[0], &src[0], len(src), &expConstants[0])
	default:
		expPortable(dst, src)
	}
}

// expConstants is what the kernels of Exp read.
var expConstants = append([]float64{expCeil, expFloor, math.Log2E, expShift, ln2High, ln2Low}, expTaylor[:]...)

// sweepKernels holds, per level, the kernels for rows of 8, 16, … numbers.
var sweepKernels = [...][]func(a *float64, n int, pivots *float64){
	avx2:   {sweep1AVX2, sweep2AVX2, sweep3AVX2, sweep4AVX2},
	avx512: {sweep1AVX512, sweep2AVX512, sweep3AVX512, sweep4AVX512},
}

func sweep(a []float64, stride int, pivots []float64) {
	switch {
	case inUse == portable:
		sweepPortable(a, stride, pivots)
	case stride/lanes <= len(sweepKernels[inUse]):
		sweepKernels[inUse][stride/lanes-1](&a[0], len(pivots), &pivots[0])
	default:
		sweepBy(addScaled, a, stride, pivots)
	}
}

func solvePair(x, a, b [2][]float64, d, work []float64) float64 {
	if inUse == portable {
		return solvePairPortable(x, a, b, d, work)
	}
	n := len(d)
	solvePairAVX2(&x[0][0], &x[1][0], &a[0][0], &a[1][0], &b[0][0], &b[1][0], &d[0], &work[0], n)
	least := math.Inf(1)
	for k, at := 0, 0; k < n; k, at = k+1, at+2*(k+2) {
		least = min(least, work[at], work[at+1])
	}
	return least
}

func narrow(dst []float32, src []float64) {
	switch inUse {
	case avx512:
		narrowAVX512(&dst[0], &src[0], len(dst))
	case avx2:
		narrowAVX2(&dst[0], &src[0], len(dst))
	default:
		narrowPortable(dst, src)
	}
}

func productSingle(dst, x, y []float32) {
	switch inUse {
	case avx512:
		productSingleAVX512(&dst[0], &x[0], &y[0], len(dst))
	case avx2:
		productSingleAVX2(&dst[0], &x[0], &y[0], len(dst))
	default:
		productSinglePortable(dst, x, y)
	}
}
