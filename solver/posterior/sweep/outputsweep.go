package sweep

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
)

// outputSweep runs the sweeps of a Refit over separate outputs.
type outputSweep struct {
	*Refit
	m, k   int       // outputs, basis vectors
	omega  []float64 // n×m, weights of the pseudo-observations of each output
	right  []float64 // n×m, their weights times values, less θ
	mean   []float64 // n×m, E[o_c] − θ_c
	spread []float64 // n×m, Var o_c
	unit   []float64 // packed k×k, fixed curvature: that of a row of weight 1
	// Within a sweep, from takeTotals to predict: V as it is, and the totals of every example but their outputs, which
	// are in mean.
	weights *posterior.OutputWeights
	totals  []float64 // n×OutputTotalsSize
}

func newOutputSweep(r *Refit) *outputSweep {
	n, m, k := r.problem.X.NumRows(), len(r.state.Bias), r.state.NumBasis
	o := &outputSweep{
		Refit:  r,
		m:      m,
		k:      k,
		omega:  make([]float64, n*m),
		right:  make([]float64, n*m),
		mean:   make([]float64, n*m),
		spread: make([]float64, n*m),
		unit:   make([]float64, posterior.PackedSize(k)),
		totals: make([]float64, n*posterior.OutputTotalsSize(k)),
	}
	o.predict()
	return o
}

// sweep is Sweep for separate outputs: the rows field by field, θ, the noise, the precisions, and the output weights.
func (o *outputSweep) sweep(ctx context.Context) (float64, error) {
	s := o.state
	o.observe()
	o.takeTotals()
	for f := range s.NumFields {
		if err := o.sweepField(ctx, f); err != nil {
			return 0, err
		}
	}
	if o.k == 0 ||
		// else nothing asks for variances before solveWeights has them, and the means are kept
		s.Likelihood != posterior.Multinomial {
		o.predict()
	}
	o.updateBias()
	o.updateNoises()
	o.recenter(o.mean)
	o.updatePrecision()
	if err := o.updateWeights(ctx); err != nil {
		return 0, err
	}
	o.epochs++
	evidence := o.evidence()
	if math.IsNaN(evidence) || math.IsInf(evidence, 0) || !s.IsFinite() {
		return evidence, fmt.Errorf("posterior: sweep %d is not finite (evidence %g)", o.epochs, evidence)
	}
	return evidence, nil
}

// row returns the m numbers of example i in an n×m matrix.
func (o *outputSweep) row(v []float64, i int) []float64 { return v[i*o.m : i*o.m+o.m] }

// observe sets the pseudo-observations from the current moments of the outputs.
func (o *outputSweep) observe() {
	s := o.state
	if s.FixedCurvature() {
		posterior.NewOutputWeights(s).Curvature(o.unit, o.unitWeights())
	}
	o.parallel(o.problem.X.NumRows(), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			s.ObserveOutputs(o.row(o.omega, i), o.row(o.right, i), o.problem.Target(i), o.row(o.mean, i),
				o.row(o.spread, i), o.problem.Weight(i), o.bounded)
		}
	})
}

// takeTotals computes the totals of the examples from their rows and pseudo-observations, at the start of every sweep:
// so rounding does not add up from sweep to sweep.
func (o *outputSweep) takeTotals() {
	o.weights = posterior.NewOutputWeights(o.state)
	o.parallel(o.problem.X.NumRows(), func(_, lo, hi int) {
		view, u := posterior.NewOutputView(o.state), newOutputUpdate(o)
		for i := lo; i < hi; i++ {
			view.Gather(o.problem.X.Row(i))
			t := o.totalsOf(i)
			u.math.Fill(&t, view, u.observation(i))
		}
	})
}

// totalsOf returns the totals of example i.
func (o *outputSweep) totalsOf(i int) posterior.OutputTotals {
	size := posterior.OutputTotalsSize(o.k)
	return posterior.NewOutputTotals(o.row(o.mean, i), o.totals[i*size:i*size+size], o.k)
}

// unitWeights returns the ω of a row of weight 1 under a fixed curvature.
func (o *outputSweep) unitWeights() []float64 {
	omega, zero := make([]float64, o.m), make([]float64, o.m)
	o.state.ObserveOutputs(omega, make([]float64, o.m), zero, zero, zero, 1, true)
	return omega
}

