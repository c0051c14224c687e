package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// downdateRow writes the kernel of DowndateRow, or without update that of a row which stays. The rest of a row is one
// to eight numbers, so that the last one, which y does not take, is always in it. AVX-512 alone.
func downdateRow(v vectors, update bool) {
	name, doc := "productRow", "is DowndateRow for f = 0."
	if update {
		name, doc = "downdateRow", "is DowndateRow for another f than 0."
	}
	v.text(name, "func(dst, y, row, x, u *float64, n int, f, v float64)", doc)
	y := Load(Param("y"), GP64())
	row := Load(Param("row"), GP64())
	x := Load(Param("x"), GP64())
	u := Load(Param("u"), GP64())
	n := Load(Param("n"), GP64())
	broadcast := func(name string) VecVirtual {
		address, err := Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		to := v.register()
		VBROADCASTSD(address.Addr, to)
		return to
	}
	f, factor := broadcast("f"), broadcast("v")
	sum := v.register()
	v.zero(sum)
	at := GP64()
	XORQ(at, at)
	step := func(all, without mask) {
		r, p := v.register(), v.register()
		v.load(float64At(row, at, 0), all, r)
		if update {
			v.load(float64At(u, at, 0), all, p)
			VFMADD231PD(p, f, r)
			v.store(r, all, float64At(row, at, 0))
		}
		q, t := v.register(), v.register()
		v.load(float64At(x, at, 0), all, q)
		VFMADD231PD(q, r, sum)
		v.load(float64At(y, at, 0), without, t)
		VFMADD231PD(r, factor, t)
		v.store(t, without, float64At(y, at, 0))
	}
	Label("rows")
	CMPQ(n, U32(v.width+1))
	JLT(LabelRef("rest"))
	step(mask{}, mask{})
	ADDQ(U32(v.bytes()), at)
	SUBQ(U32(v.width), n)
	JMP(LabelRef("rows"))
	Label("rest")
	all := v.newMask(n)
	DECQ(n)
	step(all, v.newMask(n))
	v.addTo(Mem{Base: Load(Param("dst"), GP64())}, []VecVirtual{sum})
	end()
}
