package encode

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot/format"
)

// TestObserved: category, tags, price and weight of an item, and the age of a user, are columns of their tables, with
// what the newest event said. What varies with the event, what is nearly always the same, and what events may lack are
// none.
func TestObserved(t *testing.T) {
	schema := event.Schema{Categorical: []string{"user", "item", "category", "age", "hour", "promotion", "brand"},
		Numeric: []string{"price", "load", "weight"}, Multi: []string{"tags"}, Optional: []string{"brand"},
		Of: map[string]string{"price": "item"}}
	r := rand.New(rand.NewPCG(7, 7))
	events, ages := make([]event.Event, 4000), make([]float64, 4000)
	for e := range events {
		u, i, promotion := r.IntN(50), r.IntN(30), "no"
		if r.IntN(300) == 0 {
			promotion = "yes"
		}
		price, age := 1.5*float64(i), float64(len(events)-e)
		if i == 3 && e > 3990 {
			price = 99
		}
		events[e] = event.Event{Categorical: []string{fmt.Sprint("u", u), fmt.Sprint("i", i), fmt.Sprint("c", i%5),
			fmt.Sprint("a", u%7), fmt.Sprint(r.IntN(24)), promotion, fmt.Sprint("b", i%4)},
			Numeric: []float64{price, r.Float64(), float64(i)}, Multi: [][]string{{fmt.Sprint("t", i%3)}}}
		ages[e] = age
	}
	// The newest event comes first: ages say so.
	newest := event.Event{Categorical: slices.Clone(events[0].Categorical), Numeric: []float64{99, 0, 3}}
	newest.Categorical[1], newest.Categorical[2], newest.Categorical[6] = "i3", "c3", "b3"
	newest.Multi = [][]string{{"t0"}}
	events, ages = append([]event.Event{newest}, events...), append([]float64{0}, ages...)

	tables := Observed(&schema, events, ages)
	if len(tables) != 2 {
		t.Fatalf("%d tables, want those of user and item", len(tables))
	}
	for i, want := range [][]string{{"age"}, {"category", "tags", "price", "weight"}} {
		if got := tables[i].Columns(); !IsObserved(tables[i]) || !reflect.DeepEqual(got, want) {
			t.Errorf("table %s has columns %q, want %q", tables[i].Name, got, want)
		}
	}
	at := tables[1].Find("i3")
	want := &format.TableRow{Table: 1, Name: "i3", Categorical: []string{"c3"}, Multi: [][]string{{"t0"}},
		Numeric: []float64{99, 3}}
	if got := tables[1].Row(1, at); !reflect.DeepEqual(got, want) {
		t.Errorf("i3 is %+v, want %+v", got, want)
	}
}
