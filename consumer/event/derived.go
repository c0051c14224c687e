package event

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"
)

// A Kind says how a derived field follows from the events before.
type Kind string

// The kinds of derived fields.
const (
	// the label of the entity's event before: a class, a level, 0 or 1, or the bin of a number
	PreviousLabel Kind = "previous_label"
	TimeBin       Kind = "time_bin" // what the event's time is in Unit, in UTC
	Age           Kind = "age"      // whole units since the entity's first event, by LogBin
	Count         Kind = "count"    // events of the entity before, by LogBin
	Last          Kind = "last"     // names in Field of the entity's last K events, each once, newest first
)

// Kinds are all of them.
var Kinds = []Kind{PreviousLabel, TimeBin, Age, Count, Last}

// TimeBins are the units of a TimeBin: the hour is 0 to 23, the weekday 1 to 7 from Monday, the day 1 to 31, the month
// 1 to 12.
var TimeBins = []string{"hour", "weekday", "day", "month"}

// AgeUnits are the units of an Age, in milliseconds.
var AgeUnits = map[string]int64{
	"second": 1000,
	"minute": 60_000,
	"hour":   3_600_000,
	"day":    86_400_000,
	"week":   604_800_000,
}

// A Derived field has, in place of what a value says there, what follows from the time of the event and from the events
// before it of the same entity, never from its own label. Where nothing follows the event lacks the field, which is an
// optional one.
type Derived struct {
	Kind  Kind
	Of    int    // categorical field whose names are the entities; -1 for a TimeBin
	Unit  string // of TimeBins, or a key of AgeUnits
	K     int    // Last: events; PreviousLabel of a regression: bins between LabelMin and LabelMax
	Field int    // Last: a categorical field
	Multi bool   // whether it is a multi field: Last, and PreviousLabel of a multilabel task
	At    int    // index of the field itself, in Categorical or Multi
}

// A Past is what derived fields need of the events of one entity so far.
type Past struct {
	First, Time int64 // when its first and its last event were, in milliseconds
	Events      int64
	Label       []string // of the last one, as PreviousLabel has it
	// for each Last field of the entity, in the order of the schema, the names of its last K events, newest first
	Last [][]string
}

// IsDerived reports whether a categorical field, or a multi field, by its index, is a derived one.
func (s *Schema) IsDerived(field int, multi bool) bool {
	return slices.ContainsFunc(s.Derived, func(d Derived) bool { return d.At == field && d.Multi == multi })
}

// Entities returns the categorical fields of whose names Derive needs the past, in the order of the derived fields.
func (s *Schema) Entities() (fields []int) {
	for _, d := range s.Derived {
		if d.Of >= 0 && !slices.Contains(fields, d.Of) {
			fields = append(fields, d.Of)
		}
	}
	return fields
}

// Derive fills the derived fields of an event, and the crosses they are part of. past returns the Past of the name
// that the event has in a field of Entities. Nil means that this is the first event of the entity.
func (s *Schema) Derive(ev *Event, past func(field int) *Past) {
	last := make([]int, len(s.Categorical)) // Last fields so far, by entity
	for _, d := range s.Derived {
		name, names := "", []string(nil)
		var p *Past
		if d.Of >= 0 && ev.Categorical[d.Of] != "" {
			if p = past(d.Of); p == nil {
				p = &Past{First: ev.Time}
			}
		}
		switch {
		case d.Kind == TimeBin:
			name = timeBin(ev.Time, d.Unit)
		case d.Kind == Last:
			if i := last[d.Of]; p != nil && i < len(p.Last) {
				names = distinct(p.Last[i])
			}
			last[d.Of]++
		case p == nil:
		case d.Kind == Age:
			name = LogBin(max(0, ev.Time-p.First) / AgeUnits[d.Unit])
		case d.Kind == Count:
			name = LogBin(p.Events)
		case d.Multi:
			names = p.Label
		case len(p.Label) > 0:
			name = p.Label[0]
		}
		if d.Multi {
			ev.Multi[d.At] = append(emptied(ev.Multi[d.At]), names...)
		} else {
			ev.Categorical[d.At] = name
		}
	}
	s.Complete(ev)
}

// Underive empties the derived fields of an event, and the crosses they are part of.
func (s *Schema) Underive(ev *Event) {
	for _, d := range s.Derived {
		if d.Multi {
			ev.Multi[d.At] = emptied(ev.Multi[d.At])
		} else {
			ev.Categorical[d.At] = ""
		}
	}
	s.Complete(ev)
}

// Note adds an event to the past of the entity that it has in a field.
func (s *Schema) Note(p *Past, field int, ev *Event) {
	if p.Events == 0 {
		p.First = ev.Time
	}
	p.Time = ev.Time
	p.Events++
	last := 0
	for _, d := range s.Derived {
		switch {
		case d.Of != field:
		case d.Kind == PreviousLabel:
			p.Label = s.labelNames(ev, d.K)
		case d.Kind == Last:
			if len(p.Last) == last {
				p.Last = append(p.Last, nil)
			}
			if name := ev.Categorical[d.Field]; name != "" {
				list := p.Last[last]
				p.Last[last] = append([]string{name}, list[:min(len(list), d.K-1)]...)
			}
			last++
		}
	}
}

// ForgetNames takes the names for which is reports true out of the lists of names.
func (p *Past) ForgetNames(is func(name string) bool) {
	for i := range p.Last {
		p.Last[i] = slices.DeleteFunc(p.Last[i], is)
	}
}

// labelNames returns the label of an event as a list of names.
func (s *Schema) labelNames(ev *Event, bins int) []string {
	switch {
	case s.Task.HasClasses():
		return slices.Clone(ev.Classes)
	case s.Task == Regression:
		at := float64(bins) * ((ev.Label - s.LabelMin) / (s.LabelMax - s.LabelMin))
		return []string{strconv.Itoa(int(min(max(at, 0), float64(bins-1))))}
	}
	return []string{strconv.Itoa(int(ev.Label))}
}

// LogBin returns the name of the bin of a whole number from 0 on: 0, 1, 2-3, 4-7 and on by powers of two.
func LogBin(n int64) string {
	if n < 2 {
		return strconv.FormatInt(max(0, n), 10)
	}
	low := int64(1) << (bits.Len64(uint64(n)) - 1)
	return fmt.Sprintf("%d-%d", low, low+(low-1))
}

func timeBin(ms int64, unit string) string {
	t := time.UnixMilli(ms).UTC()
	n := t.Hour()
	switch unit {
	case "weekday":
		n = (int(t.Weekday())+6)%7 + 1
	case "day":
		n = t.Day()
	case "month":
		n = int(t.Month())
	}
	return strconv.Itoa(n)
}

// distinct returns the names of a list, each once.
func distinct(list []string) []string {
	var out []string
	for _, name := range list {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
