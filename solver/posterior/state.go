package posterior

import (
	"errors"
	"fmt"
	"math"

	"github.com/refitd/refitd/solver"
)

// State is the posterior of a model over d features in NumFields fields, with k basis vectors. Row j of Mean and Covariance belongs to
// the vector (linear weight, k basis coordinates) of feature j, of length q = k+1.
type State struct {
	Likelihood Likelihood
	NumBasis   int       // k
	Sign       []float64 // k, ±1
	Bias       []float64 // m, θ
	Noise      float64   // Gaussian: precision of the noise
	Field      []int32   // d, the field of each feature
	NumFields  int
	Precision  []float64 // NumFields×q, the prior precision D
	Mean       []float64 // d×q
	Covariance []float64 // d×q(q+1)/2, packed lower triangles
}

// Prior holds what a State starts from.
type Prior struct {
	Linear float64 // precision of linear weights
	Basis  float64 // precision of basis coordinates
	Cap    float64 // largest precision that a sweep may give basis coordinates: young basis vectors are not pruned at once
	Noise  float64 // Gaussian: precision of the noise before it is learned; 0 lets a fold-in take the scale from its first labels
}

// PriorFor returns the measured defaults. scale is the standard deviation of Gaussian labels: linear weights go with it, coordinates,
// of which two are multiplied, with its root. Logistic outputs have a scale of their own and ignore it. The figures come from ratings
// of 1 to 5 (scale about 1) and hold for both orders of the stream tried, by time and shuffled; a cap of half or twice as much loses.
func PriorFor(l Likelihood, scale float64) Prior {
	if l == Logistic {
		return Prior{Linear: 1.5, Basis: 8, Cap: 10, Noise: 1}
	}
	scale = max(scale, 1e-9)
	return Prior{Linear: 5 / (scale * scale), Basis: 8 / scale, Cap: 10 / scale, Noise: 1.1 / (scale * scale)}
}

// New returns the prior itself: mean zero, covariance 1/precision.
func New(l Likelihood, outputs, k int, field []int32, numFields int, p Prior) *State {
	q := k + 1
	s := &State{
		Likelihood: l, NumBasis: k, Sign: make([]float64, k), Bias: make([]float64, outputs), Noise: p.Noise,
		Field: field, NumFields: numFields,
		Precision:  make([]float64, numFields*q),
		Mean:       make([]float64, len(field)*q),
		Covariance: make([]float64, len(field)*packedSize(q)),
	}
	for r := range s.Sign {
		s.Sign[r] = 1
	}
	s.setPrior(p)
	for j := range field {
		s.Reset(j)
	}
	return s
}

func (s *State) setPrior(p Prior) {
	s.Noise = p.Noise
	for f := range s.NumFields {
		d := s.precision(f)
		for r := range d {
			d[r] = p.Basis
		}
		d[0] = p.Linear
	}
}

// NumFeatures returns d.
func (s *State) NumFeatures() int { return len(s.Field) }

// Row returns the mean and packed covariance of feature j. The slices alias the state.
func (s *State) Row(j int) (mean, covariance []float64) {
	q := s.NumBasis + 1
	p := packedSize(q)
	return s.Mean[j*q : j*q+q], s.Covariance[j*p : j*p+p]
}

// Reset gives feature j the prior of its field.
func (s *State) Reset(j int) {
	mean, cov := s.Row(j)
	clear(mean)
	clear(cov)
	for i, d := range s.precision(int(s.Field[j])) {
		cov[i*(i+1)/2+i] = 1 / d
	}
}

func (s *State) precision(field int) []float64 {
	q := s.NumBasis + 1
	return s.Precision[field*q : field*q+q]
}

// AddBasis appends a basis vector with the given sign, prior precision and mean coordinates h (length d); the coordinates start with
// the prior's variance and no correlation.
func (s *State) AddBasis(h []float64, sign, precision float64) {
	k := s.NumBasis
	q, q2 := k+1, k+2
	if len(h) != len(s.Field) {
		panic(fmt.Sprintf("posterior: basis vector of %d coordinates for %d features", len(h), len(s.Field)))
	}
	mean := make([]float64, len(h)*q2)
	cov := make([]float64, len(h)*packedSize(q2))
	for j := range h {
		m, c := s.Row(j)
		copy(mean[j*q2:], m)
		mean[j*q2+q] = h[j]
		row := cov[j*packedSize(q2):]
		copy(row, c)
		row[packedSize(q2)-1] = 1 / precision
	}
	d := make([]float64, s.NumFields*q2)
	for f := range s.NumFields {
		copy(d[f*q2:], s.precision(f))
		d[f*q2+q] = precision
	}
	s.NumBasis, s.Sign, s.Mean, s.Covariance, s.Precision = k+1, append(s.Sign, sign), mean, cov, d
}

// Model returns the posterior mean as a model: unit basis vectors, the scale and sign in the output weights (shared by all outputs).
// Basis vectors that vanish are left out.
func (s *State) Model() *solver.Model {
	k, d, outputs := s.NumBasis, len(s.Field), len(s.Bias)
	q := k + 1
	norm := make([]float64, k)
	for j := range d {
		for r, h := range s.Mean[j*q+1 : j*q+q] {
			norm[r] += h * h
		}
	}
	var keep []int
	for r, n := range norm {
		if n > 0 {
			keep = append(keep, r)
		}
	}
	m := solver.NewModel(solver.ANOVA, d, outputs, true)
	copy(m.Bias, s.Bias)
	m.NumBasis = len(keep)
	m.Basis = make([]float64, d*len(keep))
	m.Weights = make([]float64, len(keep)*outputs)
	for a, r := range keep {
		scale := 1 / math.Sqrt(norm[r])
		for j := range d {
			m.Basis[j*len(keep)+a] = s.Mean[j*q+1+r] * scale
		}
		for c := range outputs {
			m.Weights[a*outputs+c] = s.Sign[r] * norm[r]
		}
	}
	for j := range d {
		for c := range outputs {
			m.Linear[j*outputs+c] = s.Mean[j*q]
		}
	}
	return m
}

// IsFinite reports whether every mean, bias and precision is finite.
func (s *State) IsFinite() bool {
	for _, part := range [][]float64{s.Mean, s.Bias, s.Precision, {s.Noise}} {
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
	c.Bias = append([]float64(nil), s.Bias...)
	c.Precision = append([]float64(nil), s.Precision...)
	c.Mean = append([]float64(nil), s.Mean...)
	c.Covariance = append([]float64(nil), s.Covariance...)
	return &c
}

// Validate returns an error unless all shapes agree and all numbers are finite: for states that come from storage.
func (s *State) Validate() error {
	q, d := s.NumBasis+1, len(s.Field)
	switch {
	case s.Likelihood != Gaussian && s.Likelihood != Logistic, s.NumBasis < 0, s.NumFields < 0, len(s.Bias) == 0:
		return fmt.Errorf("posterior: invalid state (likelihood %d, %d basis vectors, %d fields, %d outputs)", s.Likelihood, s.NumBasis, s.NumFields, len(s.Bias))
	case len(s.Sign) != s.NumBasis || len(s.Precision) != s.NumFields*q || len(s.Mean) != d*q || len(s.Covariance) != d*packedSize(q):
		return fmt.Errorf("posterior: invalid state: %d features, %d fields and %d basis vectors with %d means, %d covariances and %d precisions",
			d, s.NumFields, s.NumBasis, len(s.Mean), len(s.Covariance), len(s.Precision))
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
