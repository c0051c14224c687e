package posterior

import (
	"errors"
	"fmt"
	"math"

	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// State is the posterior of a model over d features in NumFields fields, with k basis vectors. Row j of Mean and
// Covariance belongs to the vector (linear weights, k basis coordinates) of feature j, of length q: k+1 where all m
// outputs share z, k+m where outputs are Separate. It is one type: methods read and write rows of one memory.
type State struct {
	Likelihood Likelihood
	Separate   bool      // each output has separate linear weights and output weights
	NumBasis   int       // k
	Sign       []float64 // k, ±1; nil for separate outputs
	Weights    []float64 // k×m, V, rows of mean square 1; nil for shared ones
	Bias       []float64 // m, θ
	Noise      float64   // Gaussian, shared: precision of the noise
	Noises     []float64 // Gaussian, separate: precision of each output's noise; m
	Field      []int32   // d, the field of each feature
	NumFields  int
	// NumFields, the group of each field: the rows of one group add up and only sums of different groups meet; nil:
	// each feature is a group
	Group []int32
	// NumFields, shared only: fields with linear weights alone, whose coordinates are all 0 and known; nil: no field
	MainOnly  []bool
	Precision []float64 // NumFields×q, the prior precision D
	Mean      []float64 // d×q
	// d packed lower triangles of order q; separate outputs leave out what couples two outputs, see OutputCovariance;
	// empty of Means
	Covariance []float64
}

// Prior holds what a State starts from.
type Prior struct {
	Linear float64 // precision of linear weights
	Basis  float64 // precision of basis coordinates
	Cap    float64 // largest precision that a sweep may give basis coordinates: young basis vectors are not pruned at once
	// Gaussian: precision of the noise before it is learned; 0 lets a fold-in take the scale from its first labels
	Noise float64
}

// PriorFor returns the measured defaults. scale is the standard deviation of Gaussian labels: linear weights go with
// it, coordinates, of which two are multiplied, with its root. Logistic outputs have a fixed scale and ignore it. The
// figures come from ratings of 1 to 5 (scale about 1) and hold for both orders of the stream tried, by time and
// shuffled; a cap of half or twice as much loses.
func PriorFor(l Likelihood, scale float64) Prior {
	switch l {
	case Logistic:
		return Prior{Linear: 1.5, Basis: 8, Cap: 10, Noise: 1}
	case Multinomial:
		return Prior{Linear: 1.5, Basis: 3, Cap: 3, Noise: 1}
	}
	// Labels that are all equal have a deviation of 0, which no precision can be divided by.
	scale = max(scale, 1e-9)
	return Prior{Linear: 5 / (scale * scale), Basis: 8 / scale, Cap: 10 / scale, Noise: 1.1 / (scale * scale)}
}

// New returns the prior itself for outputs that share z: mean zero, covariance 1/precision.
func New(l Likelihood, outputs, k int, field []int32, numFields int, p Prior) *State {
	q := k + 1
	s := &State{
		Likelihood: l, NumBasis: k, Sign: make([]float64, k), Bias: make([]float64, outputs), Noise: p.Noise,
		Field: field, NumFields: numFields,
		Precision:  make([]float64, numFields*q),
		Mean:       make([]float64, len(field)*q),
		Covariance: make([]float64, len(field)*PackedSize(q)),
	}
	for r := range s.Sign {
		s.Sign[r] = 1
	}
	s.SetPrior(p)
	for j := range field {
		s.Reset(j)
	}
	return s
}

// NewSeparate returns the prior for outputs with separate weights, without basis vectors.
func NewSeparate(l Likelihood, outputs int, field []int32, numFields int, p Prior) *State {
	s := &State{
		Likelihood: l, Separate: true, Bias: make([]float64, outputs), Field: field, NumFields: numFields,
		Precision:  make([]float64, numFields*outputs),
		Mean:       make([]float64, len(field)*outputs),
		Covariance: make([]float64, len(field)*outputs),
	}
	if l == Gaussian {
		s.Noises = make([]float64, outputs)
	}
	s.SetPrior(p)
	for j := range field {
		s.Reset(j)
	}
	return s
}

// SetPrior sets the precisions of every field and basis vector, and the noise, back to those of a prior.
func (s *State) SetPrior(p Prior) {
	s.Noise = p.Noise
	for c := range s.Noises {
		s.Noises[c] = p.Noise
	}
	for f := range s.NumFields {
		d := s.PrecisionOf(f)
		for a := range d {
			d[a] = p.Linear
			if a >= s.NumLinear() {
				d[a] = p.Basis
			}
		}
	}
}

// NumLinear returns M, the number of linear weights of a feature.
func (s *State) NumLinear() int {
	if s.Separate {
		return len(s.Bias)
	}
	return 1
}

// RowSize returns q.
func (s *State) RowSize() int { return s.NumLinear() + s.NumBasis }

// CovarianceSize returns the length of one feature's covariance.
func (s *State) CovarianceSize() int {
	if s.Separate {
		return OutputCovariance(len(s.Bias), s.NumBasis)
	}
	return PackedSize(s.NumBasis + 1)
}

// Variance returns the place of the variance of coordinate a in a feature's covariance.
func (s *State) Variance(a int) int {
	if !s.Separate {
		return a*(a+1)/2 + a
	}
	m := len(s.Bias)
	if a < m {
		return a
	}
	r := a - m
	return m + m*s.NumBasis + r*(r+1)/2 + r
}

// NumFeatures returns d.
func (s *State) NumFeatures() int { return len(s.Field) }

// Row returns the mean and packed covariance of feature j, nil in a state without any. The slices alias the state.
func (s *State) Row(j int) (mean, covariance []float64) {
	q, p := s.RowSize(), s.CovarianceSize()
	if mean = s.Mean[j*q : j*q+q]; len(s.Covariance) > 0 {
		covariance = s.Covariance[j*p : j*p+p]
	}
	return mean, covariance
}

// Reset gives feature j the prior of its field.
func (s *State) Reset(j int) {
	mean, cov := s.Row(j)
	clear(mean)
	clear(cov)
	for a, d := range s.PrecisionOf(int(s.Field[j]))[:s.Free(int(s.Field[j]))] {
		cov[s.Variance(a)] = 1 / d
	}
}

// IsMainOnly reports whether a field has linear weights alone.
func (s *State) IsMainOnly(f int) bool { return s.MainOnly != nil && s.MainOnly[f] }

// Free returns how many parameters a feature of a field has: the length of its row, or the linear weight alone.
func (s *State) Free(f int) int {
	if s.IsMainOnly(f) {
		return s.NumLinear()
	}
	return s.RowSize()
}

// SetMainOnly sets the fields that have linear weights alone. What they had besides is forgotten; a field that had none
// before begins at zero.
func (s *State) SetMainOnly(fields []bool) {
	old := s.MainOnly
	s.MainOnly = fields
	for j, f := range s.Field {
		mean, cov := s.Row(j)
		switch {
		case s.IsMainOnly(int(f)):
			clear(mean[1:])
			clear(cov[1:])
		case old != nil && old[f]:
			for a, d := range s.PrecisionOf(int(f))[1:] {
				cov[s.Variance(a+1)] = 1 / d
			}
		}
	}
}

// PrecisionOf returns the q prior precisions of a field, all above 0; they alias the state.
func (s *State) PrecisionOf(field int) []float64 {
	q := s.RowSize()
	return s.Precision[field*q : field*q+q]
}

// AddBasis appends a basis vector with the given output weights (length m), prior precision and mean coordinates h
// (length d); the coordinates start with the prior's variance and no correlation. Outputs that share z take the sign of
// the weights' sum. Separate ones take their direction, which must not be zero: the size belongs into h.
func (s *State) AddBasis(h, weights []float64, precision float64) {
	if len(h) != len(s.Field) || len(weights) != len(s.Bias) {
		panic(
			fmt.Sprintf(
				"posterior: basis vector of %d coordinates and %d output weights for %d features and %d outputs",
				len(h), len(weights), len(s.Field), len(s.Bias)),
		)
	}
	old := *s
	s.NumBasis++
	q, size := s.RowSize(), s.CovarianceSize()
	s.Mean, s.Covariance = make([]float64, len(h)*q), make([]float64, len(h)*size)
	for j := range h {
		m, c := old.Row(j)
		mean, cov := s.Row(j)
		copy(mean, m)
		if s.Separate {
			growOutputCovariance(cov, c, len(s.Bias), old.NumBasis)
		} else {
			copy(cov, c)
		}
		if !s.IsMainOnly(int(s.Field[j])) {
			mean[q-1], cov[size-1] = h[j], 1/precision
		}
	}
	s.Precision = make([]float64, s.NumFields*q)
	for f := range s.NumFields {
		copy(s.PrecisionOf(f), old.PrecisionOf(f))
		s.PrecisionOf(f)[q-1] = precision
	}
	if s.Separate {
		// Rows of V have mean square 1: the size of a vector is in its coordinates.
		scale := math.Sqrt(float64(len(weights)) / floats.Dot(weights, weights))
		for _, v := range weights {
			s.Weights = append(s.Weights, scale*v)
		}
		return
	}
	sign := 1.0
	if floats.Sum(weights) < 0 {
		sign = -1
	}
	s.Sign = append(s.Sign, sign)
}

// Model returns the posterior mean as a model: unit basis vectors, their scale in the output weights. Basis vectors
// that vanish are left out. With groups it is a model of the homogeneous kernel: see groupedVectors.
func (s *State) Model() *solver.Model {
	d, outputs, linear := len(s.Field), len(s.Bias), s.NumLinear()
	q := s.RowSize()
	m := solver.NewModel(solver.ANOVA, d, outputs, true)
	vectors := s.vectors()
	if s.Group != nil {
		m.Kernel, vectors = solver.Homogeneous, s.groupedVectors(vectors)
	}
	copy(m.Bias, s.Bias)
	m.NumBasis = len(vectors)
	m.Basis = make([]float64, d*len(vectors))
	m.Weights = make([]float64, len(vectors)*outputs)
	scale := make([]float64, len(vectors))
	for a, v := range vectors {
		scale[a] = v.scale()
		for c := range outputs {
			m.Weights[a*outputs+c] = v.weight * s.weight(v.r, c) * v.square
		}
	}
	for j := range d {
		// A grouped model needs vectors whose coordinates are 0 outside of a group, see groupedVectors.
		group, row := s.group(j), m.Basis[j*len(vectors):(j+1)*len(vectors)]
		for a := range row {
			v := &vectors[a]
			row[a] = v.factor(group) * s.Mean[j*q+linear+v.r] * scale[a]
		}
		for c := range outputs {
			m.Linear[j*outputs+c] = s.Mean[j*q+min(c, linear-1)]
		}
	}
	return m
}

// weight returns V[r, c].
func (s *State) weight(r, c int) float64 {
	if s.Separate {
		return s.Weights[r*len(s.Bias)+c]
	}
	return s.Sign[r]
}

// IsFinite reports whether every mean, bias and precision is finite.
func (s *State) IsFinite() bool {
	for _, part := range [][]float64{s.Mean, s.Bias, s.Precision, s.Weights, s.Noises, {s.Noise}} {
		for _, v := range part {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return false
			}
		}
	}
	return true
}

