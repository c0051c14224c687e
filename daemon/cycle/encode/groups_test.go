package encode

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestFindGroups: functions of an entity join its group. What varies with the event, and a cross, are separate.
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
				return []string{user(u), item(i), fmt.Sprint(u % 7), fmt.Sprint(i % 5)}, [][]string{{fmt.Sprint(i % 3), fmt.Sprint(
					i % 4)}}
			}), []int32{0, 1, 0, 1, 1}},
		{"a third group", event.Schema{Categorical: []string{"user", "item", "age", "hour"}},
			draw(2000, func(r *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(u % 7), fmt.Sprint(r.IntN(24))}, nil
			}), []int32{0, 1, 0, 3}},
		{"a separate hour", event.Schema{Categorical: []string{"user", "item", "hour"}},
			draw(2000, func(r *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(r.IntN(24))}, nil
			}), nil},
		{"a cross of both", event.Schema{Categorical: []string{"user", "item", "pair"}},
			draw(8000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), user(u) + item(i)}, nil
			}), nil},
		{"a chain: a session has a user, who has an age", event.Schema{Categorical: []string{"session", "user", "age",
			"item"}},
			draw(4000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				s := u*4 + i%4
				return []string{fmt.Sprint("s", s), user(u), fmt.Sprint(u % 7), item(i * 7 % 30)}, nil
			}), []int32{0, 0, 0, 3}},
		{"names that come once say nothing", event.Schema{Categorical: []string{"request", "user", "item"}},
			draw(500, func(r *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{fmt.Sprint(r.Int64()), user(u), item(i)}, nil
			}), nil},
		{"said, though it varies", event.Schema{Categorical: []string{"user", "item", "mood"},
			Of: map[string]string{"mood": "user"}},
			draw(2000, func(r *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(r.IntN(5))}, nil
			}), []int32{0, 1, 0}},
		{"said of the other one", event.Schema{Categorical: []string{"user", "item", "age"},
			Of: map[string]string{"age": "item"}},
			draw(2000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(u % 7)}, nil
			}), []int32{0, 1, 1}},
		{"said against what is found", event.Schema{Categorical: []string{"user", "item", "age"},
			Of: map[string]string{"user": "age"}},
			draw(2000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), fmt.Sprint(u % 7)}, nil
			}), []int32{2, 1, 2}},
		{"a declared cross determines nothing", event.Schema{Categorical: []string{"user", "item", "user×item"},
			Cross: []event.Cross{{0, 1}}},
			draw(8000, func(_ *rand.Rand, u, i int) ([]string, [][]string) {
				return []string{user(u), item(i), user(u) + "×" + item(i)}, nil
			}), nil},
		{"two fields have nothing to add up", event.Schema{Categorical: []string{"user", "age"}},
			draw(500, func(_ *rand.Rand, u, _ int) ([]string, [][]string) { return []string{user(u), fmt.Sprint(u % 7)}, nil }),
			nil},
	} {
		fields := len(c.schema.Categorical) + len(c.schema.Multi) + len(c.schema.Numeric)
		if got := FindGroups(&c.schema, c.events, fields); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: groups %v, want %v", c.name, got, c.want)
		}
	}
}
