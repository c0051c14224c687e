package cycle

import (
	"fmt"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
)

// A rival is what a challenger is compared with.
type rival struct {
	name    string // in words
	losses  heldLosses
	metrics *report.Metrics // on the gate rows, nil if it is no version
	job     *refitJob
	unseen  float64 // it has not learned from held-out rows after which fewer events were applied; +Inf: from none
}

// heldLosses are the losses of one predictor on the select and the gate rows.
type heldLosses struct{ chosen, gate []float64 }

// lossesOf scores a model on the held-out rows.
func (j *refitJob) lossesOf(model *solver.Model, vocab *Vocabulary) heldLosses {
	return heldLosses{j.partLosses(j.select_, model, vocab, nil), j.partLosses(j.gate, model, vocab, nil)}
}

// partLosses scores a model on a part of the sample, and adds what it predicts to a quality that is not nil.
func (j *refitJob) partLosses(part *encoded, model *solver.Model, vocab *Vocabulary, quality *Quality) []float64 {
	if j.lists != nil {
		if quality != nil {
			whole := j.lists.whole
			j.eachOutputs(whole, model, vocab, func(i int, outputs, targets []float64) { quality.Add(&whole.events[i], outputs, targets) })
		}
		return j.listsOf(part, model, vocab).losses
	}
	losses := make([]float64, len(part.events))
	j.eachOutputs(part, model, vocab, func(i int, outputs, targets []float64) {
		losses[i] = j.target.Judged(&part.events[i], outputs, targets)
		if quality != nil {
			quality.Add(&part.events[i], outputs, targets)
		}
	})
	return losses
}

// eachOutputs calls f with the outputs of a model over a vocabulary for every row.
func (j *refitJob) eachOutputs(part *encoded, model *solver.Model, vocab *Vocabulary, f func(i int, outputs, targets []float64)) {
	if vocab == j.vocab {
		part.each(j.target, model, f)
		return
	}
	scorer, m := newScorer(model, vocab), j.target.Outputs()
	outputs := make([]float64, m)
	for i := range part.events {
		scorer.outputs(outputs, &part.events[i])
		f(i, outputs, part.targets[i*m:i*m+m])
	}
}

// rival returns what the challenger is compared with: the champion as it was judged, with the training rows since its cut folded in where consumers
// have an update of it, unless versions hold the convex stage's model alone. A version of which that is not known has learned from held-out rows and is
// compared on those that came after its cut.
func (j *refitJob) rival() *rival {
	const unreadable = ", in place of the champion, which cannot be read,"
	switch {
	case j.champion != nil:
		ch := j.champion
		r := j.version("champion", ch, ch.cleanModel(), ch.Vocabulary)
		if j.updated && ch.posterior != nil && !j.model.Train.ConvexAlone() { // else challengers have no posterior in them
			if j.folded == nil {
				j.folded = j.foldRecent(j.target, ch.Vocabulary, ch.cleanState().posterior)
			}
			model, vocab := j.folded.model(j.model.Train.MaxFeatures)
			r = j.version("champion with what was folded in since", ch, model, vocab)
		}
		return r
	case j.instead.version != nil && j.comparable(j.instead.version):
		ch := j.instead.version
		return j.version(fmt.Sprintf("version %d%s", ch.Version.Version, unreadable), ch, ch.cleanModel(), ch.Vocabulary)
	}
	losses, name := j.withoutModel()
	return &rival{name: name + unreadable, losses: losses, unseen: math.Inf(1), job: j}
}

// version returns a model of a version as a rival.
func (j *refitJob) version(name string, of *Champion, model *solver.Model, vocab *Vocabulary) *rival {
	if model = j.listed(of, model); j.lists != nil && of.popular == nil { // it has a popularity of its own in it
		model = j.lists.popular.off(model, vocab)
	}
	quality := NewQuality(j.target, nil)
	losses := heldLosses{j.partLosses(j.select_, model, vocab, nil), j.partLosses(j.gate, model, vocab, quality)}
	r := &rival{name: name, losses: losses, metrics: quality.Metrics(), unseen: math.Inf(1), job: j}
	if of.clean == nil && (of.Version.HeldOutSweeps > 0 || of.Version.Kind == "update") && j.hasAges() {
		if since, ok := j.eventsSince(of); ok {
			r.unseen = since
		}
	}
	return r
}

