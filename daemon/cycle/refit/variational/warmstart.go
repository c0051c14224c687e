package variational

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
	"github.com/refitd/refitd/solver/posterior/sweep"
)

// Continuing returns what a refit starts from, on its vocabulary: the champion as it was before it learned from
// held-out rows, with the training rows since its cut folded in, nil if it starts from nothing. What is live has
// learned from held-out rows: no refit continues from it.
// The fold-in that this took, of the champion's posterior, is returned for the gate; nil without one.
func Continuing(j *task.Task, v *encode.Vocabulary) (*task.WarmStart, *experts.FoldIn) {
	ch := j.Champion
	if ch == nil || j.Cold.Begins {
		return nil, nil
	}
	var folded *experts.FoldIn
	from := ch.StateWithoutHoldout()
	w := &task.WarmStart{
		Lambda:     ch.Lambda,
		Horizon:    ch.Horizon,
		Up:         ch.Version.Version%2 == 0,
		Rows:       ch.Version.Rows,
		Version:    ch.Version.Version,
		Scales:     ch.Vocabulary.Numeric,
		FeatureMap: ch.Vocabulary.Map,
		MapWeights: task.Untempered(ch).Map,
		MapRidge:   ch.MapRidge,
	}
	j.InParallel(func() {
		if from.Posterior != nil {
			folded = gate.FoldRecent(j, j.Target, ch.Vocabulary, from.Posterior)
			w.Posterior = folded.State(v, nil)
		}
	}, func() {
		if from.Gaussian != nil {
			w.Gaussian = gate.FoldRecent(j, experts.GaussianTarget(j.Target), ch.Vocabulary, from.Gaussian).
				State(v, nil)
		}
	})
	w.Dual, w.Entered = convex.DualOf(j, ch)
	if from.Posterior == nil {
		w.Model = convex.ModelOn(j, ch, v)
		return w, folded
	}
	w.Precisions, w.BothPrecisions = lastPrecisions(j)
	w.Lean = leavesConvexOut(j, w)
	switch w.Model = w.Posterior.Model(); {
	case j.Model.Train.ConvexAlone():
		w.Model = convex.ModelOn(j, ch, v)
	case w.Posterior.Group != nil: // its model is of another kernel than the convex stage's
		w.Model = convex.MapModel(ch.Convex, ch.Vocabulary, v)
	}
	return w, folded
}

// RecentOf returns the training rows since the champion's cut, at most MaxBacklog, oldest first.
func RecentOf(j *task.Task, train []event.Event) (recent []event.Event) {
	if j.Champion == nil || j.Champion.Posterior == nil {
		return nil
	}
	for _, i := range SinceChampion(j, len(train)) {
		recent = append(recent, train[i])
	}
	return recent
}

// SinceChampion returns the places of the training rows since the champion's cut, of n, at most MaxBacklog, oldest
// first; none where that is not known.
func SinceChampion(j *task.Task, n int) (recent []int) {
	since, ok := gate.EventsSince(j, j.Champion)
	if !ok || len(j.Rows.Sample.TrainAge) != n {
		return nil
	}
	for i, age := range j.Rows.Sample.TrainAge {
		if age <= since {
			recent = append(recent, i)
		}
	}
	slices.SortStableFunc(recent, func(a, b int) int {
		return cmp.Compare(j.Rows.Sample.TrainAge[b],
			j.Rows.Sample.TrainAge[a])
	})
	return recent[max(0, len(recent)-rows.MaxBacklog):]
}

