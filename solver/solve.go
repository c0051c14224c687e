package solver

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/full"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
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

// solve is the state of one call of Solve.
type solve struct {
	p       *Problem
	s       Settings
	workers parallel.Workers
	k, m    int
	basis   [][]float64 // k vectors of length d, of unit norm unless a full refit moved them
	v       []float64   // k×m
	output  *output.OutputFit
	linear  *linear.LinearFit
	full    *full.FullFit // nil before the first full refit
	convexFM
	// sinceFull counts the refits since the last full one.
	sinceFull int
	gamma     *gamma.Gamma
	pred      []float64 // n×m predictions of the whole model
	started   time.Time

	scores
	last   gamma.Found
	result Result
	points
	scored      bool       // step 0 is evaluated and searched already
	shuffle     *rand.Rand // order of the stochastic epochs
	settled     bool       // stochastic epochs no longer help
	lower       float64    // no point has a lower objective, as refine has found
	crawls      bool       // the last refit of the weights met its limit, and refine gets further
	linearShare float64    // of Tolerance, in the linear refits of a solve by line search

	conclusions
	certificate *certificate // of the current point
}

// points are complete models that a solve may go back to.
type points struct {
	complete *point // the last step, or the starting point: what a cut-short solve returns
	saved    *point // the one before room was made
}

// convexFM is what a solve has for a convex factorization machine.
type convexFM struct {
	spectrum *convexfm.Spectrum // while its refits get somewhere, else nil
	eigen    *convexfm.Spectrum // whose Z ends as its eigendecomposition, else nil
	early    bool               // its steps still gain much: their refits are rough
}

// scores are those of the current point. Method score sets them.
type scores struct {
	loss, norm, objective float64
	reached               time.Time
}

// conclusions are the looks at whether a solve has converged.
type conclusions struct {
	rounds    int     // those after which the solve continued
	concluded int     // steps before the last one
	best      float64 // objective of the one before
}

// point is a complete model to come back to.
type point struct {
	basis                  [][]float64
	phi                    [][]float64
	v, theta               []float64
	objective, convex, gap float64 // convex as in Result.ConvexObjective
}

// here returns the current point, for which the objective bounds the gap.
func (r *solve) here() *point {
	return &point{
		basis: append([][]float64(nil), r.basis...), phi: append([][]float64(nil), r.output.Phi...),
		v: append([]float64(nil), r.v...), theta: append([]float64(nil), r.linear.Theta...),
		objective: r.objective, convex: r.objective, gap: r.objective,
	}
}

