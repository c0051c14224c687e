package solver

import (
	"math"

	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/output"
)

// conclude decides whether a solve continues that found no basis vector to enter, or whose last ones hardly helped:
// the model is brought to its joint optimum and the search made wide; where it still finds none, the certificate has
// the last word. It reports whether the solve continues, with the last selection. There the point is certified unless
// the solve is cancelled.
func (r *solve) conclude() (continues bool) {
	if r.concluded = len(r.result.Steps); r.certificate != nil { // certifyWarm has made it
		return false
	}
	if r.spectrum != nil {
		certified, found := r.certifiedHere(r.gapTerms())
		if certified || r.workers.Cancelled() {
			return false
		}
		if found && r.spectrum.Moves() && r.rounds < maxRounds && r.helped() {
			return true
		}
	}
	r.settle()
	if r.workers.Cancelled() || r.crawls { // what is left is for refine
		return false
	}
	continues = r.helped() && r.rounds < maxRounds
	terms := r.gapTerms()
	if !r.spectrum.Moves() { // else the certificate finds as much
		r.last = r.gamma.SelectBasis(r.s.Penalty, r.last.Eigen.Vectors, r.careful(), r.s.Seed)
		if continues && r.last.Criterion > terms.threshold() &&
			terms.at(r.last.Criterion) > r.s.Tolerance*terms.objective {
			return true
		}
	}
	if r.certificate = r.certify(terms, false); r.workers.Cancelled() {
		return false
	}
	gap := r.certificate.terms.at(r.certificate.bound.Value)
	if continues && r.certificate.exact && r.last.Criterion > terms.threshold() && gap > r.s.Tolerance*terms.objective {
		r.certificate = nil
		return true
	}
	return false
}

// helped reports whether the objective fell since the conclusion before, and counts this one.
func (r *solve) helped() bool {
	fell := r.rounds == 0 || r.best-r.objective > stallFraction*r.s.Tolerance*r.objective
	r.rounds, r.best = r.rounds+1, r.objective
	return fell
}

// certifiedHere makes a certificate of the current point, whose terms it takes, if the last search lets it hope that
// this is within Tolerance, and reports whether it is; if it is not, whether the certificate found vectors to enter,
// which are the last selection then.
func (r *solve) certifiedHere(terms gapTerms) (certified, found bool) {
	enough := r.s.Tolerance * terms.objective
	if terms.at(r.last.Criterion) > enough {
		return false, false
	}
	c := r.certify(terms, true)
	if r.workers.Cancelled() {
		return false, false
	}
	if terms.at(c.bound.Value) <= enough {
		r.certificate = c
		return true, false
	}
	return false, c.exact && r.last.Criterion > terms.threshold() && terms.at(r.last.Criterion) > enough
}

// maxRounds bounds how often a solve continues after it was brought to its optimum.
const maxRounds = 50

// basisShare of Tolerance is the relative gap within the model's basis at which weights count as optimal.
const basisShare = 0.1

// settle alternates joint refits with those of the output weights and the linear term, ever sharper, until the gap
// within the model's own basis is far below Tolerance.
func (r *refits) settle() {
	tolerance, rounds := r.s.Tolerance, maxPolish
	if r.spectrum != nil && r.exact() {
		rounds = maxSettle
	}
	for range rounds {
		before := r.objective
		r.merge()
		switch {
		case r.spectrum.IsWhole(): // basis vectors are at their best
		case r.spectrum.Moves():
			r.descend(settleSweeps, tolerance)
		default:
			r.refitJointly(
				FISTA,
				output.FitLimits{
					Tolerance:  tolerance,
					Span:       fullSpan,
					Iterations: max(r.s.FullIterations, settleIterations),
				},
				false,
			)
		}
		r.refitOutput(tolerance, fullSpan)
		r.refitLinear(0.01*tolerance, 50)
		r.prune()
		if r.score(); r.workers.Cancelled() || r.crawls {
			return
		}
		terms := r.gapTerms()
		enough := basisShare * r.s.Tolerance * r.objective
		if decrease := before - r.objective; decrease <= enough && (terms.at(0) <= enough || decrease <= 1e-3*enough) {
			return
		}
		tolerance = max(0.1*tolerance, 1e-15)
	}
}

