package cycle

import (
	"fmt"
	"math"

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

// coldAfter is after how many rejections in a row a refit starts from nothing, once.
const coldAfter = 3

// Rejections returns how many challengers in a row the gate has kept back because they were worse or could not be used, since the start or the last
// champion. The refit after the third starts from nothing.
func (c *Cycle) Rejections() int {
	c.figures.Lock()
	defer c.figures.Unlock()
	return c.rejections
}

// judged counts the decision on a challenger.
func (c *Cycle) judged(cause Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Lock()
	defer c.figures.Unlock()
	switch cause {
	case "worse", "worse_than_baseline", "not_finite", "degenerate":
		c.rejections++
	}
}

// decide decides whether the challenger replaces the champion and writes decision and reason into its version. Both are scored on the same held-out
// rows at the challenger's cut, neither having learned from one of them.
func (j *refitJob) decide(ch *Champion) {
	v := &ch.Version
	say := func(cause Cause, reason string, values ...any) {
		ch.Cause, v.Decision, v.Reason = cause, Causes[cause], fmt.Sprintf(reason, values...)
		if j.cold.why != "" {
			v.Reason += "; trained from nothing " + j.cold.why
		}
	}
	switch {
	case !ch.Model.IsFinite():
		say("not_finite", "a parameter is not finite")
		return
	case j.lists == nil && j.degenerate(ch.Model):
		say("degenerate", "degenerate: it predicts the same for every event")
		return
	case j.champion != nil && !j.comparable(j.champion):
		say("incomparable", "incomparable: the task or its outputs changed")
		return
	}
	var own heldLosses
	var below string
	var rival *rival // nil where there is nothing to be compared with
	j.beside(func() {
		own = j.lossesOf(j.listed(ch, ch.Model), j.vocab)
		below = j.belowBaseline(ch, own)
	}, func() {
		if j.champion != nil || j.instead != nil {
			rival = j.rival()
		}
	})
	promote := func(cause Cause, reason string, values ...any) {
		if say(cause, reason, values...); below != "" {
			say("worse_than_baseline", "%s", below)
		}
	}
	if rival == nil {
		promote("first_version", "first version")
		return
	}
	v.ChampionGate = rival.metrics
	gate, chosen := rival.scores(own)
	tolerance := j.model.Publish.Gate.Tolerance
	rows, where, name := gate, "gate", rival.name
	if minRows := j.model.Publish.Gate.MinRows; len(gate.loss) < minRows {
		if j.champion != nil && j.champion.Chosen {
			say("chosen", "an operator chose version %d, and %d gate rows are too few to judge it (publish.gate.min_rows is %d)",
				j.champion.Version.Version, len(gate.loss), minRows)
			return
		}
		rows, where = chosen.with(gate), "select and gate"
	}
	worse, notWorse := Cause("worse"), Cause("not_worse")
	if len(rows.loss) < leastRows {
		if recent := j.progressiveLosses(); len(recent.loss) >= leastRows {
			rows, chosen, where, name = recent, &scores{}, "progressive", "what consumers have"
			worse, notWorse = "worse_in_window", "not_worse_in_window"
		}
	}
	switch {
	case len(rows.loss) == 0 && j.isOutage():
		promote("first_version", "first version that consumers can read")
		return
	case len(rows.loss) == 0:
		promote(notWorse, "no held-out row and no event since the version before can judge it; it has learned from %d rows", ch.Version.Rows)
		return
	}
	c := rows.compare(rows.all(), tolerance, chosen)
	test := fmt.Sprintf("to be worse by more than publish.gate.tolerance %g (evidence %.3g, %g decides)", tolerance, c.evidence, 1/gateError)
	if c.isWorse(1) {
		say(worse, "%s loss %.5f, %s %.5f on %d rows: shown %s", where, c.loss, name, c.against, c.rows, test)
		return
	}
	promote(notWorse, "%s loss %.5f, %s %.5f on %d rows: not shown %s", where, c.loss, name, c.against, c.rows, test)
}

// isOutage reports whether consumers have no version that can be read: a sound one is not kept back because there are too few rows to judge it.
func (j *refitJob) isOutage() bool {
	return j.champion == nil && (j.instead.version == nil || j.instead.version.Version.Decision != promoted)
}

// leastRows is the number of rows below which the paired test cannot show anything: (1 + winShare)^5 is below 1/gateError.
const leastRows = 6

// progressiveLosses returns the losses of the fold-in, which has learned what the challenger has, and of what consumers have, on the events since the
// champion's cut that both predicted before they learned from them.
func (j *refitJob) progressiveLosses() *scores {
	s := &scores{}
	if j.champion == nil {
		return s
	}
	n := len(j.paired)
	if since, ok := j.eventsSince(j.champion); ok {
		n = min(n, int(since))
	}
	for _, l := range j.paired[len(j.paired)-n:] {
		s.loss, s.against = append(s.loss, l[0]), append(s.against, l[1])
	}
	s.most, _ = j.plausible()
	return s
}

// comparable reports whether a version can be scored on the gate rows.
func (j *refitJob) comparable(version *Champion) bool {
	return version.Target.Task == j.target.Task && version.Target.Outputs() == j.target.Outputs()
}

// belowBaseline returns why a challenger is refused that is worse than a plain baseline on a slice of the held-out rows, "" if it is not. It notes
// the slices in the version.
func (j *refitJob) belowBaseline(ch *Champion, own heldLosses) (reason string) {
	slices, baselines := j.gateSlices(), j.baselines(ch.Model)
	weights := j.gateWeights()
	tests := len(slices) * len(baselines)
	largest, label := j.plausible()
	if !j.hides(countTo(len(own.chosen)), countTo(len(own.gate))) {
		label = 0
	}
	for _, s := range slices {
		row := report.GateSlice{Field: s.field, Known: s.known, N: int64(len(s.gate))}
		for b := range baselines {
			base := &baselines[b]
			loss := own
			if base.own != nil {
				loss = *base.own
			}
			most, hidden, least := largest, label, j.least
			if base.own != nil { // wrong or not
				most, hidden, least = 1, min(label, 1), 0
			}
			gate := &scores{loss: loss.gate, against: base.losses.gate, weights: weights, most: most, least: least, hidden: hidden}
			chosen := &scores{loss: loss.chosen, against: base.losses.chosen, most: most, least: least}
			c := gate.compare(s.gate, j.model.Publish.Gate.Tolerance, chosen)
			if b == 0 && len(s.gate) > 0 {
				row.Loss, row.Baseline = report.Some(c.loss), report.Some(c.against)
			}
			if c.isWorse(tests) && reason == "" {
				reason = fmt.Sprintf("on the %d gate rows of %s its %s %.5f is shown to be worse than %.5f of %s (evidence %.3g, %g decides)",
					c.rows, s, base.measure, c.loss, c.against, base.name, c.evidence, float64(tests)/gateError)
			}
		}
		ch.Version.GateSlices = append(ch.Version.GateSlices, row)
	}
	return reason
}

// gateWeights returns the weights of the gate rows, which fade as the training rows do and are capped by entity, nil if all count alike.
func (j *refitJob) gateWeights() []float64 {
	if len(j.sample.GateAge) != len(j.gate.events) {
		return j.capEntities(nil, j.gate.events)
	}
	return j.capEntities(decayed(nil, j.sample.GateAge, horizons[j.horizon]), j.gate.events)
}

// weightedSum is a sum over rows with weights, nil counting each once.
type weightedSum struct {
	weights    []float64
	sum, total float64
}

func (s *weightedSum) add(row int, v float64) {
	w := weightAt(s.weights, row)
	s.sum, s.total = s.sum+w*v, s.total+w
}

// mean is NaN without rows, and no more than the largest number.
func (s *weightedSum) mean() float64 { return min(s.sum/s.total, math.MaxFloat64) }
