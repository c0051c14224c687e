package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/refitd/refitd/solver"
)

// Table2 repeats table 2: the test accuracy of three penalties with output and with full refits, and of one-vs-rest
// logistic regression, λ and k chosen on the validation rows (on letter λ on those of the first split).
func Table2(ctx context.Context, o Options) (*Report, error) {
	main := Table{Title: "Table 2: test accuracy in percent (basis vectors), mean ± standard deviation over splits",
		Header: []string{
			"set",
			"refit",
			"penalty",
			"accuracy",
			"splits",
			"paper (one split)",
			"reference in numpy",
			"bar",
		}}
	r := &Report{Name: "table2"}
	numbers := Table{
		Name:   "cells",
		Header: []string{"set", "split", "refit", "penalty", "lambda", "k", "valid_percent", "test_percent"},
	}
	var all []job
	err := o.overSets(setNames(), func(b *classBenchmark, set *classSet) error {
		splits := o.splits(b.splits)
		jobs, err := o.table2Paths(ctx, b, set, splits)
		if err != nil {
			return err
		}
		all = append(all, jobs...)
		for _, refit := range []solver.Depth{solver.OutputLayer, solver.Full} {
			for p, penalty := range penalties {
				var found cells
				for split := range splits {
					chosen, _ := best(pointsOf(jobs, split, penalty, refit), b.basis)
					found.add(chosen.test, chosen.k)
					numbers.add(b.name, split, refit, penalty, chosen.lambda, chosen.k, chosen.valid, chosen.test)
				}
				known := b.output[p]
				if refit == solver.Full {
					known = b.full[p]
				}
				row := []string{
					b.name,
					refit.String(),
					penaltyName(penalty),
					found.String(),
					fmt.Sprint(splits),
					known.inPaper(),
					known.reference(),
					"-",
				}
				if !o.Quick { // the bars are about the whole protocol
					bar := cellBar(b.name, refit, penalty, found.mean(), known)
					row[len(row)-1] = verdict(bar)
					r.Bars = append(r.Bars, bar)
				}
				main.Rows = append(main.Rows, row)
				if !o.Quick && b.name == "letter" && refit == solver.OutputLayer && penalty == solver.L1L2 {
					r.Bars = append(
						r.Bars,
						Bar{Name: "letter, ℓ1/ℓ2, output refits, mean accuracy", Got: found.mean(), Want: letterBar},
					)
				}
			}
		}
		linear, err := o.linearCell(ctx, set, splits)
		if err != nil {
			return err
		}
		main.Rows = append(
			main.Rows,
			[]string{
				b.name,
				"-",
				"linear",
				linear.String(),
				fmt.Sprint(splits),
				b.linear.inPaper(),
				b.linear.reference(),
				"-",
			},
		)
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.Tables = []Table{main}
	r.Numbers = []Table{numbers, pathTable(all)}
	return r, nil
}

// table2Paths walks the paths of a set: all of them, or those of the first split and then of the others at the λ that
// was best there.
func (o *Options) table2Paths(ctx context.Context, b *classBenchmark, set *classSet, splits int) ([]job, error) {
	jobs := jobsFor(b, set, splits, solver.OutputLayer, solver.Full)
	if !b.tuneOnce {
		return jobs, o.walkAll(ctx, jobs)
	}
	first := jobs[:len(jobs)/splits]
	if err := o.walkAll(ctx, first); err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(jobs[len(first):], func(j job) bool {
		chosen, _ := best(pointsOf(first, 0, j.penalty, j.refit), b.basis)
		return j.lambda != chosen.lambda
	})
	if err := o.walkAll(ctx, rest); err != nil {
		return nil, err
	}
	return jobs[:len(first)+len(rest)], nil
}

// cellBar is the bar of a cell: the reference's mean less two standard deviations of its splits.
func cellBar(set string, refit solver.Depth, penalty solver.Penalty, got float64, known cell) Bar {
	return Bar{
		Name: fmt.Sprintf("%s, %s, %v refits, mean accuracy", set, penaltyName(penalty), refit),
		Got:  got,
		Want: known.mean - 2*known.sd,
	}
}

// verdict is a bar as a cell of a table.
func verdict(b Bar) string {
	if b.IsMet() {
		return fmt.Sprintf("≥ %.2f PASS", b.Want)
	}
	return fmt.Sprintf("≥ %.2f below", b.Want)
}

func (c cell) inPaper() string {
	switch {
	case c.paper == 0:
		return "-"
	case c.paperUnits == 0:
		return fmt.Sprintf("%.2f", c.paper)
	}
	return fmt.Sprintf("%.2f (%d)", c.paper, c.paperUnits)
}

func (c cell) reference() string {
	if c.mean == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f ± %.2f", c.mean, c.sd)
}

// cells are the results of one cell over splits.
type cells struct{ accuracy, units []float64 }

func (c *cells) add(accuracy float64, units int) {
	c.accuracy, c.units = append(c.accuracy, accuracy), append(c.units, float64(units))
}

func (c *cells) mean() float64 { return stat.Mean(c.accuracy, nil) }

// spread returns the mean over splits and the standard deviation, 0 of a single one.
func spread(values []float64) (mean, deviation float64) {
	if len(values) == 1 {
		return values[0], 0
	}
	return stat.MeanStdDev(values, nil)
}

// String is "mean ± deviation (mean units)", without the deviation for a single split and without units for a linear
// model.
func (c *cells) String() string {
	mean, deviation := spread(c.accuracy)
	text := fmt.Sprintf("%.2f", mean)
	if len(c.accuracy) > 1 {
		text += fmt.Sprintf(" ± %.2f", deviation)
	}
	if units := stat.Mean(c.units, nil); units > 0 {
		text += fmt.Sprintf(" (%.0f)", math.Round(units))
	}
	return text
}

// linearRidges are the strengths tried for the linear baseline.
var linearRidges = []float64{0.001, 0.01, 0.1, 1, 10}

// linearCell fits one-vs-rest logistic regressions, the ridge chosen on the validation rows.
func (o *Options) linearCell(ctx context.Context, set *classSet, splits int) (*cells, error) {
	tests := make([]float64, splits)
	err := o.each(ctx, splits, func(ctx context.Context, i int) error {
		p := split(len(set.class), uint32(i))
		problem := set.problem(p.train)
		problem.Loss = solver.BinaryLogistic{}
		for t, v := range problem.Targets {
			problem.Targets[t] = 2*v - 1
		}
		bestValid := -1.0
		for _, ridge := range linearRidges {
			s := solver.DefaultSettings()
			s.MaxBasis, s.LinearRidge, s.BiasRidge, s.Solver, s.Workers, s.Rough = 0, ridge, 0, solver.FISTA, 1, true
			res, err := solver.Solve(ctx, problem, nil, s)
			if err != nil {
				return fmt.Errorf("paper: %w", err)
			}
			if valid := set.accuracy(res.Model, p.valid); valid > bestValid {
				bestValid, tests[i] = valid, set.accuracy(res.Model, p.test)
			}
		}
		return ctx.Err()
	})
	return &cells{accuracy: tests, units: make([]float64, splits)}, err
}
