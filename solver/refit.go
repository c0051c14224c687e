package solver

import (
	"slices"

	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/dense"
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

// refit fits the linear term and the output weights in turn.
func (r *solve) refit(start bool) {
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
func (r *solve) refitLinear(tolerance float64, iterations int) {
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
func (r *solve) exact() bool { return r.s.Tolerance < 1e-6 }

// maxPolish bounds the final rounds of refits.
const maxPolish = 10

// polish alternates full refits, the first from several starts, until they no longer help.
func (r *solve) polish() {
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
func (r *solve) prune() {
	r.keep(func(row int) bool { return dense.NormInf(r.v[row*r.m:row*r.m+r.m]) > 0 })
}

// crawlIterations of a Newton refit of the output weights, which takes five to twenty, say that the objective is all
// but flat where it is.
const crawlIterations = 100

// refitOutput refits the output weights by the method of the settings, until the objective falls by less than
// tolerance, at a rate per full span.
func (r *solve) refitOutput(tolerance float64, span int) {
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
		r.result.StochasticEpochs += used
	case r.s.Solver == FISTA || constrained:
		if r.s.Solver == Hybrid && !r.settled && r.p.X.NumRows() >= output.StochasticRows {
			r.settled = !r.stochasticEpochs(output.HybridEpochs)
		}
		r.result.FISTAIterations += r.output.Minimize(r.v, limits)
	default:
		iterations := r.output.Newton(r.v, r.linear.Joint(r.output.Offset), limits)
		r.result.NewtonIterations += iterations
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
func (r *solve) stochasticEpochs(epochs int) (fell bool) {
	used, fell := r.output.Stochastic(r.v, epochs, r.shuffle)
	r.result.StochasticEpochs += used
	return fell
}
