package variational

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/sweep"
	"gonum.org/v1/gonum/floats"
)

// sameVector is the cosine above which two unit basis vectors count as one. Chosen by hand.
const sameVector = 0.95

// labelRounding is the deviation of labels, in parts of the largest, that rounding of weighted means alone can give to
// labels that are all alike. Chosen by hand.
const labelRounding = 1e-12

// PriorFor returns the posterior's prior for a problem, with Gaussian labels at their own scale, where they have one.
func PriorFor(l posterior.Likelihood, p *solver.Problem) posterior.Prior {
	if l != posterior.Gaussian {
		return posterior.PriorFor(l, 1)
	}
	n, variance, largest := 0.0, 0.0, 0.0
	for i := range p.X.NumRows() {
		n += p.Weight(i)
	}
	for c := range p.Outputs {
		sum, mean := 0.0, 0.0
		for i := range p.X.NumRows() {
			if w := p.Weight(i); w > 0 {
				sum += w
				largest = max(largest, math.Abs(p.Target(i)[c]))
				d := p.Target(i)[c] - mean
				mean += d * w / sum
				variance += w * d * (p.Target(i)[c] - mean) / float64(p.Outputs)
			}
		}
	}
	scale := math.Sqrt(variance / n)
	if !(scale > labelRounding*largest) {
		return posterior.PriorFor(l, 1)
	}
	return posterior.PriorFor(l, scale)
}

// NewPosterior returns what the sweeps of a cold refit start from. Outputs that share their interactions start with k
// vectors of the leading subspace of the residual: sweeps from there take half as many and end lower than from the
// vectors of the convex stage (ML-1M: RMSE 0.859 against 0.865). Separate ones start from the linear term and bias of
// Algorithm 1's model.
func NewPosterior(j *task.Task, convex *solver.Model, prior posterior.Prior, k int) *posterior.State {
	p := j.Rows.Problem
	s := experts.NewState(j.Target, p.Field, p.NumFields, prior)
	if !s.Separate {
		random := rand.New(rand.NewPCG(j.Model.Train.Seed, 0x7374617274)) // "start": apart from other uses of the seed
		return sweep.Start(s.Likelihood, p, j.Rows.Groups, j.Choices.MainOnly, k, prior, random)
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

// AddVectors appends Algorithm 1's basis vectors that the posterior does not have yet, in their order, until it has k.
func AddVectors(s *posterior.State, convex *solver.Model, prior posterior.Prior, k int) {
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
		// A vector that entered with almost no weight still needs coordinates of the prior's size to leave the saddle
		// at zero.
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

// NewSweeper returns the sweeps of a state, which is swept in place, over a problem. priorCap is posterior.Prior.Cap.
func NewSweeper(j *task.Task, s *posterior.State, p *solver.Problem, priorCap float64,
	deadline time.Time) (*task.Sweeper, error) {
	start := s.Clone()
	refit, err := sweep.NewRefit(s, p, priorCap, j.Workers)
	if err != nil {
		return nil, err
	}
	refit.Yield, refit.Deadline = j.Yield, deadline
	return &task.Sweeper{Start: start, State: s, Refit: refit}, nil
}

// SweeperFor returns the sweeps of a stage. Where those by which the horizon was chosen began with the same state, the
// first of them have been made: to the bit, so that a refit that is repeated, which chooses no horizon, comes to the
// same. They are taken once: Stages.Ahead is empty then.
func SweeperFor(j *task.Task, s *posterior.State, by *task.Sweeping) (*task.Sweeper, error) {
	if made := j.Stages.Ahead; made != nil && by.Problem == j.Rows.Problem && reflect.DeepEqual(made.Start, s) {
		taken := *made
		*made = task.Sweeper{}
		return &taken, nil
	}
	return NewSweeper(j, s, by.Problem, by.Prior.Cap, by.Budget.Deadline)
}

// MakeAhead makes n sweeps, which next returns before it makes others.
func MakeAhead(r *task.Sweeper, ctx context.Context, n int) error {
	made := make([]task.Swept, 0, n)
	for range n {
		s, err := Next(r, ctx)
		if err != nil {
			return err
		}
		made = append(made, s)
	}
	r.Ahead = made
	return nil
}

// Next returns the next sweep.
func Next(r *task.Sweeper, ctx context.Context) (task.Swept, error) {
	if len(r.Ahead) > 0 && ctx.Err() == nil {
		made := r.Ahead[0]
		r.Ahead = r.Ahead[1:]
		return made, nil
	}
	e, err := r.Refit.Sweep(ctx)
	if err != nil {
		return task.Swept{}, err
	}
	return task.Swept{State: r.State.Clone(), Evidence: e}, nil
}

// Sweep runs up to limit variational sweeps and keeps the state that is best on the select rows, the last where these
// do not decide. It stops after two sweeps without a gain, or when ctx is done; a sweep that lowers the evidence by
// more than rounding is undone and ends the stage.
func Sweep(ctx context.Context, j *task.Task, s *posterior.State, by *task.Sweeping) (*task.VariationalFit, error) {
	run, err := SweeperFor(j, s, by)
	if err != nil {
		return nil, err
	}
	limit := by.Budget.Sweeps(by.Limit)
	var best *task.VariationalFit
	evidence, worse, decides := math.Inf(-1), 0, gate.SelectDecides(j)
	j.Progress.Swept(0, limit)
	for n := 1; n <= limit && worse < 2; n++ {
		made, err := Next(run, ctx)
		if by.Budget.Over(ctx) {
			by.Budget.Swept(n - 1)
			break
		}
		if err != nil {
			return best, err
		}
		if n > 1 && made.Evidence < evidence-1e-9*math.Abs(evidence) {
			break // best holds the state before
		}
		evidence = made.Evidence
		j.Progress.Swept(n, limit)
		fit := &task.VariationalFit{
			State:    made.State,
			Start:    run.Start,
			Model:    made.State.Model(),
			Sweeps:   n,
			Evidence: evidence,
		}
		fit.Loss = by.Judge(fit.Model)
		if best == nil || math.IsNaN(fit.Loss) || fit.Loss < best.Loss || !decides {
			best, worse = fit, 0
		} else {
			worse++
		}
	}
	return best, nil
}
