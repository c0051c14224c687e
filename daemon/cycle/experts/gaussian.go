package experts

import (
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
	"gonum.org/v1/gonum/floats"
)

// gaussianKind is the fold-in of an ordinal label as a number. It begins anew on each champion that has its posterior.
var gaussianKind = Kind{
	Name:    PartGaussian,
	Doc:     "the fold-in with levels as numbers with a Gaussian error; ordinal labels with `train.refit: variational`",
	Memory:  foldInMemory,
	Applies: func(s *Setting) bool { return HasGaussian(s.Model) },
	New: func(s *Setting, ch *fitted.Fitted, last *Expert) *Expert {
		if ch != nil && ch.Gaussian == nil {
			return nil
		}
		target := GaussianTarget(s.Target)
		var base *fitted.Fitted
		if ch != nil {
			base = &fitted.Fitted{Vocabulary: ch.Vocabulary, Posterior: ch.Gaussian}
		}
		l := NewFoldIn(s.Model, s.Schema, target, base)
		if last != nil {
			if p, ok := last.Learner.(*FoldIn); ok {
				l.FoldIn.InheritLosses(p.FoldIn)
			}
		}
		b := NewExpert(PartGaussian, target, l)
		b.Recent = new(encode.RecentLevels)
		return b
	},
	Footprint: func(s *Setting) int64 { return foldInFootprint(s, 1, false) },
}

// beforeKind is a fold-in of an earlier champion. Cycle.carryOver makes it of the one that learned before.
var beforeKind = Kind{
	Name:   PartBefore,
	Doc:    "the fold-in kept from before the last alarm of the drift detector; `train.refit: variational`",
	Memory: foldInMemory,
	Applies: func(s *Setting) bool {
		return s.Model.Train.Refit == "variational" && s.Model.Train.FoldIn.Enabled
	},
	Footprint: func(s *Setting) int64 {
		switch {
		case len(s.Schema.Categorical)+len(s.Schema.Multi) == 0: // no names change
			return 0
		case HasGaussian(s.Model):
			return foldInFootprint(s, 1, false)
		}
		return foldInFootprint(s, s.Target.Outputs(), s.Target.Task.HasClasses())
	},
}

// foldInMemory is the part of memory.parts of all fold-ins.
const foldInMemory = "fold_in"

// foldInFootprint returns the bytes of a fold-in in closed form and of the names that it keeps.
func foldInFootprint(s *Setting, outputs int, separate bool) int64 {
	n, rates := s.maxRows(), len(online.DefaultRates)
	return rows.SlotsFootprint(n, s.maxName()) + online.Footprint(n, rates, s.Model.Train.MaxBasis, outputs, separate)
}

// HasGaussian reports whether a model learns its ordinal label as a number, too, with a separate posterior.
func HasGaussian(m *config.Model) bool {
	o, err := m.Objective()
	return err == nil && o.Link == format.OrdinalLink && m.Train.Refit == "variational" && m.Train.FoldIn.Enabled &&
		!m.LeavesOut(PartGaussian)
}

// GaussianTarget returns the target that takes an ordinal label for a number with a Gaussian error. Where levels are
// about evenly spaced, such a posterior follows a change faster than that of the levels' thresholds: on ratings that
// drift 0.790 RMSE against 0.802.
func GaussianTarget(t *encode.Target) *encode.Target {
	g := *t
	g.Loss, g.Link, g.Likelihood = solver.Squared{}, format.Identity, posterior.Gaussian
	return &g
}

// OneOutput returns the vectors of an ordinal model with the weights of a number's single output: the outputs of
// thresholds fall as the level rises.
func OneOutput(ordinal *solver.Model) *solver.Model {
	m := solver.Model{
		Kernel:      ordinal.Kernel,
		NumFeatures: ordinal.NumFeatures,
		NumOutputs:  1,
		NumBasis:    ordinal.NumBasis,
		Basis:       ordinal.Basis,
	}
	for r := range m.NumBasis {
		m.Weights = append(m.Weights,
			-floats.Sum(ordinal.Weights[r*ordinal.NumOutputs:][:ordinal.NumOutputs])/float64(ordinal.NumOutputs))
	}
	return &m
}

// Levels returns the labels of rows whose targets are those of an ordinal label with m thresholds.
func Levels(e *encode.Encoded, m int) []float64 {
	out := make([]float64, len(e.Targets)/m)
	for i := range out {
		out[i] = 1
		for _, t := range e.Targets[i*m : i*m+m] {
			if t < 0 {
				out[i]++
			}
		}
	}
	return out
}
