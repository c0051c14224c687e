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

// convexBenchmark is a set of table 2 with its path over β, from which the validation rows choose, and what has to be
// reached on it; 0 where there is no bar.
type convexBenchmark struct {
	ratings  *ratingBenchmark
	beta     float64   // of the models that are compared
	betas    []float64 // in falling order
	betaRMSE float64   // with beta
	pathRMSE float64   // along the path
	peer     bool      // proximal gradient on Z as well
	paper    string    // test RMSE there
}

// A reference in numpy has .9273 at rank 17 with β = 20 on ML-100k, and .9218 along the path.
var convexBenchmarks = []convexBenchmark{
	{&ratingBenchmarks[0], convexBeta, []float64{40, 20, 12}, 0.928, 0.922, true,
		"convex FM (use diag) .93, (ignore diag) .93, original FM .93, ridge .95"},
	{&ratingBenchmarks[1], 40, []float64{80, 60, 40, 30, 25}, 0, 0, false,
		"convex FM (use diag) .87, (ignore diag) .85, original FM .86, ridge .91"},
}

// What convex factorization machines have to reach.
const (
	convexBasis   = 20
	convexGap     = 0.01
	convexSeconds = 3.0
	// convexNear of the least objective is what the solvers are compared at.
	convexNear = 0.01
	// convexOptimum is the tolerance of the fit that the least objective comes from.
	convexOptimum = 1e-4
)

// convexRepeats is how often fits are repeated whose times are compared: the least counts.
const convexRepeats = 5

// least keeps the lesser times of two runs of one fit, step by step: what a machine at work adds to them is not the
// solver's.
func (f *convexFit) least(again *convexFit) {
	f.seconds = min(f.seconds, again.seconds)
	for i := range min(len(f.trace), len(again.trace)) {
		f.trace[i][0] = min(f.trace[i][0], again.trace[i][0])
	}
}

// Parts of the cold time that a warm refit may take, by the share of rows that were replaced.
var convexWarm = []struct{ replaced, time float64 }{{0.05, 1.0 / 5}, {0.2, 1.0 / 3}}

