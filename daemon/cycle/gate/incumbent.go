package gate

import (
	"fmt"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
)

// A Incumbent is what a challenger is compared with.
type Incumbent struct {
	name    string // in words
	losses  heldLosses
	metrics *report.Metrics // on the gate rows, nil if it is no version
	job     *task.Task
	unseen  float64 // it has not learned from held-out rows after which fewer events were applied; +Inf: from none
}

// heldLosses are the losses of one predictor on the select and the gate rows.
type heldLosses struct{ chosen, gate []float64 }

// lossesOf scores a model on the held-out rows.
func lossesOf(j *task.Task, model *solver.Model, vocab *encode.Vocabulary) heldLosses {
	return heldLosses{partLosses(j, j.Rows.Select_, model, vocab, nil), partLosses(j, j.Rows.Gate, model, vocab, nil)}
}

// partLosses scores a model on a part of the sample, and adds what it predicts to a quality that is not nil.
func partLosses(j *task.Task, part *encode.Encoded, model *solver.Model, vocab *encode.Vocabulary,
	quality *evaluate.Quality) []float64 {
	if j.Criteria.Lists != nil {
		if quality != nil {
			whole := j.Criteria.Lists.Whole
			eachOutputs(j, whole, model, vocab,
				func(i int, outputs, targets []float64) { quality.Add(&whole.Events[i], outputs, targets) })
		}
		return j.ListsOf(part, model, vocab).Losses
	}
	losses := make([]float64, len(part.Events))
	eachOutputs(j, part, model, vocab, func(i int, outputs, targets []float64) {
		losses[i] = j.Target.Judged(&part.Events[i], outputs, targets)
		if quality != nil {
			quality.Add(&part.Events[i], outputs, targets)
		}
	})
	return losses
}

// eachOutputs calls f with the outputs of a model over a vocabulary for every row.
func eachOutputs(j *task.Task, part *encode.Encoded, model *solver.Model, vocab *encode.Vocabulary,
	f func(i int, outputs, targets []float64)) {
	if vocab == j.Vocab {
		part.Each(j.Target, model, f)
		return
	}
	scorer, m := fitted.NewScorer(model, vocab), j.Target.Outputs()
	outputs := make([]float64, m)
	for i := range part.Events {
		scorer.Outputs(outputs, &part.Events[i])
		f(i, outputs, part.Targets[i*m:i*m+m])
	}
}

// newIncumbent returns what the challenger is compared with: the champion as it was judged, with the training rows
// since its cut folded in where consumers have an update of it, unless versions hold the convex stage's model alone. A
// version of which that is not known has learned from held-out rows and is compared on those that came after its cut.
func newIncumbent(j *task.Task) *Incumbent {
	const unreadable = ", in place of the champion, which cannot be read,"
	switch {
	case j.Champion != nil:
		ch := j.Champion
		r := version(j, "champion", ch, ch.ModelWithoutHoldout(), ch.Vocabulary)
		if j.Updated && ch.Posterior != nil &&
			!j.Model.Train.ConvexAlone() { // else challengers have no posterior in them
			folded := j.Stages.Folded
			if folded == nil { // the refit started from nothing
				folded = FoldRecent(j, j.Target, ch.Vocabulary, ch.StateWithoutHoldout().Posterior)
			}
			model, vocab := folded.Model(j.Model.Train.MaxFeatures)
			r = version(j, "champion with what was folded in since", ch, model, vocab)
		}
		return r
	case j.Fallback.Version != nil && Comparable(j, j.Fallback.Version):
		ch := j.Fallback.Version
		return version(j, fmt.Sprintf("version %d%s", ch.Version.Version, unreadable), ch, ch.ModelWithoutHoldout(),
			ch.Vocabulary)
	}
	losses, name := withoutModel(j)
	return &Incumbent{name: name + unreadable, losses: losses, unseen: math.Inf(1), job: j}
}

// version returns a model of a version as a rival.
func version(j *task.Task, name string, of *fitted.Fitted, model *solver.Model, vocab *encode.Vocabulary) *Incumbent {
	if model = j.Listed(of, model); j.Criteria.Lists != nil && of.Popular == nil { // its popularity is part of the model
		model = j.Criteria.Lists.Popular.Off(model, vocab)
	}
	quality := evaluate.NewQuality(j.Target, nil)
	losses := heldLosses{partLosses(j, j.Rows.Select_, model, vocab, nil), partLosses(j, j.Rows.Gate, model, vocab,
		quality)}
	r := &Incumbent{name: name, losses: losses, metrics: quality.Metrics(), unseen: math.Inf(1), job: j}
	// Its state before held-out rows is not known, so neither is what it has not seen: rows after its cut, at least.
	if of.WithoutHoldout == nil && (of.Version.HeldOutSweeps > 0 || of.Version.Kind == "update") && hasAges(j) {
		if since, ok := EventsSince(j, of); ok {
			r.unseen = since
		}
	}
	return r
}

