package gate

import (
	"fmt"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/report"
)

// ColdAfter is after how many rejections in a row a refit starts from nothing, once. Chosen by hand.
const ColdAfter = 3

// Decide decides whether the challenger replaces the champion and writes decision and reason into its version. Both are
// scored on the same held-out rows at the challenger's cut, neither having learned from one of them.
func Decide(j *task.Task, ch *fitted.Fitted) {
	v := &ch.Version
	say := func(cause fitted.Cause, reason string, values ...any) {
		ch.Cause, v.Decision, v.Reason = cause, fitted.Causes[cause], fmt.Sprintf(reason, values...)
		if j.Cold.Why != "" {
			v.Reason += "; trained from nothing " + j.Cold.Why
		}
	}
	switch {
	// First what needs no comparison.
	case !ch.Model.IsFinite():
		say("not_finite", "a parameter is not finite")
		return
	case j.Criteria.Lists == nil && Degenerate(j, ch.Model):
		say("degenerate", "degenerate: it predicts the same for every event")
		return
	case j.Champion != nil && !Comparable(j, j.Champion):
		say("incomparable", "incomparable: the task or its outputs changed")
		return
	}
	var own heldLosses
	var below string     // why it is worse than a baseline, "" if that is not shown
	var rival *Incumbent // nil where there is nothing to be compared with
	j.InParallel(func() {
		own = lossesOf(j, j.Listed(ch, ch.Model), j.Vocab)
		below = belowBaseline(j, ch, own)
	}, func() {
		if j.Champion != nil || j.Fallback != nil {
			rival = newIncumbent(j)
		}
	})
	// Whatever the rival says, a challenger that is worse than a plain baseline is refused.
	promote := func(cause fitted.Cause, reason string, values ...any) {
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
	tolerance := j.Model.Publish.Gate.Tolerance
	// Which rows decide: those of the gate; where they are few those the refit chose on as well; where both are next to
	// none, live losses of the fold-in against what consumers have.
	rows, where, name := gate, "gate", rival.name
	if minRows := j.Model.Publish.Gate.MinRows; len(gate.loss) < minRows {
		if j.Champion != nil && j.Champion.Chosen {
			say("chosen",
				"an operator chose version %d, and %d gate rows are too few to judge it (publish.gate.min_rows is %d)",
				j.Champion.Version.Version, len(gate.loss), minRows)
			return
		}
		rows, where = chosen.with(gate), "select and gate"
	}
	worse, notWorse := fitted.Cause("worse"), fitted.Cause("not_worse")
	if len(rows.loss) < leastRows {
		if recent := progressiveLosses(j); len(recent.loss) >= leastRows {
			rows, chosen, where, name = recent, &scores{}, "progressive", "what consumers have"
			worse, notWorse = "worse_in_window", "not_worse_in_window"
		}
	}
	switch {
	case len(rows.loss) == 0 && isOutage(j):
		promote("first_version", "first version that consumers can read")
		return
	case len(rows.loss) == 0:
		promote(notWorse,
			"no held-out row and no event since the version before can judge it; it has learned from %d rows",
			ch.Version.Rows)
		return
	}
	// The burden of proof is on the rejection: a challenger that is not shown to be worse is promoted, as it has
	// learned from newer rows.
	c := rows.compare(rows.all(), tolerance, chosen)
	test := fmt.Sprintf("to be worse by more than publish.gate.tolerance %g (evidence %.3g, %g decides)", tolerance,
		c.evidence, 1/gateError)
	if c.isWorse(1) {
		say(worse, "%s loss %.5f, %s %.5f on %d rows: shown %s", where, c.loss, name, c.against, c.rows, test)
		return
	}
	promote(notWorse, "%s loss %.5f, %s %.5f on %d rows: not shown %s", where, c.loss, name, c.against, c.rows, test)
}

// isOutage reports whether consumers have no version that can be read: a sound one is not kept back because there are
// too few rows to judge it.
func isOutage(j *task.Task) bool {
	return j.Champion == nil && (j.Fallback.Version == nil || j.Fallback.Version.Version.Decision != fitted.Promoted)
}

// leastRows is the number of rows below which the paired test cannot show anything: (1 + winShare)^5 is below
// 1/gateError. Derived from winShare and gateError.
const leastRows = 6

// progressiveLosses returns the losses of the fold-in, which has learned what the challenger has, and of what consumers
// have, on the events since the champion's cut that both predicted before they learned from them.
func progressiveLosses(j *task.Task) *scores {
	s := &scores{}
	if j.Champion == nil {
		return s
	}
	n := len(j.Criteria.Paired)
	if since, ok := EventsSince(j, j.Champion); ok {
		n = min(n, int(since))
	}
	for _, l := range j.Criteria.Paired[len(j.Criteria.Paired)-n:] {
		s.loss, s.against = append(s.loss, l[0]), append(s.against, l[1])
	}
	s.most, _ = j.Plausible()
	return s
}

// Comparable reports whether a version can be scored on the gate rows.
func Comparable(j *task.Task, version *fitted.Fitted) bool {
	return version.Target.Task == j.Target.Task && version.Target.Outputs() == j.Target.Outputs()
}

// belowBaseline returns why a challenger is refused that is worse than a plain baseline on a slice of the held-out
// rows, "" if it is not. It notes the slices in the version.
func belowBaseline(j *task.Task, ch *fitted.Fitted, own heldLosses) (reason string) {
	slices, baselines := gateSlices(j), baselines(j, ch.Model)
	weights := gateWeights(j)
	// Bonferroni: with so many tests each asks for so many times the evidence.
	tests := len(slices) * len(baselines)
	largest, label := j.Plausible()
	if !hides(j, encode.CountTo(len(own.chosen)), encode.CountTo(len(own.gate))) {
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
			most, hidden, least := largest, label, j.Criteria.Least
			if base.own != nil { // wrong or not
				most, hidden, least = 1, min(label, 1), 0
			}
			gate := &scores{
				loss:    loss.gate,
				against: base.losses.gate,
				weights: weights,
				most:    most,
				least:   least,
				hidden:  hidden,
			}
			chosen := &scores{loss: loss.chosen, against: base.losses.chosen, most: most, least: least}
			c := gate.compare(s.gate, j.Model.Publish.Gate.Tolerance, chosen)
			if b == 0 && len(s.gate) > 0 {
				row.Loss, row.Baseline = report.Some(c.loss), report.Some(c.against)
			}
			if c.isWorse(tests) && reason == "" { // the first one is the reason; all slices are listed in the version
				reason = fmt.Sprintf(
					"on the %d gate rows of %s its %s %.5f is shown to be worse than %.5f of %s (evidence %.3g, %g decides)",
					c.rows,
					s,
					base.measure,
					c.loss,
					c.against,
					base.name,
					c.evidence,
					float64(tests)/gateError,
				)
			}
		}
		ch.Version.GateSlices = append(ch.Version.GateSlices, row)
	}
	return reason
}

// gateWeights returns the weights of the gate rows, which fade as the training rows do and are capped by entity, nil if
// all count alike.
func gateWeights(j *task.Task) []float64 {
	if len(j.Rows.Sample.GateAge) != len(j.Rows.Gate.Events) {
		return j.CapEntities(nil, j.Rows.Gate.Events)
	}
	return j.CapEntities(fitted.Decayed(nil, j.Rows.Sample.GateAge, fitted.HalfLives[j.Choices.HalfLife]),
		j.Rows.Gate.Events)
}
