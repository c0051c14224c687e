package event

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRejectionNamesItsField: an operator reads which field it was, what it may be and what kind of value came, and
// nothing of the value.
func TestRejectionNamesItsField(t *testing.T) {
	classes := Schema{Task: Multiclass, Label: "y", Classes: []string{"1", "b"}, Numeric: []string{"a"}}
	labels := Schema{Task: Multilabel, Label: "y", Classes: []string{"b"}, Numeric: []string{"a"}}
	long := strings.Repeat("x", 257)
	const someTime = "a time from 1970 to 9999, a number of ms or an RFC 3339 string"
	for _, c := range []struct {
		schema Schema
		in     string
		want   Rejection
	}{
		{ratings, `{"item":"2","rating":3,"ts":1}`, Rejection{MissingField, "user", "a string or a whole number", "nothing"}},
		{ratings, `{"user":null,"item":"2","rating":3,"ts":1}`, Rejection{MissingField, "user", "a string or a whole number",
			"null"}},
		{ratings, `{"user":"1","ts":1}`, Rejection{MissingField, "rating", "a whole number from 1 to 5", "nothing"}},
		{ratings, `{"user":"1","item":"2","rating":3}`, Rejection{MissingField, "ts", someTime, "nothing"}},
		{ratings, `{"user":7.5,"item":"2","rating":3,"ts":1}`, Rejection{WrongType, "user", "a string or a whole number",
			"a number with a point or an exponent"}},
		{ratings, `{"user":"1","item":{"a":1},"rating":3,"ts":1}`, Rejection{WrongType, "item", "a string or a whole number",
			"an object"}},
		{ratings, `{"user":"1","item":"2","rating":"secret","ts":1}`, Rejection{WrongType, "rating",
			"a whole number from 1 to 5", "a string"}},
		{ratings, `{"user":"1","item":"2","rating":9,"ts":1}`, Rejection{LabelRange, "rating", "a whole number from 1 to 5",
			"another number"}},
		{ratings, `{"user":"","item":"2","rating":3,"ts":1}`, Rejection{IDEmpty, "user", "a string that is not empty",
			"an empty one"}},
		{ratings, `{"user":"1","item":"` + long + `","rating":3,"ts":1}`, Rejection{IDTooLong, "item", "at most 256 bytes",
			"more"}},
		{ratings, `{"user":"1","item":"2","rating":3,"ts":"yesterday"}`, Rejection{TimeInvalid, "ts", someTime,
			"another string"}},
		{wide, wideWith(`"y":10.5`), Rejection{LabelRange, "y", "a number from -10 to 10", "another number"}},
		{wide, wideWith(`"b":true`), Rejection{WrongType, "b", "a number", "true or false"}},
		{wide, wideWith(`"b":"NaN"`), Rejection{NotFinite, "b", "a number", "a string that spells NaN or an infinity"}},
		{wide, wideWith(`"b":1e300`), Rejection{NumberRange, "b",
			"a number of magnitude up to 1e+15, and not a subnormal one", "another number"}},
		{wide, wideWith(`"w":0`), Rejection{WeightInvalid, "w", "a number above 0, at most 1000000", "another number"}},
		{wide, wideWith(`"tags":5`), Rejection{WrongType, "tags", "a list of strings or whole numbers", "a number"}},
		{wide, wideWith(`"tags":["x",0.5]`), Rejection{WrongType, "tags", "a list of strings or whole numbers",
			"a list with a number with a point or an exponent"}},
		{wide, wideWith(`"tags":[null]`), Rejection{WrongType, "tags", "a list of strings or whole numbers",
			"a list with null"}},
		{wide, wideWith(`"tags":[["x"]]`), Rejection{WrongType, "tags", "a list of strings or whole numbers",
			"a list with a list"}},
		{wide, wideWith(`"tags":[` + strings.Repeat(`"x",`, 1024) + `"x"]`), Rejection{TooLarge, "tags",
			"a list of at most 1024", "more"}},
		{classes, `{"y":"c","a":1}`, Rejection{LabelUnknown, "y", "one of the classes of the schema", "another class"}},
		{labels, `{"y":["b","c"],"a":1}`, Rejection{LabelUnknown, "y", "one of the classes of the schema", "another class"}},
		{labels, `{"y":1,"a":1}`, Rejection{WrongType, "y", "a list of strings or whole numbers", "a number"}},

		{ratings, `[1]`, Rejection{NotObject, "", "an object", "a list"}},
		{ratings, `"user"`, Rejection{NotObject, "", "an object", "a string"}},
		{ratings, `{"user":`, Rejection{NotJSON, "", "JSON", "something else"}},
		{ratings, `{"hidden":1,"hidden":2}`, Rejection{DuplicateKey, "", "each name once in an object", "a name twice"}},
		{ratings, strings.Repeat("[", 40), Rejection{TooDeep, "", "at most 32 levels of nesting", "more"}},
		{ratings, strings.Repeat(" ", 65<<10), Rejection{TooLarge, "", "at most 65536 bytes, and 1024 names in an object",
			"more"}},
	} {
		var ev Event
		got := NewJSON(c.schema, DefaultLimits()).Decode(&ev, []byte(c.in), now)
		if got == nil || *got != c.want {
			t.Errorf("%.60s\n%v, want\n%v", c.in, got, &c.want)
		} else if !slices.Contains(c.schema.Causes(), got.Cause()) {
			t.Errorf("%v is not among the causes", got)
		}
	}
	r := Rejection{WrongType, "a", "a number", "a string"}
	if got := r.String(); got != `wrong_type: field "a": expected a number, got a string` {
		t.Error(got)
	}
}