// scores returns the losses of a challenger and of the rival on the gate rows and on the select rows that the rival has
// not learned from.
func (r *Incumbent) scores(own heldLosses) (gate, chosen *scores) {
	j := r.job
	of := func(own, rival, age, weights []float64) (s *scores, rows []int) {
		s = &scores{least: j.Criteria.Least}
		for i := range own {
			// Older than the cut of the rival: it may have learned from this row.
			if !math.IsInf(r.unseen, 1) && age[i] > r.unseen {
				continue
			}
			rows = append(rows, i)
			s.loss, s.against = append(s.loss, own[i]), append(s.against, rival[i])
			if weights != nil {
				s.weights = append(s.weights, weights[i])
			}
		}
		return s, rows
	}
	gate, judging := of(own.gate, r.losses.gate, j.Rows.Sample.GateAge, gateWeights(j))
	chosen, choosing := of(own.chosen, r.losses.chosen, j.Rows.Sample.SelectAge, j.ChosenBy(j.SelectCounts(),
		j.Rows.Select_.Events))
	row, label := j.Plausible()
	gate.most, chosen.most = row, row
	if hides(j, choosing, judging) {
		gate.hidden, chosen.hidden = label, label
	}
	return gate, chosen
}

// OnesOf returns which rows of a part have the binary label 1, nil of other labels.
func OnesOf(j *task.Task, part *encode.Encoded) (ones []bool) {
	if j.Target.Task != event.Binary {
		return nil
	}
	for i := range part.Events {
		ones = append(ones, part.Events[i].Label > 0)
	}
	return ones
}

// hasAges reports whether the ages of the held-out rows are known.
func hasAges(j *task.Task) bool {
	return len(j.Rows.Sample.GateAge) == len(j.Rows.Gate.Events) && len(j.Rows.Sample.SelectAge) == len(
		j.Rows.Select_.Events)
}

// EventsSince returns how many events were applied since the cut of a version, if that is known.
func EventsSince(j *task.Task, of *fitted.Fitted) (float64, bool) {
	if of.Events == nil || of.Lineage != j.Rows.Sample.Lineage || of.Events.Applied > j.Rows.Sample.Events.Applied {
		return 0, false
	}
	return float64(j.Rows.Sample.Events.Applied - of.Events.Applied), true
}

// withoutModel returns the losses of a prediction without a model: of numbers of the better of the two means of the
// training rows, of classes of outputs that are all 0.
func withoutModel(j *task.Task) (losses heldLosses, name string) {
	if !j.Target.IsNumeric() {
		return constant(j, make([]float64, j.Target.Outputs())), "outputs that are all 0"
	}
	global := lossesBy(j.Criteria.Means, j, -1)
	field := j.BaselineField()
	if field < 0 {
		return global, "the mean"
	}
	item := lossesBy(j.Criteria.Means, j, field)
	both := scores{loss: item.gate, against: global.gate, weights: gateWeights(j)}
	if c := both.compare(both.all(), 0, &scores{}); c.loss < c.against {
		return item, "the mean by " + j.Model.Evaluate.BaselineBy
	}
	return global, "the mean"
}

// constant returns the losses of outputs that are the same for every event.
func constant(j *task.Task, outputs []float64) heldLosses {
	m := j.Target.Outputs()
	of := func(part *encode.Encoded) []float64 {
		out := make([]float64, len(part.Events))
		for i := range out {
			out[i] = j.Target.Judged(&part.Events[i], outputs, part.Targets[i*m:i*m+m])
		}
		return out
	}
	return heldLosses{of(j.Rows.Select_), of(j.Rows.Gate)}
}

// lossesBy returns the losses of the mean label, by a field where that is known, or of all for a field of -1.
func lossesBy(m *fitted.BaselineMeans, j *task.Task, field int) heldLosses {
	of := func(part *encode.Encoded) []float64 {
		out := make([]float64, len(part.Events))
		for i := range out {
			ev, mean := &part.Events[i], m.Global
			if field >= 0 {
				if v, ok := m.ByName[ev.Categorical[field]]; ok {
					mean = v
				}
			}
			e := j.Target.Clip(mean) - ev.Label
			out[i] = e * e
		}
		return out
	}
	return heldLosses{of(j.Rows.Select_), of(j.Rows.Gate)}
}
