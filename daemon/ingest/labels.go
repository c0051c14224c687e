package ingest

import (
	"math"
	"slices"
	"sort"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// A Label is what the outcomes of an event make of it.
type Label struct {
	Value   float64
	Counted int   // outcomes within the window
	Late    int   // and outside it
	Delay   int64 // of the first one that counts, milliseconds, at least 0
}

// LabelOf returns the label of an event from its outcomes, which are in their order: by time, topic, partition and
// offset. Those from before the event, by the clocks of two producers, count as if they came with it. Where they are
// earlier than a window, or than clocks may differ, they are of another event that had the key before.
func LabelOf(m *config.Model, at int64, outcomes []sketch.Outcome) Label {
	o := &m.Input.Outcomes
	l := Label{Value: o.Default}
	from, end := at-max(o.Window, m.Input.MaxFutureSkew).Std().Milliseconds(), at+o.Window.Std().Milliseconds()
	var reward float64
	for i := range outcomes {
		of := &outcomes[i]
		if of.Time > end || of.Time < from {
			l.Late++
			continue
		}
		if l.Counted++; l.Counted == 1 {
			reward, l.Delay = of.Value, max(0, of.Time-at)
			continue
		}
		switch o.Reward {
		case config.RewardLast:
			reward = of.Value
		case config.RewardSum:
			reward += of.Value
		case config.RewardMax:
			reward = max(reward, of.Value)
		case config.RewardMin:
			reward = min(reward, of.Value)
		}
	}
	if l.Counted > 0 {
		l.Value = rewardLabel(&m.Schema, reward)
	}
	return l
}

// rewardLabel makes a reward a label of the task: of a binary one 1 where it is above 0, of a regression one within the
// bounds of the schema.
func rewardLabel(s *config.Schema, reward float64) float64 {
	switch s.Learned() {
	case event.Binary:
		if reward > 0 {
			return 1
		}
		return 0
	case event.Regression:
		low, high := -event.MaxLabel, event.MaxLabel
		if s.LabelMin < s.LabelMax {
			low, high = s.LabelMin, s.LabelMax
		}
		return min(max(reward, low), high)
	}
	return reward
}

// A Behind reports whether records wait in a partition that were not read.
type Behind func(topic string, partition int32) bool

// outcomeClock returns how far event time has come on both sides, NoTime if one has no events: the newest time of the
// events, or that of the topic of outcomes that is furthest behind, if that is less. A topic of which nothing was ever
// applied does not count where another one has. What comes later by that clock is not expected any more.
//
// Where outcomes wait in a partition, time is no more than its newest, and outcomes after seen do not count yet: of
// these some were read and some not. A partition that was read to its end says nothing by its silence. Which wait is no
// part of the state. nil is for none.
func outcomeClock(m *config.Model, ledger []sketch.LedgerRow, behind Behind) (now, seen int64) {
	events, outcomes := int64(sketch.NoTime), map[string]int64{}
	waiting := map[rows.Position]int64{} // newest time of partitions in which outcomes wait
	for i := range ledger {
		l := &ledger[i]
		isOutcome := m.Input.Outcomes.Has(l.Topic)
		if isOutcome && behind != nil && behind(l.Topic, l.Partition) {
			p := rows.Position{Topic: l.Topic, Partition: l.Partition}
			at, known := waiting[p]
			if waiting[p] = l.Watermark; known {
				waiting[p] = max(at, l.Watermark)
			}
		}
		switch {
		case l.Watermark == sketch.NoTime:
		case isOutcome:
			at, known := outcomes[l.Topic]
			if outcomes[l.Topic] = l.Watermark; known {
				outcomes[l.Topic] = max(at, l.Watermark)
			}
		default:
			events = max(events, l.Watermark)
		}
	}
	seen = math.MaxInt64
	for _, at := range waiting {
		seen = min(seen, at)
	}
	if len(outcomes) == 0 || seen == sketch.NoTime {
		return sketch.NoTime, seen
	}
	for _, at := range outcomes {
		events = min(events, at)
	}
	return min(events, seen), seen
}

// until returns the outcomes up to a time, of those in their order.
func until(outcomes []sketch.Outcome, seen int64) []sketch.Outcome {
	n := len(outcomes)
	for n > 0 && outcomes[n-1].Time > seen {
		n--
	}
	return outcomes[:n]
}

// join gives the rows of a sample of events whose labels come later their labels, in their payloads, and leaves rows
// whose label is not final out of the gate's. It returns which share of the outcomes of training and select rows have
// come, nil where every label is final. Before an outcome has met its event there are no rows.
func join(m *config.Model, s *sketch.Sample, behind Behind) (*report.Outcomes, *encode.Open) {
	if !m.Schema.LabelLater {
		return nil, nil
	}
	now, seen := outcomeClock(m, s.Ledger, behind)
	window := m.Input.Outcomes.Window.Std().Milliseconds()
	out, delays := &report.Outcomes{Unmatched: s.Unmatched}, delays{window: float64(window)}
	age := func(r *sketch.Row) int64 {
		if now == sketch.NoTime {
			return 0
		}
		return min(max(0, now-r.Time), window)
	}
	isOpen := func(r *sketch.Row) bool { return now == sketch.NoTime || now-r.Time < window }
	all := 0
	open := [2][]float64{} // ages of open rows, -1 of others
	var ages []float64
	for part, list := range [][]sketch.Row{s.Train, s.Select, s.Gate} {
		for i := range list {
			r := &list[i]
			label := LabelOf(m, r.Time, until(r.Outcomes, seen))
			rows.SetLabel(r.Payload, label.Value)
			out.Late += label.Late
			if len(r.Outcomes) > 0 {
				out.Stubs++
			}
			at := -1.0
			switch {
			case label.Counted > 0:
				out.Joined++
			case isOpen(r):
				out.Open++
				at = float64(age(r))
			}
			if part == int(sketch.Gate) {
				continue
			}
			open[part] = append(open[part], at)
			if ages = append(ages, float64(age(r))); label.Counted > 0 {
				all++
				// An outcome that is ahead of the slower clock was there to be seen.
				delays.add(float64(label.Delay), max(float64(age(r)), float64(label.Delay)))
			}
		}
	}
	out.Stubs += s.Unmatched
	s.Gate = slices.DeleteFunc(s.Gate, func(r sketch.Row) bool { return isOpen(&r) })
	if now == sketch.NoTime || out.Joined == 0 {
		s.Train, s.Select = nil, nil // of no row anything is known before an outcome has met its event
		return out, nil
	}
	delays.fit()
	expected := 0.0
	for _, a := range ages {
		expected += delays.come(a)
	}
	out.Rate = min(float64(all)/max(expected, 1), 1)
	out.Delays = report.Delays{Median: delays.quantile(0.5) / 1000, P90: delays.quantile(0.9) / 1000,
		P99: delays.quantile(0.99) / 1000}
	if out.Open == 0 {
		return out, nil
	}
	for part := range open {
		for i, at := range open[part] {
			if open[part][i] = 1; at >= 0 {
				open[part][i] = delays.come(at)
			}
		}
	}
	return out, &encode.Open{Train: open[sketch.Train], Select: open[sketch.Select], Rate: out.Rate}
}

// OutcomesOf says how the events of a model and their outcomes met, by reading its sample; nil of a model whose labels
// come with its events.
func OutcomesOf(m *config.Model, store *sketch.Store, behind Behind) (*report.Outcomes, error) {
	if !m.Schema.LabelLater {
		return nil, nil
	}
	s, err := store.Sample()
	if err != nil {
		return nil, err
	}
	out, _ := join(m, s, behind)
	return out, nil
}

// Settle gives the rows of a sample their labels, and leaves those out whose label is not known yet: what is learned
// live is learned once. After a start it is not known where outcomes wait: behind is nil then.
func Settle(m *config.Model, s *sketch.Sample, behind Behind) {
	if !m.Schema.LabelLater {
		return
	}
	now, seen := outcomeClock(m, s.Ledger, behind)
	window := m.Input.Outcomes.Window.Std().Milliseconds()
	for _, list := range []*[]sketch.Row{&s.Train, &s.Select, &s.Gate} {
		*list = slices.DeleteFunc(*list, func(r sketch.Row) bool {
			label := LabelOf(m, r.Time, until(r.Outcomes, seen))
			rows.SetLabel(r.Payload, label.Value)
			return label.Counted == 0 && (now == sketch.NoTime || now-r.Time < window)
		})
	}
}

// delays is the distribution of the time between events and their outcomes, from delays that are seen only if they are
// shorter than the age of their event: the product-limit estimate for data truncated on the right (Lynden-Bell 1971,
// Woodroofe 1985). It assumes no form, and is that of the outcomes that come within the oldest age at all.
type delays struct {
	seen   []seenDelay
	at     []float64 // distinct delays, ascending
	before []float64 // share of the outcomes that come up to each of them
	window float64
}

type seenDelay struct{ delay, age float64 }

// add takes in a delay of an event of an age, which is no less.
func (d *delays) add(delay, age float64) { d.seen = append(d.seen, seenDelay{delay, age}) }

// fit computes the distribution:
//
//	F(t) = Π over delays s > t of (1 - d(s)/(n(s)+1))
//
// d(s) of the delays are s, and n(s) are at most s with an age of at least s. The 1 is a floor: where the oldest age
// has one delay alone, F would be 0 below it.
func (d *delays) fit() {
	slices.SortFunc(d.seen, func(a, b seenDelay) int {
		switch {
		case a.delay < b.delay:
			return -1
		case a.delay > b.delay:
			return 1
		}
		return 0
	})
	ages := make([]float64, len(d.seen))
	for i, s := range d.seen {
		ages[i] = s.age
	}
	slices.Sort(ages)
	var of []float64 // 1 - d/(n+1)
	for i := 0; i < len(d.seen); {
		k := i
		for k < len(d.seen) && d.seen[k].delay == d.seen[i].delay {
			k++
		}
		younger := sort.SearchFloat64s(ages, d.seen[i].delay) // whose delays are less, too
		d.at, of = append(d.at, d.seen[i].delay), append(of, 1-float64(k-i)/float64(k-younger+1))
		i = k
	}
	d.before = make([]float64, len(d.at))
	share := 1.0
	for i := len(d.at) - 1; i >= 0; i-- {
		d.before[i] = share
		share *= of[i]
	}
	d.seen = nil
}

// come returns the share of the outcomes that have come at an age. Before any was seen it grows evenly over the window.
func (d *delays) come(age float64) float64 {
	if age >= d.window {
		return 1
	}
	if len(d.at) == 0 {
		return age / d.window
	}
	i := sort.Search(len(d.at), func(i int) bool { return d.at[i] > age })
	if i == 0 {
		return 0
	}
	return d.before[i-1]
}

// quantile returns the least delay by which a share have come.
func (d *delays) quantile(share float64) float64 {
	if len(d.at) == 0 {
		return 0
	}
	i := sort.Search(len(d.at)-1, func(i int) bool { return d.before[i] >= share })
	return d.at[i]
}
