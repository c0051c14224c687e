package negatives_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/daemon/ingest/negatives"
	"github.com/refitd/refitd/sketch"
)

// choosers are streams whose choices depend on nothing but the age and the count of names.
var choosers = map[string]func(r *rand.Rand, before []string) string{
	"as often as before": func(r *rand.Rand, before []string) string {
		if len(before) < 200 || r.IntN(8) == 0 {
			return fmt.Sprint("n", len(before))
		}
		return before[r.IntN(len(before))]
	},
	"what was chosen lately": func(r *rand.Rand, before []string) string {
		if len(before) == 0 || r.IntN(5) == 0 {
			return fmt.Sprint("n", len(before))
		}
		return before[len(before)-1-r.IntN(min(len(before), 300))]
	},
	"what is new": func(r *rand.Rand, before []string) string {
		return fmt.Sprint("n", max(0, len(before)/8-r.IntN(
			100)))
	},
	"all alike": func(r *rand.Rand, _ []string) string { return fmt.Sprint("n", r.IntN(2000)) },
	"a few":     func(r *rand.Rand, _ []string) string { return fmt.Sprint("n", int(90*math.Pow(r.Float64(), 3))) },
}

// seenName is what a learner may know of a name: how many choices there were of it, and how many events ago the first
// and the last was.
type seenName struct{ count, first, last int }

// features puts what is known of a name into one of a few hundred classes.
func (s seenName) features(now int) [3]int {
	if s.count == 0 {
		return [3]int{-1}
	}
	return [3]int{
		min(s.count, 8) + bits.Len(uint(s.count)),
		bits.Len(uint(now - s.first)),
		bits.Len(uint(now - s.last)),
	}
}

// table learns how often events of a class are choices, from what came before.
type table map[[3]int][2]float64

// learn returns the loss of an event, which it learns, less that of the share of all choices.
func (t table) learn(class [3]int, share, label float64) float64 {
	n := t[class]
	loss := func(p float64) float64 { return -label*math.Log(p) - (1-label)*math.Log(1-p) }
	d := loss((n[1]+8*share)/(n[0]+8)) - loss(share)
	n[0]++
	n[1] += label
	t[class] = n
	return d
}

func blindModel() *config.Model {
	m := ingesttest.Choices(30_000)
	m.Schema.Label, m.Schema.EventWeights, m.Schema.Of, m.Schema.Categorical = "", nil, nil, []string{"user", "item"}
	m.Train.FoldIn.By = nil
	m.Resolve()
	return m
}

// TestAgeAndCountSayNothing (K8b): where choices depend on nothing but the age and the count of names, a learner that
// knows both predicts what is learned no better than by the share of choices among it, event by event and in the rows
// of a refit, held-out ones included.
func TestAgeAndCountSayNothing(t *testing.T) {
	tier.NotUnderRace(t)
	// Of a loss of 0.5. Names drawn alike give 0.05 to 0.15 of it; where names go out of use none is exactly as old as
	// another.
	gains := map[string]float64{"what was chosen lately": 0.02, "what is new": 0.02} // in the mean of many events
	for name, choose := range choosers {
		t.Run(name, func(t *testing.T) {
			m, gain := blindModel(), max(0.002, gains[name])
			r, c := rand.New(rand.NewPCG(4, 8)), negatives.New(m, negatives.Kept)
			store, err := sketch.NewMemory(ingest.StoreOptions(m))
			if err == nil {
				err = store.Begin("t", 0, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			g := ingest.New(m, store, nil)
			var before []string
			known, online := make(map[string]seenName), make(table)
			var run []cycle.Observation
			sum, n, share := 0.0, 0.0, 0.2
			events := 12_000
			if gains[name] == 0 {
				events = tier.Size(5000, events)
			}
			for i := range events {
				item := choose(r, before)
				before = append(before, item)
				ev := event.Event{
					Label:       1,
					Weight:      1,
					Time:        1_700_000_000_000 + int64(i),
					Categorical: []string{fmt.Sprint("u", r.IntN(50)), item},
				}
				run = c.Observations(run[:0],
					cycle.Observation{Event: &ev, Learn: true, Position: rows.Position{Topic: "t", Offset: int64(i)}})
				for _, o := range run {
					if !o.First {
						sum += online.learn(known[o.Event.Categorical[1]].features(i), share, o.Event.Label)
						n++
					}
				}
				of := known[item]
				if of.count == 0 {
					of.first = i
				}
				known[item] = seenName{of.count + 1, of.first, i}
				if err := g.Feed("t", 0, int64(i), &ev); err != nil {
					t.Fatal(err)
				}
			}
			if n < 10_000 || -sum/n > gain {
				t.Errorf("of %g observed events age and count give %.4f", n, -sum/n)
			}
			if err := g.Flush(); err != nil {
				t.Fatal(err)
			}
			s, err := ingest.TakeSample(m, store, nil)
			if err != nil {
				t.Fatal(err)
			}
			counts := make(map[string]seenName)
			decoded := func(rowList [][]byte) (events []event.Event) {
				for _, row := range rowList {
					var ev event.Event
					if err := rows.DecodeEvent(&ev, row, make(map[string]string)); err != nil {
						t.Fatal(err)
					}
					events = append(events, ev)
				}
				return events
			}
			train := decoded(s.Train)
			for i, ev := range train {
				of, at := counts[ev.Categorical[1]], int(s.TrainAge[i])
				if ev.Label == 0 {
					continue
				}
				if of.count == 0 {
					of.first, of.last = at, at
				}
				counts[ev.Categorical[1]] = seenName{of.count + 1, max(of.first, at), min(of.last, at)}
			}
			for part, rows := range map[string][]event.Event{"training": train, "select": decoded(s.Select), "gate": decoded(
				s.Gate)} {
				sum, by := 0.0, make(table)
				share := 0.0
				for i := range rows {
					share += rows[i].Label / float64(len(rows))
				}
				for _, at := range r.Perm(len(rows)) {
					of := counts[rows[at].Categorical[1]]
					class := [3]int{min(of.count, 8) + bits.Len(uint(of.count)), bits.Len(uint(of.last) / 16)}
					sum += by.learn(class, share, rows[at].Label)
				}
				if mean := -sum / float64(len(rows)); len(rows) < 1000 || mean > gain {
					t.Errorf("of %d %s rows age and count give %.4f", len(rows), part, mean)
				}
			}
		})
	}
}
