package convex

import (
	"context"

	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// Optimality says in a version whose model is that of the convex stage how far it is from the optimum, over all basis
// vectors and over its own. Of a candidate from the middle of a solve the first is estimated.
func Optimality(ctx context.Context, j *task.Task, v *report.Version, c *task.Candidate) {
	switch v.Form = format.FormConvex; {
	case c.Quadratic: // with a ridge, not over basis vectors
		return
	case c.Unsolved: // it is what the last variational stage left
		v.Form = format.FormVariational
		return
	}
	if _, ok := FitAlgorithm(j).(solver.ConvexFM); ok {
		v.NuclearNorm = report.Some(floats.Norm(c.Model.Weights, 1)) // of orthonormal eigenvectors
	}
	kind, gap, objective := solver.Estimated, c.Step.Gap, c.Step.Objective
	if c.Final {
		r := c.Result
		kind, gap, objective = r.GapKind, r.Gap, r.ConvexObjective
		v.GapLimit = string(r.GapLimit)
	}
	if kind == "" { // of an algorithm that has none
		return
	}
	v.Gap, v.GapKind, v.GapRelative = report.Some(gap), string(kind), relative(gap, objective)
	if j.Target.Margin != "" { // of another problem
		return
	}
	settings, err := Settings(j)
	if err != nil {
		return
	}
	settings.Lambda = c.Lambda
	basis, objective, err := solver.BasisGap(ctx, j.Rows.Problem, c.Model, settings)
	if err != nil { // the refit is over
		return
	}
	if kind == solver.Certified {
		basis = min(basis, gap) // a bound over all basis vectors is one over these
	}
	v.BasisGap, v.BasisGapRelative = report.Some(basis), relative(basis, objective)
}

// relative is a gap over the objective, 0 if that is 0: no gap is larger.
func relative(gap, objective float64) *report.Number {
	if objective == 0 {
		return report.Some(0)
	}
	return report.Some(gap / objective)
}

// AsUpdate makes the version of a refit that of an update, which has no gap.
func AsUpdate(v *report.Version) {
	v.Kind, v.Form = "update", format.FormUpdate
	v.Gap, v.GapRelative, v.GapKind, v.GapLimit = nil, nil, "", ""
	v.BasisGap, v.BasisGapRelative, v.NuclearNorm = nil, nil, nil
}
