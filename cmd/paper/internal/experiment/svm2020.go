package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
)

// marginSteps bounds the iterations of a curve and of a fit of table 1, where the paper has 1,000; quickMarginSteps
// those of the short form.
const (
	marginSteps      = 600
	quickMarginSteps = 40
)

// marginSplits is the number of splits of table 1, where the paper has 20.
const marginSplits = 3

// marginStep is one iteration: objective and dual value over the rows, mean loss and λ as in the paper, and seconds
// since the start.
type marginStep struct{ primal, dual, seconds float64 }

// marginMethods are the paper's three and the one that is the default here.
var marginMethods = []string{"PG", "StdFW", "LSFW", "block ascent"}

// marginBars are the iterations of LSFW to a relative gap of 1e-3 that the reference in numpy takes at λ = 100/n, by
// set and loss; 0 for none known.
var marginBars = map[string][3]float64{"vowel": {163, 45, 25}, "satimage": {267, 77, 81}, "letter": {0, 0, 523}}

// marginLosses are the losses of marginBars.
var marginLosses = []margin.Loss{{Kind: margin.MaxHinge}, {Kind: margin.Usunier, K: 3}, {Kind: margin.WeightedUsunier}}

// SVM2020 repeats the experiments of Tajima et al. 2020 on vowel, satimage, letter and a generated set of many
// features: gap and objective by iteration without and with the Moreau envelope (figures 1 and 2), test errors (table
// 1), seconds of an iteration (table 2), and iterations and seconds to a gap of 1e-3. Rows have length 1 and a constant
// feature, the loss of figures and tables is the weighted Usunier loss, λ is 1/n in the figures.
func SVM2020(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Name: "svm2020"}
	gaps := Table{Title: "Iterations and seconds to a relative gap of 1e-3, λ = 100/n, one thread",
		Header: []string{"set", "rows", "loss", "LSFW", "seconds", "StdFW", "seconds", "block ascent", "seconds"}}
	errs := Table{
		Name:  "errors",
		Title: "Table 1: test error, mean (standard deviation) over splits; λ by validation",
		Header: []string{"set", "method",
			"top 1", "top 3", "top 5", "top 10"},
	}
	shares := Table{
		Name: "warm",
		Title: "Refits from model and dual variables before some rows were replaced, block ascent to a relative gap of " +
			"1e-3, λ = 100/n",
		Header: []string{
			"set",
			"loss",
			"rows replaced",
			"cold visits a row",
			"warm",
			"part",
			"cold milliseconds",
			"warm",
			"part",
		},
	}
	times := Table{
		Name:   "seconds",
		Title:  "Table 2: seconds of an iteration",
		Header: append([]string{"set"}, marginMethods...),
	}
	numbers := Table{
		Name:   "curves",
		Header: []string{"set", "envelope", "method", "iteration", "seconds", "objective", "dual"},
	}
	var panels []plot.Panel
	visit := func(name string, set *classSet) error {
		rows := split(len(set.class), 0)
		train := slices.Concat(rows.train, rows.valid)
		if name == "letter" {
			train = rows.train
		}
		if err := o.marginGaps(ctx, r, &gaps, name, set, train); err != nil {
			return err
		}
		if err := o.marginWarm(ctx, r, &shares, name, set, rows); err != nil {
			return err
		}
		for _, envelope := range []float64{0, 0.01} {
			p := set.marginProblem(train, margin.Loss{Kind: margin.WeightedUsunier, Moreau: envelope})
			curves, best := make([][]marginStep, len(marginMethods)), 0.0
			seconds := []string{name}
			for i, method := range marginMethods {
				var err error
				if curves[i], _, err = o.marginFit(ctx, p, method, 1, o.marginSteps(), 0); err != nil {
					return err
				}
				for t, s := range curves[i] {
					numbers.add(name, envelope, method, t, s.seconds, s.primal, s.dual)
					best = math.Max(best, s.dual)
				}
				seconds = append(
					seconds,
					fmt.Sprintf("%.4f", curves[i][len(curves[i])-1].seconds/float64(max(1, len(curves[i])-1))),
				)
			}
			panels = append(panels, marginPanels(fmt.Sprintf("%s, γ = %g", name, envelope), curves, best)...)
			if envelope == 0 {
				times.Rows = append(times.Rows, seconds)
			}
		}
		return o.marginErrors(ctx, &errs, name, set)
	}
	if err := o.overSets([]string{"vowel", "satimage", "letter"}, func(b *classBenchmark,
		set *classSet) error {
		return visit(b.name, set)
	}); err != nil {
		return nil, err
	}
	if len(o.Sets) == 0 {
		if err := visit("generated", generatedClasses(o.Quick)); err != nil {
			return nil, err
		}
	}
	times.Notes = []string{
		"An iteration of block ascent is two sweeps over the rows that the gap is in and an evaluation of all. " +
			"PG has no dual: the figures have no gap of it.",
	}
	r.Tables, r.Numbers = []Table{gaps, shares, errs, times}, []Table{numbers}
	r.Figures = []Figure{{Name: "gap", Figure: plot.Figure{Columns: 2, Panels: panels, Legend: "method"}}}
	return r, nil
}

