package problem

import (
	"math"
	"slices"

	"github.com/refitd/refitd/solver/internal/eigen"
)

// eigenRest is the share of the largest |eigenvalue| of a quadratic form below which the others are rounding errors of
// the decomposition.
const eigenRest = 1e-15

// AddProducts gives a model of the homogeneous kernel basis vectors of length 1 that add Σ_{j≤l} q[(j,l),c] x_j x_l
// to output c, whatever x is. q is P×m, row-major, P = d(d+1)/2, pairs in the order (0,0), (0,1) … (0,d−1), (1,1)
// … The vectors are those of the eigendecompositions of the m forms, each for one output, or e_j and (e_j+e_l)/√2,
// which all outputs share: whichever are fewer, so never more than P or m·d. It panics unless the
// kernel and the size of q are these, and returns false, with the model as it was, where q is not finite. O(m·d³).
func (m *Model) AddProducts(q []float64) bool {
	d, outputs := m.NumFeatures, m.NumOutputs
	if m.Kernel != Homogeneous || len(q) != d*(d+1)/2*outputs {
		panic("solver: products for a model of another kernel or size")
	}
	for _, v := range q {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	own, ok := m.eigenvectors(q)
	shared := m.pairVectors(q)
	if !ok || shared.count() <= own.count() {
		own = shared
	}
	k, added := m.NumBasis+own.count(), own.count()
	basis := make([]float64, d*k)
	for j := range d {
		copy(basis[j*k:], m.Basis[j*m.NumBasis:(j+1)*m.NumBasis])
		for r := range added {
			basis[j*k+m.NumBasis+r] = own.vectors[r*d+j]
		}
	}
	m.Basis, m.NumBasis, m.Weights = basis, k, append(slices.Clip(m.Weights), own.weights...)
	return true
}

// vectorList are basis vectors, one after the other, with the weights of all outputs for each.
type vectorList struct {
	vectors, weights []float64
	outputs          int
}

func (v *vectorList) count() int { return len(v.weights) / v.outputs }

// add appends a zero vector and zero weights, to be filled in, and returns them.
func (v *vectorList) add(d int) (vector, weights []float64) {
	n, k := len(v.vectors), len(v.weights)
	v.vectors = append(v.vectors, make([]float64, d)...)
	v.weights = append(v.weights, make([]float64, v.outputs)...)
	return v.vectors[n:], v.weights[k:]
}

// eigenvectors returns those of the forms of all outputs with eigenvalues that are not 0, false if a decomposition
// fails.
func (m *Model) eigenvectors(q []float64) (list vectorList, ok bool) {
	d := m.NumFeatures
	list.outputs = m.NumOutputs
	for c := range m.NumOutputs {
		a, at := eigen.NewSymmetric(d), c
		for j := range d {
			for l := j; l < d; l++ {
				if a.Data[j*d+l] = q[at]; l > j {
					a.Data[j*d+l] /= 2
				}
				at += m.NumOutputs
			}
		}
		e, ok := eigen.Decompose(a)
		if !ok {
			return list, false
		}
		top, _ := e.Largest()
		for t, w := range e.Values {
			if math.Abs(w) > eigenRest*top {
				vector, weights := list.add(d)
				e.Vector(vector, 1, t)
				weights[c] = w
			}
		}
	}
	return list, true
}

// pairVectors returns the e_j and (e_j+e_l)/√2 whose weights are not 0: x_j x_l = ½(x_j+x_l)² − ½x_j² − ½x_l².
func (m *Model) pairVectors(q []float64) vectorList {
	d, outputs := m.NumFeatures, m.NumOutputs
	list, squares := vectorList{outputs: outputs}, make([]float64, d*outputs)
	isSet := func(v float64) bool { return v != 0 }
	at := 0
	for j := range d {
		for l := j; l < d; l++ {
			w := q[at : at+outputs]
			at += outputs
			if l == j {
				for c, v := range w {
					squares[j*outputs+c] += v
				}
				continue
			}
			if !slices.ContainsFunc(w, isSet) {
				continue
			}
			vector, weights := list.add(d)
			vector[j], vector[l] = math.Sqrt2/2, math.Sqrt2/2
			copy(weights, w)
			for c, v := range w {
				squares[j*outputs+c] -= v / 2
				squares[l*outputs+c] -= v / 2
			}
		}
	}
	for j := range d {
		w := squares[j*outputs : (j+1)*outputs]
		if slices.ContainsFunc(w, isSet) {
			vector, weights := list.add(d)
			vector[j] = 1
			copy(weights, w)
		}
	}
	return list
}
