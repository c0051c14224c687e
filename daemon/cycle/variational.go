package cycle

import (
	"context"
	"math"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// sameVector is the cosine above which two unit basis vectors count as one.
const sameVector = 0.95

// variationalFit is the outcome of the variational stage.
type variationalFit struct {
	state    *posterior.State
	model    *solver.Model
	loss     float64 // on the select rows
	sweeps   int
	evidence float64
}

// priorFor returns the posterior's prior for a problem, with Gaussian labels at their own scale.
func priorFor(l posterior.Likelihood, p *solver.Problem) posterior.Prior {
	if l == posterior.Logistic {
		return posterior.PriorFor(l, 1)
	}
	n, mean, m2 := 0.0, 0.0, 0.0
	for i := range p.X.NumRows() {
		if w := p.Weight(i); w > 0 {
			n += w
			d := p.Targets[i] - mean
			mean += d * w / n
			m2 += w * d * (p.Targets[i] - mean)
		}
	}
	if n == 0 || m2 == 0 {
		return posterior.PriorFor(l, 1)
	}
	return posterior.PriorFor(l, math.Sqrt(m2/n))
}

// newPosterior starts a posterior from Algorithm 1's model: its linear term, bias and basis, averaged over the outputs.
func newPosterior(l posterior.Likelihood, p *solver.Problem, convex *solver.Model, prior posterior.Prior) *posterior.State {
	s := posterior.New(l, p.Outputs, 0, p.Field, p.NumFields, prior)
	copy(s.Bias, convex.Bias)
	if convex.Linear != nil {
		for j := range convex.NumFeatures {
			mean, _ := s.Row(j)
			for _, w := range convex.Linear[j*p.Outputs : j*p.Outputs+p.Outputs] {
				mean[0] += w / float64(p.Outputs)
			}
		}
	}
	return s
}

// addVectors appends Algorithm 1's basis vectors that the posterior does not have yet, in their order, until it has k.
func addVectors(s *posterior.State, convex *solver.Model, prior posterior.Prior, k int) {
	d := convex.NumFeatures
	h := make([]float64, d)
	for r := 0; r < convex.NumBasis && s.NumBasis < k; r++ {
		weight := 0.0
		for _, v := range convex.Weights[r*convex.NumOutputs : (r+1)*convex.NumOutputs] {
			weight += v / float64(convex.NumOutputs)
		}
		sign := 1.0
		if weight < 0 {
			sign = -1
		}
		for j := range d {
			h[j] = convex.Basis[j*convex.NumBasis+r]
		}
		if hasVector(s, h) {
			continue
		}
		// A vector that entered with almost no weight still needs coordinates of the prior's size to leave the saddle at zero.
		size := max(math.Sqrt(math.Abs(weight)), 0.3*math.Sqrt(float64(d)/prior.Basis))
		for j := range h {
			h[j] *= size
		}
		s.AddBasis(h, sign, prior.Basis)
	}
}

// hasVector reports whether the posterior mean has a basis vector of nearly the direction of the unit vector h.
func hasVector(s *posterior.State, h []float64) bool {
	q := s.NumBasis + 1
	for r := 1; r < q; r++ {
		dot, norm := 0.0, 0.0
		for j, v := range h {
			m := s.Mean[j*q+r]
			dot += v * m
			norm += m * m
		}
		if math.Abs(dot) > sameVector*math.Sqrt(norm) {
			return true
		}
	}
	return false
}

// sweep runs up to limit variational sweeps and keeps the state that is best on the select rows. It stops after two sweeps without a
// gain, or when ctx is done; a sweep that lowers the evidence by more than rounding is undone and ends the stage.
func sweep(ctx context.Context, s *posterior.State, p *solver.Problem, prior posterior.Prior, limit, workers int,
	judge func(*solver.Model) float64) (*variationalFit, error) {
	refit, err := posterior.NewRefit(s, p, prior.Cap, workers)
	if err != nil {
		return nil, err
	}
	var best *variationalFit
	evidence, worse := math.Inf(-1), 0
	for n := 1; n <= limit && worse < 2; n++ {
		e, err := refit.Sweep(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return best, err
		}
		if n > 1 && e < evidence-1e-9*math.Abs(evidence) {
			break // best holds the state before
		}
		evidence = e
		fit := &variationalFit{state: s.Clone(), model: s.Model(), sweeps: n, evidence: e}
		fit.loss = judge(fit.model)
		if best == nil || math.IsNaN(fit.loss) || fit.loss < best.loss {
			best, worse = fit, 0
		} else {
			worse++
		}
	}
	return best, nil
}
