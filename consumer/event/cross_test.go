package event

import (
	"slices"
	"testing"
)

// TestCrosses: an event has the names of its crosses, whichever way it is read, and lacks those of which it lacks a
// part.
func TestCrosses(t *testing.T) {
	s := Schema{
		Task:        Binary,
		Label:       "y",
		Time:        "ts",
		Categorical: []string{"user", "item", "hour", "user×item", "item×hour×user"},
		Optional:    []string{"hour"},
		Cross:       []Cross{{0, 1}, {1, 2, 0}},
	}
	d := NewJSON(s, DefaultLimits())
	var ev Event
	for in, want := range map[string][]string{
		`{"user":"u1","item":7,"hour":"h","y":1,"ts":1}`:                         {"u1", "7", "h", "u1×7", "7×h×u1"},
		`{"user":"u\u0031","item":7,"hour":"h","y":1,"ts":1}`:                    {"u1", "7", "h", "u1×7", "7×h×u1"},
		`{"user":"u1","item":7,"y":1,"ts":1}`:                                    {"u1", "7", "", "u1×7", ""},
		`{"user":"u2","item":7,"hour":null,"y":1,"ts":1,"user×item":"not read"}`: {"u2", "7", "", "u2×7", ""},
		`{"other":{"deep":[1]},"user":"u3","item":"i","hour":0,"y":true,"ts":1}`: {"u3", "i", "0", "u3×i", "i×0×u3"},
	} {
		if r := d.Decode(&ev, []byte(in), now); r != nil {
			t.Fatal(r)
		}
		if !slices.Equal(ev.Categorical, want) {
			t.Errorf("%s: %q, want %q", in, ev.Categorical, want)
		}
		again := Event{Categorical: slices.Clip(slices.Clone(ev.Categorical[:s.NumGiven()]))}
		if s.Complete(&again); !slices.Equal(again.Categorical, want) {
			t.Errorf("%s: completed %q, want %q", in, again.Categorical, want)
		}
	}
	for _, c := range s.Causes() {
		if c.Field == "user×item" {
			t.Errorf("%v: nobody gives a cross", c)
		}
	}
}
