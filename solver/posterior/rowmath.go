package posterior

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/solver/internal/dense"
)

// sharedRows is the rowMath of outputs that share z: the evidence of a row is the packed precision without the prior.
type sharedRows struct {
	state  *State
	view   *rowView
	solver *rowSolver
	pair   []float64 // what SolvePair works in
	slope  []float64 // of the entry that was entered
	now    []float64 // its mean row
	odds   []float64 // exp(θ_c) of logistic outputs
	z      float64
	omega  float64
	right  float64
}

func newSharedRows(s *State) *sharedRows {
	q := s.NumBasis + 1
	r := &sharedRows{state: s, view: newRowView(s.Sign), solver: newSolver(q), pair: make([]float64, dense.PairWork), slope: make([]float64, q)}
	r.rebias()
	return r
}

func (s *sharedRows) rebias() {
	s.odds = s.odds[:0]
	for _, b := range s.state.Bias {
		s.odds = append(s.odds, math.Exp(b))
	}
}

func (s *sharedRows) evidenceSize() int { return len(s.solver.evidence) }

func (s *sharedRows) predict(ev *event) {
	s.view.value, s.view.mean, s.view.cov, s.view.group, s.view.alone = ev.value, ev.mean, ev.cov, ev.group, ev.alone
	s.z = s.view.predict()
}

func (s *sharedRows) outputs(dst []float64) {
	for c, b := range s.state.Bias {
		dst[c] = b + s.z
	}
}

func (s *sharedRows) observe(target []float64, weight float64) {
	variance := 0.0
	if s.state.Likelihood == Logistic {
		variance = s.view.variance()
	}
	s.omega, s.right = s.state.pseudo(target, s.z, variance)
	s.omega, s.right = weight*s.omega, weight*s.right
}

func (s *sharedRows) accumulate(evidence, right []float64, e int) {
	s.view.accumulate(evidence, right, e, s.z, s.omega, s.right)
}

func (s *sharedRows) enter(e int) {
	s.view.gradient(s.slope, e)
	s.now = s.view.mean[e]
}

func (s *sharedRows) lossWith(target []float64, mean []float64) float64 {
	z := s.z
	if mean != nil {
		now, mean := s.now[:len(s.slope)], mean[:len(s.slope)]
		for a, slope := range s.slope {
			z += slope * (mean[a] - now[a])
		}
	}
	if s.state.Likelihood == Logistic {
		return s.state.mixLossByOdds(target, s.odds, z)
	}
	return s.state.mixLoss(target, z)
}

func (s *sharedRows) gradient(dst []float64) {
	scale := s.right - s.omega*s.z
	for a, slope := range s.slope {
		dst[a] = scale * slope
	}
}

func (s *sharedRows) solve(evidence, right, prior, mean, cov []float64) {
	s.solver.solve(evidence, right, prior, mean, cov, nil)
}

func (s *sharedRows) solvePair(evidence, right [2][]float64, prior []float64, mean [2][]float64) {
	if s.solver.q <= dense.MaxPair && dense.SolvePair(mean, evidence, right, prior, s.pair) > 0 {
		return
	}
	for v := range mean {
		s.solve(evidence[v], right[v], prior, mean[v], nil)
	}
}

func (s *sharedRows) restore(evidence, right, prior, mean, cov []float64) {
	s.solver.restore(evidence, right, prior, mean, cov)
}

// outputRows is the rowMath of separate outputs.
type outputRows struct {
	state  *State
	view   *outputView
	solver *outputSolver
	math   *outputMath
	totals outputTotals
	by     observation
	out    []float64 // m
	entry  int       // that was entered
}

func newOutputRows(s *State) *outputRows {
	m, k := len(s.Bias), s.NumBasis
	return &outputRows{state: s, view: newOutputView(s), solver: newOutputSolver(m, k), math: newOutputMath(newOutputWeights(s)),
		totals: newOutputTotals(make([]float64, m), make([]float64, outputTotalsSize(k)), k), out: make([]float64, m),
		by: observation{omega: make([]float64, m), right: make([]float64, m), curve: make([]float64, packedSize(k))}}
}

func (o *outputRows) rebias() {}

func (o *outputRows) evidenceSize() int { return o.state.covarianceSize() }

func (o *outputRows) predict(ev *event) {
	o.view.value, o.view.mean, o.view.cov = ev.value, ev.mean, ev.cov
	o.view.predict()
}

func (o *outputRows) outputs(dst []float64) { floats.AddTo(dst, o.state.Bias, o.view.out) }

func (o *outputRows) observe(target []float64, weight float64) {
	if o.state.Likelihood == Logistic {
		o.view.covariances()
		o.view.spread(o.out)
	}
	o.state.observeOutputs(o.by.omega, o.by.right, target, o.view.out, o.out, weight, !o.state.isBinary())
	o.math.curvature(o.by.curve, o.by.omega)
}

func (o *outputRows) accumulate(evidence, right []float64, e int) {
	a, v := newOutputEvidence(evidence, right, o.view.m, o.view.k), o.view
	o.math.fill(&o.totals, v, &o.by)
	o.math.accumulate(&a, v.value[e], v.mean[e], v.cov[e], &o.totals, &o.by)
}

func (o *outputRows) enter(e int) {
	o.entry = e
	o.view.without(e)
}

func (o *outputRows) lossWith(target []float64, mean []float64) float64 {
	o.outputs(o.out)
	if v := o.view; mean != nil {
		x, now := v.value[o.entry], v.mean[o.entry]
		for c := range o.out {
			o.out[c] += x * (mean[c] - now[c])
		}
		for r, s := range v.slope {
			floats.AddScaled(o.out, x*s*(mean[v.m+r]-now[v.m+r]), o.state.Weights[r*v.m:r*v.m+v.m])
		}
	}
	return o.state.mixOutputs(target, o.out)
}

func (o *outputRows) gradient(dst []float64) {
	v := o.view
	for c, z := range v.out {
		o.out[c] = o.by.right[c] - o.by.omega[c]*z
	}
	x := v.value[o.entry]
	for c, g := range o.out {
		dst[c] = x * g
	}
	for r, s := range v.slope {
		dst[v.m+r] = x * s * floats.Dot(o.state.Weights[r*v.m:r*v.m+v.m], o.out)
	}
}

func (o *outputRows) solve(evidence, right, prior, mean, cov []float64) {
	a := newOutputEvidence(evidence, right, o.view.m, o.view.k)
	o.solver.finish(&a, prior, mean, cov, nil)
}

func (o *outputRows) solvePair(evidence, right [2][]float64, prior []float64, mean [2][]float64) {
	for v := range mean {
		o.solve(evidence[v], right[v], prior, mean[v], nil)
	}
}

func (o *outputRows) restore(evidence, right, prior, mean, cov []float64) {
	a := newOutputEvidence(evidence, right, o.view.m, o.view.k)
	o.solver.restore(&a, prior, mean, cov)
}
