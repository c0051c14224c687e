package choose

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// How forms are compared: on formFolds folds of rows in order of time, each a formFolds-and-second of them, with
// weights fitted to all rows before. There are at most formRows rows, of many outputs formValues/m of them, spread
// evenly, but leastFormRows at the least. Chosen by hand.
const (
	formFolds     = 3
	formRows      = 6000
	formValues    = 40_000
	leastFormRows = 50
	formSteps     = 25
	formTolerance = 1e-3
)

// featureMapCandidate is what a refit makes of numbers: linear weights of them, or of the columns of a feature map,
// too.
type featureMapCandidate struct {
	asked config.FeatureMap  // empty for linear weights of the numbers alone
	fm    *format.FeatureMap // nil for these
	ridge float64            // of the weights on the map
	loss  [][]float64        // of the rows of each fold
}

// MapChoice is the feature map of a refit.
type MapChoice struct {
	Map   *format.FeatureMap // nil if none is configured, or auto sees no gain in one
	Ridge float64            // of the weights on it
	Plain bool               // no basis vectors are looked for
}

// ChooseFeatureMap chooses the feature map of a refit and the ridge of weights on it. The last map is kept where it
// still fits the sample, since refits start from the last weights on it. Each map that is configured is fitted to rows
// and compared on newer ones, as consumers will use it. Where labels depend on those just before them, a map of many
// columns learns what the rows just before and after those held out have in common, which says nothing of the future.
// Under auto, where products were among the candidates, no basis vectors are added to the chosen one (Plain): they make
// polynomials of degree 2, too, of less rank. The comparison is repeated as the sample grows, see Retests.
func ChooseFeatureMap(ctx context.Context, j *task.Task, warm *task.WarmStart) (chosen MapChoice, err error) {
	asked, p := j.Model.Train.FeatureMap.Tried(len(j.Vocab.Numeric)), len(j.Vocab.Numeric)
	if j.Choices.Whole {
		asked = slices.DeleteFunc(slices.Clone(asked), config.FeatureMap.IsProducts)
	}
	if len(asked) == 0 || p == 0 || len(j.Rows.Train.Numeric) == 0 || j.Model.Train.Refit == "variational" ||
		j.Model.LeavesOut(task.ChoiceFeatureMap) {
		return chosen, nil
	}
	auto := j.Model.Train.FeatureMap.IsAuto()
	plain := auto && len(asked) > 1 && len(j.Vocab.Names) == 0 && j.Model.Train.Lambda == 0
	values, scaling := mapValues(j)
	had := warm != nil && warm.FeatureMap != nil && len(warm.MapWeights) > 0
	lasts := func(m config.FeatureMap) bool { return fits(warm.FeatureMap, m, scaling) }
	if warm != nil && !variational.Retests(j, warm) && (auto && !had || slices.ContainsFunc(asked, lasts)) {
		chosen = MapChoice{Ridge: warm.MapRidge, Plain: plain && (had || warm.Model.NumBasis == 0)}
		if had {
			chosen.Map = warm.FeatureMap
		}
		return chosen, nil
	}
	forms := make([]*featureMapCandidate, 0, len(asked)+1)
	if auto {
		forms = append(forms, &featureMapCandidate{})
	}
	for _, m := range asked {
		f := &featureMapCandidate{asked: m, fm: m.Map(scaling, values, j.Model.Train.Seed)}
		// The last map itself, not one like it: its weights are where the fit starts.
		if warm != nil && fits(warm.FeatureMap, m, scaling) {
			f.fm = warm.FeatureMap
		}
		forms = append(forms, f)
	}
	best, err := bestFeatureMap(ctx, j, forms, scaling, warm)
	if err != nil || best == nil {
		return chosen, err
	}
	return MapChoice{Map: best.fm, Ridge: best.ridge, Plain: plain}, nil
}

// mapValues returns the numbers of each field, without outliers, and where they lie.
func mapValues(j *task.Task) (values [][]float64, scaling []format.MapScaling) {
	p := len(j.Vocab.Numeric)
	values, scaling = make([][]float64, p), make([]format.MapScaling, p)
	for f := range values {
		for i := f; i < len(j.Rows.Train.Numeric); i += p {
			if v := j.Rows.Train.Numeric[i]; !math.IsNaN(v) {
				values[f] = append(values[f], encode.Within(&j.Vocab.Numeric[f], v))
			}
		}
		scaling[f] = encode.MapScaling(values[f])
	}
	return values, scaling
}

// bestFeatureMap returns the best of the candidates, of which the first is the plainest. It returns nil if there are
// too few rows to compare them and the plainest is no map.
func bestFeatureMap(ctx context.Context, j *task.Task, forms []*featureMapCandidate, scaling []format.MapScaling,
	warm *task.WarmStart) (*featureMapCandidate, error) {
	rows := InTime(j)
	if len(rows) < leastFormRows {
		forms[0].ridge = task.MapRidges[len(task.MapRidges)/2]
		if forms[0].fm == nil {
			return nil, nil
		}
		return forms[0], nil
	}
	best, weights := (*featureMapCandidate)(nil), FoldWeights(j, rows)
	for _, f := range forms {
		fits, err := fitFeatureMap(ctx, j, f, rows, weights, scaling)
		if err != nil {
			return nil, err
		}
		// A map that the champion has does not have to win again; each other one has to beat the plainer ones before
		// it.
		errors := task.FeatureMapErrors
		if warm != nil && len(warm.MapWeights) > 0 && warm.FeatureMap == f.fm {
			errors = 0
		}
		if fits && (best == nil || IsBetter(f.loss, best.loss, weights, errors)) {
			best = f
		}
	}
	return best, nil
}

