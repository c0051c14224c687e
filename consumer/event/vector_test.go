package event

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestVectors: a vector is a list of numbers, or text that is one, of the length of the schema; what is not is refused
// by the name of its field, and what lacks it has NaN.
func TestVectors(t *testing.T) {
	s := Schema{Task: Binary, Choices: true, Categorical: []string{"id"}, Numeric: []string{"price"},
		Vectors:  []Vector{{"text", 3}, {"image", 2}},
		Optional: []string{"image", "price", "text"}}
	nan := math.NaN()
	expected := func(field string, n int, got string) string {
		return fmt.Sprintf("wrong_type: field %q: expected a list of %d numbers, got %s", field, n, got)
	}
	for value, want := range map[string]any{
		`{"id":"a","price":1,"text":[1,-2.5,1e-3],"image":[4,5]}`: []float64{1, 1, -2.5, 1e-3, 4, 5},
		`{"id":"a","image":"[4, 5]"}`:                             []float64{nan, nan, nan, nan, 4, 5},
		`{"id":"a","text":null,"image":[4,5]}`:                    []float64{nan, nan, nan, nan, 4, 5},
		`{"id":"a","text":[1,2]}`:                                 expected("text", 3, "a list of 2"),
		`{"id":"a","image":[1,2,3]}`:                              expected("image", 2, "a list of 3"),
		`{"id":"a","image":"[1]"}`:                                expected("image", 2, "a list of 1"),
		`{"id":"a","image":[]}`:                                   expected("image", 2, "a list of 0"),
		`{"id":"a","image":7}`:                                    expected("image", 2, "a number"),
		`{"id":"a","image":"x"}`:                                  expected("image", 2, "a string"),
		`{"id":"a","image":"[1,"}`:                                expected("image", 2, "a string"),
		`{"id":"a","image":"[1,2] 3"}`:                            expected("image", 2, "a string"),
		`{"id":"a","image":[1,"NaN"]}`:                            `not_finite: field "image"`,
		`{"id":"a","image":[1,[2]]}`:                              expected("image", 2, "a list with a list"),
		`{"id":"a","image":[1,1e99]}`:                             `number_range: field "image"`,
	} {
		for name, d := range map[string]Decoder{"json": NewJSON(s, DefaultLimits()),
			"mapped": NewMapped(s, DefaultLimits(), &Mapping{}, nil)} {
			var ev Event
			r := d.Decode(&ev, []byte(value), 1)
			numbers, ok := want.([]float64)
			switch {
			case !ok && (r == nil || !strings.HasPrefix(r.String(), want.(string))):
				t.Errorf("%s %s: %v, want %v", name, value, r, want)
			case ok && (r != nil || !slices.EqualFunc(ev.Numeric, numbers,
				func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })):
				t.Errorf("%s %s: %v, %v, want %v", name, value, ev.Numeric, r, want)
			}
		}
	}
	if !slices.Contains(s.Causes(), Cause{WrongType, "text"}) {
		t.Errorf("causes %v lack those of vectors", s.Causes())
	}
}
