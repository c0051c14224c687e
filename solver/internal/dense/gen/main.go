// Command gen writes the assembly of package dense with avo: go generate in the directory above. It is a separate
// module, so that the solver does not depend on avo.
//
// Every kernel exists for AVX-512 and for AVX2 with FMA. Both are written by the same functions, which ask a vectors
// value for the instructions that differ. Every kernel that touches a vector register ends with VZEROUPPER: without it
// the SSE instructions that the Go compiler emits would run many times slower afterwards.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	features()
	for _, v := range []vectors{{name: "AVX512", width: 8}, {name: "AVX2", width: 4}} {
		for outputs := 1; outputs <= v.mulAddOutputs(); outputs++ {
			mulAdd(v, outputs)
		}
		for _, t := range v.dotTiles() {
			dotAdd(v, t.columns, t.outputs, false)
		}
		for _, t := range v.dotTiles() {
			dotAdd(v, t.columns, t.outputs, true)
		}
		narrow(v)
		productSingle(v)
		for _, name := range []string{"addScaled", "addScaledProduct", "scaleAdd"} {
			addScaled(v, name)
		}
		exp(v)
		for groups := 1; groups <= sweepGroups; groups++ {
			sweep(v, groups)
		}
	}
	solvePair()
	Generate()
}

// features writes the two instructions that say what the processor has and what registers the operating system saves.
func features() {
	TEXT("cpuid", NOSPLIT, "func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)")
	Doc("cpuid executes CPUID.")
	Load(Param("leaf"), EAX)
	Load(Param("subleaf"), ECX)
	CPUID()
	Store(EAX, Return("eax"))
	Store(EBX, Return("ebx"))
	Store(ECX, Return("ecx"))
	Store(EDX, Return("edx"))
	RET()

	TEXT("xgetbv", NOSPLIT, "func() (eax uint32)")
	Doc(
		"xgetbv returns the low half of the extended control register 0; CPUID must have said that the instruction exists.",
	)
	XORL(ECX, ECX)
	XGETBV()
	Store(EAX, Return("eax"))
	RET()
}

// end restores the upper halves of the registers and returns.
func end() {
	VZEROUPPER()
	RET()
}

// text begins a kernel called name + v.name.
func (v vectors) text(name, signature, doc string) {
	TEXT(name+v.name, NOSPLIT, signature)
	Doc(fmt.Sprintf("%s%s %s", name, v.name, doc))
	Pragma("noescape")
}

// copyOf returns a fresh register with the value of r.
func copyOf(r Register) GPVirtual {
	c := GP64()
	MOVQ(r, c)
	return c
}

// float64At is the memory at base + index + offset bytes.
func float64At(base, index Register, offset int) Mem {
	return Mem{Base: base, Index: index, Scale: 1, Disp: offset}
}
