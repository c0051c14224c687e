package solver

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/output"
	"gonum.org/v1/gonum/floats"
)

// Solve runs Algorithm 1 of Blondel et al. 2017, in penalised form with Lambda or in constrained form with Tau: fit the
// linear term, select the basis vector that violates optimality most, append it, refit the output weights, drop basis
// vectors without weight, repeat. With a warm model, whose columns must be those of p, its linear term and weights are
// refitted first; if it already has MaxBasis vectors and is not optimal, a fifth of them, those of least gain, make
// room, and the model before that is returned if no better one is found.
//
// Solve ends when no basis vector enters or new ones no longer help (Stalled), at MaxBasis or MaxSteps (BasisLimit),
// when its Budget is spent (TimeBudget) or when ctx is done (TimeBudget after a deadline, else Interrupted). Stalled
// and BasisLimit become Converged where the certified gap is within Tolerance. Unless it is Rough, Solve brings weights
// and basis vectors to their joint optimum, whatever Refit says, before it gives up. A solve that is cut short returns
// within a few blocks of rows with the model of its last step, or the starting point (the warm model, or none) if there
// was no step: no pass over the rows that was cut short has a part in it. Errors wrap ErrProblem or ErrSettings, or are
// those of ctx, or of one that ended with the budget, if that was before the starting point was evaluated. No number in
// a result is NaN or infinite. The result depends on p, warm and s only, not on the number of workers; one that the
// clock cut short is repeated by a Budget of len(Steps) steps. p and warm are read, never written.
func Solve(ctx context.Context, p *Problem, warm *Model, s Settings) (*Result, error) {
	ctx, cancel := s.Budget.within(ctx)
	defer cancel()
	run, err := newSolve(ctx, p, s)
	if err != nil {
		return nil, err
	}
	return run.run(ctx, warm)
}

// run solves, from a warm model or none.
func (r *solve) run(ctx context.Context, warm *Model) (*Result, error) {
	if warm != nil {
		if err := r.load(warm); err != nil {
			return nil, err
		}
	}
	if r.begin(); r.complete == nil {
		return nil, ctx.Err()
	}
	r.loop(ctx, warm != nil)
	return r.finish(ctx), nil
}

// LambdaMax returns the criterion of the best basis vector found before any is in the model, with the linear term of s
// fitted: a λ at or above it gives a model without interactions. Of Rough settings the search is a quick one. Lambda,
// Tau, MaxBasis and Solver are not used.
// Errors wrap ErrProblem or ErrSettings, or are those of ctx.
func LambdaMax(ctx context.Context, p *Problem, s Settings) (float64, error) {
	s.Lambda, s.Tau = 1, 0
	ctx, cancel := s.Budget.within(ctx)
	defer cancel()
	run, err := newSolve(ctx, p, s)
	if err != nil {
		return 0, err
	}
	run.refit(true)
	run.score()
	search := gamma.FineOracle
	if s.Rough {
		search = gamma.QuickOracle
	}
	found := run.gamma.SelectBasis(s.Penalty, nil, search.By(s.Selection), s.Seed)
	return found.Criterion, ctx.Err()
}

// solve is the state of one call of Solve. It belongs to one goroutine, whose workers share the rows of a pass. It has
// three layers, each of which knows only those below: current is the model and its scores, refits moves its parameters,
// and solve itself searches basis vectors, certifies points and decides when to end.
type solve struct {
	refits
	started time.Time
	last    gamma.Found        // the last selection of a basis vector
	scored  bool               // step 0 is evaluated and searched already
	lower   float64            // no point has a lower objective, as refine has found
	eigen   *convexfm.Spectrum // of a convex factorization machine: its Z ends as its eigendecomposition; else nil
	result  Result
	points
	conclusions
	certificate *certificate // of the current point; nil where it has none
}

// points are complete models that a solve may go back to.
type points struct {
	complete *point // the last step, or the starting point: what a cut-short solve returns
	saved    *point // the one before room was made
}

// conclusions are the looks at whether a solve has converged.
type conclusions struct {
	rounds    int     // those after which the solve continued
	concluded int     // steps before the last one
	best      float64 // objective of the one before
}

// maxOutputs keeps ClassFootprint at 3.2 GB.
const maxOutputs = 20_000

