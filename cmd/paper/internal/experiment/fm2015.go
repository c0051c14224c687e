package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
)

// Settings of Blondel et al. 2015 on MovieLens, β in their scale; the linear term is all but free.
const (
	convexRidge     = 1e-9
	convexBeta      = 20.0
	convexRank      = 40 // of the path; theirs ends at 50
	convexTolerance = 5e-3
)

// convexBetas are the path, from which the validation rows choose.
var convexBetas = []float64{40, 20, 12}

// What convex factorization machines have to reach on ML-100k: a reference in numpy has .9273 at rank 17 with β = 20, and .9218 along the path.
const (
	convexRMSE, convexPathRMSE = 0.928, 0.922
	convexBasis                = 20
	convexGap                  = 0.01
	convexSeconds              = 3.0
)

// Parts of the cold time that a warm refit may take, by the share of rows that were replaced.
var convexWarm = []struct{ replaced, time float64 }{{0.05, 1.0 / 5}, {0.2, 1.0 / 3}}

// convexSettings are those of a convex factorization machine with β and α in the scale of Blondel et al. 2015, without a bias.
func convexSettings(kernel solver.Kernel, beta, alpha float64) solver.Settings {
	s := solver.DefaultSettings()
	s.Kernel, s.Penalty, s.Lambda, s.LinearRidge, s.BiasRidge, s.Tolerance = kernel, solver.L1, beta, alpha, 0, convexTolerance
	if kernel == solver.ANOVA {
		s.Lambda = beta / 2
	}
	return s
}

// convexFit is one fit with what is reported of it.
type convexFit struct {
	result  *solver.Result
	seconds float64
	trace   [][2]float64 // seconds and objective after each step
}

// fit runs an algorithm on one thread.
func (o *Options) fit(ctx context.Context, a solver.Algorithm, p *solver.Problem, warm *solver.Warm, s solver.Settings) (*convexFit, error) {
	f := &convexFit{}
	s.Workers, s.Now = 1, o.Now
	s.OnStep = func(step solver.Step, _ *solver.Model) bool {
		f.trace = append(f.trace, [2]float64{step.Seconds, step.Objective})
		return false
	}
	began := o.Now()
	res, err := a.Fit(ctx, p, warm, s)
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	o.Progress.Add(1)
	f.result, f.seconds = res, o.Now().Sub(began).Seconds()
	return f, ctx.Err()
}

// FM2015 repeats tables and figures of Blondel et al. 2015: table 2 and figure 1 on ML-100k, table 1 on generated data.
func FM2015(ctx context.Context, o Options) (*Report, error) {
	names := o.Sets
	if len(names) == 0 {
		names = []string{ratingBenchmarks[0].name, generatedName}
	}
	r := &Report{Name: "fm2015"}
	for _, name := range names {
		part := generatedTable
		switch name {
		case ratingBenchmarks[0].name:
			part = convexTable
		case generatedName:
		default:
			return nil, fmt.Errorf("%w: --sets names %q: known are %s and %s", ErrOptions, name, ratingBenchmarks[0].name, generatedName)
		}
		if err := part(ctx, &o, r); err != nil {
			return nil, err
		}
	}
	if o.Quick {
		r.Bars = nil
	}
	return r, nil
}

// generatedName is the name of the set that table 1 of Blondel et al. 2015 is about.
const generatedName = "generated"

// convexTable adds to r table 2 and figure 1 with three quarters of the ratings of ML-100k to train on: convex factorization machines with and without the
// diagonal and with both refits, a factorization machine and a linear model, the path over β, and what a warm start saves.
func convexTable(ctx context.Context, o *Options, r *Report) error {
	b := &ratingBenchmarks[0]
	set, err := readRatings(o.file(b.file...))
	if err != nil {
		return err
	}
	main := Table{Title: "Table 2 of Blondel et al. 2015: " + b.name + ", test RMSE", Header: []string{"split", "model", "β", "rank", "test RMSE",
		"objective", "certified gap", "nuclear norm", "seconds"}}
	shares := Table{Name: "warm", Title: "Refits from the model before some rows were replaced, to the same certified gap",
		Header: []string{"split", "rows replaced", "cold seconds", "warm seconds", "part", "cold objective", "warm objective"}}
	o.Progress.Stage("fitting", "fits", 0)
	for number := range o.splits(1) {
		p := split(len(set.level), uint32(number))
		run := &convexRun{beta: convexBeta, betas: convexBetas, o: o, set: set, parts: p, number: number, report: r, main: &main, shares: &shares}
		if o.Quick { // β grows with the rows
			run.beta, run.betas = 0.3*convexBeta, []float64{0.4 * convexBeta, 0.3 * convexBeta}
			run.parts = parts{valid: p.valid[:2000], train: p.train[:4000], test: p.test[:2000]}
		}
		for _, f := range []func(context.Context) error{run.models, run.path, run.warm} {
			if err := f(ctx); err != nil {
				return err
			}
		}
	}
	r.Tables = append(r.Tables, main, shares)
	return nil
}