// predict refreshes the moments of the outputs for every example.
func (o *outputSweep) predict() {
	o.parallel(o.problem.X.NumRows(), func(_, lo, hi int) {
		view := posterior.NewOutputView(o.state)
		for i := lo; i < hi; i++ {
			index, value := o.problem.X.Row(i)
			view.Gather(index, value)
			view.Covariances()
			copy(o.row(o.mean, i), view.Out)
			view.Spread(o.row(o.spread, i))
		}
	})
}

// sweepField updates the features of one field; see Refit.sweepField.
func (o *outputSweep) sweepField(ctx context.Context, field int) error {
	return o.eachFeature(ctx, field, func() func(j int) { return newOutputUpdate(o).updateFeature })
}

// outputUpdate holds what one goroutine needs to update rows.
type outputUpdate struct {
	*outputSweep
	math      *posterior.OutputMath
	solver    *posterior.OutputSolver
	precision []float64
	right     []float64
	evidence  posterior.OutputEvidence // over precision and right
	move      *posterior.OutputMove
	by        posterior.Observation
}

func newOutputUpdate(o *outputSweep) *outputUpdate {
	m, k := o.m, o.k
	u := &outputUpdate{
		outputSweep: o,
		math:        posterior.NewOutputMath(o.weights),
		solver:      posterior.NewOutputSolver(m, k),
		precision:   make([]float64, posterior.OutputCovariance(m, k)),
		right:       make([]float64, m+k),
		move:        posterior.NewOutputMove(m, k),
		by:          posterior.Observation{Curve: make([]float64, posterior.PackedSize(k))},
	}
	u.evidence = posterior.NewOutputEvidence(u.precision, u.right, m, k)
	return u
}

// observation returns that of example i, good until the next.
func (u *outputUpdate) observation(i int) *posterior.Observation {
	u.by.Omega, u.by.Right = u.row(u.omega, i), u.row(u.outputSweep.right, i)
	if u.state.FixedCurvature() {
		floats.ScaleTo(u.by.Curve, u.problem.Weight(i), u.unit)
	} else {
		u.math.Curvature(u.by.Curve, u.by.Omega)
	}
	return &u.by
}

// updateFeature solves for the posterior of feature j and moves the totals of its examples.
func (u *outputUpdate) updateFeature(j int) {
	s, x := u.state, u.problem.X
	prior := s.PrecisionOf(int(s.Field[j]))
	rows, place := u.columns.column(j)
	if len(rows) == 0 {
		s.Reset(j)
		u.logDet[j] = 0
		for _, d := range prior {
			u.logDet[j] -= math.Log(d)
		}
		return
	}
	// What the examples say of the row adds up in packed form, before the prior is added: a block for the linear
	// weights of each output, one for the coordinates, and those between.
	clear(u.precision)
	clear(u.right)
	mean, cov := s.Row(j)
	for e, i := range rows {
		t := u.totalsOf(int(i))
		u.math.Accumulate(&u.evidence, x.Value[x.Start[i]+int(place[e])], mean, cov, &t, u.observation(int(i)))
	}
	// The totals follow by the difference of the row before and after: O(m + k²) an example instead of all its features
	// again.
	u.move.From(u.m, mean, cov)
	u.solver.Finish(&u.evidence, prior, mean, cov, &u.logDet[j])
	u.move.To(u.weights, mean, cov)
	for e, i := range rows {
		t := u.totalsOf(int(i))
		u.math.Move(&t, x.Value[x.Start[i]+int(place[e])], u.move, u.row(u.omega, int(i)))
	}
}

// secondMoments returns Σ (mean² + variance) over the features that occur, per field and coordinate.
func (o *outputSweep) secondMoments() []float64 {
	s := o.state
	q := s.RowSize()
	total := make([]float64, s.NumFields*q)
	for j, f := range s.Field {
		if o.columns.start[j+1] == o.columns.start[j] {
			continue
		}
		mean, cov := s.Row(j)
		t := total[int(f)*q : int(f)*q+q]
		for a, m := range mean {
			t[a] += m*m + cov[s.Variance(a)]
		}
	}
	return total
}

