package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// dotTile is the number of columns of a and of outputs whose products one kernel of DotAdd accumulates.
type dotTile struct{ columns, outputs int }

// dotTiles lists the kernels. As many accumulators as fit: 28 of AVX-512, or 6 pairs of AVX2, whose registers hold half
// of the eight lanes.
func (v vectors) dotTiles() []dotTile {
	if v.wide() {
		return []dotTile{
			{8, 1},
			{4, 1},
			{1, 1},
			{8, 2},
			{4, 2},
			{1, 2},
			{8, 3},
			{4, 3},
			{1, 3},
			{4, 4},
			{1, 4},
			{4, 5},
			{1, 5},
			{4, 6},
			{1, 6},
			{3, 7},
			{1, 7},
			{3, 8},
			{1, 8},
		}
	}
	return []dotTile{{4, 1}, {1, 1}, {3, 2}, {1, 2}, {2, 3}, {1, 3}}
}

// dotFlat is the largest number of outputs for which a kernel takes the rows of dst to follow each other: no more
// outputs than these go to a kernel only if they are all there are.
func (v vectors) dotFlat() int {
	if v.wide() {
		return 3
	}
	return 1
}

// dotAdd writes the kernel for one tile: dst[r·m+c] += Σ_i a[r][lo+i]·b[c·stride+i]. That of single precision
// multiplies and adds float32s in twice the lanes and adds the lanes as float64s; its n is a multiple of these.
func dotAdd(v vectors, columns, outputs int, single bool) {
	flat := outputs <= v.dotFlat()
	name, element, shift, lanesOf := "DotAdd", "float64", U8(3), 8
	if single {
		name, element, shift, lanesOf = "DotAddSingle", "float32", U8(2), 16
	}
	doc := fmt.Sprintf("is %s for %d columns of a and %d of m outputs.", name, columns, outputs)
	if flat {
		doc = fmt.Sprintf("is %s for %d columns of a and m = %d.", name, columns, outputs)
	}
	v.text(fmt.Sprintf("d%s%dx%d", name[1:], columns, outputs),
		fmt.Sprintf("func(dst *float64, a *[]%s, lo, n int, b *%[1]s, stride, m int)", element), doc)
	a := Load(Param("a"), GP64())
	row := Load(Param("lo"), GP64())
	n := Load(Param("n"), GP64())
	b := Load(Param("b"), GP64())
	stride := Load(Param("stride"), GP64())
	SHLQ(shift, row)
	SHLQ(shift, stride)
	sums := newDotSums(v, columns, outputs, single)
	for r := range sums.x {
		sums.x[r] = GP64()
		MOVQ(Mem{Base: a, Disp: r * sliceBytes}, sums.x[r])
		ADDQ(row, sums.x[r])
	}
	for c := range sums.y {
		sums.y[c] = copyOf(b)
		if c+1 < outputs {
			ADDQ(stride, b)
		}
	}
	sums.clear()
	at := GP64()
	XORQ(at, at)
	whole := copyOf(n)
	SUBQ(U32(lanesOf), whole)
	if !single {
		JLT(LabelRef("tail"))
	}
	Label("rows")
	sums.accumulate(at, func(int) mask { return mask{} })
	ADDQ(U32(8*float64Bytes), at)
	SUBQ(U32(lanesOf), whole)
	JGE(LabelRef("rows"))
	if !single {
		Label("tail")
		ADDQ(U32(8), whole)
		JZ(LabelRef("reduce"))
		sums.accumulate(at, func(half int) mask { return v.partMask(whole, half) })
		Label("reduce")
	}

	dst := Load(Param("dst"), GP64())
	m := Load(Param("m"), GP64())
	SHLQ(U8(3), m)
	lanes := sums.lanes()
	switch {
	case flat: // dst is one run of columns×outputs numbers
		for t := 0; t < len(lanes); t += v.width {
			v.addTo(Mem{Base: dst, Disp: t * float64Bytes}, lanes[t:min(t+v.width, len(lanes))])
		}
	case v.wide() && outputs == 4 && columns%2 == 0: // two rows of dst fill a register
		for r := 0; r < columns; r += 2 {
			v.addToTwoRows(dst, m, lanes[r*outputs:(r+2)*outputs])
		}
	default:
		for r := range columns {
			v.addTo(Mem{Base: dst}, lanes[r*outputs:(r+1)*outputs])
			ADDQ(m, dst)
		}
	}
	end()
}

