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
