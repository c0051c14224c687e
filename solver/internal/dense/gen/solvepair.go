package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// maxPair is the order up to which the kernel of SolvePair is written out: a loop over so few terms would mostly wait
// for branches.
const maxPair = 16

// solvePair writes the kernel of SolvePair, whose vectors are one element of either system. work holds pairs: the lower
// triangle, the right sides, which become the solutions, and the inverses of the pivots.
func solvePair() {
	const pair = 2 * float64Bytes
	v := vectors{name: "AVX2", width: 4}
	v.text("solvePair", "func(x0, x1, a0, a1, b0, b1, d, work *float64, n int)", "is SolvePair.")
	work := Load(Param("work"), GP64())
	n := Load(Param("n"), GP64())
	at := func(i, j int) Mem { return Mem{Base: work, Disp: (i*(i+1)/2 + j) * pair} }
	right := func(i int) Mem { return at(maxPair, i) }
	inverse := func(i int) Mem { return at(maxPair, maxPair+i) }

	size := copyOf(n) // n(n+1)/2
	INCQ(size)
	IMULQ(n, size)
	SHRQ(U8(1), size)
	join := func(name string, to Mem, from [2]string, count Register) {
		to0 := GP64()
		LEAQ(to, to0)
		x, y := Load(Param(from[0]), GP64()), Load(Param(from[1]), GP64())
		i := GP64()
		XORQ(i, i)
		Label(name)
		both := XMM()
		VMOVSD(Mem{Base: x, Index: i, Scale: float64Bytes}, both)
		VMOVHPD(Mem{Base: y, Index: i, Scale: float64Bytes}, both, both)
		VMOVUPD(both, Mem{Base: to0})
		ADDQ(U32(pair), to0)
		INCQ(i)
		CMPQ(i, count)
		JLT(LabelRef(name))
	}
	join("triangle", at(0, 0), [2]string{"a0", "a1"}, size)
	join("right", right(0), [2]string{"b0", "b1"}, n)
	ones := XMM()
	bits := GP64()
	MOVQ(U64(0x3ff0000000000000), bits)
	VMOVQ(bits, ones)
	VMOVDDUP(ones, ones)
	d := Load(Param("d"), GP64())
	for k := maxPair - 1; k >= 0; k-- {
		skip := fmt.Sprintf("skip%d", k)
		CMPQ(n, U32(k+1))
		JLT(LabelRef(skip))
		pivot, inverted := XMM(), XMM()
		VMOVDDUP(Mem{Base: d, Disp: k * float64Bytes}, pivot)
		VADDPD(at(k, k), pivot, pivot)
		VMOVUPD(pivot, at(k, k))
		VDIVPD(pivot, ones, inverted)
		VMOVUPD(inverted, inverse(k))
		for i := k - 1; i >= 0; i-- { // the next pivot first
			f := XMM()
			VMULPD(at(k, i), inverted, f)
			less := func(factor, of Mem) {
				sum := XMM()
				VMOVUPD(of, sum)
				VFNMADD231PD(factor, f, sum)
				VMOVUPD(sum, of)
			}
			for j := i; j >= 0; j-- {
				less(at(k, j), at(i, j))
			}
			less(right(k), right(i))
		}
		Label(skip)
	}
	for k := range maxPair {
		CMPQ(n, U32(k))
		JLE(LabelRef("solved"))
		sum := XMM()
		VMOVUPD(right(k), sum)
		for j := range k {
			x := XMM()
			VMOVUPD(right(j), x)
			VFNMADD231PD(at(k, j), x, sum)
		}
		VMULPD(inverse(k), sum, sum)
		VMOVUPD(sum, right(k))
	}
	Label("solved")
	x0, x1 := Load(Param("x0"), GP64()), Load(Param("x1"), GP64())
	from, i := GP64(), GP64()
	LEAQ(right(0), from)
	XORQ(i, i)
	Label("apart")
	both := XMM()
	VMOVUPD(Mem{Base: from}, both)
	VMOVSD(both, Mem{Base: x0, Index: i, Scale: float64Bytes})
	VMOVHPD(both, Mem{Base: x1, Index: i, Scale: float64Bytes})
	ADDQ(U32(pair), from)
	INCQ(i)
	CMPQ(i, n)
	JLT(LabelRef("apart"))
	RET()
}