// LearnHeldOut lets a judged challenger learn from the held-out rows, too: the variational stage once more, from where
// it began and with as many sweeps as were chosen, now over all rows. What was judged is kept in WithoutHoldout for the
// next refit, and the metrics of the version remain those of what was judged. Where the clock ends it, the whole sweeps
// so far count.
func LearnHeldOut(ctx context.Context, j *task.Task, ch *fitted.Fitted, sweeps int) error {
	if sweeps == 0 || len(j.Rows.Select_.Events)+len(j.Rows.Gate.Events) == 0 {
		return nil
	}
	all := AllRows(j)
	var again, gaussian *posterior.State
	var n, numbers int
	var err, failed error
	j.InParallel(func() { again, n, err = sweepAll(ctx, j, j.Stages.Swept, j.Target, all, sweeps) }, func() {
		if ch.Gaussian != nil {
			gaussian, numbers, failed = sweepAll(ctx, j, j.Stages.Gaussian.VariationalFit, experts.GaussianTarget(j.Target),
				all, j.Stages.Gaussian.Sweeps)
		}
	})
	// Not one sweep ended in time: the version stays what was judged.
	if err = cmp.Or(err, failed); err != nil || n == 0 {
		return err
	}
	again, ch.Vectors = withVectors(j, all.Vocab, again, j.Stages.Swept.Ridges)
	before := &fitted.WithoutHoldout{Posterior: MapPosterior(ch.Posterior, j.Vocab, all.Vocab)}
	if ch.Gaussian != nil {
		before.Gaussian = MapPosterior(ch.Gaussian, j.Vocab, all.Vocab)
		gaussian, _ = withVectors(j, all.Vocab, gaussian, j.Stages.Gaussian.Ridges)
		// The Gaussian posterior is optional: where it got no sweep, the one before is as good.
		if ch.Gaussian = gaussian; numbers == 0 {
			ch.Gaussian = before.Gaussian
		}
	}
	ch.Means = j.Criteria.MeansOfAll
	v := &ch.Version
	if v.Sweeps > 0 {
		ch.Model = again.Model()
	} else { // of the convex stage
		ch.Model = convex.MapModel(ch.Model, j.Vocab, all.Vocab)
	}
	if ch.Convex != nil {
		ch.Convex = convex.MapModel(ch.Convex, j.Vocab, all.Vocab)
	}
	// The next refit continues from before: else its held-out rows would be known to what it starts from.
	ch.WithoutHoldout, ch.Posterior, ch.Vocabulary = before, again, all.Vocab
	v.HeldOutSweeps, v.Features = n, all.Vocab.NumColumns()
	return nil
}

// FitAllBaselineMeans returns the baselines of all rows: what consumers get is measured by what knows as much.
func FitAllBaselineMeans(j *task.Task, train, selected, gate []event.Event) *fitted.BaselineMeans {
	weights := j.Rows.Sample.Weights
	if held := len(selected) + len(gate); weights != nil && len(j.Rows.Sample.HeldOutWeights) == held {
		weights = slices.Concat(weights, j.Rows.Sample.HeldOutWeights)
	} else if weights != nil {
		weights = slices.Concat(weights, slices.Repeat([]float64{1}, held))
	}
	return fitted.FitBaselineMeans(j.Target, weights, j.BaselineField(), train, selected, gate)
}

// sweepAll repeats a variational stage with up to n sweeps over all rows. It returns the posterior and how many it got,
// nil for none.
func sweepAll(ctx context.Context, j *task.Task, stage *task.VariationalFit, t *encode.Target, all *allRows,
	n int) (*posterior.State, int, error) {
	p := *j.Rows.Problem
	p.X, p.Weights, p.Field, p.NumFields = all.X, all.Weights, all.Vocab.Field, all.Vocab.NumFields()
	p.Outputs, p.Loss, p.Targets = t.Outputs(), t.Loss, all.Targets
	// GaussianTarget: one number in place of the thresholds of an ordinal label.
	if p.Outputs != j.Target.Outputs() {
		p.Targets = experts.Levels((&encode.Encoded{Targets: all.Targets}), j.Target.Outputs())
	}
	// From where the stage began, not from where it ended: training rows would count twice.
	state := MapPosterior(stage.Start, j.Vocab, all.Vocab)
	stage.Start = nil                       // its memory is not needed any more
	limit := PriorFor(t.Likelihood, &p).Cap // what stage.Uncapped leaves out, as fitVariational chose
	if stage.Uncapped {
		limit = math.Inf(1)
	}
	refit, err := sweep.NewRefit(state, &p, limit, j.Workers)
	if err != nil {
		return nil, 0, err
	}
	refit.Yield, refit.Deadline = j.Yield, j.Budget.Deadline
	var last *posterior.State
	for done := range n {
		if _, err := refit.Sweep(ctx); task.IsInterrupted(err) {
			return last, done, nil
		} else if err != nil {
			return nil, 0, err
		}
		if done+1 == n {
			return state, n, nil
		}
		last = state.Clone() // an interrupted sweep leaves state between two
	}
	return nil, 0, nil
}

// allRows are the rows of a sample together: training, select and gate rows, over a vocabulary that has the names of
// all of them.
type allRows struct {
	Vocab   *encode.Vocabulary
	X       *solver.Rows
	Targets []float64
	Weights []float64 // nil: every row counts once
}