// marginPanels are the objective above the largest dual value of any method, which bounds its error, and the gap, both
// by iteration.
func marginPanels(title string, curves [][]marginStep, best float64) []plot.Panel {
	above := plot.Panel{
		Title:  title,
		XLabel: "iteration",
		YLabel: "objective above the best bound",
		LogX:   true,
		LogY:   true,
	}
	gap := plot.Panel{Title: title, XLabel: "iteration", YLabel: "gap", LogX: true, LogY: true}
	for i, method := range marginMethods {
		var x, over, between []float64
		for t, s := range curves[i] {
			x, over, between = append(x, float64(t+1)), append(over, s.primal-best), append(between, s.primal-s.dual)
		}
		above.Lines = append(above.Lines, plot.Line{Name: method, Dashed: method == "PG", X: x, Y: over})
		if method != "PG" {
			gap.Lines = append(gap.Lines, plot.Line{Name: method, X: x, Y: between})
		}
	}
	return []plot.Panel{above, gap}
}

func (o *Options) marginSteps() int {
	if o.Quick {
		return quickMarginSteps
	}
	return marginSteps
}

// marginGaps adds the iterations to a gap of 1e-3 of each loss, and the bars of those that the reference knows.
func (o *Options) marginGaps(ctx context.Context, r *Report, t *Table, name string, set *classSet, train []int) error {
	o.Progress.Stage(name+", gaps", "losses", int64(len(marginLosses)))
	for i, loss := range marginLosses {
		row := []string{name, fmt.Sprint(len(train)), loss.Name()}
		for _, method := range []string{"LSFW", "StdFW", "block ascent"} {
			steps, res, err := o.marginFit(ctx, set.marginProblem(train, loss), method, 100, o.marginSteps(), 1e-3)
			if err != nil {
				return err
			}
			took, last := fmt.Sprint(len(steps)-1), steps[len(steps)-1]
			if res.Status != solver.Converged {
				took = "> " + took
			}
			row = append(row, took, fmt.Sprintf("%.3f", last.seconds))
			if bar := marginBars[name][i]; bar > 0 && !o.Quick && method == "LSFW" {
				got := float64(len(steps) - 1)
				if res.Status != solver.Converged {
					got = math.Inf(1)
				}
				r.Bars = append(
					r.Bars,
					Bar{
						Name:   name + ", " + loss.Name() + ", iterations of LSFW to 1e-3",
						Got:    got,
						AtMost: true,
						Want:   bar,
					},
				)
			}
		}
		t.Rows = append(t.Rows, row)
		o.Progress.Add(1)
		o.Log.Info("gap", "set", name, "loss", loss.Name(), "cells", row[3:])
	}
	return nil
}

// marginRepeats is how often a fit from nothing and a refit are timed, in turn: the medians count.
const marginRepeats = 9

