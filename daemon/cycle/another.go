package cycle

import (
	"context"
	"crypto/sha256"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
)

// Refits by other algorithms than ConditionalGradient: a path over λ, then one solve, and what a refit of each goes on from.

// another returns the algorithm of the model unless it is ConditionalGradient, nil if it is.
func (j *refitJob) another() solver.Algorithm {
	a, err := j.model.Algorithm()
	if err != nil || a == (solver.ConditionalGradient{}) { // settings returns the error
		return nil
	}
	return a
}

// coldPatience is how many λ in a row of a cold refit by another algorithm are no better than the best before it tries no more. Those of an SVM are all tried:
// strong ones classify alike, and cost little.
const coldPatience = 1

// fitBy fits the sample by another algorithm. From nothing it finds λ by a path over at most pathRows rows, of an SVM by rough solves; a warm refit chooses
// between the last λ and one beside it, on all rows. Models are judged on the select rows as each solve ends: steps in between have neither a gap nor dual
// variables.
func (j *refitJob) fitBy(ctx context.Context, a solver.Algorithm, warm *warmStart, s solver.Settings, judge func(*solver.Model) float64) (*candidate, error) {
	var ofPart *candidate
	p, o := j.problem, solver.PathOptions{Algorithm: a, FinalOnly: true, Judge: judge, Patience: coldPatience}
	if warm == nil {
		part, rows := p, []int(nil)
		if n := p.X.NumRows(); n > pathRows {
			rows = evenly(n, pathRows)
			part = pick(p, rows)
		}
		lambdas, err := j.lambdasFor(ctx, part, s)
		if err != nil {
			return nil, err
		}
		path := s
		if j.keepsDual() && len(lambdas) > 1 {
			path.Rough, o.Patience = true, len(lambdas)
		}
		ofPart, err = j.pathBy(ctx, part, lambdas, path, o, nil)
		if err != nil || part == p && !path.Rough || j.budget.over(ctx) {
			return ofPart, err
		}
		warm = &warmStart{model: ofPart.result.Model, dual: spreadDual(ofPart.result.Dual, rows, p), lambda: ofPart.lambda, up: true}
	}
	lambdas, err := j.lambdasBeside(ctx, p, warm, s)
	if err != nil {
		return nil, err
	}
	o.Patience, o.Warm = len(lambdas), &solver.Warm{Model: warm.model, Dual: warm.dual, New: warm.entered}
	calls := j.budget.calls
	found, err := j.pathBy(ctx, p, lambdas, s, o, nil)
	if ofPart == nil {
		return found, err
	}
	return j.orOfPart(ctx, ofPart, calls, found, err)
}

// pathBy fits a path of λ by another algorithm and returns the best model, calibrated.
func (j *refitJob) pathBy(ctx context.Context, p *solver.Problem, lambdas []float64, s solver.Settings, o solver.PathOptions,
	onStep func(*candidate)) (*candidate, error) {
	best, err := j.path(ctx, p, lambdas, s, o, onStep)
	if err != nil || j.target.Margin == "" {
		return best, err
	}
	c := j.calibrate(best.model)
	best.scale, best.model = c.factor, c.of(best.model)
	return best, nil
}

// fittedOn returns what a refit whose versions hold the model of the convex stage alone goes on from, over a vocabulary: the champion's model without its
// calibration. Of one by another kernel, as an update of a fold-in has that somebody made champion, its linear term is left.
func (j *refitJob) fittedOn(ch *Champion, v *Vocabulary) *solver.Model {
	m := mapModel(ch.Model, ch.Vocabulary, v)
	if !j.model.Train.ConvexAlone() {
		return m
	}
	if ch.scale > 0 {
		m = scaled(m, 1/ch.scale)
	}
	if kernel, err := solver.KernelOf(j.model.Train.Kernel, j.model.Train.KernelDegree()); err == nil && m.Kernel != kernel {
		m.Kernel, m.NumBasis, m.Basis, m.Weights = kernel, 0, nil, nil
	}
	return m
}

// vectorsOf returns what the variational stage takes of a model: its basis vectors, made unit vectors, where they are of degree 2.
func (j *refitJob) vectorsOf(m *solver.Model) *solver.Model {
	if !j.model.Train.ConvexAlone() {
		return m
	}
	m = mapModel(m, j.vocab, j.vocab)
	if m.Kernel.Degree() != 2 {
		m.NumBasis, m.Basis, m.Weights = 0, nil, nil
	}
	return m
}

// rowID is the digest of a row: what it is known by from refit to refit.
type rowID [16]byte

// rowDual are dual variables by row, as the next refit goes on from them.
type rowDual struct {
	IDs     []rowID
	Outputs int
	Values  []float64 // of each row in turn, Outputs numbers
}

// keepsDual reports whether the algorithm keeps dual variables.
func (j *refitJob) keepsDual() bool {
	_, ok := j.another().(margin.SVM)
	return ok
}

// idsOf returns the digests of events. Equal ones, whose dual variables are interchangeable, have equal digests.
func idsOf(events []event.Event) []rowID {
	ids := make([]rowID, len(events))
	var row []byte
	for i := range events {
		row = AppendEvent(row[:0], &events[i])
		sum := sha256.Sum256(row)
		copy(ids[i][:], sum[:])
	}
	return ids
}

// dualOf returns the dual variables that a champion has of the training rows: those of rows that have left are dropped, and new rows, which entered
// lists, have 0. Each is nil without any.
func (j *refitJob) dualOf(ch *Champion) (dual []float64, entered []int32) {
	m := j.target.Outputs()
	if ch.dual == nil || j.rowIDs == nil || ch.dual.Outputs != m || len(ch.dual.Values) != m*len(ch.dual.IDs) {
		return nil, nil
	}
	at := make(map[rowID][]int, len(ch.dual.IDs)) // in order, for equal rows
	for i, id := range ch.dual.IDs {
		at[id] = append(at[id], i)
	}
	dual = make([]float64, len(j.rowIDs)*m)
	for i, id := range j.rowIDs {
		if places := at[id]; len(places) > 0 {
			at[id] = places[1:]
			copy(dual[i*m:i*m+m], ch.dual.Values[places[0]*m:])
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
