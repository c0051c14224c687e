package cycle

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// clean are the posteriors of a refit that have not seen a held-out row, over the vocabulary of the champion: what the next refit continues from, and
// what the next challenger is compared with.
type clean struct {
	posterior *posterior.State
	gaussian  *posterior.State // of gaussianTarget; nil without one
}

// cleanState returns the posteriors of a champion that have seen no held-out row.
func (ch *Champion) cleanState() clean {
	if ch.clean != nil {
		return *ch.clean
	}
	return clean{ch.posterior, ch.gaussian}
}

// cleanModel returns the champion's model as it was judged: before it learned from held-out rows.
func (ch *Champion) cleanModel() *solver.Model {
	if ch.clean != nil && ch.Version.Sweeps > 0 { // else the model is of the convex stage, which is not swept
		return ch.clean.posterior.Model()
	}
	return ch.Model
}

// warmStart is what a refit continues from, on its own vocabulary.
type warmStart struct {
	model          *solver.Model
	posterior      *posterior.State // nil without a variational stage
	gaussian       *posterior.State // that of gaussianTarget
	lambda         float64
	horizon        int
	rows           int64           // of the champion's refit
	version        int64           // of the champion
	up             bool            // look for a better λ above the last one, else below
	precisions     precisionChoice // of the champion
	bothPrecisions bool            // by lastPrecisions
	dual           []float64       // of the rows of the refit, n×m; nil without
	entered        []int32         // rows that dual knows nothing of; nil for those without any that is not 0
	lean           bool            // the convex stage is left out where it cannot win, by leavesConvexOut

	scales     []snapshot.NumericField
	featureMap *snapshot.FeatureMap // nil without
	mapWeights []float64            // of the champion on it; nil without
	mapRidge   float64
}

// continuing returns what a refit starts from, on its vocabulary: the champion as it was before it learned from held-out rows, with the training rows
// since its cut folded in, nil if it starts from nothing. What is live has learned from held-out rows: no refit continues from it.
func (j *refitJob) continuing(v *Vocabulary) *warmStart {
	ch := j.champion
	if ch == nil || j.cold.begins {
		return nil
	}
	from := ch.cleanState()
	w := &warmStart{lambda: ch.Lambda, horizon: ch.horizon, up: ch.Version.Version%2 == 0, rows: ch.Version.Rows, version: ch.Version.Version,
		scales: ch.Vocabulary.Numeric, featureMap: ch.Vocabulary.Map, mapWeights: ch.Model.Map, mapRidge: ch.mapRidge}
	j.beside(func() {
		if from.posterior != nil {
			j.folded = j.foldRecent(j.target, ch.Vocabulary, from.posterior)
			w.posterior = j.folded.state(v, nil)
		}
	}, func() {
		if from.gaussian != nil {
			w.gaussian = j.foldRecent(gaussianTarget(j.target), ch.Vocabulary, from.gaussian).state(v, nil)
		}
	})
	w.dual, w.entered = j.dualOf(ch)
	if from.posterior == nil {
		w.model = j.fittedOn(ch, v)
		return w
	}
	w.precisions, w.bothPrecisions = j.lastPrecisions()
	w.lean = j.leavesConvexOut(w)
	switch w.model = w.posterior.Model(); {
	case j.model.Train.ConvexAlone():
		w.model = j.fittedOn(ch, v)
	case w.posterior.Group != nil: // its model is of another kernel than the convex stage's
		w.model = mapModel(ch.convex, ch.Vocabulary, v)
	}
	return w
}

// keepRecent keeps the training rows since the champion's cut, at most maxBacklog, oldest first.
func (j *refitJob) keepRecent(train []event.Event) {
	if j.champion == nil || j.champion.posterior == nil {
		return
	}
	for _, i := range j.sinceChampion(len(train)) {
		j.recent = append(j.recent, train[i])
	}
}

// sinceChampion returns the places of the training rows since the champion's cut, of n, at most maxBacklog, oldest first; none where that is not known.
func (j *refitJob) sinceChampion(n int) (recent []int) {
	since, ok := j.eventsSince(j.champion)
	if !ok || len(j.sample.TrainAge) != n {
		return nil
	}
	for i, age := range j.sample.TrainAge {
		if age <= since {
			recent = append(recent, i)
		}
	}
	slices.SortStableFunc(recent, func(a, b int) int { return cmp.Compare(j.sample.TrainAge[b], j.sample.TrainAge[a]) })
	return recent[max(0, len(recent)-maxBacklog):]
}

