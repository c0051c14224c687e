package problem

import (
	"fmt"
	"math"
)

// Kernel is the interaction K(h, x) between a basis vector and an example, with its degree (Blondel et al. 2016,
// section 3).
type Kernel uint8

const (
	// ANOVA is A²(h,x) = Σ_{i<j} h_i x_i h_j x_j: products of different features, as in a factorization machine.
	ANOVA Kernel = iota + 1
	// Homogeneous is H²(h,x) = ⟨h,x⟩²: squares included, as in a polynomial network.
	Homogeneous
	// ANOVA3 is A³(h,x) = Σ_{i<j<l} h_i x_i h_j x_j h_l x_l: products of three different features.
	ANOVA3
	// Homogeneous3 is H³(h,x) = ⟨h,x⟩³.
	Homogeneous3
)

// kernels are all there are.
var kernels = []struct {
	kernel Kernel
	kind   string
	degree int
}{{ANOVA, "anova", 2}, {Homogeneous, "homogeneous", 2}, {ANOVA3, "anova", 3}, {Homogeneous3, "homogeneous", 3}}

// KernelOf returns the kernel of a kind, as String says it, and a degree.
func KernelOf(kind string, degree int) (Kernel, error) {
	for _, k := range kernels {
		if k.kind == kind && k.degree == degree {
			return k.kernel, nil
		}
	}
	return 0, fmt.Errorf("solver: no kernel %q of degree %d: use anova or homogeneous, of degree 2 or 3", kind, degree)
}

// String returns the kind, without the degree: the name used in configuration, flags and manifests.
func (k Kernel) String() string {
	for _, known := range kernels {
		if known.kernel == k {
			return known.kind
		}
	}
	return fmt.Sprintf("kernel(%d)", uint8(k))
}

// Degree returns the number of features in a product, 2 or 3, and 0 for no kernel.
func (k Kernel) Degree() int {
	for _, known := range kernels {
		if known.kernel == k {
			return known.degree
		}
	}
	return 0
}

// OfLength returns x·length^degree: what K(h, ·) times x becomes when h is made that much longer. The exact steps are
// part of what a refit is reproduced by. K(−h, ·) is −K(h, ·) at degree 3.
func (k Kernel) OfLength(x, length float64) float64 {
	for range k.Degree() {
		x *= length
	}
	return x
}

// OfSquare returns length^degree for the square of a length.
func (k Kernel) OfSquare(square float64) float64 {
	if k.Degree() == 3 {
		return square * math.Sqrt(square)
	}
	return square
}

// Model predicts o(x)_c = Σ_r Weights[r,c] K(h_r, x) + ⟨Linear[·,c], x⟩ + Bias[c]. It is read-only once published.
type Model struct {
	Kernel      Kernel
	NumFeatures int       // d
	NumOutputs  int       // m
	NumBasis    int       // k
	Basis       []float64 // d×k, feature-major: Basis[j*k+r] = h_r[j], so one feature's coordinates are contiguous
	Weights     []float64 // k×m, the output weights V, row-major
	Linear      []float64 // d×m, feature-major; nil for no linear term
	Bias        []float64 // m
	// Map holds the linear weights (D×m) of further dense columns, which AddMapped adds to what Predict says; nil
	// without.
	Map []float64
}

// NewModel returns a model without basis vectors: zero bias and, if linear, a zero linear term.
func NewModel(kernel Kernel, numFeatures, numOutputs int, linear bool) *Model {
	m := &Model{Kernel: kernel, NumFeatures: numFeatures, NumOutputs: numOutputs, Bias: make([]float64, numOutputs)}
	if linear {
		m.Linear = make([]float64, numFeatures*numOutputs)
	}
	return m
}

// Clone returns a deep copy.
func (m *Model) Clone() *Model {
	c := *m
	c.Basis = append([]float64(nil), m.Basis...)
	c.Weights = append([]float64(nil), m.Weights...)
	if m.Linear != nil {
		c.Linear = append([]float64{}, m.Linear...)
	}
	c.Bias = append([]float64(nil), m.Bias...)
	c.Map = append([]float64(nil), m.Map...)
	return &c
}

// Activations stores K(h_r, x) for the k basis vectors in dst, in O(nnz(x)·k). work has length k and does not overlap
// dst; the ANOVA kernel of degree 2 uses Σ_{i<j} a_i a_j = ½((Σa)² − Σa²) (Rendle 2010, lemma 3.1), that of degree 3
// addTriples.
func (m *Model) Activations(dst, work []float64, index []int32, value []float64) {
	k := m.NumBasis
	dst, work = dst[:k], work[:k]
	clear(dst)
	if m.Kernel == ANOVA3 {
		addTriples(dst, m.Basis, k, index, value)
		return
	}
	clear(work)
	for e, j := range index {
		x := value[e]
		row := m.Basis[int(j)*k : int(j)*k+k]
		if m.Kernel == ANOVA {
			for r, h := range row {
				a := h * x
				dst[r] += a
				work[r] += a * a
			}
			continue
		}
		for r, h := range row {
			dst[r] += h * x
		}
	}
	for r, s := range dst {
		switch m.Kernel {
		case ANOVA:
			dst[r] = 0.5 * (s*s - work[r])
		case Homogeneous3:
			dst[r] = s * s * s
		default:
			dst[r] = s * s
		}
	}
}

// Predict stores the m outputs of one example in dst. work has length at least 2k.
func (m *Model) Predict(dst, work []float64, index []int32, value []float64) {
	k, outputs := m.NumBasis, m.NumOutputs
	copy(dst[:outputs], m.Bias)
	if m.Linear != nil {
		for e, j := range index {
			x := value[e]
			for c, w := range m.Linear[int(j)*outputs : int(j)*outputs+outputs] {
				dst[c] += w * x
			}
		}
	}
	if k == 0 {
		return
	}
	m.Activations(work[:k], work[k:2*k], index, value)
	for r, a := range work[:k] {
		for c, v := range m.Weights[r*outputs : r*outputs+outputs] {
			dst[c] += v * a
		}
	}
}

// AddMapped adds to m outputs what the D further columns of an example contribute. Columns may be nil where it has
// none.
func (m *Model) AddMapped(dst, columns []float64) {
	for j, x := range columns {
		if x != 0 {
			for c, w := range m.Map[j*m.NumOutputs : (j+1)*m.NumOutputs] {
				dst[c] += w * x
			}
		}
	}
}

// Normalize scales every basis vector to unit length and its weights by what that takes off the kernel: predictions
// stay. Weights of a vector that is 0, or too short for its kernel to be distinguished from 0, become 0.
func (m *Model) Normalize() {
	k := m.NumBasis
	for r := range k {
		square := 0.0
		for i := r; i < len(m.Basis); i += k {
			square += m.Basis[i] * m.Basis[i]
		}
		factor := m.Kernel.OfSquare(square)
		weights := m.Weights[r*m.NumOutputs : (r+1)*m.NumOutputs]
		if factor == 0 {
			clear(weights)
			continue
		}
		scale := 1 / math.Sqrt(square)
		for i := r; i < len(m.Basis); i += k {
			m.Basis[i] *= scale
		}
		for c := range weights {
			weights[c] *= factor
		}
	}
}

// IsFinite reports whether no parameter is NaN or infinite.
func (m *Model) IsFinite() bool {
	for _, part := range [][]float64{m.Basis, m.Weights, m.Linear, m.Bias, m.Map} {
		for _, v := range part {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return false
			}
		}
	}
	return true
}
