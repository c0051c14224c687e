package cycle

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// sameVector is the cosine above which two unit basis vectors count as one.
const sameVector = 0.95

type variationalFit struct {
	state    *posterior.State
	start    *posterior.State // before its sweeps
	model    *solver.Model
	loss     float64 // on the select rows
	sweeps   int
	evidence float64
	uncapped bool // its precisions
}

// priorFor returns the posterior's prior for a problem, with Gaussian labels at their own scale.
func priorFor(l posterior.Likelihood, p *solver.Problem) posterior.Prior {
	if l != posterior.Gaussian {
		return posterior.PriorFor(l, 1)
	}
	n, variance := 0.0, 0.0
	for i := range p.X.NumRows() {
		n += p.Weight(i)
	}
	for c := range p.Outputs {
		sum, mean := 0.0, 0.0
		for i := range p.X.NumRows() {
			if w := p.Weight(i); w > 0 {
				sum += w
				d := p.Target(i)[c] - mean
				mean += d * w / sum
				variance += w * d * (p.Target(i)[c] - mean) / float64(p.Outputs)
			}
		}
	}
	if n == 0 || variance == 0 {
		return posterior.PriorFor(l, 1)
	}
	return posterior.PriorFor(l, math.Sqrt(variance/n))
}

// newPosterior returns what the sweeps of a cold refit start from. Outputs that share their interactions start with k vectors of the leading
// subspace of the residual: sweeps from there take half as many and end lower than from the vectors of the convex stage (ML-1M: RMSE .859
// against .865). Separate ones start from the linear term and bias of Algorithm 1's model.
func (j *refitJob) newPosterior(convex *solver.Model, prior posterior.Prior, k int) *posterior.State {
	p := j.problem
	s := j.target.newState(p.Field, p.NumFields, prior)
	if !s.Separate {
		random := rand.New(rand.NewPCG(j.model.Train.Seed, 0x7374617274)) // "start": apart from other uses of the seed
		return posterior.Start(s.Likelihood, p, j.groups, j.mainOnly, k, prior, random)
	}
	copy(s.Bias, convex.Bias)
	if convex.Linear != nil {
		for column := range convex.NumFeatures {
			mean, _ := s.Row(column)
			copy(mean[:p.Outputs], convex.Linear[column*p.Outputs:])
		}
	}
	return s
}

// addVectors appends Algorithm 1's basis vectors that the posterior does not have yet, in their order, until it has k.
func addVectors(s *posterior.State, convex *solver.Model, prior posterior.Prior, k int) {
	d, m := convex.NumFeatures, convex.NumOutputs
	h := make([]float64, d)
	for r := 0; r < convex.NumBasis && s.NumBasis < k; r++ {
		weights := convex.Weights[r*m : r*m+m]
		weight := 0.0 // on the scale of one output
		if s.Separate {
			if weight = floats.Norm(weights, 2) / math.Sqrt(float64(m)); weight == 0 {
				continue
			}
		} else {
			weight = math.Abs(floats.Sum(weights)) / float64(m)
		}
		for j := range d {
			h[j] = convex.Basis[j*convex.NumBasis+r]
		}
		if hasVector(s, h) {
			continue
		}
		// A vector that entered with almost no weight still needs coordinates of the prior's size to leave the saddle at zero.
		floats.Scale(max(math.Sqrt(weight), 0.3*math.Sqrt(float64(d)/prior.Basis)), h)
		s.AddBasis(h, weights, prior.Basis)
	}
}

// hasVector reports whether the posterior mean has a basis vector of nearly the direction of the unit vector h.
func hasVector(s *posterior.State, h []float64) bool {
	for r := 1; r <= s.NumBasis; r++ {
		dot, norm := 0.0, 0.0
		for j, v := range h {
			mean, _ := s.Row(j)
			m := mean[len(mean)-r]
			dot += v * m
			norm += m * m
		}
		if math.Abs(dot) > sameVector*math.Sqrt(norm) {
			return true
		}
	}
	return false
}

