package cycle

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// How forms are compared: on formFolds folds of rows in order of time, each a formFolds-and-second of them, with weights fitted to all rows before. There
// are at most formRows rows, of many outputs formValues/m of them, spread evenly, but leastFormRows at the least.
const (
	formFolds     = 3
	formRows      = 6000
	formValues    = 40_000
	leastFormRows = 50
	formSteps     = 25
	formTolerance = 1e-3
)

// formErrors is by how many standard errors a form wants to predict better than a plainer one, unless the champion has it.
const formErrors = 1.0

// form is what a refit makes of numbers: linear weights of them, or of the columns of a feature map, too.
type form struct {
	asked config.FeatureMap    // empty for linear weights of the numbers alone
	fm    *snapshot.FeatureMap // nil for these
	ridge float64              // of the weights on the map
	loss  [][]float64          // of the rows of each fold
}

// chooseForm sets the feature map of a refit, nil if none is asked for or auto sees no gain in one, and the ridge of weights on it. The last map stays
// where it still fits the sample, since weights on it go on from refit to refit. Of the maps that are asked for each is fitted to rows
// and compared on newer ones, as consumers will use it: where labels depend on those just before them, a map of many columns learns
// what the rows just before and after those held out have in common, which says nothing of the future. Under auto, where products were among the
// forms, no basis vectors are looked for beside the form chosen (j.plain): they make polynomials of degree 2, too, of less rank. The comparison is
// repeated as the sample grows, see retests.
func (j *refitJob) chooseForm(ctx context.Context, warm *warmStart) error {
	j.vocab.Map = nil
	asked, p := j.model.Train.FeatureMap.Tried(len(j.vocab.Numeric)), len(j.vocab.Numeric)
	if j.whole {
		asked = slices.DeleteFunc(slices.Clone(asked), config.FeatureMap.IsProducts)
	}
	if len(asked) == 0 || p == 0 || len(j.train.numeric) == 0 || j.model.Train.Refit == "variational" {
		return nil
	}
	auto := j.model.Train.FeatureMap.IsAuto()
	plain := auto && len(asked) > 1 && len(j.vocab.Names) == 0 && j.model.Train.Lambda == 0
	values, scaling := j.mapValues()
	had := warm != nil && warm.featureMap != nil && len(warm.mapWeights) > 0
	lasts := func(m config.FeatureMap) bool { return fits(warm.featureMap, m, scaling) }
	if warm != nil && !j.retests(warm) && (auto && !had || slices.ContainsFunc(asked, lasts)) {
		j.plain = plain && (had || warm.model.NumBasis == 0)
		if j.ridge = warm.mapRidge; had {
			j.vocab.Map = warm.featureMap
		}
		return nil
	}
	forms := make([]*form, 0, len(asked)+1)
	if auto {
		forms = append(forms, &form{})
	}
	for _, m := range asked {
		f := &form{asked: m, fm: m.Map(scaling, values, j.model.Train.Seed)}
		if warm != nil && fits(warm.featureMap, m, scaling) {
			f.fm = warm.featureMap
		}
		forms = append(forms, f)
	}
	best, err := j.bestForm(ctx, forms, scaling, warm)
	if err != nil || best == nil {
		return err
	}
	j.plain, j.vocab.Map, j.ridge = plain, best.fm, best.ridge
	return nil
}

// mapValues returns the numbers of each field, without outliers, and where they lie.
func (j *refitJob) mapValues() (values [][]float64, scaling []snapshot.MapScaling) {
	p := len(j.vocab.Numeric)
	values, scaling = make([][]float64, p), make([]snapshot.MapScaling, p)
	for f := range values {
		for i := f; i < len(j.train.numeric); i += p {
			if v := j.train.numeric[i]; !math.IsNaN(v) {
				values[f] = append(values[f], within(&j.vocab.Numeric[f], v))
			}
		}
		scaling[f] = mapScaling(values[f])
	}
	return values, scaling
}

// bestForm returns the best of the forms, the first one being the plainest; nil if there are too few rows to tell and the plainest is no map.
func (j *refitJob) bestForm(ctx context.Context, forms []*form, scaling []snapshot.MapScaling, warm *warmStart) (*form, error) {
	rows := j.inTime()
	if len(rows) < leastFormRows {
		forms[0].ridge = mapRidges[len(mapRidges)/2]
		if forms[0].fm == nil {
			return nil, nil
		}
		return forms[0], nil
	}
	best, weights := (*form)(nil), j.foldWeights(rows)
	for _, f := range forms {
		fits, err := j.fitForm(ctx, f, rows, weights, scaling)
		if err != nil {
			return nil, err
		}
		errors := formErrors
		if warm != nil && len(warm.mapWeights) > 0 && warm.featureMap == f.fm {
			errors = 0
		}
		if fits && (best == nil || isBetter(f.loss, best.loss, weights, errors)) {
			best = f
		}
	}
	return best, nil
}

