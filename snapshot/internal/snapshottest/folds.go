package snapshottest

import (
	"math/rand/v2"

	"github.com/refitd/refitd/snapshot/format"
)

// Foldable returns a random model with a fold-in, of the fields of TestContents: with shared outputs, of two groups
// (user; all else) for the homogeneous kernel, of which coordinates are squares' sums.
func Foldable(s Shape, shared bool) *format.Contents {
	s.Linear = true
	c := TestContents(s)
	c.Golden = []format.Golden{{Input: TestInputs()[0]}}
	rng := rand.New(rand.NewPCG(3, uint64(s.K)))
	m, k := c.NumOutputs, s.K
	f := &format.FoldIn{
		Shared: shared,
		Likelihood: map[string]string{format.Identity: format.GaussianLikelihood,
			format.Softmax: format.MultinomialLikelihood}[s.Link],
	}
	if f.Likelihood == "" {
		f.Likelihood = format.LogisticLikelihood
	}
	if shared {
		for i := range c.Linear {
			c.Linear[i] = c.Linear[i/m*m]
		}
		for i := range c.Weights {
			c.Weights[i] = c.Weights[i/m*m]
		}
	}
	linear := f.NumLinear(m)
	if f.Likelihood == format.GaussianLikelihood {
		for range linear {
			f.Noise = append(f.Noise, 0.5+rng.Float64())
		}
	}
	user := format.FoldInField{Name: "user", Rates: []float64{1, 0.97, 0.9}, Losses: []float64{1, 0.5, 0.7}}
	item := format.FoldInField{Name: "item", Rates: []float64{1}, Losses: []float64{0}}
	if s.Kernel == format.ANOVA {
		for r := range k {
			f.Coordinates, f.Scale = append(f.Coordinates, k-1-r), append(f.Scale, 0.5+rng.Float64())
			user.Signs, item.Signs = append(user.Signs, int(1-2*(r%2))), append(item.Signs, 1)
		}
	} else {
		for range k {
			user.Signs, item.Signs = append(user.Signs, 1, 1), append(item.Signs, 1, -1)
		}
		doubled(c, f)
	}
	for range linear + k {
		user.Precision, item.Precision = append(user.Precision, 0.5+3*rng.Float64()), append(item.Precision,
			1+rng.Float64())
	}
	item.Precision = item.Precision[:linear] // linear weights alone
	clear(item.Signs)
	f.Fields = []format.FoldInField{user, item}
	c.FoldIn = f
	return c
}

// doubled gives a homogeneous model two units for each of its coordinates z, 0.7 z and ±1.3 z, the sign that of the
// group of the column.
func doubled(c *format.Contents, f *format.FoldIn) {
	basis, weights, d, m, k := c.Basis, c.Weights, c.NumFeatures, c.NumOutputs, c.NumBasis
	c.NumBasis, c.Basis, c.Weights = 2*k, nil, nil
	for r := range k {
		f.Coordinates, f.Scale = append(f.Coordinates, r, r), append(f.Scale, 0.7, 1.3)
		for n, scale := range []float64{0.7, 1.3} {
			for o := range m {
				c.Weights = append(c.Weights, float64(1-2*n)*0.25*weights[r*m+o]/(scale*scale))
			}
		}
	}
	for j := range d {
		for r := range k {
			z, sign := basis[j*k+r], 1.0
			if j >= len(c.Vocabulary[0]) {
				sign = -1
			}
			c.Basis = append(c.Basis, 0.7*z, sign*1.3*z)
		}
	}
}

// HistoryOf returns events of a user, with labels of the model's task.
func HistoryOf(c *format.Contents, user string, n int) []format.LabelledEvent {
	rng := rand.New(rand.NewPCG(9, uint64(n)))
	events := make([]format.LabelledEvent, n)
	for i := range events {
		e := &events[i]
		e.Input = format.Input{
			Categorical: []string{user, []string{"i1", "i2", "i9"}[rng.IntN(3)]},
			Numeric:     []float64{20 + 30*rng.Float64()},
			Multi:       [][]string{[]string{"a", "b"}[:rng.IntN(3)]},
		}
		e.Weight = []float64{0, 1, 0.5}[rng.IntN(3)]
		switch c.Schema.Task {
		case format.Regression:
			e.Label = rng.NormFloat64()
		case format.Binary:
			e.Label = float64(rng.IntN(2))
		case format.Ordinal:
			e.Label = float64(1 + rng.IntN(c.Schema.Levels))
		case format.Multiclass:
			e.Classes = c.Schema.Classes[rng.IntN(3):][:1]
		case format.Multilabel:
			e.Classes = c.Schema.Classes[rng.IntN(3):]
		}
	}
	return events
}

// FoldShapes are the forms that a fold-in has, with shared outputs or not.
func FoldShapes() map[string]*format.Contents {
	all := map[string]*format.Contents{}
	for _, s := range Shapes {
		classes := s.Task == format.Multiclass || s.Task == format.Multilabel
		if _, degree := s.KernelOf(); s.Mapped != "" || s.K == 0 ||
			degree == format.Cubic { // no posterior has products of three
			continue
		}
		all[s.String()] = Foldable(s, !classes)
	}
	return all
}
