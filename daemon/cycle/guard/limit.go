package guard

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
)

// OutputLimit returns the largest magnitude of an output that versions on a refit may have, given rows that it was
// judged on; nil where outputs are not log odds.
func OutputLimit(ch *fitted.Fitted, parts ...[][]byte) *report.Number {
	if ch.Target.Link == format.Identity {
		return nil
	}
	most, outputs, s := SupportedLogOdds(ch.Version.Rows), make([]float64,
		ch.Target.Outputs()), fitted.NewScorer(ch.WithPopularity(), ch.Vocabulary)
	var ev event.Event
	names := make(rows.Interner)
	for _, payloads := range parts {
		for i := 0; i < len(payloads); i += max(1, len(payloads)/(4*GuardSize)) {
			if rows.DecodeEvent(&ev, payloads[i], names) != nil {
				continue
			}
			ch.Tables.Join(&ev)
			s.Outputs(outputs, &ev)
			for _, o := range outputs {
				most = max(most, math.Abs(o))
			}
		}
	}
	return report.Known(GuardOutputs * most)
}
