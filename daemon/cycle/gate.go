package cycle

import (
	"fmt"

	"github.com/refitd/refitd/daemon/report"
)

// A substitute is what challengers are compared with while there was a champion and it cannot be read: another version, or the baselines if
// that is nil.
type substitute struct{ version *Champion }

// CompareWith lets challengers be compared with a version in place of a champion that cannot be read, or with the baselines if it is nil, rather than
// be promoted as the first version. Nothing continues from it. It counts until a champion is installed.
func (c *Cycle) CompareWith(version *Champion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instead = &substitute{version}
}

// decide decides whether the challenger replaces the champion and writes decision and reason into its version. Both are scored on the
// same gate rows at the challenger's cut.
func (j *refitJob) decide(ch *Champion) {
	v := &ch.Version
	say := func(cause Cause, reason string, values ...any) {
		ch.Cause, v.Decision, v.Reason = cause, Causes[cause], fmt.Sprintf(reason, values...)
	}
	gate := j.model.Publish.Gate
	switch {
	case !ch.Model.IsFinite():
		say("not_finite", "a parameter is not finite")
		return
	case j.degenerate(ch.Model):
		say("degenerate", "degenerate: it predicts the same for every event")
		return
	case j.champion == nil && j.instead == nil:
		say("first_version", "first version")
		return
	case j.champion != nil && !j.comparable(j.champion):
		say("incomparable", "incomparable: the task or its outputs changed")
		return
	case len(j.gate.events) < gate.MinRows && j.champion != nil && j.champion.Chosen:
		say("chosen", "an operator chose version %d, and %d gate rows are too few to judge it (publish.gate.min_rows is %d)",
			j.champion.Version.Version, len(j.gate.events), gate.MinRows)
		return
	case len(j.gate.events) < gate.MinRows:
		say("too_few_rows", "%d gate rows are too few to judge (publish.gate.min_rows is %d)", len(j.gate.events), gate.MinRows)
		return
	}
	old, rival, metrics := j.rival()
	v.ChampionGate = metrics
	loss := j.gate.loss(j.target, ch.Model, j.gateWeights())
	if loss <= old*(1+gate.Tolerance) {
		say("not_worse", "gate loss %.5f, %s %.5f", loss, rival, old)
		return
	}
	say("worse", "gate loss %.5f is worse than %s %.5f by more than publish.gate.tolerance %g", loss, rival, old, gate.Tolerance)
}

// comparable reports whether a version can be scored on the gate rows.
func (j *refitJob) comparable(version *Champion) bool {
	return version.Target.Task == j.target.Task && version.Target.Outputs() == j.target.Outputs()
}

// rival returns what the challenger is compared with, in words, its loss on the gate rows, and its metrics if it is a version.
func (j *refitJob) rival() (loss float64, name string, metrics *report.Metrics) {
	const unreadable = ", in place of the champion, which cannot be read,"
	switch {
	case j.champion != nil:
		loss, metrics = j.gateLoss(j.champion)
		return loss, "champion", metrics
	case j.instead.version != nil && j.comparable(j.instead.version):
		loss, metrics = j.gateLoss(j.instead.version)
		return loss, fmt.Sprintf("version %d%s", j.instead.version.Version.Version, unreadable), metrics
	}
	loss, name = j.baseline()
	return loss, name + unreadable, nil
}

// gateLoss scores a version on the gate rows.
func (j *refitJob) gateLoss(version *Champion) (loss float64, metrics *report.Metrics) {
	scorer := newScorer(version.Model, version.Vocabulary)
	m := j.target.Outputs()
	outputs := make([]float64, m)
	quality, sum := NewQuality(j.target, nil), weightedSum{weights: j.gateWeights()}
	for i := range j.gate.events {
		ev, targets := &j.gate.events[i], j.gate.targets[i*m:i*m+m]
		scorer.outputs(outputs, ev)
		sum.add(i, j.target.Judged(ev, outputs, targets))
		quality.Add(ev, outputs, targets)
	}
	return sum.mean(), quality.Metrics()
}

// gateWeights returns the weights of the gate rows, which fade as the training rows do, nil if all count alike.
func (j *refitJob) gateWeights() []float64 {
	if len(j.sample.GateAge) != len(j.gate.events) {
		return nil
	}
	return decayed(nil, j.sample.GateAge, horizons[j.horizon])
}

// selectWeights returns those of the select rows, alike.
func (j *refitJob) selectWeights() []float64 {
	return decayed(nil, j.sample.SelectAge, horizons[j.horizon])
}

// weightedSum is a sum over rows with weights, nil counting each once.
type weightedSum struct {
	weights    []float64
	sum, total float64
}

func (s *weightedSum) add(row int, v float64) {
	w := 1.0
	if s.weights != nil {
		w = s.weights[row]
	}
	s.sum, s.total = s.sum+w*v, s.total+w
}

func (s *weightedSum) mean() float64 { return s.sum / s.total }

// baseline returns the loss on the gate rows of a prediction without a model: of numbers the better of the two means of the training rows, of
// classes outputs that are all 0.
func (j *refitJob) baseline() (loss float64, name string) {
	m, field := j.target.Outputs(), j.baselineField()
	zero, weights := make([]float64, m), j.gateWeights()
	global, item := weightedSum{weights: weights}, weightedSum{weights: weights}
	for i := range j.gate.events {
		ev, targets := &j.gate.events[i], j.gate.targets[i*m:i*m+m]
		if !j.target.IsNumeric() {
			global.add(i, j.target.Judged(ev, zero, targets))
			continue
		}
		mean := j.means.global
		e := j.target.Clip(mean) - ev.Label
		global.add(i, e*e)
		if field >= 0 {
			if of, ok := j.means.byName[ev.Categorical[field]]; ok {
				mean = of
			}
		}
		e = j.target.Clip(mean) - ev.Label
		item.add(i, e*e)
	}
	switch {
	case !j.target.IsNumeric():
		return global.mean(), "outputs that are all 0"
	case field >= 0 && item.mean() < global.mean():
		return item.mean(), "the mean by " + j.model.Evaluate.BaselineBy
	}
	return global.mean(), "the mean"
}
