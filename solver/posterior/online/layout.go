package online

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
)

// sharedRows is the rowMath of outputs that share z: the evidence of a row is the packed precision without the prior.
type sharedRows struct {
	state  *posterior.State
	view   *posterior.RowView
	solver *posterior.RowSolver
	pair   []float64 // what SolvePair works in
	slope  []float64 // of the entry that was entered
	now    []float64 // its mean row
	odds   []float64 // exp(θ_c) of logistic outputs
	z      float64   // of the event in hand, without θ
	omega  float64   // weight of its pseudo-observation
	right  float64   // weight times value
}

func newSharedRows(s *posterior.State) *sharedRows {
	q := s.NumBasis + 1
	r := &sharedRows{
		state:  s,
		view:   posterior.NewRowView(s.Sign),
		solver: posterior.NewSolver(q),
		pair:   make([]float64, dense.PairWork),
		slope:  make([]float64, q),
	}
	r.rebias()
	return r
}

func (s *sharedRows) rebias() {
	s.odds = s.odds[:0]
	for _, b := range s.state.Bias {
		s.odds = append(s.odds, math.Exp(b))
	}
}

func (s *sharedRows) evidenceSize() int { return len(s.solver.Evidence) }

func (s *sharedRows) Predict(ev *event) {
	s.view.Value, s.view.Mean, s.view.Cov, s.view.Group, s.view.Alone = ev.value, ev.Mean, ev.cov, ev.group, ev.alone
	s.z = s.view.Predict()
}

func (s *sharedRows) outputs(dst []float64) {
	for c, b := range s.state.Bias {
		dst[c] = b + s.z
	}
}

func (s *sharedRows) Observe(target []float64, weight float64) {
	variance := 0.0
	if s.state.Likelihood == posterior.Logistic {
		variance = s.view.Variance()
	}
	s.omega, s.right = s.state.Pseudo(target, s.z, variance)
	s.omega, s.right = weight*s.omega, weight*s.right
}

func (s *sharedRows) accumulate(evidence, right []float64, e int) {
	s.view.Accumulate(evidence, right, e, s.z, s.omega, s.right)
}

func (s *sharedRows) enter(e int) {
	s.view.Gradient(s.slope, e)
	s.now = s.view.Mean[e]
}

func (s *sharedRows) LossWith(target []float64, mean []float64) float64 {
	z := s.z
	if mean != nil {
		// z is linear in the row: z(mean) = z + slope·(mean − now).
		now, mean := s.now[:len(s.slope)], mean[:len(s.slope)]
		for a, slope := range s.slope {
			z += slope * (mean[a] - now[a])
		}
	}
	if s.state.Likelihood == posterior.Logistic {
		return s.state.MixLossByOdds(target, s.odds, z)
	}
	return s.state.MixLoss(target, z)
}

func (s *sharedRows) gradient(dst []float64) {
	// ∂/∂z of the bound on the log-likelihood, ω(t − z), times ∂z/∂row.
	scale := s.right - s.omega*s.z
	for a, slope := range s.slope {
		dst[a] = scale * slope
	}
}

func (s *sharedRows) solve(evidence, right, prior, mean, cov []float64) {
	s.solver.Solve(evidence, right, prior, mean, cov, nil)
}

func (s *sharedRows) solvePair(evidence, right [2][]float64, prior []float64, mean [2][]float64) {
	if s.solver.Q <= dense.MaxPair && dense.SolvePair(mean, evidence, right, prior, s.pair) > 0 {
		return
	}
	for v := range mean {
		s.solve(evidence[v], right[v], prior, mean[v], nil)
	}
}

func (s *sharedRows) restore(evidence, right, prior, mean, cov []float64) {
	s.solver.Restore(evidence, right, prior, mean, cov)
}

// outputRows is the rowMath of separate outputs.
type outputRows struct {
	state  *posterior.State
	view   *posterior.OutputView
	solver *posterior.OutputSolver
	math   *posterior.OutputMath
	totals posterior.OutputTotals // of the event in hand, filled anew for each entry: rows of earlier entries have moved
	by     posterior.Observation  // its pseudo-observations
	out    []float64              // m, scratch: variances, outputs or residuals
	entry  int                    // that was entered
}