// TestCausesAreOfTheSchema: what rejections are counted by is bounded by the schema, whatever producers send, and each
// cause can come.
func TestCausesAreOfTheSchema(t *testing.T) {
	seen := make(map[Cause]bool)
	for _, c := range wide.Causes() {
		if seen[c] {
			t.Errorf("%v twice", c)
		}
		seen[c] = true
	}
	long := `"` + strings.Repeat("x", 257) + `"`
	values := []string{
		`7.5`,
		`"NaN"`,
		`""`,
		long,
		`1e300`,
		`-77`,
		`null`,
		`{}`,
		`"x"`,
		`[""]`,
		`[` + long + `]`,
		`[` + strings.Repeat(`1,`, 1024) + `1]`,
	}
	decode := func(in []byte) {
		if r := NewJSON(wide, DefaultLimits()).Decode(new(Event), in, now); r != nil {
			if !slices.Contains(wide.Causes(), r.Cause()) {
				t.Errorf("%.50s: %v", in, r)
			}
			delete(seen, r.Cause())
		}
	}
	for _, field := range []string{"user", "y", "ts", "w", "id", "a", "b", "tags", "unknown", `us\u0065r`} {
		for _, value := range values {
			decode(fmt.Appendf(nil, "%s", wideWith(fmt.Sprintf("%q:%s", field, value))))
		}
	}
	for _, in := range []string{"\xff", "{", "7", strings.Repeat("[", 40), `{"a":1,"a":1}`, wideWith(`"z":1`) + "x",
		strings.Repeat(" ", 70_000)} {
		decode([]byte(in))
	}
	decode(nil)
	if len(seen) > 0 {
		t.Errorf("nothing is rejected for %v", seen)
	}
}

// TestDecodeDoesNotAllocate: naming fields costs good events nothing.
func TestDecodeDoesNotAllocate(t *testing.T) {
	for _, in := range []string{`{"user":"1","item":"2","rating":3,"ts":1}`,
		`{"user":"1","item":"2","rating":3,"ts":1,"x":[1]}`} {
		d, value := NewJSON(ratings, DefaultLimits()), []byte(in)
		var ev Event
		if n := testing.AllocsPerRun(100, func() {
			if r := d.Decode(&ev, value, now); r != nil {
				t.Fatal(r)
			}
		}); n > 0 {
			t.Errorf("%s: %g allocations", in, n)
		}
	}
}