// convexSettings are those of a convex factorization machine with β and α in the scale of Blondel et al. 2015,
// without a bias.
func convexSettings(kernel solver.Kernel, beta, alpha float64) solver.Settings {
	s := solver.DefaultSettings()
	s.Kernel, s.Penalty, s.Lambda, s.LinearRidge, s.BiasRidge, s.Tolerance = kernel, solver.L1, beta, alpha, 0,
		convexTolerance
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

// fit runs an algorithm on one thread. Its clock, of the trace as well, runs from the rows, by row, and so holds what
// the algorithm makes of them: checks, copies by column, operators, the linear term.
func (o *Options) fit(
	ctx context.Context,
	a solver.Algorithm,
	p *solver.Problem,
	warm *solver.Warm,
	s solver.Settings,
) (*convexFit, error) {
	f := &convexFit{}
	s.Workers, s.Now = 1, o.Now
	began := o.Now()
	s.OnStep = func(step solver.Step, _ *solver.Model) bool {
		f.trace = append(f.trace, [2]float64{o.Now().Sub(began).Seconds(), step.Objective})
		return false
	}
	res, err := a.Fit(ctx, p, warm, s)
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	o.Progress.Add(1)
	f.result, f.seconds = res, o.Now().Sub(began).Seconds()
	return f, ctx.Err()
}

// FM2015 repeats tables and figures of Blondel et al. 2015: table 2 and figure 1 on MovieLens, table 1 on generated
// data.
func FM2015(ctx context.Context, o Options) (*Report, error) {
	names := o.Sets
	if len(names) == 0 {
		names = []string{ratingBenchmarks[0].name, generatedName}
	}
	r := &Report{Name: "fm2015"}
	for _, name := range names {
		var err error
		at := slices.IndexFunc(convexBenchmarks, func(b convexBenchmark) bool { return b.ratings.name == name })
		switch {
		case at >= 0:
			err = convexBenchmarks[at].table(ctx, &o, r)
		case name == generatedName:
			err = generatedTable(ctx, &o, r)
		default:
			err = fmt.Errorf(
				"%w: --sets names %q: known are %s, %s and %s",
				ErrOptions,
				name,
				ratingBenchmarks[0].name,
				ratingBenchmarks[1].name,
				generatedName,
			)
		}
		if err != nil {
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

// table adds to r table 2 and figure 1 with three quarters of the ratings to train on: convex factorization machines
// with and without the diagonal and with both refits, a factorization machine and a linear model, the path over β, and
// what a warm start saves.
func (b *convexBenchmark) table(ctx context.Context, o *Options, r *Report) error {
	set, err := readRatings(o.file(b.ratings.file...))
	if err != nil {
		return err
	}
	main := Table{
		Title: fmt.Sprintf("Table 2 of Blondel et al. 2015: %s, test RMSE (the paper: %s)", b.ratings.name, b.paper),
		Header: []string{
			"split",
			"model",
			"β",
			"rank",
			"test RMSE",
			"objective",
			"certified gap",
			"nuclear norm",
			"seconds",
		},
	}
	near := Table{Name: "near-" + b.ratings.name,
		Title: "Seconds until the objective is within a part of the least, one thread, from the rows: with all that a " +
			"solver makes of them; " +
			"the least of several runs, but of the proximal gradient",
		Header: []string{"split", "solver", "10 %", "1 %", "0.1 %"}}
	shares := Table{Name: "warm-" + b.ratings.name,
		Title: "Refits from the model before some rows were replaced, to the same certified gap: the least seconds of " +
			"several in turn",
		Header: []string{
			"split",
			"rows replaced",
			"cold seconds",
			"warm seconds",
			"part",
			"cold steps",
			"warm steps",
			"cold objective",
			"warm objective",
		}}
	o.Progress.Stage("fitting", "fits", 0)
	for number := range o.splits(1) {
		p := split(len(set.level), uint32(number))
		run := &convexRun{
			convexBenchmark: *b,
			o:               o,
			set:             set,
			parts:           p,
			number:          number,
			report:          r,
			main:            &main,
			near:            &near,
			shares:          &shares,
		}
		if o.Quick { // β grows with the rows
			run.beta, run.betas = 0.3*b.beta, []float64{0.4 * b.beta, 0.3 * b.beta}
			run.parts = parts{valid: p.valid[:2000], train: p.train[:4000], test: p.test[:2000]}
		}
		for _, f := range []func(context.Context) error{run.models, run.path, run.warm} {
			if err := f(ctx); err != nil {
				return err
			}
		}
	}
	r.Tables = append(r.Tables, main, near, shares)
	return nil
}

// convexRun is one split.
type convexRun struct {
	convexBenchmark
	o                  *Options
	set                *ratingSet
	parts              parts
	number             int
	report             *Report
	main, near, shares *Table
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
	r.main.Rows = append(
		r.main.Rows,
		[]string{fmt.Sprint(r.number), name, fmt.Sprint(beta), fmt.Sprint(rank), fmt.Sprintf("%.4f", rmse),
			fmt.Sprintf("%.1f", f.result.Objective), gap, norm, fmt.Sprintf("%.2f", f.seconds)},
	)
	r.o.Log.Info(
		"fit",
		"split",
		r.number,
		"model",
		name,
		"beta",
		beta,
		"rank",
		rank,
		"rmse",
		rmse,
		"objective",
		f.result.Objective,
		"gap",
		gap,
		"seconds",
		f.seconds,
	)
}

// bar adds a bar of at most that much, unless that is 0.
func (r *convexRun) bar(name string, got, want float64) {
	if want > 0 {
		r.report.Bars = append(
			r.report.Bars,
			Bar{
				Name:   fmt.Sprintf("%s, split %d, %s", r.ratings.name, r.number, name),
				Got:    got,
				AtMost: true,
				Want:   want,
			},
		)
	}
}

// repeats is how often fits are made whose times are compared.
func (r *convexRun) repeats() int {
	if r.o.Quick {
		return 1
	}
	return convexRepeats
}

// models fits all of them with one β.
func (r *convexRun) models(ctx context.Context) error {
	p := r.set.problem(r.known(), false)
	machine := coordinate.Descent{Objective: coordinate.Direct, Weights: coordinate.Ones}
	var lines []plot.Line
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
			continue // squares of one-hot columns repeat the linear term: it takes some five times as long
		}
		s := convexSettings(c.kernel, r.beta, convexRidge)
		s.MaxBasis = c.basis
		if c.drawn && c.a == machine {
			s.Tolerance = convexOptimum
		}
		f, err := r.o.fit(ctx, c.a, p, nil, s)
		if err != nil {
			return err
		}
		for range r.repeats() - 1 {
			if !c.drawn || !r.peer {
				break
			}
			again, err := r.o.fit(ctx, c.a, p, nil, s)
			if err != nil {
				return err
			}
			f.least(again)
		}
		r.add(c.name, r.beta, f)
		if len(lines) == 0 && r.betaRMSE > 0 {
			r.bar("β 20, test RMSE", r.set.rmse(f.result.Model, r.parts.test), r.betaRMSE)
			r.bar("β 20, rank", float64(f.result.Rank), convexBasis)
			r.bar("β 20, certified gap", f.result.GapRelative, convexGap)
			r.bar("β 20, seconds", f.seconds, convexSeconds)
		}
		if c.drawn {
			lines = append(lines, f.line(c.name))
		}
	}
	if r.peer {
		line, err := r.proximal(ctx)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	s := convexSettings(solver.ANOVA, r.beta, convexRidge)
	s.MaxBasis, s.Tolerance = convexRank, convexOptimum
	f, err := r.o.fit(ctx, solver.ConvexFM{}, p, nil, s)
	if err != nil {
		return err
	}
	r.add("convex FM (ignore diag), for the optimum", r.beta, f)
	r.compare(lines, f.result.Objective)
	return nil
}

// line is what is drawn of a fit.
func (f *convexFit) line(name string) plot.Line {
	line := plot.Line{Name: name}
	for _, at := range append(f.trace, [2]float64{f.seconds, f.result.Objective}) {
		line.X, line.Y = append(line.X, at[0]), append(line.Y, at[1])
	}
	return line
}

// proximal runs the peer.
func (r *convexRun) proximal(ctx context.Context) (plot.Line, error) {
	const name = "proximal gradient on Z"
	began := r.o.Now()
	line := plot.Line{Name: name}
	peer := newProximal(r.set, r.known(), r.beta)
	model, err := peer.run(ctx, func(objective float64) {
		line.X, line.Y = append(line.X, r.o.Now().Sub(began).Seconds()), append(line.Y, objective)
	})
	if err != nil {
		return line, err
	}
	r.o.Progress.Add(1)
	last := len(line.X) - 1
	r.main.Rows = append(
		r.main.Rows,
		[]string{fmt.Sprint(r.number), name, fmt.Sprint(r.beta), fmt.Sprint(model.NumBasis),
			fmt.Sprintf(
				"%.4f",
				r.set.rmse(model, r.parts.test),
			), fmt.Sprintf("%.1f", line.Y[last]), "-", "-", fmt.Sprintf("%.2f", line.X[last])},
	)
	return line, nil
}

// compare draws objectives against seconds and says when each came near the least: that of the lines or the given one.
// The objective of the factorization machine is that of problem (3), never less than the convex one of the same model.
func (r *convexRun) compare(lines []plot.Line, least float64) {
	panel := plot.Panel{
		Title:  fmt.Sprintf("%s, β = %g, split %d", r.ratings.name, r.beta, r.number),
		XLabel: "time (s)",
		YLabel: "objective above the least",
		LogX:   true,
		LogY:   true,
		Lines:  lines,
	}
	numbers := Table{
		Name:   fmt.Sprintf("objective-%s-%d", r.ratings.name, r.number),
		Header: []string{"model", "seconds", "objective"},
	}
	for _, line := range lines {
		least = min(least, slices.Min(line.Y))
		for i := range line.Y {
			numbers.add(line.Name, line.X[i], line.Y[i])
		}
	}
	own, others := math.Inf(1), math.Inf(1)
	for at, line := range lines {
		for i := range line.Y {
			line.Y[i] = line.Y[i]/least - 1
		}
		row := []string{fmt.Sprint(r.number), line.Name}
		for _, part := range []float64{0.1, convexNear, 0.001} {
			cell, seconds := "-", math.Inf(1)
			if i := slices.IndexFunc(line.Y, func(y float64) bool { return y <= part }); i >= 0 {
				seconds = line.X[i]
				cell = fmt.Sprintf("%.3f", seconds)
			}
			if row = append(row, cell); part != convexNear {
				continue
			}
			if at == 0 {
				own = seconds
			} else if line.Name != lines[1].Name { // not the other refit
				others = min(others, seconds)
			}
		}
		r.near.Rows = append(r.near.Rows, row)
	}
	if r.peer {
		r.bar("seconds to 1 % of the least objective, over those of the first other solver", own/others, 1)
	}
	r.report.Numbers = append(r.report.Numbers, numbers)
	r.report.Figures = append(
		r.report.Figures,
		Figure{Name: numbers.Name, Figure: plot.Figure{Columns: 1, Panels: []plot.Panel{panel}, Legend: "solver"}},
	)
}

// path chooses β on the validation rows along a warm-started path, which ends where their error rises, and goes down it
// again with all rows but those of the test. As the reference's, the bar is for the best model of the path, whichever
// was chosen.
func (r *convexRun) path(ctx context.Context) error {
	down := func(rows []int, betas []float64, scale float64, visit func(beta float64, f *convexFit) bool) error {
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
			if !visit(beta, f) {
				break
			}
		}
		return nil
	}
	least, chosen := math.Inf(1), 0
	known := r.known()
	scale := float64(len(r.parts.train)) / float64(len(known)) // β grows with the rows
	tried := 0
	if err := down(r.parts.train, r.betas, scale, func(beta float64, f *convexFit) bool { // until the error rises
		e := r.set.rmse(f.result.Model, r.parts.valid)
		r.o.Log.Info("path", "split", r.number, "beta", beta, "rank", f.result.Rank, "valid_rmse", e)
		fell := e < least
		if fell {
			least, chosen = e, tried
		}
		tried++
		return fell
	}); err != nil {
		return err
	}
	lowest := math.Inf(1)
	if err := down(known, r.betas[:tried], 1, func(beta float64, f *convexFit) bool {
		name := "convex FM (ignore diag), path"
		if beta == r.betas[chosen] {
			name += ", chosen"
		}
		r.add(name, beta, f)
		lowest = min(lowest, r.set.rmse(f.result.Model, r.parts.test))
		return true
	}); err != nil {
		return err
	}
	r.bar("lowest test RMSE along the path", lowest, r.pathRMSE)
	return nil
}

// warm fits four fifths of the rows, replaces a share of them from the last fifth, and fits from none and from the
// model before, in turn.
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
		var cold, warm *convexFit
		for range r.repeats() {
			for _, f := range []struct {
				fit  **convexFit
				from *solver.Warm
			}{{&cold, nil}, {&warm, &solver.Warm{Model: first.result.Model}}} {
				again, err := r.o.fit(ctx, solver.ConvexFM{}, p, f.from, s)
				if err != nil {
					return err
				}
				if *f.fit == nil {
					*f.fit = again
				}
				(*f.fit).least(again)
			}
		}
		part := warm.seconds / cold.seconds
		r.shares.Rows = append(r.shares.Rows, []string{fmt.Sprint(r.number), fmt.Sprintf("%.0f %%", 100*c.replaced),
			fmt.Sprintf("%.2f", cold.seconds), fmt.Sprintf("%.2f", warm.seconds), fmt.Sprintf("1/%.1f", 1/part),
			fmt.Sprint(len(cold.result.Steps)), fmt.Sprint(len(warm.result.Steps)),
			fmt.Sprintf("%.1f", cold.result.Objective), fmt.Sprintf("%.1f", warm.result.Objective)})
		r.o.Log.Info(
			"warm",
			"split",
			r.number,
			"replaced",
			c.replaced,
			"cold_seconds",
			cold.seconds,
			"warm_seconds",
			warm.seconds,
			"cold_gap",
			cold.result.GapRelative,
			"warm_gap",
			warm.result.GapRelative,
		)
		r.bar(fmt.Sprintf("%.0f %% of the rows replaced, part of the cold time", 100*c.replaced), part, c.time)
	}
	return nil
}
