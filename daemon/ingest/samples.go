package ingest

import (
	"fmt"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/ingest/negatives"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// LimitWeights has the weights of a sample count as at most what its training rows support, each of which is for 1/π
// events. It returns the limit, 0 for none, and how many rows are beyond it. Weights that a configuration lists, by the
// kind of event, are meant: they have no limit.
func LimitWeights(m *config.Model, s *sketch.Sample) (limit float64, limited int) {
	if m.Schema.Weight == "" {
		return 0, 0
	}
	weights, counts := make([]float64, len(s.Train)), make([]float64, len(s.Train))
	for i := range s.Train {
		p, _ := s.Inclusion(&s.Train[i])
		weights[i], counts[i] = s.Train[i].Weight, 1/max(p, leastInclusion)
	}
	limit = encode.WeightLimit(weights, counts)
	return limit, s.LimitWeights(limit)
}

// TakeSample reads a consistent cut of the store as a refit of the model wants it. behind, which may be nil, says in
// which partitions of outcomes some wait: labels are final or not by that, and a record of the version has them.
func TakeSample(m *config.Model, store *sketch.Store, behind Behind) (*encode.Sample, error) {
	set := tables.New(m)
	s, err := sampleWith(m, store, set)
	if err != nil {
		return nil, err
	}
	limit, limited := LimitWeights(m, s)
	joined, open := join(m, s, behind)
	out := &encode.Sample{
		Train:          payloads(s.Train),
		Select:         payloads(s.Select),
		Gate:           payloads(s.Gate),
		Weights:        s.TrainWeights(),
		HeldOutWeights: s.HeldOutWeights(),
		WeightLimit:    limit,
		Limited:        limited,
		Digest:         s.Digest.String(),
		Watermark:      s.Watermark,
		Lineage:        s.Lineage,
	}
	out.SetTables(set)
	for _, c := range s.Cut { // of tables too: the version follows from both
		out.Cut = append(out.Cut, report.Cut{Topic: c.Topic, Partition: c.Partition, Next: c.Next})
	}
	var watermark int64
	if s.Ledger, watermark = eventsOf(m, s.Ledger); joined != nil {
		out.Watermark = watermark
		out.SetOutcomes(joined, open)
	}
	out.Events = countsOf(s.Ledger)
	out.TrainAge, out.SelectAge, out.GateAge = ages(s, s.Train), ages(s, s.Select), ages(s, s.Gate)
	if err := negatives.Add(m, s, out); err != nil {
		return nil, fmt.Errorf("ingest: negatives: %w", err)
	}
	return out, nil
}

// sampleWith reads a cut, with the rows of tables at it into a set, which may be nil.
func sampleWith(m *config.Model, store *sketch.Store, set *tables.Set) (*sketch.Sample, error) {
	if set == nil {
		return store.Sample()
	}
	var topics []string
	for i := range m.Tables {
		topics = append(topics, m.Tables[i].Topics...)
	}
	t := &tableRows{model: m, set: set, names: make(rows.Interner)}
	return store.SampleWith(topics, func(topic string, number int32, e sketch.Entity) error {
		table := m.TableOf(topic)
		row, err := t.decode(table, topic, number, e.Value)
		if err == nil {
			set.Put(table, row)
		}
		return err
	})
}

// eventsOf returns the accounts of the topics of events, and the newest time of these.
func eventsOf(m *config.Model, ledger []sketch.LedgerRow) (of []sketch.LedgerRow, watermark int64) {
	watermark = sketch.NoTime
	for i := range ledger {
		if l := &ledger[i]; !m.Input.Outcomes.Has(l.Topic) && m.TableOf(l.Topic) < 0 {
			of, watermark = append(of, *l), max(watermark, l.Watermark)
		}
	}
	return of, watermark
}

// ages returns how many events of all partitions were applied after each row, as far as offsets show: a partition's
// own count for as many of the others as they have more.
func ages(s *sketch.Sample, rows []sketch.Row) []float64 {
	type partition struct {
		topic string
		id    int32
		born  uint32
	}
	applied := make(map[partition]*sketch.LedgerRow, len(s.Ledger))
	total := int64(0)
	for i := range s.Ledger {
		l := &s.Ledger[i]
		total += l.Applied
		applied[partition{l.Topic, l.Partition, l.Incarnation}] = l
	}
	out := make([]float64, len(rows))
	var of partition
	var l *sketch.LedgerRow
	for i := range rows {
		if p := (partition{rows[i].Topic, rows[i].Partition, rows[i].Incarnation}); i == 0 || p != of {
			of, l = p, applied[p]
		}
		if l != nil && l.Next > l.Start {
			out[i] = float64(total) * float64(l.Next-rows[i].Offset) / float64(l.Next-l.Start)
		}
	}
	return out
}

func payloads(rows []sketch.Row) [][]byte {
	out := make([][]byte, len(rows))
	for i := range rows {
		out[i] = rows[i].Payload
	}
	return out
}

// Relearn folds in the rows of a sample from after a cut, held-out ones included, oldest first: what a restart knows of
// the time since the last refit. Before that, those before it are given to what learns on from refit to refit. Rows on
// which the cycle panics are left out and counted.
func Relearn(m *config.Model, c *cycle.Cycle, s *sketch.Sample, cut []report.Cut) (panicked int, err error) {
	return relearn(m, c, s, cut, true)
}

// Recall is Relearn without the events after the cut, which come from elsewhere.
func Recall(m *config.Model, c *cycle.Cycle, s *sketch.Sample, cut []report.Cut) (panicked int, err error) {
	return relearn(m, c, s, cut, false)
}

// relearnAfter is Relearn of the newest rows after the cut, at most so many.
func relearnAfter(m *config.Model, c *cycle.Cycle, s *sketch.Sample, cut []report.Cut, most int, behind Behind) (
	panicked int, err error) {
	Settle(m, s, behind)
	_, after := splitRows(m, s, cut)
	slices.SortStableFunc(after, negatives.CompareTimes)
	after = after[max(0, len(after)-most):]
	each := negatives.Payloads(m)
	return relearnRows(after, func(_ int, r *sketch.Row) error {
		return each(r, func(payload []byte, first bool) error { return c.Relearn(negatives.PlaceOf(r), payload, first) })
	})
}

func relearn(m *config.Model, c *cycle.Cycle, s *sketch.Sample, cut []report.Cut, on bool) (panicked int, err error) {
	Settle(m, s, nil)
	before, after := splitRows(m, s, cut)
	each := negatives.Payloads(m)
	panicked, err = relearnRows(before, func(i int, r *sketch.Row) error {
		return each(r, func(payload []byte, first bool) error {
			return c.Recall(payload, first, i >= len(before)-recalled)
		})
	})
	if !on || err != nil {
		return panicked, err
	}
	more, err := relearnRows(after, func(_ int, r *sketch.Row) error {
		return each(r, func(payload []byte, first bool) error { return c.Relearn(negatives.PlaceOf(r), payload, first) })
	})
	return panicked + more, err
}

// splitRows returns the rows of a sample that are learned before a cut, and those after it.
func splitRows(m *config.Model, s *sketch.Sample, cut []report.Cut) (before, after []*sketch.Row) {
	isAfter := afterCut(m, s, cut)
	for _, part := range [][]sketch.Row{s.Train, s.Select, s.Gate} {
		for i := range part {
			if r := &part[i]; isAfter(r) {
				after = append(after, r)
			} else {
				before = append(before, r)
			}
		}
	}
	return before, after
}

// afterCut returns what says whether a row is learned after a cut: with its event, or where labels come later, with
// its label. So of what is learned after it both labels have their shares.
func afterCut(m *config.Model, s *sketch.Sample, cut []report.Cut) func(r *sketch.Row) bool {
	next := make(map[rows.Position]int64, len(cut))
	for _, p := range cut {
		next[rows.Position{Topic: p.Topic, Partition: p.Partition}] = p.Next
	}
	isPast := func(topic string, partition int32, offset int64) bool {
		return offset >= next[rows.Position{Topic: topic, Partition: partition}]
	}
	isAfter := func(r *sketch.Row) bool { return isPast(r.Topic, r.Partition, r.Offset) }
	if !m.Schema.LabelLater {
		return isAfter
	}
	then := &openEvents{model: m, events: sketch.NoTime, outcomes: make(map[string]int64)} // its clock was, about
	for _, part := range [][]sketch.Row{s.Train, s.Select, s.Gate} {
		for i := range part {
			r := &part[i]
			if !isAfter(r) {
				then.noteTime(r.Topic, r.Time)
			}
			for k := range r.Outcomes {
				if of := &r.Outcomes[k]; !isPast(of.Topic, of.Partition, of.Offset) {
					then.noteTime(of.Topic, of.Time)
				}
			}
		}
	}
	now, window := then.clock(), m.Input.Outcomes.Window.Std().Milliseconds()
	return func(r *sketch.Row) bool {
		if LabelOf(m, r.Time, r.Outcomes).Counted > 0 {
			of := &r.Outcomes[0]
			return isAfter(r) || isPast(of.Topic, of.Partition, of.Offset)
		}
		return isAfter(r) || now == sketch.NoTime || r.Time+window > now
	}
}

// relearnRows has rows learned, oldest first, and counts those that panicked.
func relearnRows(list []*sketch.Row, row func(i int, r *sketch.Row) error) (panicked int, err error) {
	slices.SortStableFunc(list, negatives.CompareTimes)
	for i := 0; i < len(list) && err == nil; i++ {
		var failed bool
		if failed, err = learnRow(func() error { return row(i, list[i]) }); failed {
			panicked++
		}
	}
	return panicked, err
}
