package variational

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/sweep"
)

// FitGaussian refits the posterior of GaussianTarget in addition to the variational stage, warm from the live one, and
// fits the link of its numbers on the select rows. It returns nil without such a posterior or without time left. New
// basis vectors are those of the convex stage. Published refits do not hold it, so repeated refits do not either. It
// costs as much as the sweeps of a regression.
func FitGaussian(ctx context.Context, j *task.Task, warm *task.WarmStart,
	convex *solver.Model) (*task.GaussianFit, error) {
	t := experts.GaussianTarget(j.Target)
	own := task.Budget{Deadline: j.Budget.Deadline} // where it ends is no matter of the version
	if !experts.HasGaussian(j.Model) || j.Choices.Given >= 0 || own.Over(ctx) {
		return nil, nil
	}
	p := *j.Rows.Problem
	// The same rows and columns, with the level as a number for a target.
	p.Outputs, p.Loss, p.Targets = 1, t.Loss, experts.Levels(j.Rows.Train, j.Target.Outputs())
	valid := *j.Rows.Select_
	valid.Targets = experts.Levels(j.Rows.Select_, j.Target.Outputs())
	prior := PriorFor(t.Likelihood, &p)
	k := j.Model.Train.VariationalBasis(p.X.NumRows())
	fading := j.SelectWeights()
	judge := func(m *solver.Model) float64 { return evaluate.Loss(&valid, t, m, fading) }
	sweeps := j.Model.Train.Sweeps
	if j.Choices.Restarted {
		sweeps *= RestartSweeps
	}
	swept := func(s *posterior.State, b *task.Budget) (*task.VariationalFit, error) {
		return Sweep(ctx, j, s, &task.Sweeping{Problem: &p, Prior: prior, Limit: sweeps, Judge: judge, Budget: b})
	}
	var fit *task.VariationalFit
	var began fitted.PrecisionStart
	var err error
	if warm == nil || warm.Gaussian == nil {
		random := rand.New(rand.NewPCG(j.Model.Train.Seed, 0x6761757373)) // "gauss": apart from other uses of the seed
		fit, err = swept(sweep.Start(t.Likelihood, &p, j.Rows.Groups, j.Choices.MainOnly, k, prior, random), &own)
	} else {
		AddVectors(warm.Gaussian, experts.OneOutput(convex), prior, k)
		stage := &task.Continuation{State: warm.Gaussian, Prior: prior, Last: warm.Precisions.Gaussian,
			Both: warm.BothPrecisions, Sweep: swept, Budget: &own,
			Weight: fading, Losses: func(m *solver.Model) []float64 { return valid.Losses(t, m) }}
		fit, began, _, err = Run(stage)
	}
	if fit == nil || err != nil {
		return nil, err
	}
	TakeVectors(j, fit, judge)
	numbers := make([]float64, 0, len(valid.Events))
	valid.Each(t, fit.Model, func(_ int, outputs, _ []float64) { numbers = append(numbers, outputs[0]) })
	// Numbers on rows that the sweeps have not seen: on training rows they would seem to mean more.
	link := encode.NewLevelLink(j.Target.Outputs(), 1/math.Sqrt(fit.State.Noise)).
		Fit(numbers, j.Rows.Select_.Targets, j.ChosenBy(j.SelectCounts(), j.Rows.Select_.Events))
	return &task.GaussianFit{VariationalFit: fit, Link: link, Began: began}, nil
}
