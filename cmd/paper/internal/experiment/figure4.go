package experiment

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/solver"
)

// ratingBenchmark is a set of figure 4 with its models. λ are those that the reference in numpy chose on the validation rows of split 0; that of
// ℓ1/ℓ2 on ML-1M was chosen there among 4 and 6 by this implementation.
type ratingBenchmark struct {
	name   string
	file   []string
	splits int
	curves []ratingCurve
	rmse   float64 // bars of McRank with output refits at ratingBasis vectors
	ndcg1  float64
}

// ratingCurve is one line of figure 4. With a single output the three penalties are the same.
type ratingCurve struct {
	name    string
	ordinal bool
	penalty solver.Penalty
	lambda  float64
}

// ratingBasis is the largest k of figure 4 and that of its bars.
const ratingBasis = 20

// ratingLinear is the ridge of the linear term, which is apart from the penalty.
const ratingLinear = 0.5

// scoredSteps are the steps of a path that are scored, 0 being the linear model.
var scoredSteps = []int{0, 1, 2, 3, 5, 7, 10, 15, 20}

var ratingBenchmarks = []ratingBenchmark{
	{"ML-100k", []string{"ml-100k", "u.data.gz"}, 3, []ratingCurve{
		{"single output", false, solver.L1L2, 6}, {"McRank ℓ1/ℓ2", true, solver.L1L2, 3}, {"McRank ℓ1/ℓ∞", true, solver.L1Linf, 6}}, 0.935, 0.72},
	{"ML-1M", []string{"ml-1m", "ratings-without-timestamp.dat.gz"}, 1, []ratingCurve{
		{"single output", false, solver.L1L2, 8}, {"McRank ℓ1/ℓ2", true, solver.L1L2, 4}, {"McRank ℓ1/ℓ∞", true, solver.L1Linf, 8}}, 0.885, 0.775},
}