// convexRun is one split.
type convexRun struct {
	beta         float64
	betas        []float64
	o            *Options
	set          *ratingSet
	parts        parts
	number       int
	report       *Report
	main, shares *Table
}

// known returns the rows to train on once β is chosen: three quarters of all.
func (r *convexRun) known() []int { return slices.Concat(r.parts.valid, r.parts.train) }

// add adds a fit to the main table.
func (r *convexRun) add(name string, beta float64, f *convexFit) {
	gap := "-"
	if f.result.GapKind == solver.Certified {
		gap = fmt.Sprintf("%.2f %%", 100*f.result.GapRelative)
	}
	rank, norm := f.result.Model.NumBasis, "-"
	if f.result.NuclearNorm > 0 {
		norm = fmt.Sprintf("%.1f", f.result.NuclearNorm)
	}
	rmse := r.set.rmse(f.result.Model, r.parts.test)
	r.main.Rows = append(r.main.Rows, []string{fmt.Sprint(r.number), name, fmt.Sprint(beta), fmt.Sprint(rank), fmt.Sprintf("%.4f", rmse),
		fmt.Sprintf("%.1f", f.result.Objective), gap, norm, fmt.Sprintf("%.2f", f.seconds)})
	r.o.Log.Info("fit", "split", r.number, "model", name, "beta", beta, "rank", rank, "rmse", rmse, "objective", f.result.Objective, "gap", gap,
		"seconds", f.seconds)
}

// bar adds a bar of at most that much.
func (r *convexRun) bar(name string, got, want float64) {
	r.report.Bars = append(r.report.Bars, Bar{Name: fmt.Sprintf("split %d, %s", r.number, name), Got: got, AtMost: true, Want: want})
}

// models fits all of them with one β, and draws their objectives against the seconds. The objective of the factorization machine is that of problem (3), never
// less than the convex one of the same model.
func (r *convexRun) models(ctx context.Context) error {
	p := r.set.problem(r.known(), false)
	machine := coordinate.Descent{Objective: coordinate.Direct, Weights: coordinate.Ones}
	panel := plot.Panel{Title: fmt.Sprintf("ML-100k, β = %g, split %d", r.beta, r.number), XLabel: "time (s)",
		YLabel: "objective above the least", LogX: true, LogY: true}
	least := math.Inf(1)
	for _, c := range []struct {
		name   string
		a      solver.Algorithm
		kernel solver.Kernel
		basis  int
		drawn  bool
	}{
		{"convex FM (ignore diag), fully corrective", solver.ConvexFM{}, solver.ANOVA, convexBasis, true},
		{"convex FM (ignore diag), diagonal", solver.ConvexFM{Diagonal: true}, solver.ANOVA, convexBasis, true},
		{"convex FM (use diag), fully corrective", solver.ConvexFM{}, solver.Homogeneous, 2 * convexBasis, false},
		{"FM of rank 20, coordinate descent", machine, solver.ANOVA, convexBasis, true},
		{"linear", solver.ConvexFM{}, solver.ANOVA, 0, false},
	} {
		if r.o.Quick && c.kernel == solver.Homogeneous {
			continue // squares of one-hot columns repeat the linear term: it takes ten times as long
		}
		s := convexSettings(c.kernel, r.beta, convexRidge)
		s.MaxBasis = c.basis
		if c.drawn && c.a == machine {
			s.Tolerance = 1e-4
		}
		f, err := r.o.fit(ctx, c.a, p, nil, s)
		if err != nil {
			return err
		}
		r.add(c.name, r.beta, f)
		if len(panel.Lines) == 0 {
			r.bar("β 20, test RMSE", r.set.rmse(f.result.Model, r.parts.test), convexRMSE)
			r.bar("β 20, rank", float64(f.result.Rank), convexBasis)
			r.bar("β 20, certified gap", f.result.GapRelative, convexGap)
			r.bar("β 20, seconds", f.seconds, convexSeconds)
		}
		if !c.drawn {
			continue
		}
		line := plot.Line{Name: c.name}
		for _, at := range append(f.trace, [2]float64{f.seconds, f.result.Objective}) {
			line.X, line.Y = append(line.X, at[0]), append(line.Y, at[1])
			least = min(least, at[1])
		}
		panel.Lines = append(panel.Lines, line)
	}
	numbers := Table{Name: fmt.Sprintf("objective-%d", r.number), Header: []string{"model", "seconds", "objective"}}
	for _, line := range panel.Lines {
		for i := range line.Y {
			numbers.add(line.Name, line.X[i], line.Y[i])
			line.Y[i] = line.Y[i]/least - 1
		}
	}
	r.report.Numbers = append(r.report.Numbers, numbers)
	figure := plot.Figure{Columns: 1, Panels: []plot.Panel{panel}, Legend: "solver"}
	r.report.Figures = append(r.report.Figures, Figure{Name: numbers.Name, Figure: figure})
	return nil
}

