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
		if j.rejections == coldAfter {
			v.Reason += fmt.Sprintf("; trained from nothing after %d rejections in a row", coldAfter)
		}
	}
	switch {
	case !ch.Model.IsFinite():
		say("not_finite", "a parameter is not finite")
		return
	case j.degenerate(ch.Model):
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
		own = j.lossesOf(ch.Model, j.vocab)
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
	minRows, tolerance := j.model.Publish.Gate.MinRows, j.model.Publish.Gate.Tolerance
	rows, where := gate, "gate"
	if len(gate.loss) < minRows {
		if j.champion != nil && j.champion.Chosen {
			say("chosen", "an operator chose version %d, and %d gate rows are too few to judge it (publish.gate.min_rows is %d)",
				j.champion.Version.Version, len(gate.loss), minRows)
			return
		}
		rows, where = chosen.with(gate), "select and gate"
	}
	if len(rows.loss) < minRows {
		j.decideByWindow(len(rows.loss), say, promote)
		return
	}
	c := rows.compare(rows.all(), tolerance, chosen)
	if c.isWorse(1) {
		say("worse", "%s loss %.5f is shown to be worse than %s %.5f by more than publish.gate.tolerance %g on %d rows (evidence %.3g, %g decides)",
			where, c.loss, rival.name, c.against, tolerance, c.rows, c.evidence, 1/gateError)
		return
	}
	promote("not_worse", "%s loss %.5f, %s %.5f on %d rows", where, c.loss, rival.name, c.against, c.rows)
}

// decideByWindow decides where held-out rows are too few: by the progressive losses of what consumers have and of the fold-in, which has learned
// what the challenger has, over the events of the window.
func (j *refitJob) decideByWindow(rows int, say, promote func(cause Cause, reason string, values ...any)) {
	gate, numeric := &j.model.Publish.Gate, j.target.IsNumeric()
	has, learned := &j.window[published], &j.window[foldIn]
	few := fmt.Sprintf("%d held-out rows are too few to judge (publish.gate.min_rows is %d)", rows, gate.MinRows)
	if has.N < int64(gate.MinRows) || learned.N != has.N {
		say("too_few_rows", "%s, and so are the %d events since consumers have a version", few, has.N)
		return
	}
	a, b := learned.judged(numeric), has.judged(numeric)
	if a <= b*(1+gate.Tolerance) {
		promote("not_worse_in_window", "%s; over the last %d events what was learned since has a loss of %.5f, what consumers have of %.5f", few, has.N, a, b)
		return
	}
	say("worse_in_window", "%s; over the last %d events what was learned since has a loss of %.5f, what consumers have of %.5f, less by more than "+
		"publish.gate.tolerance %g", few, has.N, a, b, gate.Tolerance)
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
	for _, s := range slices {
		row := report.GateSlice{Field: s.field, Known: s.known, N: int64(len(s.gate))}
		for b := range baselines {
			base := &baselines[b]
			loss := own
			if base.own != nil {
				loss = *base.own
			}
			gate := scores{loss.gate, base.losses.gate, weights, j.onesOf(j.gate), j.least}
			chosen := &scores{loss: loss.chosen, against: base.losses.chosen, ones: j.onesOf(j.select_), least: j.least}
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

// mean is NaN without rows, and no more than the largest number.
func (s *weightedSum) mean() float64 { return min(s.sum/s.total, math.MaxFloat64) }
