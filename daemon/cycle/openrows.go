package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
)

// weighOpen has the rows of a sample whose label is not final count by the probability that an outcome would have come.
// How probable an outcome is at all the champion says, where its outputs are probabilities of one: so each refit
// corrects the next, as the steps of Chapelle's EM do. Before there is a champion, and for other tasks, it is the share
// of all events.
func weighOpen(s *encode.Sample, ch *fitted.Fitted) {
	if ch == nil || !s.HasOpen() || ch.Target.Link != format.Logistic || ch.Target.Outputs() != 1 {
		s.WeighOpen(nil)
		return
	}
	var ev event.Event
	names, output := make(rows.Interner), make([]float64, 1)
	work := make([]float64, 2*ch.Model.NumBasis)
	var index []int32
	var value, phi []float64
	s.WeighOpen(func(payload []byte) float64 {
		if rows.DecodeEvent(&ev, payload, names) != nil {
			return 0 // the refit finds it, too
		}
		s.Tables().Join(&ev)
		index, value = ch.Vocabulary.Encode(index[:0], value[:0], &ev)
		ch.Model.Predict(output, work, index, value)
		phi = ch.Vocabulary.AddMapped(output, ch.Model, ev.Numeric, phi)
		return 1 / (1 + math.Exp(-output[0]))
	})
}