// path chooses β on the validation rows along a warm-started path and goes down it again with all rows but those of the test. As the reference's, the bar
// is for the best model of the path, whichever was chosen.
func (r *convexRun) path(ctx context.Context) error {
	down := func(rows []int, betas []float64, scale float64, visit func(beta float64, f *convexFit)) error {
		p := r.set.problem(rows, false)
		var warm *solver.Warm
		for _, beta := range betas {
			s := convexSettings(solver.ANOVA, beta*scale, convexRidge)
			s.MaxBasis = convexRank
			f, err := r.o.fit(ctx, solver.ConvexFM{}, p, warm, s)
			if err != nil {
				return err
			}
			warm = &solver.Warm{Model: f.result.Model}
			visit(beta, f)
		}
		return nil
	}
	least, chosen := math.Inf(1), 0
	known := r.known()
	scale := float64(len(r.parts.train)) / float64(len(known)) // β grows with the rows
	i := 0
	if err := down(r.parts.train, r.betas, scale, func(_ float64, f *convexFit) {
		if e := r.set.rmse(f.result.Model, r.parts.valid); e < least {
			least, chosen = e, i
		}
		i++
	}); err != nil {
		return err
	}
	lowest := math.Inf(1)
	if err := down(known, r.betas, 1, func(beta float64, f *convexFit) {
		name := "convex FM (ignore diag), path"
		if beta == r.betas[chosen] {
			name += ", chosen"
		}
		r.add(name, beta, f)
		lowest = min(lowest, r.set.rmse(f.result.Model, r.parts.test))
	}); err != nil {
		return err
	}
	r.bar("lowest test RMSE along the path", lowest, convexPathRMSE)
	return nil
}

// warm fits four fifths of the rows, replaces a share of them from the last fifth, and fits from the model before and from none.
func (r *convexRun) warm(ctx context.Context) error {
	pool := r.known()
	base, extra := pool[:4*len(pool)/5], pool[4*len(pool)/5:]
	s := convexSettings(solver.ANOVA, 0.8*r.beta, convexRidge)
	s.MaxBasis, s.Tolerance = convexRank, convexGap
	first, err := r.o.fit(ctx, solver.ConvexFM{}, r.set.problem(base, false), nil, s)
	if err != nil {
		return err
	}
	for _, c := range convexWarm {
		replaced := int(c.replaced * float64(len(base)))
		p := r.set.problem(slices.Concat(base[replaced:], extra[:replaced]), false)
		cold, err := r.o.fit(ctx, solver.ConvexFM{}, p, nil, s)
		if err != nil {
			return err
		}
		warm, err := r.o.fit(ctx, solver.ConvexFM{}, p, &solver.Warm{Model: first.result.Model}, s)
		if err != nil {
			return err
		}
		part := warm.seconds / cold.seconds
		r.shares.Rows = append(r.shares.Rows, []string{fmt.Sprint(r.number), fmt.Sprintf("%.0f %%", 100*c.replaced),
			fmt.Sprintf("%.2f", cold.seconds), fmt.Sprintf("%.2f", warm.seconds), fmt.Sprintf("1/%.1f", 1/part),
			fmt.Sprintf("%.1f", cold.result.Objective), fmt.Sprintf("%.1f", warm.result.Objective)})
		r.o.Log.Info("warm", "split", r.number, "replaced", c.replaced, "cold_seconds", cold.seconds, "warm_seconds", warm.seconds,
			"cold_gap", cold.result.GapRelative, "warm_gap", warm.result.GapRelative)
		r.bar(fmt.Sprintf("%.0f %% of the rows replaced, part of the cold time", 100*c.replaced), part, c.time)
	}
	return nil
}
