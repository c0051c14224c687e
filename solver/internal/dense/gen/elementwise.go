package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// elementwiseVectors is the number of vectors in flight, which hides the latency of a multiply-add.
const elementwiseVectors = 4

// addScaled writes the kernel of AddScaled, that of AddScaledProduct, which has a further factor, or that of ScaleAdd,
// which scales the other term.
func addScaled(v vectors, name string) {
	product := name == "addScaledProduct"
	args := "x *float64"
	if product {
		args = "x, y *float64"
	}
	v.text(name, fmt.Sprintf("func(dst *float64, f float64, %s, n int)", args),
		fmt.Sprintf("is %s%s.", strings.ToUpper(name[:1]), name[1:]))
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
			if name == "scaleAdd" {
				VFMADD213PD(q[j], f, p[j])
			} else {
				VFMADD231PD(q[j], f, p[j])
			}
			v.store(p[j], ma, Mem{Base: dst, Disp: j * v.bytes()})
		}
		for _, p := range append(factors, dst) {
			ADDQ(U32(vectors*v.bytes()), p)
		}
	}
	v.overVectors(n, step)
	end()
}

// overVectors writes a loop over n elements, elementwiseVectors at a time while there are as many, then one under a
// mask.
func (v vectors) overVectors(n Register, step func(vectors int, ma mask)) {
	Label("vectors")
	CMPQ(n, U32(elementwiseVectors*v.width))
	JLT(LabelRef("tail"))
	step(elementwiseVectors, mask{})
	SUBQ(U32(elementwiseVectors*v.width), n)
	JMP(LabelRef("vectors"))
	v.overTail(n, func(ma mask) { step(1, ma) })
}

// largest writes the kernel of Max. Its registers begin with the first element, which also fills the lanes that a
// mask leaves out.
func largest(v vectors) {
	v.text("max", "func(x *float64, n int) float64", "is Max.")
	x := Load(Param("x"), GP64())
	n := Load(Param("n"), GP64())
	first, most := v.register(), v.registers(elementwiseVectors)
	VBROADCASTSD(Mem{Base: x}, first)
	for j := range most {
		VMOVAPD(first, most[j])
	}
	v.overVectors(n, func(vectors int, ma mask) {
		for j := range vectors {
			from := Mem{Base: x, Disp: j * v.bytes()}
			switch {
			case ma.k != nil:
				VMAXPD(from, most[j], ma.k, most[j])
			case ma.ymm != nil:
				part := v.register()
				v.load(from, ma, part)
				VBLENDVPD(ma.ymm, part, first, part)
				VMAXPD(part, most[j], most[j])
			default:
				VMAXPD(from, most[j], most[j])
			}
		}
		ADDQ(U32(vectors*v.bytes()), x)
	})
	VMAXPD(most[1], most[0], most[0])
	VMAXPD(most[3], most[2], most[2])
	VMAXPD(most[2], most[0], most[0])
	if v.wide() {
		upper := YMM()
		VEXTRACTF64X4(U8(1), most[0], upper)
		VMAXPD(upper, most[0].AsY(), most[0].AsY())
	}
	one, other := most[0].AsX(), XMM()
	VEXTRACTF128(U8(1), most[0].AsY(), other)
	VMAXPD(other, one, one)
	VPERMILPD(U8(1), one, other)
	VMAXSD(other, one, one)
	to, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSD(one, to.Addr)
	end()
}

// exchange writes the kernel of Exchange.
func exchange(v vectors) {
	v.text("exchange", "func(x, y *float64, n int)", "is Exchange.")
	x := Load(Param("x"), GP64())
	y := Load(Param("y"), GP64())
	n := Load(Param("n"), GP64())
	v.overVectors(n, func(vectors int, ma mask) {
		for j := range vectors {
			p, q, larger := v.register(), v.register(), v.register()
			v.load(Mem{Base: x, Disp: j * v.bytes()}, ma, p)
			v.load(Mem{Base: y, Disp: j * v.bytes()}, ma, q)
			VMAXPD(q, p, larger)
			VMINPD(q, p, p)
			v.store(larger, ma, Mem{Base: x, Disp: j * v.bytes()})
			v.store(p, ma, Mem{Base: y, Disp: j * v.bytes()})
		}
		ADDQ(U32(vectors*v.bytes()), x)
		ADDQ(U32(vectors*v.bytes()), y)
	})
	end()
}

// exp writes the kernel of Exp. constants points at what expConstants of package dense holds: the bounds, the
// reduction, then the coefficients of the polynomial from the highest degree on.
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

// multiplyAdds writes the loop with which the benchmarks measure the machine's peak: multiply-adds of registers and
// nothing else.
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