// ratings returns the rating sets of the options.
func (o *Options) ratings() ([]ratingBenchmark, error) {
	if o.Quick {
		return ratingBenchmarks[:1], nil
	}
	if len(o.Sets) == 0 {
		return ratingBenchmarks, nil
	}
	var list []ratingBenchmark
	for _, name := range o.Sets {
		i := slices.IndexFunc(ratingBenchmarks, func(b ratingBenchmark) bool { return b.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: --sets names %q: known are ML-100k and ML-1M", ErrOptions, name)
		}
		list = append(list, ratingBenchmarks[i])
	}
	return list, nil
}

// settings are those of a factorization machine with a linear term of its own.
func (c *ratingCurve) settings() solver.Settings {
	s := solver.DefaultSettings()
	s.Kernel, s.Penalty, s.Lambda, s.LinearRidge = solver.ANOVA, c.penalty, c.lambda, ratingLinear
	s.MaxBasis, s.MaxSteps = ratingBasis, ratingBasis
	return s
}

// scored is one model of a rating curve.
type scored struct {
	step, k     int
	objective   float64
	valid, test ratingQuality
	seconds     float64
}

// rate runs a path and scores its models at scoredSteps, the last step in any case.
func (s *ratingSet) rate(ctx context.Context, o *Options, p parts, c *ratingCurve, basis int) ([]scored, error) {
	settings := c.settings()
	settings.MaxBasis, settings.MaxSteps, settings.Workers, settings.Rough, settings.Now = basis, basis, o.threads(), true, o.Now
	var list []scored
	scoring := 0.0
	step := 0
	settings.OnStep = func(now solver.Step, m *solver.Model) bool {
		if slices.Contains(scoredSteps, step) || step == basis {
			began := o.Now()
			list = append(list, scored{step: step, k: m.NumBasis, objective: now.Objective, valid: s.quality(m, p.valid), test: s.quality(m, p.test), seconds: now.Seconds - scoring})
			scoring += o.Now().Sub(began).Seconds()
		}
		step++
		return false
	}
	if _, err := solver.Solve(ctx, s.problem(p.train, c.ordinal), nil, settings); err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	return list, ctx.Err()
}

// Figure4 repeats figure 4: the error and the ranking of factorization machines on ratings, of one output by squared loss and of McRank,
// against the basis vectors, with output refits.
func Figure4(ctx context.Context, o Options) (*Report, error) {
	benches, err := o.ratings()
	if err != nil {
		return nil, err
	}
	basis := ratingBasis
	if o.Quick {
		basis = 3
	}
	main := Table{Title: "Figure 4: test error and ranking against the basis vectors, output refits, mean ± standard deviation over splits",
		Header: []string{"set", "model", "λ", "steps", "splits", "RMSE", "nDCG@1", "nDCG@5", "seconds"}}
	numbers := Table{Name: "steps", Header: []string{"set", "model", "lambda", "split", "step", "k", "objective", "valid_rmse", "valid_ndcg_1", "test_rmse", "test_ndcg_1", "test_ndcg_5", "seconds"}}
	r := &Report{Name: "figure4"}
	figure := Figure{Figure: plot.Figure{Columns: 3}}
	for i := range benches {
		b := &benches[i]
		set, err := readRatings(o.file(b.file...))
		if err != nil {
			return nil, err
		}
		splits := o.splits(b.splits)
		panels := []plot.Panel{{YLabel: "test RMSE (stars)"}, {YLabel: "test nDCG@1"}, {YLabel: "test nDCG@5"}}
		for p := range panels {
			panels[p].Title, panels[p].XLabel = b.name, "k (basis vectors tried)"
		}
		for c := range b.curves {
			curve := &b.curves[c]
			bySplit := make([][]scored, splits)
			for at := range splits {
				if bySplit[at], err = set.rate(ctx, &o, split(len(set.level), uint32(at)), curve, basis); err != nil {
					return nil, err
				}
				for _, s := range bySplit[at] {
					numbers.add(b.name, curve.name, curve.lambda, at, s.step, s.k, s.objective, s.valid.rmse, s.valid.ndcg1, s.test.rmse, s.test.ndcg1, s.test.ndcg5, s.seconds)
				}
				last := bySplit[at][len(bySplit[at])-1]
				o.Log.Info("path", "set", b.name, "model", curve.name, "split", at, "k", last.k, "rmse", last.test.rmse, "ndcg_1", last.test.ndcg1, "seconds", last.seconds)
			}
			lines := make([]plot.Line, len(panels))
			for t := range bySplit[0] {
				summary := summarize(bySplit, t)
				for p := range lines {
					lines[p].Name = curve.name
					lines[p].X, lines[p].Y = append(lines[p].X, float64(bySplit[0][t].step)), append(lines[p].Y, summary.mean[p])
				}
				if step := bySplit[0][t].step; step%5 == 0 || step == basis {
					main.Rows = append(main.Rows, append([]string{b.name, curve.name, fmt.Sprint(curve.lambda), fmt.Sprint(step), fmt.Sprint(splits)}, summary.cells()...))
				}
				if t == len(bySplit[0])-1 && !o.Quick && curve.ordinal {
					name := fmt.Sprintf("%s, %s, k = %d", b.name, curve.name, basis)
					r.Bars = append(r.Bars, Bar{Name: name + ", test RMSE", Got: summary.mean[0], AtMost: true, Want: b.rmse},
						Bar{Name: name + ", test nDCG@1", Got: summary.mean[1], Want: b.ndcg1})
				}
			}
			for p := range panels {
				panels[p].Lines = append(panels[p].Lines, lines[p])
			}
		}
		figure.Panels = append(figure.Panels, panels...)
	}
	r.Tables, r.Numbers, r.Figures = []Table{main}, []Table{numbers}, []Figure{figure}
	return r, nil
}

// ratingSummary is the mean and deviation over splits of RMSE, nDCG@1 and nDCG@5, and the mean seconds.
type ratingSummary struct {
	mean, deviation [3]float64
	seconds         float64
}

// summarize summarises the t-th scored model of every split; a path that ended early counts with its last.
func summarize(bySplit [][]scored, t int) (s ratingSummary) {
	var values [3][]float64
	for _, list := range bySplit {
		at := list[min(t, len(list)-1)]
		for i, v := range []float64{at.test.rmse, at.test.ndcg1, at.test.ndcg5} {
			values[i] = append(values[i], v)
		}
		s.seconds += at.seconds / float64(len(bySplit))
	}
	for i := range values {
		s.mean[i] = stat.Mean(values[i], nil)
		if len(bySplit) > 1 {
			s.deviation[i] = stat.StdDev(values[i], nil)
		}
	}
	return s
}

// cells are the summary as cells of a table.
func (s *ratingSummary) cells() []string {
	var row []string
	for i, digits := range []int{4, 3, 3} {
		text := fmt.Sprintf("%.*f", digits, s.mean[i])
		if s.deviation[i] > 0 {
			text += fmt.Sprintf(" ± %.*f", digits, s.deviation[i])
		}
		row = append(row, text)
	}
	return append(row, fmt.Sprintf("%.1f", s.seconds))
}