// sweeping is what sweep goes by.
type sweeping struct {
	problem *solver.Problem
	prior   posterior.Prior
	limit   int
	judge   func(*solver.Model) float64 // loss on the select rows
	budget  *budget
}

// A sweeper makes the sweeps of a stage, the first of which may have been made before, when horizons were compared.
type sweeper struct {
	start *posterior.State // before the first
	state *posterior.State // after those made
	refit *posterior.Refit
	ahead []swept // made, but not asked for yet
}

// swept is what a sweep came to.
type swept struct {
	state    *posterior.State
	evidence float64
}

// newSweeper returns the sweeps of a state, which is swept in place, over a problem. priorCap is posterior.Prior.Cap.
func (j *refitJob) newSweeper(s *posterior.State, p *solver.Problem, priorCap float64, deadline time.Time) (*sweeper, error) {
	start := s.Clone()
	refit, err := posterior.NewRefit(s, p, priorCap, j.workers)
	if err != nil {
		return nil, err
	}
	refit.Yield, refit.Deadline = j.yield, deadline
	return &sweeper{start: start, state: s, refit: refit}, nil
}

// sweeperFor returns the sweeps of a stage. Where those by which the horizon was chosen began with the same state, the first of them have been made: to
// the bit, so that a refit that is repeated, which chooses no horizon, comes to the same.
func (j *refitJob) sweeperFor(s *posterior.State, by *sweeping) (*sweeper, error) {
	if made := j.ahead; made != nil && by.problem == j.problem && reflect.DeepEqual(made.start, s) {
		j.ahead = nil
		return made, nil
	}
	return j.newSweeper(s, by.problem, by.prior.Cap, by.budget.deadline)
}

// makeAhead makes n sweeps, which next returns before it makes others.
func (r *sweeper) makeAhead(ctx context.Context, n int) error {
	made := make([]swept, 0, n)
	for range n {
		s, err := r.next(ctx)
		if err != nil {
			return err
		}
		made = append(made, s)
	}
	r.ahead = made
	return nil
}

// next returns the next sweep.
func (r *sweeper) next(ctx context.Context) (swept, error) {
	if len(r.ahead) > 0 && ctx.Err() == nil {
		made := r.ahead[0]
		r.ahead = r.ahead[1:]
		return made, nil
	}
	e, err := r.refit.Sweep(ctx)
	if err != nil {
		return swept{}, err
	}
	return swept{r.state.Clone(), e}, nil
}

// sweep runs up to limit variational sweeps and keeps the state that is best on the select rows. It stops after two sweeps without a
// gain, or when ctx is done; a sweep that lowers the evidence by more than rounding is undone and ends the stage.
func (j *refitJob) sweep(ctx context.Context, s *posterior.State, by *sweeping) (*variationalFit, error) {
	run, err := j.sweeperFor(s, by)
	if err != nil {
		return nil, err
	}
	limit := by.budget.sweeps(by.limit)
	var best *variationalFit
	evidence, worse := math.Inf(-1), 0
	j.progress.swept(0, limit)
	for n := 1; n <= limit && worse < 2; n++ {
		made, err := run.next(ctx)
		if by.budget.over(ctx) {
			by.budget.swept(n - 1)
			break
		}
		if err != nil {
			return best, err
		}
		if n > 1 && made.evidence < evidence-1e-9*math.Abs(evidence) {
			break // best holds the state before
		}
		evidence = made.evidence
		j.progress.swept(n, limit)
		fit := &variationalFit{state: made.state, start: run.start, model: made.state.Model(), sweeps: n, evidence: evidence}
		fit.loss = by.judge(fit.model)
		if best == nil || math.IsNaN(fit.loss) || fit.loss < best.loss {
			best, worse = fit, 0
		} else {
			worse++
		}
	}
	return best, nil
}
