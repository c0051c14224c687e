package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/solver"
)

// Bars of a warm start against a cold fit: time and objective with the output weights refitted and one step on the
// basis vectors, and with new ones.
const (
	warmTime, warmObjective = 1.0 / 20, 1.06
	grownTime, grownGain    = 1.0 / 3, 1.01
)

// warmTolerance is that of warm refits: they follow each other, so that each needs less accuracy than a single fit.
const warmTolerance = 1e-3

// movedTolerance is that of warm refits which end with a step on basis vectors: it gains more than what is left of
// the weights. It was chosen on ML-1M with 5 % of the rows replaced, one row of the table.
const movedTolerance = 1e-2

// warmRepeats is how often each fit is timed; the shortest counts.
const warmRepeats = 3

// warmCase is a set for warm starts: a problem on any of its rows, and the settings.
type warmCase struct {
	name     string
	rows     int
	splits   int // the mean counts: on a small set one greedy path is a percent better or worse than another by chance
	grown    int // new basis vectors: as many as a third of the time is good for
	problem  func(rows []int) *solver.Problem
	settings solver.Settings
}

// Warm measures what a warm start saves: a model fitted to a part of the rows, then 5 % and 20 % of them replaced by
// others, and the refit of the output weights with one step on the basis vectors, and of those with new basis vectors,
// against a cold fit on the new rows. No certificate is made in either.
func Warm(ctx context.Context, o Options) (*Report, error) {
	cases, err := o.warmCases()
	if err != nil {
		return nil, err
	}
	r := &Report{Name: "warm"}
	main := Table{
		Title: "Warm start after replacing rows: seconds and objective of a cold fit, and of refits as parts of it",
		Header: []string{
			"set",
			"splits",
			"rows replaced",
			"cold seconds",
			"cold objective",
			"V and a step of H, seconds",
			"time",
			"objective",
			"with new vectors, seconds",
			"time",
			"objective",
		},
	}
	replaced := []float64{0.05, 0.2}
	for i := range cases {
		c := &cases[i]
		o.Progress.Stage(c.name, "splits", int64(len(replaced)*c.splits))
		for _, share := range replaced {
			var sum warmResult
			for number := range c.splits {
				one, err := o.warmSplit(ctx, c, share, uint32(number))
				if err != nil {
					return nil, err
				}
				sum.add(one)
			}
			n := float64(c.splits)
			part := func(f float64) string { return fmt.Sprintf("1/%.1f", 1/f) }
			warmPart, grownShare := sum.warmSeconds/sum.coldSeconds, sum.grownSeconds/sum.coldSeconds
			warmRatio, grownRatio := math.Exp(sum.warmLog/n), math.Exp(sum.grownLog/n)
			main.Rows = append(main.Rows, []string{c.name, fmt.Sprint(c.splits), fmt.Sprintf("%.0f %%", 100*share),
				fmt.Sprintf("%.2f", sum.coldSeconds/n), fmt.Sprintf("%.1f", sum.coldObjective/n),
				fmt.Sprintf("%.3f", sum.warmSeconds/n), part(warmPart), fmt.Sprintf("%.4f", warmRatio),
				fmt.Sprintf("%.3f", sum.grownSeconds/n), part(grownShare), fmt.Sprintf("%.4f", grownRatio)})
			if o.Quick {
				continue
			}
			name := fmt.Sprintf("%s, %.0f %% replaced", c.name, 100*share)
			r.Bars = append(
				r.Bars,
				Bar{
					Name:   name + ", V and a step of H, part of the cold time",
					Got:    warmPart,
					AtMost: true,
					Want:   warmTime,
				},
				Bar{
					Name:   name + ", V and a step of H, part of the cold objective",
					Got:    warmRatio,
					AtMost: true,
					Want:   warmObjective,
				},
				Bar{
					Name:   name + ", new vectors, part of the cold time",
					Got:    grownShare,
					AtMost: true,
					Want:   grownTime,
				},
				Bar{
					Name:   name + ", new vectors, part of the cold objective",
					Got:    grownRatio,
					AtMost: true,
					Want:   grownGain,
				},
			)
		}
	}
	r.Tables = []Table{main}
	return r, nil
}