// maxSettle bounds the rounds of a convex factorization machine that is asked for exactly: with squared features the
// linear term and Z depend on each other, and as blocks they come nearer by two fifths a round.
const maxSettle = 60

// settleIterations bounds a joint refit of settle, settleSweeps one by descents.
const (
	settleIterations = 100
	settleSweeps     = 50
)

// certificate is what is known about the optimum at a point.
type certificate struct {
	terms gapTerms
	bound gamma.DualBound
	exact bool // the last selection is the best of all unit vectors, but for the accuracy of an eigenvalue
}

// boundSlack of the relative gap is what the bound of the dual norm may lack in accuracy: a tenth halves the passes
// over the rows.
const boundSlack = 0.1

// boundShare of Tolerance is the least accuracy asked of that bound.
const boundShare = 0.25

// conclusion says of a certified result whether it converged and, if not, what its gap is limited by.
func (r *solve) conclusion() {
	res, terms, enough := &r.result, r.certificate.terms, r.s.Tolerance
	if res.Status == Stalled {
		enough = max(enough, RoundingGap)
	}
	switch {
	case res.GapRelative <= enough:
		if res.Status == Stalled || res.Status == BasisLimit {
			res.Status = Converged
		}
	case terms.at(0) > enough*terms.objective:
		res.GapLimit = LimitWeights
	case res.GapEstimate > enough*res.ConvexObjective:
		res.GapLimit = LimitVectors
	default:
		res.GapLimit = LimitBound
	}
}

// estimate takes the criterion of a careful selection for Ω*(∇F): no bound of it is known that is of use at degree 3.
func (r *solve) estimate(terms gapTerms) *certificate {
	if r.concluded < len(r.result.Steps) {
		r.last = r.gamma.SelectBasis(r.s.Penalty, r.last.Eigen.Vectors, gamma.FineOracle.By(r.s.Selection), r.s.Seed)
	}
	return &certificate{terms: terms, bound: gamma.DualBound{Value: r.last.Criterion}}
}

// certify bounds Ω*(∇F) at the current point, whose terms it takes, from above. Where the bound is attained, the
// vector that attains it becomes the last selection, of a convex factorization machine together with the next
// eigenvectors. Hopeful says that the bound is of no use unless the gap is within Tolerance.
func (r *solve) certify(terms gapTerms, hopeful bool) *certificate {
	if r.workers.Cancelled() {
		return &certificate{}
	}
	if r.s.Kernel.Degree() == 3 {
		return r.estimate(terms)
	}
	var enough func(upper, lower float64) bool
	if r.spectrum != nil { // what was asked for will do: more would take most of a warm refit
		enough = func(upper, lower float64) bool {
			gap := r.s.Tolerance * terms.objective
			return terms.at(upper) <= gap || hopeful && terms.at(lower) > gap
		}
	}
	slack := boundSlack * terms.at(r.last.Criterion) / max(terms.objective, math.SmallestNonzeroFloat64)
	c := &certificate{
		terms: terms,
		bound: r.gamma.BoundDual(r.s.Penalty, max(boundShare*r.s.Tolerance, slack), r.s.Seed, enough),
	}
	if r.workers.Cancelled() {
		return c
	}
	if c.exact = c.bound.Tight(r.s.Penalty, r.m); !c.exact {
		if r.concluded < len(r.result.Steps) {
			r.search(0)
		}
		return c
	}
	q := make([]float64, c.bound.Columns*r.m)
	r.gamma.QuadraticTo(q, c.bound.Vectors, c.bound.Columns)
	best := -1.0
	for t := range c.bound.Columns {
		row := q[t*r.m : t*r.m+r.m]
		if value := r.s.Penalty.RowDual(row); value > best {
			best = value
			r.last.Basis, r.last.Gradient = make([]float64, r.p.X.NumColumns), row
			for j := range r.last.Basis {
				r.last.Basis[j] = c.bound.Vectors[j*c.bound.Columns+t]
			}
		}
	}
	r.last.Criterion = max(0, best)
	if r.spectrum != nil {
		r.last.Eigen.Further, r.last.Eigen.FurtherValues = c.bound.Further, c.bound.FurtherValues
	}
	return c
}
