package updates

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// PooledSum puts together the variants of a sum.
type PooledSum struct {
	made    *[mixture.NumForms]Candidate
	maps    *format.FeatureMap
	Offsets [mixture.NumForms]int // of the columns of a variant's feature map in the joint one, -1 of one left out
}

// NewPooledSum returns the sum of those variants that one version can hold: with the columns of the fold-in, and maps
// that go with that of the fold-in or, of newton, with Newton's.
func NewPooledSum(made *[mixture.NumForms]Candidate, newton bool) *PooledSum {
	s := &PooledSum{made: made}
	for f := range s.Offsets {
		s.Offsets[f] = -1
	}
	newton = newton && made[mixture.FormNewton].Model != nil
	for _, f := range mixture.PooledForms {
		x := &made[f]
		if x.Model == nil || x.Model.NumFeatures != made[mixture.FormFoldIn].Model.NumFeatures ||
			newton && x.Model.Map != nil && x.Vocab.Map.Kind != format.Fourier {
			continue
		}
		switch own := x.Vocab.Map; {
		case own == nil || x.Model.Map == nil:
			s.Offsets[f] = 0
		case s.maps == nil:
			s.maps, s.Offsets[f] = own, 0
		default:
			if joint := encode.JoinFourier(s.maps, own); joint != nil {
				s.Offsets[f], s.maps = s.maps.NumColumns(), joint
			}
		}
	}
	return s
}

// Has reports whether a variant is in the sum.
func (s *PooledSum) Has(f mixture.Variant) bool { return s.Offsets[f] >= 0 }

// Of returns the sum by its factors; nil where that is one variant alone.
func (s *PooledSum) Of(w *mixture.PooledWeights) (*solver.Model, *encode.Vocabulary) {
	base := &s.made[mixture.FormFoldIn]
	m, n := base.Model.NumOutputs, 0
	model, vocab := solver.NewModel(base.Model.Kernel, base.Model.NumFeatures, m, true), *base.Vocab
	copy(model.Bias, w.Constant)
	if w.Factors[0] != 0 {
		model.NumBasis, model.Basis = base.Model.NumBasis, base.Model.Basis
		model.Weights = append([]float64(nil), base.Model.Weights...)
		floats.Scale(w.Factors[0], model.Weights)
	}
	if vocab.Map = s.maps; s.maps != nil {
		model.Map = make([]float64, s.maps.NumColumns()*m)
	}
	vocab.Trees = nil
	for i, f := range mixture.PooledForms {
		own, factor := &s.made[f], w.Factors[i]
		if own.Model == nil || factor == 0 {
			continue
		}
		n++
		floats.AddScaled(model.Bias, factor, own.Model.Bias)
		if own.Model.Linear != nil {
			floats.AddScaled(model.Linear, factor, own.Model.Linear)
		}
		if own.Model.Map != nil {
			at := s.Offsets[f] * m
			floats.AddScaled(model.Map[at:at+len(own.Model.Map)], factor*s.Scale(f), own.Model.Map)
		}
		if own.Vocab.Trees != nil {
			vocab.Trees = scaledTrees(own.Vocab.Trees, factor)
		}
	}
	if n < 2 {
		return nil, nil
	}
	return model, &vocab
}

// Scale is what weights on the feature map of a variant are multiplied by for the joint one.
func (s *PooledSum) Scale(f mixture.Variant) float64 {
	own := s.made[f].Vocab.Map
	if own == nil || s.maps == nil || own.Kind != format.Fourier {
		return 1
	}
	return own.Amplitude() / s.maps.Amplitude()
}

// scaledTrees returns trees whose leaves are multiplied by a factor.
func scaledTrees(x *format.Trees, factor float64) *format.Trees {
	out := &format.Trees{List: make([]format.Tree, len(x.List))}
	for i, t := range x.List {
		leaves := append([]float64(nil), t.Leaves...)
		floats.Scale(factor, leaves)
		out.List[i] = format.Tree{Splits: t.Splits, Leaves: leaves}
	}
	return out
}
