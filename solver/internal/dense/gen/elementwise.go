package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// elementwiseVectors is the number of vectors in flight, which hides the latency of a multiply-add.
const elementwiseVectors = 4

// addScaled writes the kernel of AddScaled, or with a further factor that of AddScaledProduct.
func addScaled(v vectors, product bool) {
	if product {
		v.text("addScaledProduct", "func(dst *float64, f float64, x, y *float64, n int)", "is AddScaledProduct.")
	} else {
		v.text("addScaled", "func(dst *float64, f float64, x *float64, n int)", "is AddScaled.")
	}
	dst := Load(Param("dst"), GP64())
	x := Load(Param("x"), GP64())
	factors := []Register{x}
	if product {
		factors = append(factors, Load(Param("y"), GP64()))
	}
	n := Load(Param("n"), GP64())
	f := v.register()
	address, err := Param("f").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSD(address.Addr, f)
	step := func(vectors int, ma mask) {
		p, q := v.registers(vectors), v.registers(vectors)
		for j := range vectors {
			v.load(Mem{Base: dst, Disp: j * v.bytes()}, ma, p[j])
			v.load(Mem{Base: x, Disp: j * v.bytes()}, ma, q[j])
			for _, y := range factors[1:] {
				r := v.register()
				v.load(Mem{Base: y, Disp: j * v.bytes()}, ma, r)
				VMULPD(r, q[j], q[j])
			}
			VFMADD231PD(q[j], f, p[j])
			v.store(p[j], ma, Mem{Base: dst, Disp: j * v.bytes()})
		}
		for _, p := range append(factors, dst) {
			ADDQ(U32(vectors*v.bytes()), p)
		}
	}
	v.overVectors(n, step)
	end()
}

// overVectors writes a loop over n elements, elementwiseVectors at a time while there are as many, then one under a mask.
func (v vectors) overVectors(n Register, step func(vectors int, ma mask)) {
	Label("vectors")
	CMPQ(n, U32(elementwiseVectors*v.width))
	JLT(LabelRef("tail"))
	step(elementwiseVectors, mask{})
	SUBQ(U32(elementwiseVectors*v.width), n)
	JMP(LabelRef("vectors"))
	v.overTail(n, func(ma mask) { step(1, ma) })
}

// exp writes the kernel of Exp. constants points at what expConstants of package dense holds: the bounds, the reduction, then
// the coefficients of the polynomial from the highest degree on.
func exp(v vectors) {
	v.text("exp", "func(dst, src *float64, n int, constants *float64)", "is Exp.")
	dst := Load(Param("dst"), GP64())
	src := Load(Param("src"), GP64())
	n := Load(Param("n"), GP64())
	constants := Load(Param("constants"), GP64())
	const ceil, floor, log2E, shift, ln2High, ln2Low, taylor, last = 0, 1, 2, 3, 4, 5, 6, 19
	constant := func(i int) VecVirtual {
		r := v.register()
		VBROADCASTSD(Mem{Base: constants, Disp: i * float64Bytes}, r)
		return r
	}
	const notLess = 21 // predicate NLT_UQ: also true of NaN
	step := func(vectors int, ma mask) {
		x, shifted, power := v.registers(vectors), v.registers(vectors), v.registers(vectors)
		bound := constant(ceil)
		for j := range x {
			v.load(Mem{Base: src, Disp: j * v.bytes()}, ma, x[j])
			VMINPD(x[j], bound, x[j]) // NaN in the first operand stays
		}
		scale, shiftBy := constant(log2E), constant(shift)
		for j := range x {
			VMOVAPD(x[j], shifted[j])
			VFMADD213PD(shiftBy, scale, shifted[j])
			VSUBPD(shiftBy, shifted[j], power[j])
		}
		for _, part := range []int{ln2High, ln2Low} {
			ln2 := constant(part)
			for j := range x {
				VFNMADD231PD(ln2, power[j], x[j])
			}
		}
		for j := range x {
			VBROADCASTSD(Mem{Base: constants, Disp: taylor * float64Bytes}, power[j])
		}
		for i := taylor + 1; i <= last; i++ {
			c := constant(i)
			for j := range x {
				VFMADD213PD(c, x[j], power[j])
			}
		}
		bound = constant(floor)
		for j := range x {
			VPSLLQ(U8(52), shifted[j], shifted[j])
			// The source is read again: comparing at the start would hold a register for the answer.
			original := x[j]
			v.load(Mem{Base: src, Disp: j * v.bytes()}, ma, original)
			if v.wide() {
				keep := K()
				VCMPPD(U8(notLess), bound, original, keep)
				VMULPD_Z(shifted[j], power[j], keep, power[j])
			} else {
				VCMPPD(U8(notLess), bound, original, original)
				VMULPD(shifted[j], power[j], power[j])
				VANDPD(original, power[j], power[j])
			}
			v.store(power[j], ma, Mem{Base: dst, Disp: j * v.bytes()})
		}
		ADDQ(U32(vectors*v.bytes()), dst)
		ADDQ(U32(vectors*v.bytes()), src)
	}
	v.overVectors(n, step)
	end()
}

