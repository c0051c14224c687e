package negatives

import (
	"cmp"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/sketch"
)

// Add returns the sample of a model whose events are choices with the negatives of each row before it, as a
// refit wants it.
func Add(m *config.Model, s *sketch.Sample, out *encode.Sample) error {
	c := New(m, 0)
	if c == nil {
		return nil
	}
	var ev event.Event
	names := make(map[string]string)
	for _, r := range byTime(s.Train) {
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
			return err
		}
		c.Note(&ev)
	}
	// which count for nothing: what learns from the others knows nothing of them
	for _, r := range byTime(slices.Concat(s.Select, s.Gate)) {
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
			return err
		}
		c.know(&ev)
	}
	c.sorted()
	train, sel := out.Weights, out.HeldOutWeights
	var gate []float64
	if sel != nil {
		sel, gate = sel[:len(s.Select)], sel[len(s.Select):]
	}
	var err error
	if out.Train, out.TrainAge, out.Weights, err = c.expand(s.Train, out.TrainAge, train, names); err != nil {
		return err
	}
	if out.Select, out.SelectAge, sel, err = c.expand(s.Select, out.SelectAge, sel, names); err != nil {
		return err
	}
	if out.Gate, out.GateAge, gate, err = c.expand(s.Gate, out.GateAge, gate, names); err != nil {
		return err
	}
	if out.HeldOutWeights != nil {
		out.HeldOutWeights = slices.Concat(sel, gate)
	}
	return nil
}

// expand returns rows with their negatives, which have the age and the weight of the choice.
func (c *Candidates) expand(rowList []sketch.Row, age, weight []float64,
	names map[string]string) (all [][]byte, ages, weights []float64, err error) {
	var ev event.Event
	for i := range rowList {
		r := &rowList[i]
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
			return nil, nil, nil, err
		}
		add := func(payload []byte) {
			all, ages = append(all, payload), append(ages, age[i])
			if weight != nil {
				weights = append(weights, weight[i])
			}
		}
		for negative := range c.negatives(&ev, PlaceOf(r)) {
			add(rows.AppendEvent(nil, negative))
		}
		add(r.Payload)
	}
	return all, ages, weights, nil
}

// Payloads returns what calls f with the payload of a row, after those of the negatives that a choice has among the
// rows that it was called for before.
// first says that the name of the choice was in none of these.
func Payloads(m *config.Model) func(r *sketch.Row, f func(payload []byte, first bool) error) error {
	c := New(m, Kept)
	var ev event.Event
	names := make(map[string]string)
	return func(r *sketch.Row, f func(payload []byte, first bool) error) error {
		if c == nil {
			return f(r.Payload, false)
		}
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
			return err
		}
		for negative := range c.negatives(&ev, PlaceOf(r)) {
			if err := f(rows.AppendEvent(nil, negative), false); err != nil {
				return err
			}
		}
		first := !c.Knows(&ev)
		c.Note(&ev)
		return f(r.Payload, first)
	}
}

// PlaceOf returns where the event of a row is.
func PlaceOf(r *sketch.Row) rows.Position {
	return rows.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

// Fill notes the choices of a sample, the newest last, once: what the process knows of those before its start. onChoice
// may be nil.
func (c *Candidates) Fill(store *sketch.Store, onChoice func(ev *event.Event, before bool)) error {
	s, err := store.Sample()
	if err != nil {
		return err
	}
	rowList := byTime(slices.Concat(s.Train, s.Select, s.Gate))
	var ev event.Event
	names := make(map[string]string)
	for _, r := range rowList[max(0, len(rowList)-c.limit):] {
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
			return err
		}
		c.Note(&ev)
		if onChoice != nil {
			onChoice(&ev, true)
		}
	}
	return nil
}

// byTime returns rows in the order of their events' times, those of equal times in that of the log.
func byTime(rows []sketch.Row) []*sketch.Row {
	out := make([]*sketch.Row, len(rows))
	for i := range rows {
		out[i] = &rows[i]
	}
	slices.SortStableFunc(out, CompareTimes)
	return out
}

func CompareTimes(a, b *sketch.Row) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
		cmp.Compare(a.Offset, b.Offset))
}
