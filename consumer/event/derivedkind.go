package event

import (
	"slices"
	"strconv"
	"time"
)

// A Kind says how a derived field follows from the events before.
type Kind string

// The names of the kinds that other parts of the program know.
const (
	PreviousLabel Kind = "previous_label"
	TimeBin       Kind = "time_bin"
	Age           Kind = "age"
	Count         Kind = "count"
	Last          Kind = "last"
)

// Kinds are all kinds of derived fields. To add one, write its row here; validation, the past of entities and
// configs/docs/components.md follow.
var Kinds = []DerivedKind{
	{
		Name: PreviousLabel,
		Doc: "the label of the entity's event before: a class, a level, 0 or 1, or one of `k` bins of a number; " +
			"a list for a multilabel task",
		OfEntity: true,
		names:    func(dst []string, _ *Derived, _ *Event, p *Past, _ int) []string { return append(dst, p.Label...) },
		note:     func(s *Schema, d *Derived, p *Past, ev *Event, _ int) { p.Label = s.labelNames(ev, d.K) },
	},
	{
		Name:      TimeBin,
		Doc:       "what the event's time is in `unit`, in UTC",
		NeedsTime: true,
		Units:     TimeBins,
		names: func(dst []string, d *Derived, ev *Event, _ *Past, _ int) []string {
			return append(dst, timeBin(ev.Time, d.Unit))
		},
	},
	{
		Name:      Age,
		Doc:       "whole `unit`s since the entity's first event: 0, 1, 2-3, 4-7 and on by powers of two",
		OfEntity:  true,
		NeedsTime: true,
		Units:     []string{"day", "hour", "minute", "second", "week"},
		names: func(dst []string, d *Derived, ev *Event, p *Past, _ int) []string {
			return append(dst, LogBin(max(0, ev.Time-p.First)/AgeUnits[d.Unit]))
		},
	},
	{
		Name:     Count,
		Doc:      "events of the entity before, in the same bins",
		OfEntity: true,
		names: func(dst []string, _ *Derived, _ *Event, p *Past, _ int) []string {
			return append(dst, LogBin(p.Events))
		},
	},
	{
		Name:     Last,
		Doc:      "names in `field` of the entity's last `k` events, each once, newest first; a list",
		OfEntity: true,
		HasField: true,
		names: func(dst []string, _ *Derived, _ *Event, p *Past, list int) []string {
			if list < len(p.Last) {
				dst = appendDistinct(dst, p.Last[list])
			}
			return dst
		},
		note: func(_ *Schema, d *Derived, p *Past, ev *Event, list int) {
			if len(p.Last) == list {
				p.Last = append(p.Last, nil)
			}
			if name := ev.Categorical[d.Field]; name != "" {
				before := p.Last[list]
				p.Last[list] = append([]string{name}, before[:min(len(before), d.K-1)]...)
			}
		},
	},
}

// DerivedKind is what there is to say of a kind.
type DerivedKind struct {
	// Name is the value of kind in the configuration and in manifests. It is not to be changed.
	Name Kind
	// Doc says what a field of the kind has, for configs/docs/components.md.
	Doc string
	// OfEntity says that it follows from the events before of an entity: it has the key of.
	OfEntity bool
	// HasField says that it is a list of the names in another field, which the past keeps for it: it has the key field.
	HasField bool
	// NeedsTime says that it follows from the time of events.
	NeedsTime bool
	// Units are the values of the key unit, none where it has no such key.
	Units []string

	// names appends what a field has to dst, which is empty: one name, or those of a list. p is the past of the entity,
	// nil of a kind without one. list is which list of names in it is that of d, if it is one.
	names func(dst []string, d *Derived, ev *Event, p *Past, list int) []string
	// note adds an event to the past, nil where the time and the number of events suffice.
	note func(s *Schema, d *Derived, p *Past, ev *Event, list int)
}

// KindOf returns the kind of a name, nil for none.
func KindOf(name Kind) *DerivedKind {
	if i := slices.IndexFunc(Kinds, func(k DerivedKind) bool { return k.Name == name }); i >= 0 {
		return &Kinds[i]
	}
	return nil
}

// KindNames returns the names of the kinds.
func KindNames() (names []string) {
	for i := range Kinds {
		names = append(names, string(Kinds[i].Name))
	}
	return names
}

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