// addOuterPacked writes the kernel of AddOuterPacked: row by row in whole vectors, then by half of that and so on. Under a mask the load at
// the start of each row would wait for the store at the end of the last one.
func addOuterPacked(v vectors) {
	v.text("addOuterPacked", "func(a *float64, w float64, v *float64, n int)", "is AddOuterPacked.")
	a := Load(Param("a"), GP64())
	x := Load(Param("v"), GP64())
	n := Load(Param("n"), GP64())
	w := Load(Param("w"), XMM())
	size := GP64() // of the row, at its start
	MOVQ(U32(1), size)
	Label("row")
	f := v.register()
	VMULSD(Mem{Base: x, Index: size, Scale: float64Bytes, Disp: -float64Bytes}, w, f.AsX())
	VBROADCASTSD(f.AsX(), f)
	y, left := copyOf(x), copyOf(size)
	step := func(width int) {
		part := VecVirtual.AsX
		move, multiplyAdd := VMOVUPD, VFMADD231PD
		switch width {
		case 8:
			part = VecVirtual.AsZ
		case 4:
			part = VecVirtual.AsY
		case 1:
			move, multiplyAdd = VMOVSD, VFMADD231SD
		}
		p, q := part(v.register()), part(v.register())
		move(Mem{Base: a}, p)
		move(Mem{Base: y}, q)
		multiplyAdd(q, part(f), p)
		move(p, Mem{Base: a})
		ADDQ(U32(width*float64Bytes), a)
		if width > 1 {
			ADDQ(U32(width*float64Bytes), y)
		}
	}
	Label("vectors")
	CMPQ(left, U32(v.width))
	JLT(LabelRef("tail"))
	step(v.width)
	SUBQ(U32(v.width), left)
	JMP(LabelRef("vectors"))
	Label("tail")
	for width := v.width / 2; width > 0; width /= 2 {
		skip := fmt.Sprintf("no%d", width)
		TESTQ(U32(width), left)
		JZ(LabelRef(skip))
		step(width)
		Label(skip)
	}
	INCQ(size)
	CMPQ(size, n)
	JLE(LabelRef("row"))
	end()
}

// multiplyAdds writes the loop with which the benchmarks measure the machine's peak: multiply-adds of registers and nothing else.
func multiplyAdds(v vectors) {
	const inFlight = 12 // two units with a latency of four or five cycles
	v.text("multiplyAdds", "func(rounds int)", fmt.Sprintf("executes %d·rounds multiply-adds of vectors.", inFlight))
	rounds := Load(Param("rounds"), GP64())
	x := v.register()
	v.zero(x)
	sums := v.registers(inFlight)
	for _, s := range sums {
		v.zero(s)
	}
	Label("round")
	for _, s := range sums {
		VFMADD231PD(x, x, s)
	}
	DECQ(rounds)
	JNZ(LabelRef("round"))
	end()
}