// AllRows encodes the held-out rows over a vocabulary with their names, and moves the training rows to it, column by
// column.
func AllRows(j *task.Task) *allRows {
	held := slices.Concat(j.Rows.Select_.Events, j.Rows.Gate.Events)
	all := &allRows{
		Vocab:   covering(j.Vocab, held, j.Model.Train.MaxFeatures),
		Targets: slices.Concat(j.Rows.Train.Targets, j.Rows.Select_.Targets, j.Rows.Gate.Targets),
	}
	n := j.Rows.Train.X.NumRows()
	entries := len(j.Rows.Train.X.Index)
	all.X = solver.NewRows(all.Vocab.NumColumns(), n+len(held), entries+entries/max(1, n)*len(held))
	to := columnsIn(j.Vocab, all.Vocab)
	var index []int32
	var value []float64
	for i := range n {
		columns, values := j.Rows.Train.X.Row(i)
		index = index[:0]
		for _, column := range columns {
			index = append(index, to[column])
		}
		all.X.Append(index, values)
	}
	for i := range held {
		index, value = all.Vocab.Encode(index[:0], value[:0], &held[i])
		all.X.Append(index, value)
	}
	if j.Rows.Weights != nil && len(j.Rows.Sample.HeldOutWeights) == len(held) {
		all.Weights = slices.Concat(j.Rows.Weights, j.Rows.Sample.HeldOutWeights)
	} else if j.Rows.Weights != nil {
		all.Weights = append(slices.Clone(j.Rows.Weights), make([]float64, len(held))...)
		for i := range held {
			all.Weights[n+i] = 1
		}
	}
	// Held-out rows fade with the half-life that was chosen on the training rows.
	if j.Choices.HalfLife > 0 && len(j.Rows.Sample.SelectAge)+len(j.Rows.Sample.GateAge) == len(held) {
		all.Weights = fitted.Decayed(all.Weights,
			slices.Concat(j.Rows.Sample.TrainAge, j.Rows.Sample.SelectAge, j.Rows.Sample.GateAge),
			fitted.HalfLives[j.Choices.HalfLife])
	}
	return all
}

// covering returns the vocabulary with the names of more events, at most limit names in all: the most frequent first,
// then by field and name. The scaling stays.
func covering(v *encode.Vocabulary, events []event.Event, limit int) *encode.Vocabulary {
	out := new(encode.Vocabulary)
	*out = *v
	out.Names, out.Index, out.Field = make([][]string, len(v.Names)), nil, nil
	rows := make(map[experts.FeatureName]int)
	count := func(field int, name string) {
		if name != "" && v.Column(field, name) < 0 { // neither absent nor known
			rows[experts.FeatureName{Field: field, Name: name}]++
		}
	}
	for i := range events {
		for f, name := range events[i].Categorical {
			count(f, name)
		}
		for f, names := range events[i].Multi {
			for _, name := range names {
				count(len(events[i].Categorical)+f, name)
			}
		}
	}
	fresh := make([]encode.NameCount, 0, len(rows))
	for n, r := range rows {
		fresh = append(fresh, encode.NameCount{Field: n.Field, Name: n.Name, Rows: r})
	}
	slices.SortFunc(fresh, func(a, b encode.NameCount) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Name, b.Name))
	})
	for f, names := range v.Names {
		out.Names[f] = slices.Clone(names)
	}
	for _, n := range fresh[:min(len(fresh), max(0, limit-int(v.NumNames())))] {
		out.Names[n.Field] = append(out.Names[n.Field], n.Name)
	}
	for _, names := range out.Names {
		slices.Sort(names)
	}
	out.Number()
	return out
}

// columnsIn returns for each column of the vocabulary its column in one that has all its names.
func columnsIn(v *encode.Vocabulary, to *encode.Vocabulary) []int32 {
	out := make([]int32, 0, v.NumColumns())
	for f, names := range v.Names {
		for _, name := range names {
			out = append(out, to.Column(f, name))
		}
	}
	// Numbers and the constant are the last columns of either, in the same order.
	for e := v.NumColumns() - len(out); e > 0; e-- {
		out = append(out, int32(to.NumColumns()-e))
	}
	return out
}

// MapPosterior maps a posterior onto another vocabulary by name: features that are new to it have the prior of their
// field. nil stays nil.
func MapPosterior(s *posterior.State, from, to *encode.Vocabulary) *posterior.State {
	if s == nil {
		return nil
	}
	features := make([]online.Feature, 0, to.NumColumns())
	for f, names := range to.Names {
		for _, name := range names {
			features = append(features, online.Feature{Field: int32(f), Row: -1, Base: from.Column(f, name)})
		}
	}
	for f := len(to.Names); f < to.NumFields(); f++ {
		features = append(features,
			online.Feature{Field: int32(f), Row: -1, Base: int32(from.NumColumns() - from.NumFields() + f)})
	}
	// A fold-in without events is the posterior itself, over any list of features.
	out := online.NewFoldIn(s, make([][]float64, s.NumFields)).State(features, nil)
	encode.RescalePosterior(out, from, to)
	return out
}
