package task

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/vectors"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// Thin returns about n evenly spaced rows of a problem.
func Thin(p *solver.Problem, n int) *solver.Problem {
	return Pick(p, Evenly(p.X.NumRows(), n))
}

// Evenly returns the places of most of n things, spread evenly and in order, or of all of them if there are no more.
func Evenly(n, most int) []int {
	places := make([]int, min(n, most))
	for i := range places {
		places[i] = int(int64(i) * int64(n) / int64(len(places)))
	}
	return places
}

// Spread returns most of a list, spread evenly and in order, or all of it if there is no more.
func Spread[T any](list []T, most int) []T {
	if len(list) <= most {
		return list
	}
	out := make([]T, 0, most)
	for _, at := range Evenly(len(list), most) {
		out = append(out, list[at])
	}
	return out
}

// Pick returns the problem of some rows of another.
func Pick(p *solver.Problem, rows []int) *solver.Problem {
	out := *p
	out.X, out.Targets, out.Weights = p.X.Select(rows), make([]float64, 0, len(rows)*p.Outputs), nil
	for _, i := range rows {
		out.Targets = append(out.Targets, p.Target(i)...)
		if p.Weights != nil {
			out.Weights = append(out.Weights, p.Weights[i])
		}
	}
	return &out
}

// OnShare returns the task on about n of its training rows, spread evenly, and as many of the given select events. It
// judges by the latter and counts in another budget, which begins as a copy of that of j.
func (j *Task) OnShare(n int, selected []event.Event) *Task {
	part, budget := *j, *j.Budget
	part.Budget = &budget
	part.Rows.Problem = Thin(j.Rows.Problem, n)
	part.Rows.Select_, _ = encode.Encode(j.Vocab, j.Target, Spread(selected, n), nil)
	part.Judge = part.ValidLoss()
	return &part
}

// Rows are the rows of a refit's sample, encoded, and what is known of each.
type Rows struct {
	Train    *encode.Encoded
	Select_  *encode.Encoded
	Gate     *encode.Encoded
	Problem  *solver.Problem
	Weights  []float64      // of the training rows before they fade, nil counting every row once
	Recent   []event.Event  // training rows since the champion's cut, for rival
	Groups   []int32        // posterior.State.Group, nil: every field for itself
	RowIDs   []fitted.RowID // of the training rows, where dual variables are kept by them
	HeldOut  fitted.HeldOutNames
	Golden   []event.Event
	Sample   *encode.Sample
	Observed []*format.Table        // see encode.Observed
	Vectors  []*vectors.Coordinates // of names that tables have vectors of
}

// WeightUnit returns that of the events before they were drawn: the weights of rows have the chance of that in them.
func (r *Rows) WeightUnit() encode.WeightUnit {
	most := r.Sample.Heaviest()
	weights, counts := make([]float64, len(r.Train.Events)), make([]float64, len(r.Train.Events))
	for i := range weights {
		weights[i] = r.Train.Events[i].Weight
		counts[i] = encode.WeightAt(r.Weights, i) / max(min(weights[i], most), math.SmallestNonzeroFloat32)
	}
	return encode.WeightUnitOf(weights, counts, most)
}