func newSolve(ctx context.Context, p *Problem, s Settings) (*solve, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Outputs > maxOutputs {
		return nil, fmt.Errorf(
			"%w: %d outputs, at most %d: the gradient of each at the eigenvector of each other would take %d GiB",
			ErrProblem, p.Outputs, maxOutputs, ClassFootprint(p.Outputs)>>30)
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	now := s.Now()
	r := &solve{started: now}
	r.p, r.s, r.m, r.workers = p, s, p.Outputs, s.workers(ctx)
	r.linearShare, r.reached = 0.1, now
	r.output = output.NewOutputFit(p, s.form(), r.workers)
	r.linear = linear.NewLinearFit(p, s.LinearRidge, s.BiasRidge, r.workers)
	r.gamma = gamma.NewGamma(p.X, s.Kernel, p.Outputs, r.workers)
	r.pred = make([]float64, p.X.NumRows()*p.Outputs)
	r.shuffle = rand.New(rand.NewPCG(s.Seed, 0x65706f636873)) // "epochs": apart from other uses of the seed
	return r, nil
}

// begin evaluates the starting point: the first that a cut-short solve can return.
func (r *solve) begin() {
	r.evaluate()
	r.loss = linear.RowLosses(r.workers, r.p, r.pred, r.gamma.Grad)
	if r.total(); !r.workers.Cancelled() {
		r.complete = r.here()
	}
}

// stallFraction of Tolerance is the relative decrease of the objective below which a new basis vector did not help: it
// repeats one that the refit has not brought to its optimum.
const stallFraction = 0.01

// triesPerBasis times MaxBasis is the most basis vectors tried: with hopelessly scaled features each may be dropped
// again for a gain that is just no stall.
const triesPerBasis = 20

// loop alternates refits and selections until there is a reason to stop, kept in result.Status.
func (r *solve) loop(ctx context.Context, warm bool) {
	past := progress{last: math.Inf(1), room: warm}
	r.early = r.spectrum.Moves() && r.k == 0 && !r.exact()
	defer func() { r.early = false }()
	var status Status
	for first := true; status == 0; first = false {
		status = r.iterate(ctx, first, &past)
	}
	r.result.Status = status
}

// batch returns the vectors to add and, as far as Settings.BatchShare and MaxBasis allow, others of the search that
// found them, at most steps in all.
func (r *solve) batch(vectors [][]float64, threshold float64, steps int) [][]float64 {
	most := min(1+int(r.s.BatchShare*float64(r.k)), r.s.MaxBasis-r.k, steps)
	for _, other := range r.last.Others {
		if len(vectors) >= most || other.Criterion <= threshold {
			break
		}
		if !slices.ContainsFunc(vectors,
			func(h []float64) bool { return math.Abs(floats.Dot(h, other.Basis)) >= convexfm.Alike }) {
			vectors = append(vectors, other.Basis)
		}
	}
	return vectors
}

// atLimit reports whether no basis vector may be added any more; room says that vectors of the warm model may make way
// for them.
func (r *solve) atLimit(tried int, room bool) bool {
	full := r.k >= r.s.MaxBasis && !(room && r.s.MaxBasis > 0)
	return full || tried >= r.s.MaxSteps || tried >= triesPerBasis*r.s.MaxBasis
}

// spent reports whether the solve has made as many steps as its budget allows.
func (r *solve) spent() bool { return r.s.Budget.Spent(r.s.Lambda, len(r.result.Steps)) }

// oracle returns the first search that a step makes.
func (r *solve) oracle() gamma.OracleSearch {
	search := gamma.QuickOracle
	if r.exact() {
		return r.careful()
	}
	search.Several = r.s.Rough && r.s.BatchShare > 0
	return r.spectrum.Search(search, r.p.X.NumColumns).By(r.s.Selection)
}

// careful returns the search that has the last word.
func (r *solve) careful() gamma.OracleSearch {
	return r.spectrum.Search(gamma.FineOracle, r.p.X.NumColumns).By(r.s.Selection)
}

// search selects the next basis vector: quickly, and again carefully if the quick search finds none that enters. Where
// the certificate of a warm start says that none has to, that is the last word.
func (r *solve) search(threshold float64) gamma.Found {
	seed := r.s.Seed
	if r.s.Selection == RandomStart || r.s.Selection == RandomOnly || r.s.Kernel.Degree() == 3 {
		seed += uint64(len(r.result.Steps)) // another vector at each step
	}
	if r.certificate != nil { // of a warm start
		return r.last
	}
	if len(r.result.Steps) > 0 || !r.scored {
		r.last = r.gamma.SelectBasis(r.s.Penalty, r.last.Eigen.Vectors, r.oracle(), seed)
	}
	if !r.exact() && r.last.Criterion <= threshold {
		r.last = r.gamma.SelectBasis(r.s.Penalty, r.last.Eigen.Vectors, r.careful(), seed)
	}
	return r.last
}

// step describes the current point.
func (r *solve) step(found gamma.Found, gap float64) Step {
	units := 0
	for _, w := range r.v {
		if w != 0 {
			units++
		}
	}
	return Step{
		K: r.k, Units: units, Objective: r.objective, Gap: gap, Criterion: found.Criterion, Nu: found.Factor,
		Seconds: r.reached.Sub(r.started).Seconds(),
	}
}

// finish polishes the model unless that was done, returns to the saved point if that was better, certifies it and
// describes the result.
func (r *solve) finish(ctx context.Context) *Result {
	res, spent := &r.result, r.spent()
	concluded := r.concluded > 0 && r.concluded == len(res.Steps)
	if !r.s.Rough && !r.s.WeightsOnly && !r.workers.Cancelled() && (concluded || !spent) {
		if n := len(res.Steps); !concluded && !r.bySteps() && !r.crawls && res.Steps[n-1].Gap > r.s.Tolerance*r.objective {
			r.polish()
		}
		if r.saved != nil && r.saved.objective < r.objective {
			r.back(r.saved)
			r.score()
			r.certificate = nil
		}
		if r.certificate == nil {
			r.certificate = r.certify(r.gapTerms(), false)
		}
		r.refine()
		r.closeGap()
	}
	if res.GapKind == "" {
		res.CutShort = spent || r.workers.Cancelled()
		if concluded && ctx.Err() != nil { // as when a budget of these steps repeats it
			res.Status = statusOf(ctx)
		}
		r.endEstimated()
	}
	if r.eigen != nil {
		r.toEigenvectors()
	}
	res.Model = r.model()
	res.StochasticEpochs, res.FISTAIterations = r.iterations.StochasticEpochs, r.iterations.FISTAIterations
	res.NewtonIterations = r.iterations.NewtonIterations
	if res.ConvexObjective > 0 {
		res.GapRelative = res.Gap / res.ConvexObjective
	}
	if res.GapKind == Certified {
		r.conclusion()
	}
	own := *res // a pointer into the solve would keep all its scratch as long as the result
	return &own
}
