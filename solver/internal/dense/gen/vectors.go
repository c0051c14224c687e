package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// vectors is one of the two instruction sets.
type vectors struct {
	name  string
	width int // float64s of a register: 8 or 4
}

const (
	float64Bytes = 8
	sliceBytes   = 24 // pointer, length, capacity
)

func (v vectors) wide() bool { return v.width == 8 }
func (v vectors) bytes() int { return v.width * float64Bytes }

func (v vectors) register() VecVirtual {
	if v.wide() {
		return ZMM()
	}
	return YMM()
}

func (v vectors) registers(n int) []VecVirtual {
	rs := make([]VecVirtual, n)
	for i := range rs {
		rs[i] = v.register()
	}
	return rs
}

func (v vectors) zero(r Register) {
	if v.wide() {
		VPXORQ(r, r, r)
	} else {
		VXORPD(r, r, r)
	}
}

// mask selects the first elements of a vector: an opmask register, or a vector whose elements are all ones or zero.
type mask struct{ k, ymm Register }

// newMask returns the mask of the first count elements, count in [0, width] in a register.
func (v vectors) newMask(count Register) mask {
	if v.wide() {
		MOVQ(count, RCX)
		bits := GP64()
		MOVQ(U32(1), bits)
		SHLQ(CL, bits)
		DECQ(bits)
		k := K()
		KMOVW(bits.As32(), k)
		return mask{k: k}
	}
	ones := maskTable()
	at, address := GP64(), GP64()
	MOVQ(U32(v.width), at)
	SUBQ(count, at)
	LEAQ(ones, address)
	m := YMM()
	VMOVUPD(Mem{Base: address, Index: at, Scale: float64Bytes}, m)
	return mask{ymm: m}
}

// constantMask is newMask of a number known to the generator.
func (v vectors) constantMask(count int) mask {
	r := GP64()
	MOVQ(U32(count), r)
	return v.newMask(r)
}

// maskTable returns four elements of ones and then four of zeros.
func maskTable() Mem {
	if tableOfMasks.Base == nil {
		tableOfMasks = GLOBL("masks", 8|16) // RODATA|NOPTR
		for i := range 8 {
			ones := ^uint64(0)
			if i >= 4 {
				ones = 0
			}
			DATA(i*float64Bytes, U64(ones))
		}
	}
	return tableOfMasks
}

var tableOfMasks Mem

// load sets the elements that the mask leaves out to zero and does not touch their memory.
func (v vectors) load(from Mem, m mask, to Register) {
	switch {
	case m.k != nil:
		VMOVUPD_Z(from, m.k, to)
	case m.ymm != nil:
		VMASKMOVPD(from, m.ymm, to)
	default:
		VMOVUPD(from, to)
	}
}

func (v vectors) store(from Register, m mask, to Mem) {
	switch {
	case m.k != nil:
		VMOVUPD(from, m.k, to)
	case m.ymm != nil:
		VMASKMOVPD(from, m.ymm, to)
	default:
		VMOVUPD(from, to)
	}
}

// overTail writes a loop over the rest of n elements, one vector at a time, and n in a register goes to zero. body
// works under the mask and must leave its pointers a vector further on.
func (v vectors) overTail(n Register, body func(m mask)) {
	Label("tail")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	count := GP64()
	MOVQ(U32(v.width), count)
	CMPQ(n, count)
	CMOVQLT(n, count)
	rest := copyOf(count)
	body(v.newMask(count))
	SUBQ(rest, n)
	JMP(LabelRef("tail"))
	Label("done")
}
