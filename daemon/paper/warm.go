package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/solver"
)

// Bars of a warm start against a cold fit: time and objective with the output weights refitted alone, and with new basis vectors.
const (
	warmTime, warmObjective = 1.0 / 20, 1.06
	grownTime, grownGain    = 1.0 / 3, 1.01
)

const (
	// Warm refits follow each other, so that each needs less accuracy than a fit that stands alone.
	warmTolerance = 1e-3
	// grownPart is the number of new basis vectors as a part of those there are.
	grownPart = 0.3
)

// warmRepeats is how often each fit is timed; the shortest counts.
const warmRepeats = 3

// warmCase is a set for warm starts: a problem on any of its rows, and the settings.
type warmCase struct {
	name     string
	rows     int
	problem  func(rows []int) *solver.Problem
	settings solver.Settings
}

// Warm measures what a warm start saves: a model fitted to a part of the rows, then 5 % and 20 % of them replaced by others, and the refit
// of the output weights alone, and of those with new basis vectors, against a cold fit on the new rows. No certificate is made in either.
func Warm(ctx context.Context, o Options) (*Report, error) {
	cases, err := o.warmCases()
	if err != nil {
		return nil, err
	}
	r := &Report{Name: "warm"}
	main := Table{Title: "Warm start after replacing rows: seconds and objective of a cold fit, and of refits as parts of it",
		Header: []string{"set", "rows replaced", "cold k", "cold seconds", "cold objective", "V only, seconds", "time", "objective", "with new vectors, seconds", "time", "objective"}}
	for i := range cases {
		c := &cases[i]
		pool := slices.Concat(split(c.rows, 0).train, split(c.rows, 0).valid)
		base, extra := pool[:4*len(pool)/5], pool[4*len(pool)/5:]
		first, _, err := o.timed(ctx, c.problem(base), nil, c.settings, 1)
		if err != nil {
			return nil, err
		}
		for _, share := range []float64{0.05, 0.2} {
			replaced := int(share * float64(len(base)))
			problem := c.problem(slices.Concat(base[replaced:], extra[:replaced]))
			cold, coldSeconds, err := o.timed(ctx, problem, nil, c.settings, 1)
			if err != nil {
				return nil, err
			}
			s := c.settings
			s.WeightsOnly, s.Tolerance = true, warmTolerance
			warm, warmSeconds, err := o.timed(ctx, problem, first.Model, s, warmRepeats)
			if err != nil {
				return nil, err
			}
			s.WeightsOnly, s.MaxSteps = false, int(math.Ceil(grownPart * float64(s.MaxBasis)))
			s.MaxBasis += s.MaxSteps
			grown, grownSeconds, err := o.timed(ctx, problem, first.Model, s, warmRepeats)
			if err != nil {
				return nil, err
			}
			part := func(f float64) string { return fmt.Sprintf("1/%.1f", 1/f) }
			main.Rows = append(main.Rows, []string{c.name, fmt.Sprintf("%.0f %%", 100*share), fmt.Sprint(cold.Model.NumBasis), fmt.Sprintf("%.2f", coldSeconds), fmt.Sprintf("%.1f", cold.Objective),
				fmt.Sprintf("%.3f", warmSeconds), part(warmSeconds / coldSeconds), fmt.Sprintf("%.4f", warm.Objective/cold.Objective),
				fmt.Sprintf("%.3f", grownSeconds), part(grownSeconds / coldSeconds), fmt.Sprintf("%.4f", grown.Objective/cold.Objective)})
			o.Log.Info("warm", "set", c.name, "replaced", share, "cold_seconds", coldSeconds, "warm_seconds", warmSeconds, "grown_seconds", grownSeconds)
			if o.Quick {
				continue
			}
			name := fmt.Sprintf("%s, %.0f %% replaced", c.name, 100*share)
			r.Bars = append(r.Bars,
				Bar{Name: name + ", V only, part of the cold time", Got: warmSeconds / coldSeconds, AtMost: true, Want: warmTime},
				Bar{Name: name + ", V only, part of the cold objective", Got: warm.Objective / cold.Objective, AtMost: true, Want: warmObjective},
				Bar{Name: name + ", new vectors, part of the cold time", Got: grownSeconds / coldSeconds, AtMost: true, Want: grownTime},
				Bar{Name: name + ", new vectors, part of the cold objective", Got: grown.Objective / cold.Objective, AtMost: true, Want: grownGain})
		}
	}
	r.Tables = []Table{main}
	return r, nil
}

// warmCases reads the sets: satimage and ML-1M, or a small one in the short form.
func (o *Options) warmCases() ([]warmCase, error) {
	name := "satimage"
	if o.Quick {
		name = quickSet
	}
	only := *o
	only.Sets = nil
	benches, err := only.benchmarks(name)
	if err != nil {
		return nil, err
	}
	b := &benches[0]
	set, err := readClasses(o.file(b.file...))
	if err != nil {
		return nil, err
	}
	s := b.settings(solver.L1L2, 1, solver.OutputLayer)
	s.MaxBasis = min(s.MaxBasis, 40)
	cases := []warmCase{{b.name, len(set.class), set.problem, s}}
	if o.Quick {
		return cases, nil
	}
	large := &ratingBenchmarks[1]
	ratings, err := readRatings(o.file(large.file...))
	if err != nil {
		return nil, err
	}
	curve := large.curves[len(large.curves)-1]
	return append(cases, warmCase{large.name, len(ratings.level), func(rows []int) *solver.Problem { return ratings.problem(rows, true) }, curve.settings()}), nil
}

// timed fits repeatedly and returns the shortest time.
func (o *Options) timed(ctx context.Context, p *solver.Problem, warm *solver.Model, s solver.Settings, repeats int) (res *solver.Result, seconds float64, err error) {
	s.Workers, s.Rough = o.threads(), true
	for i := range repeats {
		began := o.Now()
		if res, err = solver.Solve(ctx, p, warm, s); err != nil {
			return nil, 0, fmt.Errorf("paper: %w", err)
		}
		if took := o.Now().Sub(began).Seconds(); i == 0 || took < seconds {
			seconds = took
		}
	}
	return res, seconds, ctx.Err()
}