// marginWarm adds refits after some training rows were replaced by others, with bars on their time as a ratio to a
// fit from nothing.
func (o *Options) marginWarm(ctx context.Context, r *Report, t *Table, name string, set *classSet, p parts) error {
	base, extra := p.train, slices.Concat(p.valid, p.test)
	for _, loss := range []margin.Loss{{Kind: margin.MaxHinge}, {Kind: margin.WeightedUsunier}} {
		s := solver.DefaultSettings()
		s.Lambda, s.BiasRidge, s.Workers, s.MaxIterations, s.Tolerance, s.Now = 100, 0, 1, o.marginSteps(), 1e-3, o.Now
		first, err := o.fit(ctx, margin.SVM{}, set.marginProblem(base, loss), nil, s)
		if err != nil {
			return err
		}
		for _, c := range convexWarm {
			replaced := int(c.replaced * float64(len(base)))
			problem := set.marginProblem(slices.Concat(base[replaced:], extra[:replaced]), loss)
			known := first.result.Dual[replaced*set.classes:]
			dual := append(slices.Clone(known), make([]float64, replaced*set.classes)...)
			entered := make([]int32, replaced)
			for i := range entered {
				entered[i] = int32(len(base) - replaced + i)
			}
			starts := [2]*solver.Warm{nil, {Model: first.result.Model, Dual: dual, New: entered}}
			var visits, seconds [2]float64 // of a fit from nothing and of a refit
			var times [2][]float64
			for range marginRepeats {
				for k, start := range starts {
					found, err := o.fit(ctx, margin.SVM{}, problem, start, s)
					if err != nil {
						return err
					}
					visits[k] = float64(found.result.RowVisits) / float64(len(base))
					times[k] = append(times[k], found.seconds)
				}
			}
			for k := range times {
				slices.Sort(times[k])
				seconds[k] = times[k][marginRepeats/2]
			}
			part := func(x [2]float64) string { return fmt.Sprintf("1/%.1f", x[0]/x[1]) }
			t.Rows = append(
				t.Rows,
				[]string{name, loss.Name(), fmt.Sprintf("%.0f %%", 100*c.replaced), fmt.Sprintf("%.2f", visits[0]),
					fmt.Sprintf(
						"%.2f",
						visits[1],
					), part(visits), fmt.Sprintf("%.2f", 1e3*seconds[0]), fmt.Sprintf("%.2f", 1e3*seconds[1]), part(seconds)},
			)
			if !o.Quick && (name == "letter" || name == "satimage") {
				r.Bars = append(
					r.Bars,
					Bar{
						Name: fmt.Sprintf(
							"%s, %s, %.0f %% of the rows replaced, part of the cold time",
							name,
							loss.Name(),
							100*c.replaced,
						),
						Got:    seconds[1] / seconds[0],
						AtMost: true,
						Want:   c.time,
					},
				)
			}
		}
	}
	return nil
}

// marginErrors adds the test errors of each method: the mean over splits, λ of 1/n, 10/n and 100/n chosen by the top-1
// error on the validation rows.
func (o *Options) marginErrors(ctx context.Context, t *Table, name string, set *classSet) error {
	tops := []int{1, 3, 5, 10}
	o.Progress.Stage(name+", errors", "methods", int64(len(marginMethods)))
	for _, method := range marginMethods {
		found := make([][]float64, len(tops))
		for number := range o.splits(marginSplits) {
			rows := split(len(set.class), uint32(number))
			var best *solver.Model
			least := math.Inf(1)
			for _, lambda := range []float64{100, 10, 1} {
				p := set.marginProblem(rows.train, margin.Loss{Kind: margin.WeightedUsunier})
				_, res, err := o.marginFit(ctx, p, method, lambda, o.marginSteps()/3, 1e-3)
				if err != nil {
					return err
				}
				if e := set.topErrors(res.Model, rows.valid, tops[:1])[0]; e < least {
					best, least = res.Model, e
				}
			}
			for k, e := range set.topErrors(best, rows.test, tops) {
				found[k] = append(found[k], e)
			}
		}
		row := []string{name, method}
		for k, top := range tops {
			mean, sd := meanAndDeviation(found[k])
			if cell := fmt.Sprintf("%.3f (%.3f)", mean, sd); top < set.classes {
				row = append(row, cell)
			} else {
				row = append(row, "-")
			}
		}
		t.Rows = append(t.Rows, row)
		o.Progress.Add(1)
		o.Log.Info("errors", "set", name, "method", method, "cells", row[2:])
	}
	return nil
}

func meanAndDeviation(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / math.Max(1, float64(len(x)-1))
	}
	return mean, math.Sqrt(sd)
}

// marginFit runs a method at Λ = nλ until a relative gap, 0 for as far as the steps go, with one thread, and returns
// its iterations.
func (o *Options) marginFit(
	ctx context.Context,
	p *solver.Problem,
	method string,
	lambda float64,
	limit int,
	gap float64,
) (steps []marginStep,
	res *solver.Result, err error) {
	n := float64(p.X.NumRows())
	if method == "PG" {
		began := o.Now()
		model := projectedGradient(p, lambda, limit, func(objective float64) {
			steps = append(steps, marginStep{objective / n, 0, o.Now().Sub(began).Seconds()})
		})
		return steps, &solver.Result{Model: model}, ctx.Err()
	}
	s := solver.DefaultSettings()
	s.Lambda, s.BiasRidge, s.Workers, s.MaxIterations, s.Tolerance, s.Now = lambda, 0, 1, limit, math.Max(
		gap,
		1e-12,
	), o.Now
	s.OnStep = func(step solver.Step, _ *solver.Model) bool {
		steps = append(steps, marginStep{step.Objective / n, (step.Objective - step.Gap) / n, step.Seconds})
		return len(steps) > limit
	}
	a := margin.SVM{
		Method: map[string]margin.Method{"StdFW": margin.Scheduled, "LSFW": margin.LineSearch,
			"block ascent": margin.BlockAscent}[method],
	}
	if res, err = a.Fit(ctx, p, nil, s); err != nil {
		return nil, nil, fmt.Errorf("paper: %w", err)
	}
	return steps, res, ctx.Err()
}