func newOutputRows(s *posterior.State) *outputRows {
	m, k := len(s.Bias), s.NumBasis
	return &outputRows{
		state:  s,
		view:   posterior.NewOutputView(s),
		solver: posterior.NewOutputSolver(m, k),
		math:   posterior.NewOutputMath(posterior.NewOutputWeights(s)),
		totals: posterior.NewOutputTotals(make([]float64, m), make([]float64, posterior.OutputTotalsSize(k)), k),
		out:    make([]float64, m),
		by: posterior.Observation{
			Omega: make([]float64, m),
			Right: make([]float64, m),
			Curve: make([]float64, posterior.PackedSize(k)),
		},
	}
}

// rebias has nothing to do: outputs add θ each time.
func (o *outputRows) rebias() {}

func (o *outputRows) evidenceSize() int { return o.state.CovarianceSize() }

func (o *outputRows) Predict(ev *event) {
	o.view.Value, o.view.Mean, o.view.Cov = ev.value, ev.Mean, ev.cov
	o.view.Predict()
}

func (o *outputRows) outputs(dst []float64) { floats.AddTo(dst, o.state.Bias, o.view.Out) }

func (o *outputRows) Observe(target []float64, weight float64) {
	if o.state.Likelihood == posterior.Logistic {
		o.view.Covariances()
		o.view.Spread(o.out)
	}
	// The same quadratics as sweeps have: bounds, but for one binary label, see Refit.Sweep.
	o.state.ObserveOutputs(o.by.Omega, o.by.Right, target, o.view.Out, o.out, weight, !o.state.IsBinary())
	o.math.Curvature(o.by.Curve, o.by.Omega)
}

func (o *outputRows) accumulate(evidence, right []float64, e int) {
	a, v := posterior.NewOutputEvidence(evidence, right, o.view.M, o.view.K), o.view
	o.math.Fill(&o.totals, v, &o.by)
	o.math.Accumulate(&a, v.Value[e], v.Mean[e], v.Cov[e], &o.totals, &o.by)
}

func (o *outputRows) enter(e int) {
	o.entry = e
	o.view.Without(e)
}

func (o *outputRows) LossWith(target []float64, mean []float64) float64 {
	o.outputs(o.out)
	if v := o.view; mean != nil {
		// An output is linear in the row (w, h): o_c changes by x·Δw_c and by x·s_r·Δh_r·V[r,c].
		x, now := v.Value[o.entry], v.Mean[o.entry]
		for c := range o.out {
			o.out[c] += x * (mean[c] - now[c])
		}
		for r, s := range v.Slope {
			floats.AddScaled(o.out, x*s*(mean[v.M+r]-now[v.M+r]), o.state.Weights[r*v.M:r*v.M+v.M])
		}
	}
	return o.state.MixOutputs(target, o.out)
}

func (o *outputRows) gradient(dst []float64) {
	v := o.view
	for c, z := range v.Out {
		// The gradient of the quadratic in each output, then by the chain rule in the row.
		o.out[c] = o.by.Right[c] - o.by.Omega[c]*z
	}
	x := v.Value[o.entry]
	for c, g := range o.out {
		dst[c] = x * g
	}
	for r, s := range v.Slope {
		dst[v.M+r] = x * s * floats.Dot(o.state.Weights[r*v.M:r*v.M+v.M], o.out)
	}
}

func (o *outputRows) solve(evidence, right, prior, mean, cov []float64) {
	a := posterior.NewOutputEvidence(evidence, right, o.view.M, o.view.K)
	// Evidence is kept in the blocks of OutputEvidence, without those that couple two outputs.
	o.solver.Finish(&a, prior, mean, cov, nil)
}

func (o *outputRows) solvePair(evidence, right [2][]float64, prior []float64, mean [2][]float64) {
	for v := range mean {
		o.solve(evidence[v], right[v], prior, mean[v], nil)
	}
}

func (o *outputRows) restore(evidence, right, prior, mean, cov []float64) {
	a := posterior.NewOutputEvidence(evidence, right, o.view.M, o.view.K)
	o.solver.Restore(&a, prior, mean, cov)
}
