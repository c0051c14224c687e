package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// mulAddOutputs is the largest number of outputs that one kernel of MulAdd takes. More outputs mean fewer passes over
// a: every load of a vector is used that many times.
func (v vectors) mulAddOutputs() int {
	if v.wide() {
		return 13
	}
	return 6
}

// mulAddVectors is the number of vectors of rows that the accumulators of so many outputs leave room for, a power of
// two, so that a tile of 256 rows has no tail.
func (v vectors) mulAddVectors(outputs int) int {
	switch {
	case outputs == 1, v.wide() && outputs <= 3:
		return 8
	case outputs <= 3, v.wide() && outputs <= 6:
		return 4
	}
	return 2
}

// mulAdd writes the kernel for so many outputs: dst[c·stride+i] += Σ_r a[r][lo+i]·coef[r·m+c]. The accumulators stay in
// registers while r runs over all columns.
func mulAdd(v vectors, outputs int) {
	v.text(fmt.Sprintf("mulAdd%d", outputs),
		"func(dst *float64, stride int, a *[]float64, k, lo, n int, coef *float64, m int)",
		fmt.Sprintf("is MulAdd for %d of m outputs.", outputs))
	dst := Load(Param("dst"), GP64())
	stride := Load(Param("stride"), GP64())
	a := Load(Param("a"), GP64())
	k := Load(Param("k"), GP64())
	row := Load(Param("lo"), GP64())
	n := Load(Param("n"), GP64())
	coef := Load(Param("coef"), GP64())
	m := Load(Param("m"), GP64())
	SHLQ(U8(3), stride)
	SHLQ(U8(3), row)
	SHLQ(U8(3), m)
	// rows writes the work on so many vectors of rows.
	rows := func(label string, count int, ma mask) {
		sums := make([][]VecVirtual, outputs)
		output := copyOf(dst)
		for c := range sums {
			sums[c] = v.registers(count)
			for j, s := range sums[c] {
				v.load(Mem{Base: output, Disp: j * v.bytes()}, ma, s)
			}
			ADDQ(stride, output)
		}
		columns, factors, left := copyOf(a), copyOf(coef), copyOf(k)
		column := GP64()
		Label(label)
		MOVQ(Mem{Base: columns}, column)
		// Two lines of each column are too few for the processor to see a stream: ask for the next two. With more
		// lines, or so few outputs that loads are what takes the time, this costs more than it gains.
		if count == 2 && v.wide() {
			for line := range count {
				PREFETCHT0(float64At(column, row, (count+line)*v.bytes()))
			}
		}
		// The fewer of vectors and factors stay in registers for this r, the others pass through one.
		if count <= outputs {
			v.holdVectors(sums, column, row, factors, ma)
		} else {
			v.holdFactors(sums, column, row, factors, ma)
		}
		ADDQ(U32(sliceBytes), columns)
		ADDQ(m, factors)
		DECQ(left)
		JNZ(LabelRef(label))
		MOVQ(dst, output)
		for c := range sums {
			for j, s := range sums[c] {
				v.store(s, ma, Mem{Base: output, Disp: j * v.bytes()})
			}
			ADDQ(stride, output)
		}
		ADDQ(U32(count*v.bytes()), dst)
		ADDQ(U32(count*v.bytes()), row)
	}

	count := v.mulAddVectors(outputs)
	Label("rows")
	CMPQ(n, U32(count*v.width))
	JLT(LabelRef("tail"))
	rows("columns", count, mask{})
	SUBQ(U32(count*v.width), n)
	JMP(LabelRef("rows"))
	v.overTail(n, func(ma mask) { rows("columnsOfTail", 1, ma) })
	end()
}

// holdVectors writes the sums of one column: its vectors stay in registers, the factors pass through one.
func (v vectors) holdVectors(sums [][]VecVirtual, column, row, factors Register, ma mask) {
	x := v.registers(len(sums[0]))
	for j := range x {
		v.load(float64At(column, row, j*v.bytes()), ma, x[j])
	}
	for c := range sums {
		f := v.register()
		VBROADCASTSD(Mem{Base: factors, Disp: c * float64Bytes}, f)
		for j := range x {
			VFMADD231PD(x[j], f, sums[c][j])
		}
	}
}

// holdFactors writes the same sums: the factors stay in registers, the vectors pass through one.
func (v vectors) holdFactors(sums [][]VecVirtual, column, row, factors Register, ma mask) {
	f := v.registers(len(sums))
	for c := range f {
		VBROADCASTSD(Mem{Base: factors, Disp: c * float64Bytes}, f[c])
	}
	for j := range sums[0] {
		x := v.register()
		v.load(float64At(column, row, j*v.bytes()), ma, x)
		for c := range f {
			VFMADD231PD(x, f[c], sums[c][j])
		}
	}
}
