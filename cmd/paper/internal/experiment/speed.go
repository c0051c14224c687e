package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/refitd/refitd/solver"
)

// letterObjective is what the reference in numpy ends its path on letter at, in 65.5 s with one thread.
const letterObjective = 1467.27

// fastRuns are how far the last lines of the speed table run on ML-1M: quickly to an error, and, with factors whose
// precision has no cap as in refitd fit, to what others reach at their best.
var fastRuns = []variationalStart{{basis: 8, until: 0.867}, {basis: 16, until: 0.8625, uncapped: true}}

// quickRuns are those of the short form, on ML-100k.
var quickRuns = []variationalStart{{basis: 8, until: 0.95}}

// Speed measures three fits: letter, ℓ1/ℓ2, λ = 0.3, to k = 150 with one thread; McRank on ML-1M, ℓ1/ℓ∞, λ = 8, k = 20,
// with two; and ML-1M to the validation errors of fastRuns with one. The table also has figures of others, measured in
// other runs on a machine of the same kind: a guide, not a ratio.
func Speed(ctx context.Context, o Options) (*Report, error) {
	main := Table{
		Title: "Speed",
		Header: []string{
			"fit",
			"threads",
			"k",
			"seconds",
			"of them to the reference's objective",
			"objective",
			"quality",
			"others, other runs",
		},
	}
	for _, measure := range []func(context.Context, *Options, *Table) error{speedLetter, speedRatings} {
		if err := measure(ctx, &o, &main); err != nil {
			return nil, err
		}
	}
	return &Report{Name: "speed", Tables: []Table{main}}, nil
}

// speedLetter measures the path on letter, or on the short form's set.
func speedLetter(ctx context.Context, o *Options, t *Table) error {
	const lambda = 0.3
	others := "reference in numpy, one thread: 65.5 s, objective 1467.27, 91.55 %"
	if o.Quick {
		others = "-"
	}
	b, set, err := o.oneSet("letter")
	if err != nil {
		return err
	}
	p := split(len(set.class), 0)
	settings := b.settings(solver.L1L2, lambda, solver.OutputLayer)
	settings.MaxSteps, settings.Workers = b.basis, 1 // as many steps as the reference
	reached := "-"
	o.Progress.Stage(b.name, "basis vectors", int64(b.basis))
	settings.OnStep = func(s solver.Step, _ *solver.Model) bool {
		o.Progress.Set(int64(s.K), int64(b.basis))
		if !o.Quick && reached == "-" && s.Objective <= letterObjective {
			reached = fmt.Sprintf("%.2f", s.Seconds)
		}
		return false
	}
	res, seconds, err := o.timed(ctx, set.problem(p.train), nil, settings, 1)
	if err != nil {
		return err
	}
	t.Rows = append(
		t.Rows,
		[]string{fmt.Sprintf("%s ℓ1/ℓ2 λ %g, output refits", b.name, lambda), "1", fmt.Sprint(res.Model.NumBasis),
			fmt.Sprintf(
				"%.2f",
				seconds,
			), reached, fmt.Sprintf("%.2f", res.Objective), fmt.Sprintf("%.2f %%", set.accuracy(res.Model, p.test)), others},
	)
	return nil
}

// speedRatings measures the fits on ML-1M, or on ML-100k in the short form.
func speedRatings(ctx context.Context, o *Options, t *Table) error {
	b, basis, runs := &ratingBenchmarks[1], ratingBasis, fastRuns
	others := []string{"reference in numpy, one thread: 58.9 s, RMSE .8824 (its objective leaves the ridge out)",
		"test RMSE: libMF .874 in 0.33 s, fastFM ALS .876 in 0.98 s, variational myFM .866 in 2.2 s, .861 in 4.1 s, Gibbs " +
			"myFM .856 in 34 s"}
	if o.Quick {
		b, basis, runs, others = &ratingBenchmarks[0], 3, quickRuns, []string{"-", "-"}
	}
	set, err := readRatings(o.file(b.file...))
	if err != nil {
		return err
	}
	p := split(len(set.level), 0)
	curve := b.curves[len(b.curves)-1]
	settings := curve.settings()
	settings.MaxBasis, settings.MaxSteps, settings.Workers = basis, basis, 2
	o.Progress.Stage(b.name, "basis vectors", int64(basis))
	settings.OnStep = func(s solver.Step, _ *solver.Model) bool {
		o.Progress.Set(int64(s.K), int64(basis))
		return false
	}
	res, seconds, err := o.timed(ctx, set.problem(p.train, true), nil, settings, 1)
	if err != nil {
		return err
	}
	t.Rows = append(
		t.Rows,
		[]string{
			fmt.Sprintf("%s %s λ %g, output refits", b.name, curve.name, curve.lambda),
			"2",
			fmt.Sprint(res.Model.NumBasis),
			fmt.Sprintf("%.2f", seconds),
			"-",
			fmt.Sprintf("%.1f", res.Objective),
			fmt.Sprintf("RMSE %.4f", set.rmse(res.Model, p.test)),
			others[0],
		},
	)
	one := *o
	one.Threads = 1
	o.Progress.Stage(b.name+", variational", "fits", int64(len(runs)))
	for _, run := range runs {
		fast, err := one.variational(ctx, set, p, run)
		if err != nil {
			return err
		}
		o.Progress.Add(1)
		valid := set.rmse(fast.model, p.valid)
		if valid > run.until {
			return errors.Join(
				fmt.Errorf(
					"paper: %s: %d sweeps ended at a validation error of %.4f, not %.4f",
					b.name,
					fast.sweeps,
					valid,
					run.until,
				),
				ctx.Err(),
			)
		}
		t.Rows = append(
			t.Rows,
			[]string{
				fmt.Sprintf("%s to validation RMSE %.4f, variational, %d sweeps", b.name, run.until, fast.sweeps),
				"1",
				fmt.Sprint(fast.model.NumBasis),
				fmt.Sprintf("%.2f", fast.seconds),
				"-",
				"-",
				fmt.Sprintf("validation RMSE %.4f, test RMSE %.4f", valid, set.rmse(fast.model, p.test)),
				others[1],
			},
		)
	}
	return nil
}