// warmResult is what fits took and reached on one split, or sums over splits; the objectives of warm ones as logarithms
// of parts of the cold one.
type warmResult struct {
	coldSeconds, coldObjective, warmSeconds, warmLog, grownSeconds, grownLog float64
}

func (r *warmResult) add(x warmResult) {
	r.coldSeconds, r.coldObjective = r.coldSeconds+x.coldSeconds, r.coldObjective+x.coldObjective
	r.warmSeconds, r.warmLog = r.warmSeconds+x.warmSeconds, r.warmLog+x.warmLog
	r.grownSeconds, r.grownLog = r.grownSeconds+x.grownSeconds, r.grownLog+x.grownLog
}

// warmSplit fits to four fifths of the pool of a split and refits after a share of those rows was replaced from the
// last fifth.
func (o *Options) warmSplit(
	ctx context.Context,
	c *warmCase,
	share float64,
	number uint32,
) (out warmResult, err error) {
	pool := slices.Concat(split(c.rows, number).train, split(c.rows, number).valid)
	base, extra := pool[:4*len(pool)/5], pool[4*len(pool)/5:]
	s := c.settings
	s.Workers = o.threads()
	first, _, err := o.timed(ctx, c.problem(base), nil, s, 1)
	if err != nil {
		return out, err
	}
	replaced := int(share * float64(len(base)))
	problem := c.problem(slices.Concat(base[replaced:], extra[:replaced]))
	cold, coldSeconds, err := o.timed(ctx, problem, nil, s, 1)
	if err != nil {
		return out, err
	}
	s.WeightsOnly, s.MoveBasis, s.Tolerance = true, true, movedTolerance
	warm, warmSeconds, err := o.timed(ctx, problem, first.Model, s, warmRepeats)
	if err != nil {
		return out, err
	}
	s.WeightsOnly, s.MoveBasis, s.Tolerance, s.MaxSteps = false, false, warmTolerance, c.grown
	s.MaxBasis += s.MaxSteps
	grown, grownSeconds, err := o.timed(ctx, problem, first.Model, s, warmRepeats)
	if err != nil {
		return out, err
	}
	o.Progress.Add(1)
	o.Log.Info("warm", "set", c.name, "split", number, "replaced", share,
		"cold_seconds", coldSeconds, "warm_seconds", warmSeconds, "grown_seconds", grownSeconds,
		"cold_objective", cold.Objective, "warm_objective", warm.Objective, "grown_objective", grown.Objective)
	return warmResult{coldSeconds, cold.Objective, warmSeconds, math.Log(warm.Objective / cold.Objective),
		grownSeconds, math.Log(grown.Objective / cold.Objective)}, nil
}

// warmCases reads the sets: satimage and ML-1M, or a small one in the short form.
func (o *Options) warmCases() ([]warmCase, error) {
	b, set, err := o.oneSet("satimage")
	if err != nil {
		return nil, err
	}
	s := b.settings(solver.L1L2, 1, solver.OutputLayer)
	s.MaxBasis = min(s.MaxBasis, 40)
	cases := []warmCase{{b.name, len(set.class), o.splits(b.splits), 10, set.problem, s}}
	if o.Quick {
		return cases, nil
	}
	large := &ratingBenchmarks[1]
	ratings, err := readRatings(o.file(large.file...))
	if err != nil {
		return nil, err
	}
	curve := large.curves[len(large.curves)-1]
	ordinal := func(rows []int) *solver.Problem { return ratings.problem(rows, true) }
	return append(cases, warmCase{large.name, len(ratings.level), 1, 6, ordinal, curve.settings()}), nil
}

// timed fits repeatedly and returns the shortest time.
func (o *Options) timed(
	ctx context.Context,
	p *solver.Problem,
	warm *solver.Model,
	s solver.Settings,
	repeats int,
) (res *solver.Result,
	seconds float64, err error) {
	s.Rough = true
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