// foldRecent returns the fold-in on a posterior over a vocabulary, after the training rows since the champion's cut.
func (j *refitJob) foldRecent(t *Target, v *Vocabulary, on *posterior.State) *posteriorLearner {
	l := newPosteriorLearner(j.model, j.schema, t, &Champion{Vocabulary: v, posterior: on})
	if !j.model.Train.FoldIn.Enabled {
		return l
	}
	targets := make([]float64, t.Outputs())
	limits, counts := newEntityCap(j.model, j.schema), new(counted)
	heaviest := j.sample.heaviest()
	for i := range j.recent {
		if ev := j.recent[i]; t.Encode(targets, &ev) { // a copy: both fold-ins learn from these rows at once
			limits.take(counts, &ev, Position{})
			l.gather(&ev)
			ev.Weight = min(ev.Weight, heaviest)
			learnPart(l, &ev, targets, counts)
		}
	}
	return l
}

// learnHeldOut lets a judged challenger learn from the held-out rows, too: the variational stage once more, from where it began and with as many sweeps
// as were chosen, now over all rows. What was judged is kept beside for the next refit, and metrics of the version stay those of it. Where the clock
// ends it, the whole sweeps so far count.
func (j *refitJob) learnHeldOut(ctx context.Context, ch *Champion, sweeps int) error {
	if sweeps == 0 || len(j.select_.events)+len(j.gate.events) == 0 {
		return nil
	}
	all := j.allRows()
	var again, gaussian *posterior.State
	var n, numbers int
	var err, failed error
	j.beside(func() { again, n, err = j.sweepAll(ctx, j.swept, j.target, all, sweeps) }, func() {
		if ch.gaussian != nil {
			gaussian, numbers, failed = j.sweepAll(ctx, j.sweptGaussian, gaussianTarget(j.target), all, j.sweptGaussian.sweeps)
		}
	})
	if err = cmp.Or(err, failed); err != nil || n == 0 {
		return err
	}
	before := &clean{posterior: mapPosterior(ch.posterior, j.vocab, all.vocab)}
	if ch.gaussian != nil {
		before.gaussian = mapPosterior(ch.gaussian, j.vocab, all.vocab)
		if ch.gaussian = gaussian; numbers == 0 {
			ch.gaussian = before.gaussian
		}
	}
	ch.means = j.meansOfAll
	v := &ch.Version
	if v.Sweeps > 0 {
		ch.Model = again.Model()
	} else { // of the convex stage
		ch.Model = mapModel(ch.Model, j.vocab, all.vocab)
	}
	if ch.convex != nil {
		ch.convex = mapModel(ch.convex, j.vocab, all.vocab)
	}
	ch.clean, ch.posterior, ch.Vocabulary = before, again, all.vocab
	v.HeldOutSweeps, v.Features = n, all.vocab.NumColumns()
	return nil
}

// fitMeansOfAll returns the baselines of all rows: what consumers get is measured by what knows as much.
func (j *refitJob) fitMeansOfAll(train, selected, gate []event.Event) *means {
	weights := j.sample.Weights
	if held := len(selected) + len(gate); weights != nil && len(j.sample.HeldOutWeights) == held {
		weights = slices.Concat(weights, j.sample.HeldOutWeights)
	} else if weights != nil {
		weights = slices.Concat(weights, slices.Repeat([]float64{1}, held))
	}
	return fitMeans(j.target, weights, j.baselineField(), train, selected, gate)
}

// sweepAll repeats a variational stage with up to n sweeps over all rows. It returns the posterior and how many it got, nil for none.
func (j *refitJob) sweepAll(ctx context.Context, stage *variationalFit, t *Target, all *allRows, n int) (*posterior.State, int, error) {
	p := *j.problem
	p.X, p.Weights, p.Field, p.NumFields = all.x, all.weights, all.vocab.field, all.vocab.NumFields()
	p.Outputs, p.Loss, p.Targets = t.Outputs(), t.Loss, all.targets
	if p.Outputs != j.target.Outputs() {
		p.Targets = (&encoded{targets: all.targets}).levels(j.target.Outputs())
	}
	state := mapPosterior(stage.start, j.vocab, all.vocab)
	stage.start = nil // its memory is not needed any more
	limit := priorFor(t.Likelihood, &p).Cap
	if stage.uncapped {
		limit = math.Inf(1)
	}
	refit, err := posterior.NewRefit(state, &p, limit, j.workers)
	if err != nil {
		return nil, 0, err
	}
	refit.Yield, refit.Deadline = j.yield, j.budget.deadline
	var last *posterior.State
	for done := range n {
		if _, err := refit.Sweep(ctx); IsInterrupted(err) {
			return last, done, nil
		} else if err != nil {
			return nil, 0, err
		}
		last = state.Clone()
	}
	return last, n, nil
}

