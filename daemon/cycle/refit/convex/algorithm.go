package convex

import (
	"context"
	"crypto/sha256"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
)

// Refits by other algorithms than ConditionalGradient: a path over λ, then one solve, and what a refit of each starts
// from.

// FitAlgorithm returns the algorithm of the model unless it is ConditionalGradient, nil if it is.
func FitAlgorithm(j *task.Task) solver.Algorithm {
	a, err := j.Model.Algorithm()
	if err != nil || a == (solver.ConditionalGradient{}) { // settings returns the error
		return nil
	}
	return a
}

// coldPatience is how many λ in a row of a cold refit by another algorithm are no better than the best before it tries
// no more. Those of an SVM are all tried:
// strong ones classify alike, and cost little. Chosen by hand.
const coldPatience = 1

// FitBy fits the sample by another algorithm. From nothing it finds λ by a path over at most PathRows rows, of an SVM
// by rough solves. A warm refit chooses between the last λ and an adjacent one, on all rows. Models are judged on the
// select rows as each solve ends: steps in between have neither a gap nor dual variables.
func FitBy(ctx context.Context, j *task.Task, a solver.Algorithm, warm *task.WarmStart, s solver.Settings,
	judge func(*solver.Model) float64) (*task.Candidate, error) {
	var ofPart *task.Candidate
	p, o := j.Rows.Problem, solver.PathOptions{Algorithm: a, FinalOnly: true, Judge: judge, Patience: coldPatience}
	if warm == nil {
		part, rows := p, []int(nil)
		if n := p.X.NumRows(); n > PathRows {
			rows = task.Evenly(n, PathRows)
			part = task.Pick(p, rows)
		}
		lambdas, err := LambdasFor(ctx, j, part, s)
		if err != nil {
			return nil, err
		}
		path := s
		if KeepsDual(j) && len(lambdas) > 1 {
			path.Rough, o.Patience = true, len(lambdas)
		}
		ofPart, err = PathBy(ctx, j, part, lambdas, path, o, nil)
		if err != nil || part == p && !path.Rough || j.Budget.Over(ctx) {
			return ofPart, err
		}
		warm = &task.WarmStart{
			Model:  ofPart.Result.Model,
			Dual:   spreadDual(ofPart.Result.Dual, rows, p),
			Lambda: ofPart.Lambda,
			Up:     true,
		}
	}
	lambdas, err := pathLambdas(ctx, j, p, warm, s)
	if err != nil {
		return nil, err
	}
	o.Patience, o.Warm = len(lambdas), &solver.Warm{Model: warm.Model, Dual: warm.Dual, New: warm.Entered}
	calls := j.Budget.Calls
	found, err := PathBy(ctx, j, p, lambdas, s, o, nil)
	if ofPart == nil {
		return found, err
	}
	return OrOfPart(ctx, j, ofPart, calls, found, err)
}

// PathBy fits a path of λ by another algorithm and returns the best model, calibrated.
func PathBy(ctx context.Context, j *task.Task, p *solver.Problem, lambdas []float64, s solver.Settings,
	o solver.PathOptions, onStep func(*task.Candidate)) (*task.Candidate, error) {
	best, err := path(ctx, j, p, lambdas, s, o, onStep)
	if err != nil || j.Target.Margin == "" {
		return best, err
	}
	c := j.Calibrate(best.Model)
	best.Scale, best.Model = c.Factor, c.Of(best.Model)
	return best, nil
}

// ModelOn returns the champion's model without its calibration, over a vocabulary. A refit starts from it if its
// versions hold only the model of the convex stage. Of a model by another kernel only the linear term is kept; an
// update of a fold-in that an operator made champion has one.
func ModelOn(j *task.Task, ch *fitted.Fitted, v *encode.Vocabulary) *solver.Model {
	m := MapModel(task.Untempered(ch), ch.Vocabulary, v)
	if !j.Model.Train.ConvexAlone() {
		return m
	}
	if ch.Scale > 0 {
		m = task.Scaled(m, 1/ch.Scale)
	}
	if kernel, err := solver.KernelOf(j.Model.Train.Kernel, j.Model.Train.KernelDegree()); err == nil &&
		m.Kernel != kernel {
		m.Kernel, m.NumBasis, m.Basis, m.Weights = kernel, 0, nil, nil
	}
	return m
}

// VectorsOf returns what the variational stage takes of a model: its basis vectors, made unit vectors, where they are
// of degree 2.
func VectorsOf(j *task.Task, m *solver.Model) *solver.Model {
	if !j.Model.Train.ConvexAlone() {
		return m
	}
	m = MapModel(m, j.Vocab, j.Vocab)
	if m.Kernel.Degree() != 2 {
		m.NumBasis, m.Basis, m.Weights = 0, nil, nil
	}
	return m
}

// KeepsDual reports whether the algorithm keeps dual variables.
func KeepsDual(j *task.Task) bool {
	_, ok := FitAlgorithm(j).(margin.SVM)
	return ok
}

// IdsOf returns the digests of events. Equal ones, whose dual variables are interchangeable, have equal digests.
func IdsOf(events []event.Event) []fitted.RowID {
	ids := make([]fitted.RowID, len(events))
	var row []byte
	for i := range events {
		row = rows.AppendEvent(row[:0], &events[i])
		sum := sha256.Sum256(row)
		copy(ids[i][:], sum[:])
	}
	return ids
}

// DualOf returns the dual variables that a champion has of the training rows: those of rows that have left are dropped,
// and new rows, which entered lists, have 0. Each is nil without any.
func DualOf(j *task.Task, ch *fitted.Fitted) (dual []float64, entered []int32) {
	m := j.Target.Outputs()
	if ch.Dual == nil || j.Rows.RowIDs == nil || ch.Dual.Outputs != m || len(ch.Dual.Values) != m*len(ch.Dual.IDs) {
		return nil, nil
	}
	at := make(map[fitted.RowID][]int, len(ch.Dual.IDs)) // in order, for equal rows
	for i, id := range ch.Dual.IDs {
		at[id] = append(at[id], i)
	}
	dual = make([]float64, len(j.Rows.RowIDs)*m)
	for i, id := range j.Rows.RowIDs {
		if places := at[id]; len(places) > 0 {
			at[id] = places[1:]
			copy(dual[i*m:i*m+m], ch.Dual.Values[places[0]*m:])
		} else {
			entered = append(entered, int32(i))
		}
	}
	return dual, entered
}

// spreadDual returns the dual variables of a problem of which some rows, nil for all, have those given, nil for none.
func spreadDual(dual []float64, rows []int, p *solver.Problem) []float64 {
	if dual == nil || rows == nil {
		return dual
	}
	m := p.Outputs
	out := make([]float64, p.X.NumRows()*m)
	for i, row := range rows {
		copy(out[row*m:row*m+m], dual[i*m:i*m+m])
	}
	return out
}