// scores returns the losses of a challenger and of the rival on the gate rows and on the select rows that the rival has not learned from.
func (r *rival) scores(own heldLosses) (gate, chosen *scores) {
	j := r.job
	of := func(own, rival, age, weights []float64) (s *scores, rows []int) {
		s = &scores{least: j.least}
		for i := range own {
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
	gate, judging := of(own.gate, r.losses.gate, j.sample.GateAge, j.gateWeights())
	chosen, choosing := of(own.chosen, r.losses.chosen, j.sample.SelectAge, j.chosenBy(nil, j.select_.events))
	row, label := j.plausible()
	gate.most, chosen.most = row, row
	if j.hides(choosing, judging) {
		gate.hidden, chosen.hidden = label, label
	}
	return gate, chosen
}

// onesOf returns which rows of a part have the binary label 1, nil of other labels.
func (j *refitJob) onesOf(part *encoded) (ones []bool) {
	if j.target.Task != event.Binary {
		return nil
	}
	for i := range part.events {
		ones = append(ones, part.events[i].Label > 0)
	}
	return ones
}

// hasAges reports whether the ages of the held-out rows are known.
func (j *refitJob) hasAges() bool {
	return len(j.sample.GateAge) == len(j.gate.events) && len(j.sample.SelectAge) == len(j.select_.events)
}

// eventsSince returns how many events were applied since the cut of a version, if that is known.
func (j *refitJob) eventsSince(of *Champion) (float64, bool) {
	if of.Events == nil || of.Lineage != j.sample.Lineage || of.Events.Applied > j.sample.Events.Applied {
		return 0, false
	}
	return float64(j.sample.Events.Applied - of.Events.Applied), true
}

// withoutModel returns the losses of a prediction without a model: of numbers of the better of the two means of the training rows, of classes of outputs
// that are all 0.
func (j *refitJob) withoutModel() (losses heldLosses, name string) {
	if !j.target.IsNumeric() {
		return j.constant(make([]float64, j.target.Outputs())), "outputs that are all 0"
	}
	global := j.means.lossesBy(j, -1)
	field := j.baselineField()
	if field < 0 {
		return global, "the mean"
	}
	item := j.means.lossesBy(j, field)
	both := scores{loss: item.gate, against: global.gate, weights: j.gateWeights()}
	if c := both.compare(both.all(), 0, &scores{}); c.loss < c.against {
		return item, "the mean by " + j.model.Evaluate.BaselineBy
	}
	return global, "the mean"
}

// constant returns the losses of outputs that are the same for every event.
func (j *refitJob) constant(outputs []float64) heldLosses {
	m := j.target.Outputs()
	of := func(part *encoded) []float64 {
		out := make([]float64, len(part.events))
		for i := range out {
			out[i] = j.target.Judged(&part.events[i], outputs, part.targets[i*m:i*m+m])
		}
		return out
	}
	return heldLosses{of(j.select_), of(j.gate)}
}

// lossesBy returns the losses of the mean label, by a field where that is known, or of all for a field of -1.
func (m *means) lossesBy(j *refitJob, field int) heldLosses {
	of := func(part *encoded) []float64 {
		out := make([]float64, len(part.events))
		for i := range out {
			ev, mean := &part.events[i], m.global
			if field >= 0 {
				if v, ok := m.byName[ev.Categorical[field]]; ok {
					mean = v
				}
			}
			e := j.target.Clip(mean) - ev.Label
			out[i] = e * e
		}
		return out
	}
	return heldLosses{of(j.select_), of(j.gate)}
}
