package choose

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// How weights on a feature map are fitted: on mapNumbers/D of the newest rows at most (64 MiB), in at most mapMaxSteps
// steps to mapTolerance of the objective. Chosen by hand.
const (
	mapNumbers   = 8 << 20
	mapTolerance = 1e-4
	mapMaxSteps  = 60
)

// KeepNumbers keeps the numbers and the entities of events that are about to be forgotten, if a map is to be made of
// them.
func KeepNumbers(j *task.Task, e *encode.Encoded) {
	if j.Model.Train.FeatureMap == "" {
		return
	}
	e.Names = j.EntitiesOf(e.Events)
	for i := range e.Events {
		e.Numeric = append(e.Numeric, e.Events[i].Numeric...)
	}
}

// fits reports whether a map is the one asked for and the values of every field still lie where it has them: the mean
// within a deviation, the deviation within a factor of 2.
func fits(m *format.FeatureMap, asked config.FeatureMap, now []format.MapScaling) bool {
	if encode.MapText(m) != string(asked) || len(m.Scaling) != len(now) {
		return false
	}
	for f, s := range m.Scaling {
		if r := now[f].Scale / s.Scale; r < 0.5 || r > 2 || math.Abs(now[f].Center-s.Center) > s.Scale {
			return false
		}
	}
	return true
}

// Mapped fits weights on the feature map on top of a model, which it does not change. It returns nil where there is no
// map, or where auto sees no gain in it. A fit that the time budget ends is dropped.
func Mapped(ctx context.Context, j *task.Task, base *solver.Model, warm *task.WarmStart) *task.MappedFit {
	if j.Vocab.Map == nil || j.Model.Train.Refit == "variational" || j.Budget.Over(ctx) {
		return nil
	}
	part, rows := mapPart(j)
	limited := ctx
	if !j.Budget.Deadline.IsZero() {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, j.Budget.Deadline)
		defer cancel()
	}
	best := mapAt(ctx, j, mapFit(limited, j, base, part, rows, warm), base)
	if best == nil || !j.Model.Train.FeatureMap.IsAuto() || Gains(j, best.Loss, Losses(j, base)) {
		return best
	}
	return nil
}

// mapFit returns the fit of weights on the map on top of a model to a problem of some training rows, from the last
// weights if there are any. It ends when ctx is done.
func mapFit(ctx context.Context, j *task.Task, base *solver.Model, part *solver.Problem, rows []int,
	warm *task.WarmStart) *solver.DenseFit {
	m, d := part.Outputs, j.Vocab.Map.NumColumns()
	offset, work, phi := make([]float64, len(part.Targets)), make([]float64, 2*base.NumBasis), make([]float64, d)
	s := solver.DefaultSettings()
	s.Workers, s.Yield, s.Tolerance, s.MaxIterations = j.Workers, j.Yield, mapTolerance, mapMaxSteps
	for i := range rows {
		index, value := j.Rows.Train.X.Row(rows[i])
		base.Predict(offset[i*m:i*m+m], work, index, value)
	}
	fit := solver.NewDenseFit(ctx, part, offset, d, s)
	for i := range rows {
		j.Vocab.Map.Columns(phi, j.Rows.Train.Numbers(rows[i]))
		fit.SetRow(i, phi)
	}
	if warm != nil && warm.FeatureMap == j.Vocab.Map && len(warm.MapWeights) == d*m {
		weights, _ := fit.Weights()
		copy(weights, warm.MapWeights)
	}
	return fit
}

// withMap returns a model with the weights of a fit on the map.
func withMap(base *solver.Model, fit *solver.DenseFit) *solver.Model {
	model := base.Clone()
	weights, bias := fit.Weights()
	model.Map = slices.Clone(weights)
	for c, b := range bias {
		model.Bias[c] += b
	}
	return model
}

// MapRows returns how many rows there is room for with so many columns.
func MapRows(columns int) int { return max(1000, mapNumbers/columns) }

// mapPart returns the problem of the newest rows that a map has room for, and their indices among the training rows.
func mapPart(j *task.Task) (*solver.Problem, []int) {
	n, limit := j.Rows.Problem.X.NumRows(), MapRows(j.Vocab.Map.NumColumns())
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	if n <= limit {
		return j.Rows.Problem, rows
	}
	if age := j.Rows.Sample.TrainAge; len(age) == n {
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(age[a], age[b]) })
		rows = rows[:limit]
		slices.Sort(rows)
	} else {
		rows = task.Evenly(n, limit)
	}
	return task.Pick(j.Rows.Problem, rows), rows
}

// mapAt fits with the ridge chosen, nil if the refit is over before.
func mapAt(ctx context.Context, j *task.Task, fit *solver.DenseFit, base *solver.Model) *task.MappedFit {
	if j.Budget.Over(ctx) || !fit.Fit(j.Choices.Ridge) {
		j.Budget.Over(ctx) // notes where the clock ended this
		return nil
	}
	j.Budget.CountSolve()
	model := withMap(base, fit)
	if !model.IsFinite() {
		return nil
	}
	return &task.MappedFit{Model: model, Ridge: j.Choices.Ridge, Loss: Losses(j, model)}
}

// Losses returns the loss of a model on each of the select rows.
func Losses(j *task.Task, model *solver.Model) []float64 {
	return j.Rows.Select_.Losses(j.Target, model)
}

// Gains reports whether one list of losses on the select rows has the smaller mean. Without rows nothing gains.
func Gains(j *task.Task, a, b []float64) bool {
	return task.IsLess(a, b, j.SelectWeights(), 0)
}
