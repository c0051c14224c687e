package experiment

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
)

// readTags reads Last.fm of HetRec 2011: how often a tag was given to an artist, by one-hot artist and tag, in the
// order of the first rows.
func (o *Options) readTags() (*ratingSet, error) {
	file, err := os.Open(o.file("lastfm-hetrec2011", "user_taggedartists.dat.gz"))
	if err != nil {
		return nil, missing(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("paper: %s: %w", file.Name(), err)
	}
	var pairs [][2]string
	counts, numbers := make(map[[2]string]float64), [2]map[string]int32{{}, {}}
	lines := bufio.NewScanner(text)
	lines.Scan() // the header
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) < 3 {
			return nil, fmt.Errorf("paper: %s: %q has no artist and tag", file.Name(), lines.Text())
		}
		pair := [2]string(fields[1:3])
		if counts[pair]++; counts[pair] > 1 {
			continue
		}
		pairs = append(pairs, pair)
		for field, name := range pair {
			if _, ok := numbers[field][name]; !ok {
				numbers[field][name] = int32(len(numbers[field]))
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("paper: %s: %w", file.Name(), err)
	}
	s := &ratingSet{users: len(numbers[0]), items: len(numbers[1])}
	s.x = solver.NewRows(s.users+s.items, len(pairs), 2*len(pairs))
	for _, pair := range pairs {
		s.x.Append([]int32{numbers[0][pair[0]], int32(s.users) + numbers[1][pair[1]]}, []float64{1, 1})
		s.level = append(s.level, counts[pair])
	}
	return s, nil
}

// withConstant returns rows with a constant column behind the others.
func withConstant(x *solver.Rows) *solver.Rows {
	out := solver.NewRows(x.NumColumns+1, x.NumRows(), len(x.Index)+x.NumRows())
	for i := range x.NumRows() {
		index, value := x.Row(i)
		out.Append(append(slices.Clone(index), int32(x.NumColumns)), append(slices.Clone(value), 1))
	}
	return out
}

// What figure 3 of the 2016 paper compares here: k is one for all, which the paper does not say.
const (
	recommendBasis  = 16
	recommendSweeps = 30
	fastError       = 0.875 // test RMSE on ML-1M whose seconds are of interest
)

var (
	recommendBetas  = []float64{32, 16, 8, 4, 2, 1, 0.5} // from the strongest on
	recommendRidges = []float64{3, 1, 10}                // of the linear term: β is chosen with the first
)

// Recommend2016 repeats figure 3 of Blondel et al. 2016: the error of A² and H² on ratings and tag counts, with a
// constant column or with a linear term, β and the ridge of the linear term chosen on validation rows, one after the
// other (recommendChoice). One split. Targets of the models with a constant column are centred.
func Recommend2016(ctx context.Context, o Options) (*Report, error) {
	main := Table{Title: fmt.Sprintf("2016, figure 3: test RMSE, k = %d, split 0", recommendBasis),
		Header: []string{
			"set",
			"model",
			"β",
			"ridge",
			"valid RMSE",
			"test RMSE",
			"sweeps",
			"seconds",
			"seconds to .875",
		}}
	names, betas := o.Sets, recommendBetas
	if len(names) == 0 {
		names = []string{"Last.fm", "ML-1M"}
	}
	if o.Quick {
		names, betas = []string{"ML-100k"}, betas[2:3]
	}
	o.Progress.Stage("fitting", "fits", 0)
	for _, name := range names {
		set, bounded, err := o.recommendSet(name)
		if err != nil {
			return nil, err
		}
		for _, kernel := range []solver.Kernel{solver.ANOVA, solver.Homogeneous} {
			for _, linear := range []bool{false, true} {
				row, err := o.recommend(ctx, set, bounded, kernel, linear, betas)
				if err != nil {
					return nil, err
				}
				main.Rows = append(main.Rows, append([]string{name}, row...))
				o.Log.Info("model", "set", name, "model", row[0], "test", row[4])
			}
		}
	}
	return &Report{Name: "2016-figure3", Tables: []Table{main}}, nil
}

// recommendSet reads a set and says whether its targets are ratings, to which predictions are clipped.
func (o *Options) recommendSet(name string) (set *ratingSet, bounded bool, err error) {
	if name == "Last.fm" {
		set, err = o.readTags()
		return set, false, err
	}
	for i := range ratingBenchmarks {
		if ratingBenchmarks[i].name == name {
			set, err = readRatings(o.file(ratingBenchmarks[i].file...))
			return set, true, err
		}
	}
	return nil, false, fmt.Errorf("%w: --sets names %q: known are Last.fm, ML-100k and ML-1M", ErrOptions, name)
}

// recommendChoice calls fit, which returns the error on the validation rows, for β from the strongest on until the
// error is above the least for the second time in a row, and for the other ridges with the best β: a few fits in place
// of one for each pair, as the weakest β overfit. The first vectors may be worse than none: one rise ends nothing.
func recommendChoice(betas, ridges []float64, fit func(beta, ridge float64) (float64, error)) error {
	least, best, risen := math.Inf(1), betas[0], 0
	for _, beta := range betas {
		e, err := fit(beta, ridges[0])
		if err != nil {
			return err
		}
		if e <= least {
			least, best, risen = e, beta, 0
		} else if risen++; risen == 2 {
			break
		}
	}
	for _, ridge := range ridges[1:] {
		if _, err := fit(best, ridge); err != nil {
			return err
		}
	}
	return nil
}

// recommend fits models until β and ridge are chosen, and returns the cells of the table.
func (o *Options) recommend(
	ctx context.Context,
	set *ratingSet,
	bounded bool,
	kernel solver.Kernel,
	linear bool,
	betas []float64,
) ([]string, error) {
	p := split(len(set.level), 0)
	name := map[solver.Kernel]string{solver.ANOVA: "A²", solver.Homogeneous: "H²"}[kernel]
	s := solver.DefaultSettings()
	s.Kernel, s.MaxBasis, s.MaxIterations, s.Now = kernel, recommendBasis, recommendSweeps, o.Now
	x, mean, ridges := set.x, 0.0, recommendRidges
	if name += " and linear term"; !linear {
		name = strings.Replace(name, "and linear term", "with a constant", 1)
		s.BiasRidge, ridges = 0, []float64{0}
		x = withConstant(set.x)
		for _, row := range p.train {
			mean += set.level[row] / float64(len(p.train))
		}
	}
	problem := &solver.Problem{
		X:       x.Select(p.train),
		Targets: pick(set.level, p.train),
		Outputs: 1,
		Loss:    solver.Squared{},
	}
	for i := range problem.Targets {
		problem.Targets[i] -= mean
	}
	valid, test := x.Select(p.valid), x.Select(p.test)
	errorOf := func(m *solver.Model, x *solver.Rows, rows []int) float64 {
		total := 0.0
		for i, prediction := range predictionsOf(m, x) {
			prediction += mean
			if bounded {
				prediction = min(max(prediction, 1), numLevels)
			}
			off := prediction - set.level[rows[i]]
			total += off * off
		}
		return math.Sqrt(total / float64(len(rows)))
	}
	lowest, cells, best := math.Inf(1), []string(nil), s
	fit := func(beta, ridge float64) (float64, error) {
		s.Lambda, s.LinearRidge = beta, ridge
		started := o.Now()
		res, err := coordinate.Descent{}.Fit(ctx, problem, nil, s)
		if err != nil {
			return 0, err
		}
		seconds, e := o.Now().Sub(started).Seconds(), errorOf(res.Model, valid, p.valid)
		o.Progress.Add(1)
		o.Log.Info("fit", "model", name, "beta", beta, "ridge", ridge, "valid", e, "seconds", seconds)
		if e < lowest {
			lowest, best = e, s
			cells = []string{
				name,
				fmt.Sprint(s.Lambda),
				fmt.Sprint(s.LinearRidge),
				fmt.Sprintf("%.4f", e),
				fmt.Sprintf("%.4f", errorOf(res.Model, test, p.test)),
				fmt.Sprint(len(res.Steps) - 1),
				fmt.Sprintf("%.2f", seconds),
				"-",
			}
		}
		return e, nil
	}
	if err := recommendChoice(betas, ridges, fit); err != nil {
		return nil, err
	}
	if !bounded {
		return cells, nil
	}
	started, judged := o.Now(), 0.0 // once more, with a look at the test rows after each sweep
	best.OnStep = func(_ solver.Step, m *solver.Model) bool {
		paused := o.Now()
		reached := errorOf(m, test, p.test) <= fastError
		if reached {
			cells[len(cells)-1] = fmt.Sprintf("%.2f", paused.Sub(started).Seconds()-judged)
		}
		judged += o.Now().Sub(paused).Seconds()
		return reached
	}
	_, err := coordinate.Descent{}.Fit(ctx, problem, nil, best)
	return cells, err
}