// back returns to a point. Predictions and gradients are those of the point before until score is called.
func (r *solve) back(to *point) {
	r.basis, r.output.Phi, r.v = to.basis, to.phi, to.v
	r.k = len(r.basis)
	copy(r.linear.Theta, to.theta)
	r.objective = to.objective
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
	r := &solve{p: p, s: s, m: p.Outputs, workers: s.workers(ctx), linearShare: 0.1, started: now}
	r.reached = now
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

// evaluate stores the predictions of the current point in pred.
func (r *solve) evaluate() {
	r.linear.PredictTo(r.output.Offset, r.linear.Theta)
	r.output.Predictions(r.pred, r.v)
}

// total derives the objective from the loss.
func (r *solve) total() {
	r.loss = max(0, r.loss) // no loss is negative, but for rounding
	r.norm = r.s.Penalty.Norm(r.v, r.k, r.m)
	r.objective = r.loss + r.output.Form.Term(r.v, r.k, r.m) + r.linear.Penalty() + r.basisRidge()
}

// append adds basis vectors with zero weights, in one pass over the rows.
func (r *solve) append(vectors ...[]float64) {
	n, d, size := r.p.X.NumRows(), r.p.X.NumColumns, len(vectors)
	added := Model{Kernel: r.s.Kernel, NumBasis: size, Basis: make([]float64, d*size)}
	columns := make([][]float64, size)
	for b, h := range vectors {
		columns[b] = make([]float64, n)
		for j, x := range h {
			added.Basis[j*size+b] = x
		}
	}
	r.workers.Blocks(n, problem.RowBlock(n), func(_, _, lo, hi int) {
		work, tile := make([]float64, 2*size), make([]float64, loss.FitTile*size)
		for ; lo < hi; lo += loss.FitTile {
			rows := min(hi-lo, loss.FitTile)
			for i := range rows {
				index, value := r.p.X.Row(lo + i)
				phi := tile[i*size : i*size+size]
				if r.s.Kernel != ANOVA || len(index) != 2 {
					added.Activations(phi, work, index, value)
					continue
				}
				// the same, in a third of the time
				x, a, b := value[0]*value[1], added.Basis[int(index[0])*size:], added.Basis[int(index[1])*size:]
				for c := range phi {
					phi[c] = x * a[c] * b[c]
				}
			}
			// one after the other: as long as they are, they lie in each other's way in the caches
			for c, column := range columns {
				for i := range column[lo : lo+rows] {
					column[lo+i] = tile[i*size+c]
				}
			}
		}
	})
	r.basis = append(r.basis, vectors...)
	r.output.Phi = append(r.output.Phi, columns...)
	r.v = append(r.v, make([]float64, size*r.m)...)
	r.k += size
}

// keep drops the basis vectors for which wanted is false.
func (r *solve) keep(wanted func(row int) bool) {
	to := 0
	for row := range r.k {
		if !wanted(row) {
			continue
		}
		r.basis[to], r.output.Phi[to] = r.basis[row], r.output.Phi[row]
		copy(r.v[to*r.m:to*r.m+r.m], r.v[row*r.m:row*r.m+r.m])
		to++
	}
	r.basis, r.output.Phi, r.v, r.k = r.basis[:to], r.output.Phi[:to], r.v[:to*r.m], to
}

// stallFraction of Tolerance is the relative decrease of the objective below which a new basis vector did not help: it
// repeats one that the refit has not brought to its optimum.
const stallFraction = 0.01

// slowDecrease is the relative decrease of the objective at or below which basis vectors are refitted with the
// weights before the next one is sought, if Tolerance is not larger: what is left to gain is then in directions near
// those of the model, which single vectors approach slowly.
const slowDecrease = 1e-4

// earlyDecrease is the relative decrease of the objective above which a step of a convex factorization machine that
// starts from nothing was an early one: the next vectors gain more than a sharp refit or the optimum of the linear term
// would. ML-100k, β = 20: .022 s of one processor to 1 % of the least objective in place of .064, and .24 to a
// certified .5 % in place of .36.
const earlyDecrease = 1e-3

// slow returns that relative decrease. Where every refit moves all vectors there is less to gain by moving them to
// their best, and more by the next ones.
func (r *solve) slow() float64 {
	if r.spectrum.Moves() {
		return max(basisShare*r.s.Tolerance, slowDecrease)
	}
	return max(r.s.Tolerance, slowDecrease)
}

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

// rough reports whether the solve ends where nothing more is found at once: the noise of minibatches would hide what a
// conclusion gains.
func (r *solve) rough() bool {
	return r.s.Rough || !r.bySteps() && (r.s.Solver == Stochastic || r.s.Solver == SVRG)
}

// spent reports whether the solve has made as many steps as its budget allows.
func (r *solve) spent() bool { return r.s.Budget.Spent(r.s.Lambda, len(r.result.Steps)) }

// score evaluates the current point: loss, objective and the gradients and operators that the oracle and the gap need.
// It leaves off early when the solve is cancelled.
func (r *solve) score() {
	r.scoreLoss()
	r.scoreRest()
}

// scoreLoss is the part of score that takes the objective.
func (r *solve) scoreLoss() {
	if r.evaluate(); r.workers.Cancelled() {
		return
	}
	r.loss = r.linear.SettleBias(r.pred, r.gamma.Grad, r.s.Tolerance)
	r.total()
}

// scoreRest is the rest of it: in early steps of a convex factorization machine the linear term's part of the gap stays
// what it is.
func (r *solve) scoreRest() {
	if r.spectrum != nil && !r.early && !r.workers.Cancelled() {
		r.loss = r.linear.SettleWeights(r.pred, r.gamma.Grad, r.loss, r.s.Tolerance)
		r.total()
	}
	r.reached = r.s.Now()
	if !r.s.WeightsOnly && !r.workers.Cancelled() {
		r.gamma.Prepare()
	}
}

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
	if res.ConvexObjective > 0 {
		res.GapRelative = res.Gap / res.ConvexObjective
	}
	if res.GapKind == Certified {
		r.conclusion()
	}
	return res
}

// model returns a copy of the current model.
func (r *solve) model() *Model {
	d := r.p.X.NumColumns
	model := NewModel(r.s.Kernel, d, r.m, r.s.LinearRidge > 0)
	model.NumBasis = r.k
	model.Basis = make([]float64, d*r.k)
	for row, h := range r.basis {
		for j, x := range h {
			model.Basis[j*r.k+row] = x
		}
	}
	model.Weights = append([]float64(nil), r.v...)
	copy(model.Linear, r.linear.Theta[:d*r.m])
	copy(model.Bias, r.linear.Theta[d*r.m:])
	return model
}
