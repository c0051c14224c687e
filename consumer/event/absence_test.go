package event

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// optional has a required and an optional field of each kind.
var optional = Schema{
	Task:        Regression,
	Label:       "y",
	Identity:    "user",
	Categorical: []string{"user", "city"},
	Numeric:     []string{"age", "price"},
	Multi:       []string{"tags", "extras"},
	Optional:    []string{"city", "extras", "price"},
}

// TestOptionalFields: an optional field that is absent or null is "", NaN or an empty list, whatever the event before
// had; another one is named.
func TestOptionalFields(t *testing.T) {
	full := `{"user":"u","city":"c","age":1,"price":2,"tags":["t"],"extras":["e"],"y":1}`
	for in, want := range map[string]struct {
		city   string
		price  float64
		extras int
		absent []string
	}{
		full: {"c", 2, 1, nil},
		`{"user":"u","age":1,"tags":["t"],"y":1}`: {"", math.NaN(), 0,
			[]string{"city", "price", "extras"}},
		`{"user":"u","age":1,"tags":[],"y":1,"city":null,"price":null,"extras":null}`: {"", math.NaN(), 0,
			[]string{"city", "price", "extras"}},
		`{"user":"u","age":1,"tags":[],"y":1,"city":"c","extras":[]}`: {"c", math.NaN(), 0,
			[]string{"price", "extras"}},
		`{"user":"u","age":1,"tags":[],"y":1,"price":0,"city":"d","extras":["e","e"],"x":[]}`: {"d", 0, 1, nil},
	} {
		d, book := NewJSON(optional, DefaultLimits()), NewJSON(optional, DefaultLimits())
		var ev, slow Event
		for range 2 { // the second time over what a full event left
			if r := d.Decode(&ev, []byte(in), now); r != nil {
				t.Fatalf("%s: %v", in, r)
			}
			var absent []string
			optional.Absence().Each(&ev, func(field string) { absent = append(absent, field) })
			if ev.Categorical[1] != want.city || !(ev.Numeric[1] == want.price || math.IsNaN(ev.Numeric[1]) && math.IsNaN(
				want.price)) ||
				len(ev.Multi[1]) != want.extras || !slices.Equal(absent, want.absent) ||
				ev.Categorical[0] != "u" ||
				ev.Numeric[0] != 1 {
				t.Errorf("%s: %+v, absent %q", in, ev, absent)
			}
			if r := book.decode(&slow, []byte(in), now); r != nil || slow.Categorical[1] != ev.Categorical[1] {
				t.Errorf("%s: by the book %+v, %v", in, slow, r)
			}
			if r := d.Decode(&ev, []byte(full), now); r != nil {
				t.Fatal(r)
			}
		}
	}
	for in, want := range map[string]Cause{
		`{"user":"u","city":"c","price":2,"tags":["t"],"extras":["e"],"y":1}`:         {MissingField, "age"},
		`{"user":"u","city":"c","age":1,"price":2,"extras":["e"],"y":1}`:              {MissingField, "tags"},
		`{"city":"c","age":1,"price":2,"tags":["t"],"extras":["e"],"y":1}`:            {MissingField, "user"},
		`{"user":"u","city":"","age":1,"tags":["t"],"y":1}`:                           {IDEmpty, "city"},
		`{"user":"u","age":1,"price":"2","tags":["t"],"y":1}`:                         {WrongType, "price"},
		`{"user":"u","age":null,"city":"c","price":1,"extras":[],"tags":[],"y":1}`:    {MissingField, "age"},
		`{"user":"u","age":1,"city":"c","price":1,"extras":[],"tags":[],"y":1,"y":2}`: {DuplicateKey, ""},
	} {
		var ev Event
		if r := NewJSON(optional, DefaultLimits()).Decode(&ev, []byte(in), now); r == nil || r.Cause() != want {
			t.Errorf("%s: %v, want %v", in, r, want)
		}
	}
	for _, c := range optional.Causes() {
		if c.Reason == MissingField && slices.Contains(optional.Optional, c.Field) {
			t.Errorf("%v is among the causes", c)
		}
	}
	if a := wide.Absence(); len(a) > 0 {
		t.Errorf("%v of a schema without optional fields", a)
	}
	if !reflect.DeepEqual(NewJSON(wide, DefaultLimits()).absent, []target(nil)) {
		t.Error("a schema without optional fields has some to clear")
	}
}
