package solver

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/full"
	"github.com/refitd/refitd/solver/internal/output"
)

// Spans of FISTA iterations over which Tolerance is judged, at a rate of Tolerance per full span. Between two basis
// vectors a shorter span does: the next refit starts from there, and the last one takes the full span.
const (
	fullSpan  = 10
	shortSpan = 5
	// movedSpan is that of a refit over the span of vectors that moved to where they are best: it has to drop those
	// that are not needed.
	movedSpan = 2
)

// refits moves the parameters of the current model: output weights, linear term and, where settings ask for it, basis
// vectors. Each method leaves the model at an objective that is no higher, but for rounding and stochastic epochs.
type refits struct {
	current
	full      *full.FullFit // nil before the first joint refit
	sinceFull int           // refits since the last full one
	shuffle   *rand.Rand    // order of the stochastic epochs
	settled   bool          // stochastic epochs no longer help
	crawls    bool          // the last refit of the weights met its limit, and refine gets further

	spectrum *convexfm.Spectrum // of a convex factorization machine while its refits get somewhere, else nil
	early    bool               // its steps still gain much: their refits are rough

	linearShare float64   // of Tolerance, in the linear refits of a solve by line search
	reached     time.Time // when the current point was scored
	iterations  iterations
}

// iterations counts what refits took, as in Result.
type iterations struct{ StochasticEpochs, FISTAIterations, NewtonIterations int }

// refit fits the linear term and the output weights in turn.
func (r *refits) refit(start bool) {
	if r.early {
		r.refitEarly(start)
		return
	}
	if r.bySteps() {
		r.refitLinearPart()
		return
	}
	span, iterations := shortSpan, 10 // iterations of the linear term
	if start || r.exact() {
		span, iterations = fullSpan, 150
	}
	if r.spectrum.Moves() && !r.exact() {
		span = movedSpan
	}
	if start && r.spectrum.Moves() &&
		r.k > 0 { // the linear term moves as well, and sweeps are cheap compared with the search of another step
		r.descend(settleSweeps, convexfm.WarmShare*r.s.Tolerance)
		return
	}
	if !start {
		r.refitOutput(r.s.Tolerance, span)
		if r.sinceFull++; r.sinceFull >= r.s.FullEvery {
			r.refitFull(false)
		}
	}
	r.refitLinear(0.1*r.s.Tolerance, iterations)
	if start {
		r.refitOutput(r.s.Tolerance, span)
	}
}

// refitLinear refits the linear term and bias on top of the predictions of the basis.
func (r *current) refitLinear(tolerance float64, iterations int) {
	if r.linear.Idle() || r.workers.Cancelled() {
		return
	}
	r.output.Activate(r.linear.Pred, r.v)
	if r.workers.Cancelled() {
		return
	}
	r.linear.Target = r.output.Target
	r.linear.Minimize(tolerance, iterations)
}

// exact reports whether the tolerance asks for more than training needs.
func (r *current) exact() bool { return r.s.Tolerance < 1e-6 }

// maxPolish bounds the final rounds of refits.
const maxPolish = 10

// polish alternates full refits, the first from several starts, until they no longer help.
func (r *refits) polish() {
	for round := range maxPolish {
		before := r.objective
		r.refitOutput(r.s.Tolerance, fullSpan)
		r.refitFull(round == 0)
		r.refitLinear(0.01*r.s.Tolerance, 50)
		r.prune()
		r.score()
		if r.linear.Idle() || r.workers.Cancelled() || before-r.objective <= r.s.Tolerance*r.objective {
			return
		}
	}
}

// prune drops the basis vectors without weight.
func (r *current) prune() {
	r.keep(func(row int) bool { return dense.NormInf(r.v[row*r.m:row*r.m+r.m]) > 0 })
}

// crawlIterations of a Newton refit of the output weights, which takes five to twenty, say that the objective is all
// but flat where it is.
const crawlIterations = 100

// refitOutput refits the output weights by the method of the settings, until the objective falls by less than
// tolerance, at a rate per full span.
func (r *refits) refitOutput(tolerance float64, span int) {
	if r.k == 0 || r.workers.Cancelled() {
		return
	}
	r.linear.PredictTo(r.output.Offset, r.linear.Theta)
	limits := output.FitLimits{
		Tolerance:  tolerance * float64(span) / fullSpan,
		Span:       span,
		Iterations: r.s.MaxIterations,
	}
	constrained := r.s.Tau > 0
	r.crawls = false
	switch {
	case r.spectrum.Moves() && r.spectrum.Fit != nil && !slices.Contains(r.v, 0):
		// descents begin from the weights that there are
	case r.s.Solver == Stochastic:
		r.stochasticEpochs(output.StochasticEpochs)
	case r.s.Solver == SVRG:
		used, _ := r.output.Svrg(r.v, output.StochasticEpochs, r.shuffle)
		r.iterations.StochasticEpochs += used
	case r.s.Solver == FISTA || constrained:
		if r.s.Solver == Hybrid && !r.settled && r.p.X.NumRows() >= output.StochasticRows {
			r.settled = !r.stochasticEpochs(output.HybridEpochs)
		}
		r.iterations.FISTAIterations += r.output.Minimize(r.v, limits)
	default:
		iterations := r.output.Newton(r.v, r.linear.Joint(r.output.Offset), limits)
		r.iterations.NewtonIterations += iterations
		r.crawls = r.leavesToRefine(iterations >= min(crawlIterations, limits.Iterations))
	}
	r.balance()
	if r.spectrum != nil {
		if r.spectrum.Fit != nil {
			r.descend(convexfm.StepSweeps, tolerance)
		}
		r.refitSpectrum(limits)
	}
}

// stochasticEpochs reports whether epochs lowered the objective. A hybrid refit gives them up for the rest of the solve
// once they fail to: the weights are then closer to the optimum than their noise.
func (r *refits) stochasticEpochs(epochs int) (fell bool) {
	used, fell := r.output.Stochastic(r.v, epochs, r.shuffle)
	r.iterations.StochasticEpochs += used
	return fell
}

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
func (r *refits) slow() float64 {
	if r.spectrum.Moves() {
		return max(basisShare*r.s.Tolerance, slowDecrease)
	}
	return max(r.s.Tolerance, slowDecrease)
}

// score evaluates the current point: loss, objective and the gradients and operators that the oracle and the gap need.
// It leaves off early when the solve is cancelled.
func (r *refits) score() {
	r.scoreLoss()
	r.scoreRest()
}

// scoreLoss is the part of score that takes the objective.
func (r *refits) scoreLoss() {
	if r.evaluate(); r.workers.Cancelled() {
		return
	}
	r.loss = r.linear.SettleBias(r.pred, r.gamma.Grad, r.s.Tolerance)
	r.total()
}

// scoreRest is the rest of it: in early steps of a convex factorization machine the linear term's part of the gap stays
// what it is.
func (r *refits) scoreRest() {
	if r.spectrum != nil && !r.early && !r.workers.Cancelled() {
		r.loss = r.linear.SettleWeights(r.pred, r.gamma.Grad, r.loss, r.s.Tolerance)
		r.total()
	}
	r.reached = r.s.Now()
	if !r.s.WeightsOnly && !r.workers.Cancelled() {
		r.gamma.Prepare()
	}
}