// InTime returns the numbers of the rows that forms are compared on, oldest first.
func InTime(j *task.Task) []int {
	n, age := j.Rows.Problem.X.NumRows(), j.Rows.Sample.TrainAge
	rows := make([]int, 0, n)
	for i := range n {
		if j.Choices.HalfLife == 0 || age[i] <= horizonAges*fitted.HalfLives[j.Choices.HalfLife] {
			rows = append(rows, i)
		}
	}
	if len(age) == n {
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(age[b], age[a]) })
	}
	return task.Spread(rows, min(formRows, max(1000, formValues/j.Rows.Problem.Outputs)))
}

// partBefore returns the problem of the first n of some rows, oldest first, which fade as they did when the last of
// them was the newest.
func partBefore(j *task.Task, rows []int, n int) *solver.Problem {
	p := *j.Rows.Problem
	p.Weights = j.Rows.Weights
	part := task.Pick(&p, rows[:n])
	if j.Choices.HalfLife > 0 {
		age := make([]float64, n)
		for i, row := range rows[:n] {
			age[i] = j.Rows.Sample.TrainAge[row] - j.Rows.Sample.TrainAge[rows[n-1]]
		}
		part.Weights = fitted.Decayed(part.Weights, age, fitted.HalfLives[j.Choices.HalfLife])
	}
	return part
}

// FoldAt returns where fold f begins among n rows.
func FoldAt(f, n int) int { return (f + 2) * n / (formFolds + 2) }

// FoldWeights returns the weights of the rows of all folds, nil if all count alike.
func FoldWeights(j *task.Task, rows []int) []float64 {
	if j.Choices.Unbounded || j.Rows.Train.Names == nil {
		return nil
	}
	var names []string
	for _, row := range rows[FoldAt(0, len(rows)):] {
		names = append(names, j.Rows.Train.Names[row])
	}
	return j.CapNames(nil, names)
}

// IsBetter reports whether the losses of folds, with weights, are less in most of them, and over all of them by more
// than some standard errors.
func IsBetter(a, b [][]float64, weights []float64, errors float64) bool {
	won, rest := 0, weights
	for f := range a {
		own := rest
		if rest != nil {
			own, rest = rest[:len(a[f])], rest[len(a[f]):]
		}
		if task.SumOf(a[f], own) < task.SumOf(b[f], own) {
			won++
		}
	}
	return 2*won > len(a) && isMeanLess(a, b, weights, errors)
}

// isMeanLess reports whether the mean of the losses of all folds is less, by more than some standard errors.
func isMeanLess(a, b [][]float64, weights []float64, errors float64) bool {
	return task.IsLess(slices.Concat(a...), slices.Concat(b...), weights, errors)
}

// fitFeatureMap fits a form to the rows before each fold and judges it on the fold, with less and less of a ridge as
// long as that is better. It reports false where a fit is not finite.
func fitFeatureMap(ctx context.Context, j *task.Task, f *featureMapCandidate, rows []int, weights []float64,
	scaling []format.MapScaling) (bool, error) {
	columns := featureMapColumns(j, f, rows, scaling)
	folds := make([]*solver.DenseFit, formFolds)
	s := solver.DefaultSettings()
	s.Workers, s.Yield, s.Tolerance, s.MaxIterations = j.Workers, j.Yield, formTolerance, formSteps
	for i := range folds {
		part := partBefore(j, rows, FoldAt(i, len(rows)))
		fit := solver.NewDenseFit(ctx, part, make([]float64, len(part.Targets)), len(columns[0]), s)
		for row := range part.X.NumRows() {
			fit.SetRow(row, columns[row])
		}
		folds[i] = fit
	}
	// From the strongest on: each fit starts from the last, and a loss that rises ends it.
	for _, ridge := range task.MapRidges {
		loss := make([][]float64, formFolds)
		for i, fit := range folds {
			if !fit.Fit(ridge) {
				return f.loss != nil, ctx.Err()
			}
			loss[i] = foldLoss(j, fit, columns, rows, i)
		}
		if f.loss != nil && !isMeanLess(loss, f.loss, weights, 0) {
			break
		}
		f.loss, f.ridge = loss, ridge
	}
	return true, nil
}

// featureMapColumns returns the columns of a form for each row: standardised numbers, then what a map makes of them.
func featureMapColumns(j *task.Task, f *featureMapCandidate, rows []int, scaling []format.MapScaling) [][]float64 {
	p, width := len(scaling), len(scaling)
	if f.fm != nil {
		width += f.fm.NumColumns()
	}
	columns := make([][]float64, len(rows))
	for i, row := range rows {
		columns[i] = make([]float64, width)
		numeric := j.Rows.Train.Numbers(row)
		for at, v := range numeric {
			if !math.IsNaN(v) {
				columns[i][at] = min(max((v-scaling[at].Center)/scaling[at].Scale, -encode.NumberReach),
					encode.NumberReach)
			}
		}
		if f.fm != nil {
			f.fm.Columns(columns[i][p:], numeric)
		}
	}
	return columns
}

// foldLoss returns the loss of each row of a fold.
func foldLoss(j *task.Task, fit *solver.DenseFit, columns [][]float64, rows []int, fold int) (loss []float64) {
	weights, bias := fit.Weights()
	m := len(bias)
	outputs := make([]float64, m)
	for i := FoldAt(fold, len(rows)); i < FoldAt(fold+1, len(rows)); i++ {
		copy(outputs, bias)
		for at, x := range columns[i] {
			if x != 0 {
				for c, w := range weights[at*m : at*m+m] {
					outputs[c] += x * w
				}
			}
		}
		own := min(j.Rows.Problem.Loss.Eval(nil, outputs, j.Rows.Problem.Target(rows[i])), evaluate.WorstError)
		loss = append(loss, encode.BoundLoss(own, j.Rows.Train.Most))
	}
	return loss
}