// projectedGradient is PG of the paper: steps of 1/t along the subgradient of all rows over Λ, then the projection onto
// the ball that holds the optimum (Shalev-Shwartz et al. 2011). It calls each with the objective of every iterate and
// returns the last one.
func projectedGradient(p *solver.Problem, lambda float64, limit int, each func(objective float64)) *solver.Model {
	n, m := p.X.NumRows(), p.Outputs
	model := solver.NewModel(solver.Homogeneous, p.X.NumColumns, m, true)
	w, grad := model.Linear, make([]float64, len(model.Linear))
	out, slope := make([]float64, m), make([]float64, m)
	for t := 1; ; t++ {
		clear(grad)
		square, loss := 0.0, 0.0
		for i := range n {
			index, value := p.X.Row(i)
			model.Predict(out, nil, index, value)
			loss += p.Loss.Eval(slope, out, p.Target(i))
			for e, j := range index {
				for c, g := range slope {
					grad[int(j)*m+c] += value[e] * g
				}
			}
		}
		for _, x := range w {
			square += x * x
		}
		if each(loss + 0.5*lambda*square); t > limit {
			return model
		}
		square = 0
		for k := range w {
			w[k] -= (w[k] + grad[k]/lambda) / float64(t)
			square += w[k] * w[k]
		}
		if radius := math.Sqrt(2 * float64(n) / lambda); square > radius*radius {
			for k := range w {
				w[k] *= radius / math.Sqrt(square)
			}
		}
	}
}

// marginProblem is an SVM on the given rows, each of length 1 without its constant feature.
func (s *classSet) marginProblem(rows []int, loss solver.Loss) *solver.Problem {
	p := s.problem(rows)
	p.Loss, p.X = loss, s.unit().Select(rows)
	return p
}

// unit returns the rows with all but the first, constant feature scaled to length 1 in all.
func (s *classSet) unit() *solver.Rows {
	x := *s.x
	x.Value = slices.Clone(x.Value)
	for i := range x.NumRows() {
		_, value := x.Row(i)
		square := 0.0
		for _, v := range value[1:] {
			square += v * v
		}
		for e := range value[1:] {
			value[1+e] /= math.Sqrt(math.Max(square, math.SmallestNonzeroFloat32))
		}
	}
	return &x
}

// topErrors returns the parts of rows whose class is not among the first so many outputs.
func (s *classSet) topErrors(model *solver.Model, rows []int, tops []int) []float64 {
	x, out, work := s.unit(), make([]float64, model.NumOutputs), make([]float64, 2*model.NumBasis)
	errs := make([]float64, len(tops))
	for _, row := range rows {
		index, value := x.Row(row)
		model.Predict(out, work, index, value)
		before := 0
		for c, o := range out {
			if y := s.class[row]; o > out[y] || o == out[y] && c < y {
				before++
			}
		}
		for k, top := range tops {
			if before >= top {
				errs[k] += 1 / float64(len(rows))
			}
		}
	}
	return errs
}

// generatedClasses draws 40 classes of 400 features, 30 rows of each, around centres that share directions: many
// features, as in the paper's image sets.
func generatedClasses(quick bool) *classSet {
	classes, features, each := 40, 400, 30
	if quick {
		classes, features, each = 12, 40, 10
	}
	random := rand.New(rand.NewPCG(2020, 1))
	centres := make([]float64, classes*features)
	for i := range centres {
		centres[i] = random.NormFloat64() / 4
	}
	s := &classSet{x: solver.NewRows(features+1, classes*each, classes*each*(features+1)), classes: classes}
	index, value := make([]int32, features+1), make([]float64, features+1)
	for i := range classes * each {
		c := i % classes
		value[0] = 1
		for j := range features {
			index[j+1], value[j+1] = int32(j+1), centres[c*features+j]+random.NormFloat64()
		}
		s.x.Append(index, value)
		s.class = append(s.class, c)
	}
	return s
}