// inTime returns the numbers of the rows that forms are compared on, oldest first.
func (j *refitJob) inTime() []int {
	n, age := j.problem.X.NumRows(), j.sample.TrainAge
	rows := make([]int, 0, n)
	for i := range n {
		if j.horizon == 0 || age[i] <= horizonAges*horizons[j.horizon] {
			rows = append(rows, i)
		}
	}
	if len(age) == n {
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(age[b], age[a]) })
	}
	return spread(rows, min(formRows, max(1000, formValues/j.problem.Outputs)))
}

// partBefore returns the problem of the first n of some rows, oldest first, which fade as they did when the last of them was the newest.
func (j *refitJob) partBefore(rows []int, n int) *solver.Problem {
	p := *j.problem
	p.Weights = j.weights
	part := pick(&p, rows[:n])
	if j.horizon > 0 {
		age := make([]float64, n)
		for i, row := range rows[:n] {
			age[i] = j.sample.TrainAge[row] - j.sample.TrainAge[rows[n-1]]
		}
		part.Weights = decayed(part.Weights, age, horizons[j.horizon])
	}
	return part
}

// foldAt returns where fold f begins among n rows.
func foldAt(f, n int) int { return (f + 2) * n / (formFolds + 2) }

// foldWeights returns the weights of the rows of all folds, nil if all count alike.
func (j *refitJob) foldWeights(rows []int) []float64 {
	if j.unbounded || j.train.names == nil {
		return nil
	}
	var names []string
	for _, row := range rows[foldAt(0, len(rows)):] {
		names = append(names, j.train.names[row])
	}
	return j.capNames(nil, names)
}

// isBetter reports whether the losses of folds, with weights, are less in most of them, and over all of them by more than some standard errors.
func isBetter(a, b [][]float64, weights []float64, errors float64) bool {
	won, rest := 0, weights
	for f := range a {
		own := rest
		if rest != nil {
			own, rest = rest[:len(a[f])], rest[len(a[f]):]
		}
		if sumOf(a[f], own) < sumOf(b[f], own) {
			won++
		}
	}
	return 2*won > len(a) && isMeanLess(a, b, weights, errors)
}

// isMeanLess reports whether the mean of the losses of all folds is less, by more than some standard errors.
func isMeanLess(a, b [][]float64, weights []float64, errors float64) bool {
	return isLess(slices.Concat(a...), slices.Concat(b...), weights, errors)
}

// fitForm fits a form to the rows before each fold and judges it on the fold, with less and less of a ridge as long as that is better. It reports
// false where a fit is not finite.
func (j *refitJob) fitForm(ctx context.Context, f *form, rows []int, weights []float64, scaling []snapshot.MapScaling) (bool, error) {
	columns := j.formColumns(f, rows, scaling)
	folds := make([]*solver.DenseFit, formFolds)
	s := solver.DefaultSettings()
	s.Workers, s.Yield, s.Tolerance, s.MaxIterations = j.workers, j.yield, formTolerance, formSteps
	for i := range folds {
		part := j.partBefore(rows, foldAt(i, len(rows)))
		fit := solver.NewDenseFit(ctx, part, make([]float64, len(part.Targets)), len(columns[0]), s)
		for row := range part.X.NumRows() {
			fit.SetRow(row, columns[row])
		}
		folds[i] = fit
	}
	for _, ridge := range mapRidges {
		loss := make([][]float64, formFolds)
		for i, fit := range folds {
			if !fit.Fit(ridge) {
				return f.loss != nil, ctx.Err()
			}
			loss[i] = j.foldLoss(fit, columns, rows, i)
		}
		if f.loss != nil && !isMeanLess(loss, f.loss, weights, 0) {
			break
		}
		f.loss, f.ridge = loss, ridge
	}
	return true, nil
}

// formColumns returns the columns of a form for each row: standardised numbers, then what a map makes of them.
func (j *refitJob) formColumns(f *form, rows []int, scaling []snapshot.MapScaling) [][]float64 {
	p, width := len(scaling), len(scaling)
	if f.fm != nil {
		width += f.fm.NumColumns()
	}
	columns := make([][]float64, len(rows))
	for i, row := range rows {
		columns[i] = make([]float64, width)
		numeric := j.train.numbers(row)
		for at, v := range numeric {
			if !math.IsNaN(v) {
				columns[i][at] = min(max((v-scaling[at].Center)/scaling[at].Scale, -numberReach), numberReach)
			}
		}
		if f.fm != nil {
			f.fm.Columns(columns[i][p:], numeric)
		}
	}
	return columns
}

// foldLoss returns the loss of each row of a fold.
func (j *refitJob) foldLoss(fit *solver.DenseFit, columns [][]float64, rows []int, fold int) (loss []float64) {
	weights, bias := fit.Weights()
	m := len(bias)
	outputs := make([]float64, m)
	for i := foldAt(fold, len(rows)); i < foldAt(fold+1, len(rows)); i++ {
		copy(outputs, bias)
		for at, x := range columns[i] {
			if x != 0 {
				for c, w := range weights[at*m : at*m+m] {
					outputs[c] += x * w
				}
			}
		}
		own := min(j.problem.Loss.Eval(nil, outputs, j.problem.Target(rows[i])), worstError)
		loss = append(loss, boundLoss(own, j.train.most))
	}
	return loss
}