// allRows are the rows of a sample together: training, select and gate rows, over a vocabulary that has the names of all of them.
type allRows struct {
	vocab   *Vocabulary
	x       *solver.Rows
	targets []float64
	weights []float64 // nil: every row counts once
}

func (j *refitJob) allRows() *allRows {
	held := slices.Concat(j.select_.events, j.gate.events)
	all := &allRows{vocab: j.vocab.covering(held, j.model.Train.MaxFeatures), targets: slices.Concat(j.train.targets, j.select_.targets, j.gate.targets)}
	n := j.train.x.NumRows()
	entries := len(j.train.x.Index)
	all.x = solver.NewRows(all.vocab.NumColumns(), n+len(held), entries+entries/max(1, n)*len(held))
	to := j.vocab.columnsIn(all.vocab)
	var index []int32
	var value []float64
	for i := range n {
		columns, values := j.train.x.Row(i)
		index = index[:0]
		for _, column := range columns {
			index = append(index, to[column])
		}
		all.x.Append(index, values)
	}
	for i := range held {
		index, value = all.vocab.Encode(index[:0], value[:0], &held[i])
		all.x.Append(index, value)
	}
	if j.weights != nil && len(j.sample.HeldOutWeights) == len(held) {
		all.weights = slices.Concat(j.weights, j.sample.HeldOutWeights)
	} else if j.weights != nil {
		all.weights = append(slices.Clone(j.weights), make([]float64, len(held))...)
		for i := range held {
			all.weights[n+i] = 1
		}
	}
	if j.horizon > 0 && len(j.sample.SelectAge)+len(j.sample.GateAge) == len(held) {
		all.weights = decayed(all.weights, slices.Concat(j.sample.TrainAge, j.sample.SelectAge, j.sample.GateAge), horizons[j.horizon])
	}
	return all
}

// covering returns the vocabulary with the names of more events, at most limit names in all: the most frequent first, then by field and name. The
// scaling stays.
func (v *Vocabulary) covering(events []event.Event, limit int) *Vocabulary {
	out := new(Vocabulary)
	*out = *v
	out.Names, out.index, out.field = make([][]string, len(v.Names)), nil, nil
	rows := make(map[featureName]int)
	count := func(field int, name string) {
		if name != "" && v.Column(field, name) < 0 { // neither absent nor known
			rows[featureName{field, name}]++
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
	fresh := make([]nameCount, 0, len(rows))
	for n, r := range rows {
		fresh = append(fresh, nameCount{n.field, n.name, r})
	}
	slices.SortFunc(fresh, func(a, b nameCount) int {
		return cmp.Or(cmp.Compare(b.rows, a.rows), cmp.Compare(a.field, b.field), cmp.Compare(a.name, b.name))
	})
	for f, names := range v.Names {
		out.Names[f] = slices.Clone(names)
	}
	for _, n := range fresh[:min(len(fresh), max(0, limit-int(v.numNames())))] {
		out.Names[n.field] = append(out.Names[n.field], n.name)
	}
	for _, names := range out.Names {
		slices.Sort(names)
	}
	out.number()
	return out
}

// columnsIn returns for each column of the vocabulary its column in one that has all its names.
func (v *Vocabulary) columnsIn(to *Vocabulary) []int32 {
	out := make([]int32, 0, v.NumColumns())
	for f, names := range v.Names {
		for _, name := range names {
			out = append(out, to.Column(f, name))
		}
	}
	for e := v.NumColumns() - len(out); e > 0; e-- {
		out = append(out, int32(to.NumColumns()-e))
	}
	return out
}

// mapPosterior maps a posterior onto another vocabulary by name: features that are new to it have the prior of their field. nil stays nil.
func mapPosterior(s *posterior.State, from, to *Vocabulary) *posterior.State {
	if s == nil {
		return nil
	}
	features := make([]posterior.Feature, 0, to.NumColumns())
	for f, names := range to.Names {
		for _, name := range names {
			features = append(features, posterior.Feature{Field: int32(f), Row: -1, Base: from.Column(f, name)})
		}
	}
	for f := len(to.Names); f < to.NumFields(); f++ {
		features = append(features, posterior.Feature{Field: int32(f), Row: -1, Base: int32(from.NumColumns() - from.NumFields() + f)})
	}
	out := posterior.NewFoldIn(s, make([][]float64, s.NumFields)).State(features, nil)
	rescalePosterior(out, from, to)
	return out
}