// Clone returns a deep copy; Field is shared, it never changes.
func (s *State) Clone() *State {
	c := *s
	c.Sign = append([]float64(nil), s.Sign...)
	c.Weights = append([]float64(nil), s.Weights...)
	c.Noises = append([]float64(nil), s.Noises...)
	c.Bias = append([]float64(nil), s.Bias...)
	c.Precision = append([]float64(nil), s.Precision...)
	c.Mean = append([]float64(nil), s.Mean...)
	c.Covariance = append([]float64(nil), s.Covariance...)
	return &c
}

// Restore sets the numbers of a state to those of another of its shape.
func (s *State) Restore(c *State) {
	for _, v := range [][2][]float64{{s.Weights, c.Weights}, {s.Bias, c.Bias}, {s.Noises, c.Noises}, {s.Precision,
		c.Precision}, {s.Mean, c.Mean},
		{s.Covariance, c.Covariance}} {
		copy(v[0], v[1])
	}
	s.Noise = c.Noise
}

// Validate returns an error unless all shapes agree and all numbers are finite: for states that come from storage.
func (s *State) Validate() error {
	d, outputs := len(s.Field), len(s.Bias)
	signs, weights, noises := s.NumBasis, 0, 0
	if s.Separate {
		signs, weights = 0, s.NumBasis*outputs
		if s.Likelihood == Gaussian {
			noises = outputs
		}
	}
	switch {
	case s.Likelihood < Gaussian || s.Likelihood > Multinomial,
		s.Likelihood == Multinomial && !s.Separate,
		s.NumBasis < 0,
		s.NumFields < 0,
		outputs == 0:
		return fmt.Errorf("posterior: invalid state (likelihood %d, %d basis vectors, %d fields, %d outputs)",
			s.Likelihood, s.NumBasis, s.NumFields, outputs)
	case s.Group != nil && (len(s.Group) != s.NumFields || s.Separate):
		return fmt.Errorf("posterior: invalid state: groups for %d of %d fields", len(s.Group), s.NumFields)
	case s.MainOnly != nil && (len(s.MainOnly) != s.NumFields || s.Separate):
		return fmt.Errorf("posterior: invalid state: main effects alone for %d of %d fields", len(s.MainOnly),
			s.NumFields)
	case len(s.Sign) != signs || len(s.Weights) != weights || len(s.Noises) != noises || len(
		s.Precision) != s.NumFields*s.RowSize() ||
		len(s.Mean) != d*s.RowSize() || len(s.Covariance) != d*s.CovarianceSize():
		return fmt.Errorf(
			"posterior: invalid state: %d features, %d fields, %d basis vectors and %d outputs with %d means, %d covariances "+
				"and %d precisions",
			d,
			s.NumFields,
			s.NumBasis,
			outputs,
			len(s.Mean),
			len(s.Covariance),
			len(s.Precision),
		)
	}
	for j, f := range s.Field {
		if f < 0 || int(f) >= s.NumFields {
			return fmt.Errorf("posterior: invalid state: feature %d in field %d of %d", j, f, s.NumFields)
		}
	}
	if !s.IsFinite() {
		return errors.New("posterior: invalid state: a number is not finite")
	}
	return nil
}
