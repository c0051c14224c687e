package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	float32Bytes = 4
	singleLanes  = 16 // of float32, of which numbers come in multiples
)

// narrow writes dst[i] = float32(src[i]).
func narrow(v vectors) {
	v.text("narrow", "func(dst *float32, src *float64, n int)", "is Narrow.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	Label("rows")
	for h := range singleLanes / v.width {
		x := v.register()
		VMOVUPD(Mem{Base: src, Disp: h * v.bytes()}, x)
		if v.wide() {
			half := YMM()
			VCVTPD2PS(x, half)
			VMOVUPS(half, Mem{Base: dst, Disp: h * v.width * float32Bytes})
		} else {
			half := XMM()
			VCVTPD2PSY(x, half)
			VMOVUPS(half, Mem{Base: dst, Disp: h * v.width * float32Bytes})
		}
	}
	ADDQ(U32(singleLanes*float64Bytes), src)
	ADDQ(U32(singleLanes*float32Bytes), dst)
	SUBQ(U32(singleLanes), n)
	JG(LabelRef("rows"))
	end()
}

// productSingle writes dst[i] = x[i]·y[i].
func productSingle(v vectors) {
	v.text("productSingle", "func(dst, x, y *float32, n int)", "is ProductSingle.")
	var dst, x, y Register = Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("y"), GP64())
	n := Load(Param("n"), GP64())
	Label("rows")
	for at := 0; at < singleLanes*float32Bytes; at += v.bytes() {
		product := v.register()
		VMOVUPS(Mem{Base: x, Disp: at}, product)
		VMULPS(Mem{Base: y, Disp: at}, product, product)
		VMOVUPS(product, Mem{Base: dst, Disp: at})
	}
	for _, p := range []Register{dst, x, y} {
		ADDQ(U32(singleLanes*float32Bytes), p)
	}
	SUBQ(U32(singleLanes), n)
	JG(LabelRef("rows"))
	end()
}