// updatePrecision re-estimates D, as Refit.updatePrecision does.
func (o *outputSweep) updatePrecision() {
	s := o.state
	q, total := s.RowSize(), o.secondMoments()
	for f, n := range o.counts {
		if n == 0 {
			continue
		}
		d := s.PrecisionOf(f)
		for a := range d {
			// Maximum of the bound in D: the number of features over Σ E v². The sum is above 0, as variances are.
			d[a] = n / total[f*q+a]
			if a >= o.m {
				d[a] = min(d[a], o.cap) // a coordinate that starts small would else be pruned at once
			}
		}
	}
}

// updateBias sets θ by the bound, tightened at the current moments.
func (o *outputSweep) updateBias() { settleBias(o.state, o.biasSlopes) }

// biasSlopes is Refit.biasSlopes.
func (o *outputSweep) biasSlopes() (slope, curve []float64) {
	o.observe()
	slope, curve = make([]float64, o.m), make([]float64, o.m)
	for i := range o.problem.X.NumRows() {
		omega, right, mean := o.row(o.omega, i), o.row(o.right, i), o.row(o.mean, i)
		for c, w := range omega {
			slope[c] += right[c] - w*mean[c] // right refers to o_c − θ_c, so this is the correction of θ
			curve[c] += w
		}
	}
	return slope, curve
}

// updateNoises sets each Gaussian output's noise precision to n / Σ (residual² + variance).
func (o *outputSweep) updateNoises() {
	s := o.state
	for c := range s.Noises {
		n, total := 0.0, 0.0
		for i := range o.problem.X.NumRows() {
			w := o.problem.Weight(i)
			e := o.problem.Target(i)[c] - s.Bias[c] - o.mean[i*o.m+c]
			n += w
			total += w * (e*e + o.spread[i*o.m+c])
		}
		if n > 0 {
			// Residuals of 0, where a label is a function of its names, would make the precision infinite.
			s.Noises[c] = maxNoise
			if total > n/maxNoise {
				s.Noises[c] = n / total
			}
		}
	}
}

// likelihood returns the expected log-likelihood of the sample.
func (o *outputSweep) likelihood() float64 {
	s, n := o.state, o.problem.X.NumRows()
	// Added up block by block, in the order of the blocks: the sum is the same for any number of workers.
	blocks := make([]float64, (n+sweepBlock-1)/sweepBlock)
	o.parallel(n, func(b, lo, hi int) {
		work := make([]float64, o.m)
		for i := lo; i < hi; i++ {
			if w := o.problem.Weight(i); w > 0 {
				blocks[b] += w * s.OutputLikelihood(o.problem.Target(i), o.row(o.mean, i), o.row(o.spread, i), work)
			}
		}
	})
	return floats.Sum(blocks) + biasEvidence(s)
}

// evidence is that of Refit, of separate outputs.
func (o *outputSweep) evidence() float64 { return o.likelihood() - o.divergence() }

// divergence returns that of the posterior from the prior, over the features that occur.
func (o *outputSweep) divergence() float64 {
	s := o.state
	q, moments, total := s.RowSize(), o.secondMoments(), 0.0
	for f, n := range o.counts {
		for a, d := range s.PrecisionOf(f) {
			// Twice the Kullback-Leibler divergence of Gaussians: Σ d·E v² − 1 − log d, less log det of the covariance
			// below.
			total += d*moments[f*q+a] - n*(1+math.Log(d))
		}
	}
	for j := range s.Field {
		if o.columns.start[j+1] > o.columns.start[j] {
			total -= o.logDet[j]
		}
	}
	return 0.5 * total
}

// lanes is in how many parts a sum over the rows is taken, whatever the number of workers. Chosen by hand.
const lanes = 16

// inLanes runs f once per lane with its rows, in parallel, and waits.
func (o *outputSweep) inLanes(f func(lane, lo, hi int)) {
	n := o.problem.X.NumRows()
	workers := o.workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, lanes)
	var wg parallel.Group
	for w := range workers {
		wg.Go(func() {
			for lane := w; lane < lanes; lane += workers {
				f(lane, n*lane/lanes, n*(lane+1)/lanes)
			}
		})
	}
	wg.Wait()
}
