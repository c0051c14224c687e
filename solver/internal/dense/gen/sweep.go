package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// sweepGroups is the number of eights of columns that the kernels of Sweep hold of the pivot's row.
const sweepGroups = 4

// sweep writes the kernel of Sweep for rows of 8·groups numbers. The pivots of each eight of columns have a separate
// loop, as the column that a pivot clears lies in other registers.
func sweep(v vectors, groups int) {
	v.text(fmt.Sprintf("sweep%d", groups), "func(a *float64, n int, pivots *float64)",
		fmt.Sprintf("is Sweep for rows of %d numbers.", 8*groups))
	const rowBytes = 8 * float64Bytes
	halves := 8 / v.width
	a := Load(Param("a"), GP64())
	n := Load(Param("n"), GP64())
	pivots := Load(Param("pivots"), GP64())
	row := copyOf(a) // the pivot's
	zeroed := GP64() // where the table has the mask without the first lane
	LEAQ(zeroTable(), zeroed)
	ones := v.register()
	bits := GP64()
	MOVQ(U64(0x3ff0000000000000), bits)
	VMOVQ(bits, ones.AsX())
	VBROADCASTSD(ones.AsX(), ones)
	done := copyOf(n) // pivots still to come
	for group := range groups {
		at, without := GP64(), copyOf(zeroed)
		MOVQ(U32(group*rowBytes), at)
		Label(fmt.Sprintf("pivot%d", group))
		TESTQ(done, done)
		JZ(LabelRef("done"))
		inverse := v.register()
		VMOVSD(Mem{Base: row, Index: at, Scale: 1}, inverse.AsX())
		VMOVSD(inverse.AsX(), Mem{Base: pivots})
		VDIVSD(inverse.AsX(), ones.AsX(), inverse.AsX())
		VBROADCASTSD(inverse.AsX(), inverse)
		masks, held := v.registers(halves), v.registers(groups*halves)
		for h, m := range masks {
			v.load(Mem{Base: without, Disp: h * v.bytes()}, mask{}, m)
		}
		for b, r := range held {
			v.load(Mem{Base: row, Disp: b * v.bytes()}, mask{}, r)
			if b/halves == group {
				one := v.register()
				v.and(masks[b%halves], r, r)
				v.andNot(masks[b%halves], ones, one)
				v.or(one, r, r)
			}
			VMULPD(inverse, r, r)
		}
		// The rows after the pivot's come first: the next pivot is in the first of them, and the division by it takes
		// as long as several rows.
		rows := func(label string, to, left Register) {
			label = fmt.Sprintf("%s%d", label, group)
			TESTQ(left, left)
			JZ(LabelRef("no_" + label))
			Label(label)
			f := v.register()
			VBROADCASTSD(Mem{Base: to, Index: at, Scale: 1}, f)
			for b, r := range held {
				sum := v.register()
				v.load(Mem{Base: to, Disp: b * v.bytes()}, mask{}, sum)
				if b/halves == group {
					v.and(masks[b%halves], sum, sum)
				}
				VFNMADD231PD(r, f, sum)
				v.store(sum, mask{}, Mem{Base: to, Disp: b * v.bytes()})
			}
			ADDQ(U32(groups*rowBytes), to)
			DECQ(left)
			JNZ(LabelRef(label))
			Label("no_" + label)
		}
		to, left := copyOf(row), copyOf(done)
		ADDQ(U32(groups*rowBytes), to)
		DECQ(left)
		rows("after", to, left)
		to, left = copyOf(a), copyOf(n)
		SUBQ(done, left)
		rows("before", to, left)
		for b, r := range held {
			v.store(r, mask{}, Mem{Base: row, Disp: b * v.bytes()})
		}
		ADDQ(U32(groups*rowBytes), row)
		ADDQ(U32(float64Bytes), pivots)
		ADDQ(U32(float64Bytes), at)
		SUBQ(U32(float64Bytes), without)
		DECQ(done)
		CMPQ(at, U32((group+1)*rowBytes))
		JLT(LabelRef(fmt.Sprintf("pivot%d", group)))
	}
	Label("done")
	end()
}

// zeroTable returns the middle of a table of ones with a zero there: eight lanes from i elements before it have the
// zero in lane i.
func zeroTable() Mem {
	if tableOfZero.Base == nil {
		tableOfZero = GLOBL("zero", 8|16) // RODATA|NOPTR
		for i := range 16 {
			bits := ^uint64(0)
			if i == 7 {
				bits = 0
			}
			DATA(i*float64Bytes, U64(bits))
		}
	}
	return tableOfZero.Offset(7 * float64Bytes)
}

var tableOfZero Mem

func (v vectors) and(x, y, to Register) {
	if v.wide() {
		VPANDQ(x, y, to)
	} else {
		VANDPD(x, y, to)
	}
}

// andNot keeps the elements of y where the mask is zero.
func (v vectors) andNot(mask, y, to Register) {
	if v.wide() {
		VPANDNQ(y, mask, to)
	} else {
		VANDNPD(y, mask, to)
	}
}

func (v vectors) or(x, y, to Register) {
	if v.wide() {
		VPORQ(x, y, to)
	} else {
		VORPD(x, y, to)
	}
}