// dotSums accumulates the products of columns x and outputs y in registers.
type dotSums struct {
	v      vectors
	x, y   []GPVirtual
	sums   [][]VecVirtual // of column r and output c at r·len(y)+c: the lanes, one register of AVX-512 or two of AVX2
	single bool
}

func newDotSums(v vectors, columns, outputs int, single bool) *dotSums {
	return &dotSums{v: v, x: make([]GPVirtual, columns), y: make([]GPVirtual, outputs),
		sums: make([][]VecVirtual, columns*outputs), single: single}
}

// halves is the number of registers that eight lanes take.
func (d *dotSums) halves() int { return 8 / d.v.width }

// clear writes what sets the sums to 0.
func (d *dotSums) clear() {
	for t := range d.sums {
		d.sums[t] = d.v.registers(d.halves())
		for _, s := range d.sums[t] {
			d.v.zero(s)
		}
	}
}

// accumulate writes the sums of one step of the lanes at the offset at.
func (d *dotSums) accumulate(at Register, maskOf func(half int) mask) {
	// The fewer of columns and outputs stay in registers, the others pass through one.
	held, passing := d.x, d.y
	ofHeld, ofPassing := len(d.y), 1 // strides of both in sums
	if len(d.y) < len(d.x) {
		held, passing = d.y, d.x
		ofHeld, ofPassing = 1, len(d.y)
	}
	for h := range d.halves() {
		ma := maskOf(h)
		p := d.v.registers(len(held))
		for i := range held {
			d.v.load(float64At(held[i], at, h*d.v.bytes()), ma, p[i])
		}
		for j := range passing {
			q := d.v.register()
			d.v.load(float64At(passing[j], at, h*d.v.bytes()), ma, q)
			for i := range held {
				d.multiplyAdd(q, p[i], d.sums[i*ofHeld+j*ofPassing][h])
			}
		}
	}
}

// multiplyAdd writes to += a·b.
func (d *dotSums) multiplyAdd(a, b, to VecVirtual) {
	if d.single {
		VFMADD231PS(a, b, to)
	} else {
		VFMADD231PD(a, b, to)
	}
}

// lanes returns the sums as float64s, a register for each. Of AVX2 they are the halves added, s_j + s_{j+4}.
func (d *dotSums) lanes() []VecVirtual {
	lanes := make([]VecVirtual, len(d.sums))
	for t, sums := range d.sums {
		if d.single {
			d.v.widen(sums)
		}
		lanes[t] = sums[0]
		if d.halves() == 2 {
			VADDPD(sums[1], sums[0], lanes[t])
		}
	}
	return lanes
}

// addToTwoRows adds the sums of eight accumulators to two rows of four numbers at dst, which are m bytes apart, and
// moves dst behind them.
func (v vectors) addToTwoRows(dst, m Register, lanes []VecVirtual) {
	both := v.reduce(lanes)
	second := YMM()
	VEXTRACTF64X4(U8(1), both, second)
	VADDPD(Mem{Base: dst}, both.AsY(), both.AsY())
	VMOVUPD(both.AsY(), Mem{Base: dst})
	VADDPD(Mem{Base: dst, Index: m, Scale: 1}, second, second)
	VMOVUPD(second, Mem{Base: dst, Index: m, Scale: 1})
	LEAQ(Mem{Base: dst, Index: m, Scale: 2}, dst)
}

