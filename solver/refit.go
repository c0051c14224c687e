package solver

import "context"

// Spans of FISTA iterations over which Tolerance is judged, at a rate of Tolerance per full span. Between two basis vectors a shorter
// span does: the next refit starts from there, and the last one takes the full span.
const (
	fullSpan  = 10
	shortSpan = 5
)

// refit fits the linear term and the output weights in turn.
func (r *solve) refit(ctx context.Context, start bool) {
	span, iterations := shortSpan, 10 // iterations of the linear term
	if start || r.exact() {
		span, iterations = fullSpan, 150
	}
	if !start {
		r.refitOutput(ctx, span)
		if r.sinceFull++; r.sinceFull >= r.s.FullEvery {
			r.refitFull(ctx)
		}
	}
	r.refitLinear(ctx, 0.1*r.s.Tolerance, iterations)
	if start {
		r.refitOutput(ctx, span)
	}
}

// refitLinear refits the linear term and bias on top of the predictions of the basis.
func (r *solve) refitLinear(ctx context.Context, tolerance float64, iterations int) {
	if r.linear.idle() || ctx.Err() != nil {
		return
	}
	r.output.activate(r.linear.pred, r.v)
	if ctx.Err() != nil {
		return
	}
	r.linear.target = r.output.target
	r.linear.minimize(ctx, tolerance, iterations)
}

// exact reports whether the tolerance asks for more than training needs.
func (r *solve) exact() bool { return r.s.Tolerance < 1e-6 }

// maxPolish bounds the final rounds of refits.
const maxPolish = 10

// polish alternates full refits until they no longer help.
func (r *solve) polish(ctx context.Context) {
	for range maxPolish {
		before := r.objective
		r.refitOutput(ctx, fullSpan)
		r.refitFull(ctx)
		r.refitLinear(ctx, 0.01*r.s.Tolerance, 50)
		r.prune()
		r.score(ctx)
		if r.linear.idle() || ctx.Err() != nil || before-r.objective <= r.s.Tolerance*r.objective {
			return
		}
	}
}

// prune drops the basis vectors without weight.
func (r *solve) prune() {
	r.keep(func(row int) bool { return normInf(r.v[row*r.m:row*r.m+r.m]) > 0 })
}

// refitOutput refits the output weights by the method of the settings. A hybrid refit gives up stochastic epochs for the rest of the
// solve once they fail to lower the objective: the weights are then closer to the optimum than their noise.
func (r *solve) refitOutput(ctx context.Context, span int) {
	if r.k == 0 || ctx.Err() != nil {
		return
	}
	r.linear.predictTo(r.output.offset, r.linear.theta)
	epochs := 0
	switch {
	case r.s.Solver == Stochastic:
		epochs = stochasticEpochs
	case r.s.Solver == Hybrid && !r.settled && r.p.X.NumRows() >= stochasticRows:
		epochs = hybridEpochs
	}
	if epochs > 0 {
		used, fell := r.output.stochastic(ctx, r.v, epochs, r.shuffle)
		r.result.StochasticEpochs += used
		r.settled = !fell
	}
	limits := fitLimits{r.s.Tolerance * float64(span) / fullSpan, span, r.s.MaxIterations}
	switch {
	case r.s.Solver == Stochastic:
	case r.s.Solver == FISTA, r.s.Tau > 0:
		r.result.FISTAIterations += r.output.minimize(ctx, r.v, limits)
	default:
		r.result.NewtonIterations += r.output.newton(ctx, r.v, limits)
	}
	r.balance()
}
