package guard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

func TestReservoirIsCappedByEntity(t *testing.T) {
	var r fitted.Reservoir
	for i := range 10_000 {
		add(&r, fitted.GuardRow{Entity: fmt.Sprint(i % 200), Payload: []byte{1}}, GuardSize)
	}
	for range 10_000 {
		add(&r, fitted.GuardRow{Entity: "one", Payload: []byte{2}}, GuardSize)
	}
	count := make(map[string]int)
	for _, row := range r.Rows {
		count[row.Entity]++
	}
	if len(r.Rows) != GuardSize || count["one"] > guardOfEntity {
		t.Errorf("%d rows, %d of one entity", len(r.Rows), count["one"])
	}
	for entity, n := range r.Count {
		if count[entity] != n {
			t.Errorf("entity %s has %d rows, counted %d", entity, count[entity], n)
		}
	}
	add(&r, fitted.GuardRow{Entity: "large", Payload: make([]byte, guardRowBytes+1)}, GuardSize)
	if r.Count["large"] != 0 {
		t.Error("a row above the limit was kept")
	}
}

// TestVerdict: what passes and what does not, for the three sets.
func TestVerdict(t *testing.T) {
	rows := func(unseen, current float64) *RowDifferences {
		return &RowDifferences{
			N:       100,
			Counted: 100,
			Unseen:  Difference{Mean: unseen, Variance: 1e-4, Against: 1},
			Current: Difference{Mean: current, Variance: 1e-4, Against: 1},
		}
	}
	gains := func(unseen, current float64) *RowDifferences {
		of := rows(unseen, current)
		of.Refit = Difference{Mean: -0.3, Variance: 1e-4, Against: 1}
		return of
	}
	// The held-out rows are learned by the refit: their loss before that hides what the update has lost of it.
	forgets := rows(0.1, 0.1)
	forgets.Refit = Difference{Mean: 0.2, Variance: 0.01, Against: 0.9}
	oneLabel := gains(-0.3, -0.3)
	oneLabel.labels[2] = labelDifference{GuardLeast, Difference{Mean: 0.3, Variance: 1e-4, Against: 1}}
	stuck := gains(-0.05, 0)
	stuck.Counted = GuardLeast - 1
	few := rows(1, 1)
	few.N = GuardLeast - 1
	noisy := rows(0.2, 0.1)
	noisy.Unseen.Variance = 0.01
	beyond := rows(0, 0)
	beyond.beyond = true
	for name, test := range map[string]struct {
		held, recent, latest *RowDifferences
		of                   flood
		want                 HeldBack
	}{
		"as good":                     {rows(0, 0), rows(0, 0), rows(0, 0), flood{}, ""},
		"within the margin":           {rows(0.16, 0.1), rows(0.1, 0.1), rows(0.1, 0.1), flood{}, ""},
		"held-out rows":               {rows(0.2, 0.1), rows(0, 0), rows(0, 0), flood{}, HeldBackHoldout},
		"no worse than what is there": {rows(0.2, 0), rows(0.2, 0), rows(0.2, 0), flood{}, ""},
		"recent events":               {rows(0, 0), rows(0.2, 0.1), rows(0, 0), flood{}, HeldBackWindow},
		"after a change":              {rows(1, 1), rows(1, 1), gains(-0.3, -0.3), flood{}, ""},
		"a while after a change":      {rows(1, 1), rows(1, 1), gains(-0.05, 0), flood{}, ""},
		"one label":                   {rows(1, 1), rows(0, 0), gains(-0.3, -0.3), flood{labels: true}, HeldBackHoldout},
		"one label alone": {noisy, rows(0, 0), gains(-0.3, -0.3), flood{labels: true, gone: true},
			HeldBackHoldout},
		"half one label":               {noisy, rows(0, 0), oneLabel, flood{}, HeldBackHoldout},
		"half one label, by its refit": {forgets, rows(0, 0), oneLabel, flood{}, HeldBackHoldout},
		"worse than its refit alone":   {forgets, rows(0, 0), gains(-0.3, -0.3), flood{}, ""},
		"one name":                     {rows(1, 1), rows(0, 0), gains(-0.3, -0.3), flood{name: true}, HeldBackHoldout},
		"copies":                       {rows(1, 1), rows(0, 0), gains(-0.3, -0.3), flood{stuck: true}, HeldBackHoldout},
		"copies, by a small step":      {noisy, rows(0, 0), gains(-0.3, -0.3), flood{stuck: true}, HeldBackHoldout},
		"copies, worse than before":    {rows(0, 0.2), rows(0, 0), rows(0, 0), flood{stuck: true}, HeldBackHoldout},
		"worse than before":            {rows(0, 0.2), rows(0, 0), rows(0, 0), flood{}, ""},
		"a small step without copies":  {noisy, rows(0, 0), gains(-0.3, -0.3), flood{}, ""},
		"by few events that differ":    {rows(1, 1), rows(0, 0), stuck, flood{}, HeldBackHoldout},
		"worse of late":                {rows(1, 1), rows(0, 0), gains(0.2, 0.1), flood{}, HeldBackWindow},
		"latest events":                {rows(0, 0), rows(0, 0), rows(0.2, 0.1), flood{}, HeldBackWindow},
		"few rows":                     {few, few, few, flood{}, ""},
		"outputs":                      {rows(0, 0), beyond, rows(0, 0), flood{}, HeldBackOutputs},
	} {
		if got := verdict(test.held, test.recent, test.latest, 0, test.of); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestReservoirReplacesTheOldest: the row that makes place is the one that was added first, of the entity where that
// has its share, as by a walk over all rows.
func TestReservoirReplacesTheOldest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r fitted.Reservoir
	added := make([]float64, 0, GuardSize) // by row, when it was added
	for n := range 4000 {
		entity := fmt.Sprint("e", int(200*rng.Float64()*rng.Float64()))
		own := r.Count[entity] >= max(guardOfEntity, GuardSize/max(len(r.Count), 1))
		at := len(r.Rows)
		if own || at == GuardSize {
			at = -1
			for i := range r.Rows {
				if (!own || r.Rows[i].Entity == entity) && (at < 0 || added[i] < added[at]) {
					at = i
				}
			}
		} else {
			added = append(added, 0)
		}
		added[at] = float64(n)
		if add(&r, fitted.GuardRow{Entity: entity, Label: float64(n)}, GuardSize); r.Rows[at].Label != float64(n) {
			t.Fatalf("row %d of %s is not in place %d, the oldest", n, entity, at)
		}
	}
}

// TestFindFlood: what the latest events have in common is found, and not what the held-out rows have, too.
func TestFindFlood(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	drawn := func() event.Event {
		return event.Event{
			Label:       float64(rng.IntN(2)),
			Weight:      1,
			Categorical: []string{fmt.Sprint("i", rng.IntN(200)), fmt.Sprint("day", rng.IntN(7))},
			Multi:       [][]string{{fmt.Sprint("t", rng.IntN(200))}},
		}
	}
	with := func(change func(ev *event.Event)) func(int) event.Event {
		return func(int) event.Event {
			ev := drawn()
			change(&ev)
			return ev
		}
	}
	plain := func(n int) (events []event.Event) {
		for range n {
			events = append(events, drawn())
		}
		return events
	}
	stuck, many := plain(3), plain(40)
	few := with(func(ev *event.Event) { *ev = event.Event{Weight: 1, Label: ev.Label} })
	any := func(int) event.Event { return drawn() }
	mixed := func(share int) func(i int) event.Event {
		return func(i int) event.Event {
			if i%share == 0 {
				return stuck[0]
			}
			return drawn()
		}
	}
	for name, test := range map[string]struct {
		held, latest func(i int) event.Event
		want         flood
	}{
		"as before":     {any, any, flood{}},
		"a few in turn": {any, func(i int) event.Event { return stuck[i%2] }, flood{stuck: true}},
		"forty in turn": {any, func(i int) event.Event { return many[i%40] }, flood{stuck: true}},
		"forty, labels of others": {any, func(i int) event.Event {
			ev := many[i%40]
			ev.Label = float64(rng.IntN(9))
			return ev
		}, flood{stuck: true}},
		"a third of one":          {any, mixed(3), flood{stuck: true}},
		"a fifth of one":          {any, mixed(5), flood{}},
		"as before a third":       {mixed(3), mixed(3), flood{}},
		"few kinds of events":     {any, few, flood{stuck: true}},
		"few kinds as before":     {few, few, flood{}},
		"one name":                {any, with(func(ev *event.Event) { ev.Categorical[0] = "none" }), flood{name: true}},
		"one name in lists":       {any, with(func(ev *event.Event) { ev.Multi[0][0] = "none" }), flood{name: true}},
		"one name of seven":       {any, with(func(ev *event.Event) { ev.Categorical[1] = "day3" }), flood{}},
		"times alone are others":  {any, with(func(ev *event.Event) { ev.Time = 7 }), flood{}},
		"weights alone are other": {few, with(func(ev *event.Event) { *ev = event.Event{Weight: 3} }), flood{}},
	} {
		g := New(&encode.Target{}, -1, GuardSize)
		for i := range GuardSize {
			ev := test.held(i)
			add(&g.Held[0], fitted.GuardRow{Label: ev.Label, Payload: rows.AppendEvent(nil, &ev)}, GuardSize)
			g.Held[0].Seen++
		}
		for i := range guardLatest + 100 {
			ev := test.latest(i)
			g.Observe(&ev, &evaluate.EventOutcome{Present: true})
		}
		if got := g.findFlood(g.heldLabels()); got.name != test.want.name || got.stuck != test.want.stuck {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestLatestEventsAreFew: the latest events are guardLatest, of a binary label too, unless one is rare.
func TestLatestEventsAreFew(t *testing.T) {
	for _, every := range []int{2, 100} {
		g := New(&encode.Target{Objective: config.Objective{Task: event.Binary}}, -1, GuardSize)
		for i := range 5000 {
			ev := event.Event{Weight: 1, Numeric: []float64{float64(i)}}
			if i%every == 0 {
				ev.Label = 1
			}
			g.Observe(&ev, &evaluate.EventOutcome{Present: true})
		}
		if n := len(g.latest[0].Rows) + len(g.latest[1].Rows); n > guardLatest {
			t.Errorf("%d latest events, want %d", n, guardLatest)
		}
		var oldest float64 = 5000
		g.each(&g.latest, 1, func(ev *event.Event) { oldest = min(oldest, ev.Numeric[0]) })
		if every == 2 && oldest < 5000-guardLatest {
			t.Errorf("event %g is among the latest", oldest)
		}
	}
}
