package cycle

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestFindGroups: functions of an entity join it; what varies with the event, and a cross, stand for themselves.
func TestFindGroups(t *testing.T) {
	draw := func(n int, fields func(r *rand.Rand, u, i int) (names []string, lists [][]string)) []event.Event {
		r := rand.New(rand.NewPCG(3, 3))
		events := make([]event.Event, n)
		for e := range events {
			u, i := r.IntN(50), r.IntN(30)
			events[e].Categorical, events[e].Multi = fields(r, u, i)
		}
		return events
	}
	user := func(u int) string { return fmt.Sprint("u", u) }
	item := func(i int) string { return fmt.Sprint("i", i) }
	for _, c := range []struct {
		name   string
		schema event.Schema
		events []event.Event
		want   []int32
	}{
		{"age of user, year and genres of item", event.Schema{Categorical: []string{"user", "item", "age", "year"},
			Multi: []string{"genre"}},
			draw(2000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(u % 7), fmt.Sprint(i % 5)}, [][]string{{fmt.Sprint(i % 3), fmt.Sprint(i % 4)}}
			}), []int32{0, 1, 0, 1, 1}},
		{"a third group", event.Schema{Categorical: []string{"user", "item", "age", "hour"}},
			draw(2000, func(r *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(u % 7), fmt.Sprint(r.IntN(24))}, nil
			}), []int32{0, 1, 0, 3}},
		{"an hour of its own", event.Schema{Categorical: []string{"user", "item", "hour"}},
			draw(2000, func(r *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(r.IntN(24))}, nil
			}), nil},
		{"a cross of both", event.Schema{Categorical: []string{"user", "item", "pair"}},
			draw(8000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), user(u) + item(i)}, nil
			}), nil},
		{"a chain: a session has a user, who has an age", event.Schema{Categorical: []string{"session", "user", "age", "item"}},
			draw(4000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				s := u*4 + i%4
				return []string{fmt.Sprint("s", s), user(u), fmt.Sprint(u % 7), item(i * 7 % 30)}, nil
			}), []int32{0, 0, 0, 3}},
		{"names that come once say nothing", event.Schema{Categorical: []string{"request", "user", "item"}},
			draw(500, func(r *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{fmt.Sprint(r.Int64()), user(u), item(i)}, nil
			}), nil},
		{"said, though it varies", event.Schema{Categorical: []string{"user", "item", "mood"}, Of: map[string]string{"mood": "user"}},
			draw(2000, func(r *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(r.IntN(5))}, nil
			}), []int32{0, 1, 0}},
		{"said of the other one", event.Schema{Categorical: []string{"user", "item", "age"}, Of: map[string]string{"age": "item"}},
			draw(2000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(u % 7)}, nil
			}), []int32{0, 1, 1}},
		{"said against what is found", event.Schema{Categorical: []string{"user", "item", "age"}, Of: map[string]string{"user": "age"}},
			draw(2000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(u % 7)}, nil
			}), []int32{2, 1, 2}},
		{"a declared cross determines nothing", event.Schema{Categorical: []string{"user", "item", "user×item"}, Cross: []event.Cross{{0, 1}}},
			draw(8000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), user(u) + "×" + item(i)}, nil
			}), nil},
		{"two fields have nothing to add up", event.Schema{Categorical: []string{"user", "age"}},
			draw(500, func(_ *rand.Rand, u, _ int) ([]string, [][]string) { return []string{user(u), fmt.Sprint(u % 7)}, nil }), nil},
	} {
		fields := len(c.schema.Categorical) + len(c.schema.Multi) + len(c.schema.Numeric)
		if got := findGroups(&c.schema, c.events, fields); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: groups %v, want %v", c.name, got, c.want)
		}
	}
}

// sideModel is ratingsModel with fields that are functions of user and item.
func sideModel(change func(*config.Model)) *config.Model {
	return ratingsModel(func(m *config.Model) {
		m.Schema.Categorical = []string{"user", "item", "age", "job", "year"}
		if change != nil {
			change(m)
		}
	})
}

// withSides adds the side fields to events of stream.
func withSides(events []event.Event) []event.Event {
	for i := range events {
		var u, v int
		fmt.Sscanf(events[i].Categorical[0], "u%d", &u)
		fmt.Sscanf(events[i].Categorical[1], "i%d", &v)
		events[i].Categorical = append(events[i].Categorical[:2:2], fmt.Sprint("a", u%7), fmt.Sprint("j", u%11), fmt.Sprint("y", v%5))
	}
	return events
}

// TestSideFieldsDoNoHarm: fields that are functions of user and item but say nothing of the label cost next to nothing, for what consumers have,
// known users and new ones alike, over several warm refits.
func TestSideFieldsDoNoHarm(t *testing.T) {
	tier.NotUnderRace(t)
	run := func(m *config.Model, events []event.Event) (known, fresh float64) {
		c := newCycle(t, m)
		for to := 1500; to <= 6000; to += 1500 {
			observeAll(c, events[to-1500:to])
			c.Install(refit(t, c, sampleOf(events[:to])))
		}
		champion := c.Champion()
		scorer, outputs := newScorer(champion.Model, champion.Vocabulary), make([]float64, c.target.Outputs())
		for i := range events[6000:] {
			ev := events[6000+i]
			scorer.outputs(outputs, &ev)
			known += squared(c.target.Clip(c.target.Value(outputs))-ev.Label) / 1000
			ev.Categorical = append([]string{"nobody"}, ev.Categorical[1:]...)
			scorer.outputs(outputs, &ev)
			fresh += squared(c.target.Clip(c.target.Value(outputs))-ev.Label) / 1000
		}
		return known, fresh
	}
	two, twoFresh := run(ratingsModel(nil), stream(9, 7000))
	all, allFresh := run(sideModel(nil), withSides(stream(9, 7000)))
	t.Logf("squared error of known and new users: two fields %.3f %.3f, with side fields %.3f %.3f", two, twoFresh, all, allFresh)
	if all > 1.1*two || allFresh > 1.1*twoFresh {
		t.Errorf("squared error of known and new users: two fields %.3f %.3f, with side fields %.3f %.3f", two, twoFresh, all, allFresh)
	}
}
