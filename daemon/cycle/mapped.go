package cycle

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// How weights on a feature map are fitted: on mapNumbers/D of the newest rows at most (64 MiB), in at most mapMaxSteps steps to mapTolerance of the
// objective.
const (
	mapNumbers   = 8 << 20
	mapTolerance = 1e-4
	mapMaxSteps  = 60
)

// mapRidges are the ridges that a refit chooses from. With less, weights gain nothing on newer rows and grow without end.
var mapRidges = []float64{75, 15, 3, 0.6, 0.12}

// mappedFit is a model with weights on the feature map.
type mappedFit struct {
	model *solver.Model
	ridge float64
	loss  []float64 // on each of the select rows
}

// mapText returns a map as train.feature_map writes it, empty without one.
func mapText(m *snapshot.FeatureMap) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf("%s:%d", m.Kind, m.Count)
}

// addMapped adds what a model's weights on the feature map contribute to its outputs, and returns the columns to be used again.
func (v *Vocabulary) addMapped(dst []float64, model *solver.Model, numeric, columns []float64) []float64 {
	if model.Map == nil {
		return columns
	}
	columns = slices.Grow(columns[:0], v.Map.NumColumns())[:v.Map.NumColumns()]
	if v.Map.Columns(columns, numeric) {
		model.AddMapped(dst, columns)
	}
	return columns
}

// keepNumbers keeps the numbers and the entities of events that are about to be forgotten, if a map is to be made of
// them.
func (j *refitJob) keepNumbers(e *encoded) {
	if j.model.Train.FeatureMap == "" {
		return
	}
	e.names = j.entitiesOf(e.events)
	for i := range e.events {
		e.numeric = append(e.numeric, e.events[i].Numeric...)
	}
}

// numbers returns those of a training row, nil unless they were kept.
func (e *encoded) numbers(i int) []float64 {
	if e.numeric == nil {
		return nil
	}
	p := len(e.vocab.Numeric)
	return e.numeric[i*p : i*p+p]
}

// mapScaling returns mean and deviation of values without outliers.
func mapScaling(values []float64) snapshot.MapScaling {
	n, mean, square := 0.0, 0.0, 0.0
	for _, v := range values { // Welford 1962
		n++
		d := v - mean
		mean += d / n
		square += d * (v - mean)
	}
	s := snapshot.MapScaling{Center: mean, Scale: 1}
	if math.IsNaN(mean) || math.IsInf(mean, 0) { // it overflowed
		s.Center = 0
	}
	if deviation := math.Sqrt(square / max(1, n)); deviation > 0 && !math.IsInf(deviation, 0) {
		s.Scale = deviation
	}
	return s
}

// fits reports whether a map is the one asked for and the values of every field still lie where it has them: the mean within a deviation, the
// deviation within a factor of 2.
func fits(m *snapshot.FeatureMap, asked config.FeatureMap, now []snapshot.MapScaling) bool {
	if mapText(m) != string(asked) || len(m.Scaling) != len(now) {
		return false
	}
	for f, s := range m.Scaling {
		if r := now[f].Scale / s.Scale; r < 0.5 || r > 2 || math.Abs(now[f].Center-s.Center) > s.Scale {
			return false
		}
	}
	return true
}

// mapped fits weights on the feature map on top of a model, which it does not change. It returns nil where there is no map, or where auto sees no
// gain in it. A fit that the time budget ends is dropped.
func (j *refitJob) mapped(ctx context.Context, base *solver.Model, warm *warmStart) *mappedFit {
	if j.vocab.Map == nil || j.model.Train.Refit == "variational" || j.budget.over(ctx) {
		return nil
	}
	part, rows := j.mapPart()
	limited := ctx
	if !j.budget.deadline.IsZero() {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, j.budget.deadline)
		defer cancel()
	}
	best := j.mapAt(ctx, j.mapFit(limited, base, part, rows, warm), base)
	if best == nil || !j.model.Train.FeatureMap.IsAuto() || j.gains(best.loss, j.losses(base)) {
		return best
	}
	return nil
}

// mapFit returns the fit of weights on the map on top of a model to a problem of some training rows, from the last weights if there are any. It ends when
// ctx is done.
func (j *refitJob) mapFit(ctx context.Context, base *solver.Model, part *solver.Problem, rows []int, warm *warmStart) *solver.DenseFit {
	m, d := part.Outputs, j.vocab.Map.NumColumns()
	offset, work, phi := make([]float64, len(part.Targets)), make([]float64, 2*base.NumBasis), make([]float64, d)
	s := solver.DefaultSettings()
	s.Workers, s.Yield, s.Tolerance, s.MaxIterations = j.workers, j.yield, mapTolerance, mapMaxSteps
	for i := range rows {
		index, value := j.train.x.Row(rows[i])
		base.Predict(offset[i*m:i*m+m], work, index, value)
	}
	fit := solver.NewDenseFit(ctx, part, offset, d, s)
	for i := range rows {
		j.vocab.Map.Columns(phi, j.train.numbers(rows[i]))
		fit.SetRow(i, phi)
	}
	if warm != nil && warm.featureMap == j.vocab.Map && len(warm.mapWeights) == d*m {
		weights, _ := fit.Weights()
		copy(weights, warm.mapWeights)
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

// mapRows returns how many rows there is room for with so many columns.
func mapRows(columns int) int { return max(1000, mapNumbers/columns) }

// mapPart returns the problem of the newest rows that a map has room for, and where they stand among the training rows.
func (j *refitJob) mapPart() (*solver.Problem, []int) {
	n, limit := j.problem.X.NumRows(), mapRows(j.vocab.Map.NumColumns())
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	if n <= limit {
		return j.problem, rows
	}
	if age := j.sample.TrainAge; len(age) == n {
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(age[a], age[b]) })
		rows = rows[:limit]
		slices.Sort(rows)
	} else {
		rows = evenly(n, limit)
	}
	return pick(j.problem, rows), rows
}

// mapAt fits with the ridge chosen, nil if the refit is over before.
func (j *refitJob) mapAt(ctx context.Context, fit *solver.DenseFit, base *solver.Model) *mappedFit {
	if j.budget.over(ctx) || !fit.Fit(j.ridge) {
		j.budget.over(ctx) // notes where the clock ended this
		return nil
	}
	j.budget.calls++
	model := withMap(base, fit)
	if !model.IsFinite() {
		return nil
	}
	return &mappedFit{model, j.ridge, j.losses(model)}
}

// losses returns the loss of a model on each of the select rows.
func (j *refitJob) losses(model *solver.Model) []float64 { return j.select_.losses(j.target, model) }

// gains reports whether one list of losses on the select rows has the smaller mean. Without rows nothing gains.
func (j *refitJob) gains(a, b []float64) bool {
	return isLess(a, b, j.selectWeights(), 0)
}