// widen makes eight lanes of float64 of sixteen of float32, l_j + l_{j+8}.
func (v vectors) widen(sums []VecVirtual) {
	if v.wide() {
		upper, wide := YMM(), ZMM()
		VEXTRACTF64X4(U8(1), sums[0], upper)
		VCVTPS2PD(upper, wide)
		VCVTPS2PD(sums[0].AsY(), sums[0])
		VADDPD(wide, sums[0], sums[0])
		return
	}
	first, second, part, wide := YMM(), YMM(), XMM(), YMM()
	VCVTPS2PD(sums[0].AsX(), first)
	VCVTPS2PD(sums[1].AsX(), wide)
	VADDPD(wide, first, first)
	VEXTRACTF128(U8(1), sums[0], part)
	VCVTPS2PD(part, second)
	VEXTRACTF128(U8(1), sums[1], part)
	VCVTPS2PD(part, wide)
	VADDPD(wide, second, second)
	sums[0], sums[1] = first, second
}

// partMask returns the mask of one half (of AVX-512: the whole) of the first count (1 … 7) of eight elements.
func (v vectors) partMask(count Register, half int) mask {
	if v.wide() {
		return v.newMask(count)
	}
	// min(count, 4) of the lower half, max(count−4, 0) of the upper one
	part, bound := copyOf(count), GP64()
	if half == 0 {
		MOVQ(U32(v.width), bound)
		CMPQ(part, bound)
		CMOVQGT(bound, part)
	} else {
		XORQ(bound, bound)
		SUBQ(U32(v.width), part)
		CMOVQLT(bound, part)
	}
	return v.newMask(part)
}

// addTo adds the sums of at most width accumulators to as many numbers at dst.
func (v vectors) addTo(dst Mem, sums []VecVirtual) {
	total, old := v.reduce(sums), v.register()
	var ma mask
	if len(sums) < v.width {
		ma = v.constantMask(len(sums))
	}
	v.load(dst, ma, old)
	VADDPD(old, total, total)
	v.store(total, ma, dst)
}

// reduce returns a register whose element t is the sum of the lanes of sums[t], added as the package says: halves,
// quarters, then the two that are left. Elements without accumulator are arbitrary.
func (v vectors) reduce(sums []VecVirtual) VecVirtual {
	at := func(t int) VecVirtual {
		if t < len(sums) {
			return sums[t]
		}
		return nil
	}
	if !v.wide() {
		// [a0+a2 a1+a3 b0+b2 b1+b3] of a = sums[0], b = sums[2], and likewise of 1 and 3; then interleaved.
		quarter := func(a, b VecVirtual) VecVirtual {
			return v.fold(a, b, func(a, b, to Register) { VPERM2F128(U8(0x20), b, a, to) },
				func(a, b, to Register) { VPERM2F128(U8(0x31), b, a, to) })
		}
		return v.interleave(quarter(at(0), at(2)), quarter(at(1), at(3)))
	}
	half := func(a, b VecVirtual) VecVirtual {
		return v.fold(a, b, func(a, b, to Register) { VSHUFF64X2(U8(0x44), b, a, to) },
			func(a, b, to Register) { VSHUFF64X2(U8(0xee), b, a, to) })
	}
	quarter := func(a, b VecVirtual) VecVirtual {
		return v.fold(a, b, func(a, b, to Register) { VSHUFF64X2(U8(0x88), b, a, to) },
			func(a, b, to Register) { VSHUFF64X2(U8(0xdd), b, a, to) })
	}
	even := quarter(half(at(0), at(2)), half(at(4), at(6)))
	odd := quarter(half(at(1), at(3)), half(at(5), at(7)))
	return v.interleave(even, odd)
}

func (v vectors) interleave(a, b VecVirtual) VecVirtual {
	return v.fold(a, b, func(a, b, to Register) { VUNPCKLPD(b, a, to) },
		func(a, b, to Register) { VUNPCKHPD(b, a, to) })
}

// fold returns low(a, b) + high(a, b). A missing b is replaced by a, whose sum nobody reads twice.
func (v vectors) fold(a, b VecVirtual, low, high func(a, b, to Register)) VecVirtual {
	if a == nil {
		return nil
	}
	if b == nil {
		b = a
	}
	p, q := v.register(), v.register()
	low(a, b, p)
	high(a, b, q)
	VADDPD(q, p, p)
	return p
}
