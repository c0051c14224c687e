package event

import (
	"slices"
	"testing"
)

// TestNamedLabels: a binary label may be one of two names, or one name and any other, in whatever JSON names are
// written.
func TestNamedLabels(t *testing.T) {
	strict := Schema{Task: Binary, Label: "y", Positive: "UP", Negative: "DOWN", Categorical: []string{"user"}}
	loose := Schema{Task: Binary, Label: "y", Positive: "true", Categorical: []string{"user"}}
	two := Schema{Task: Binary, Label: "y", Positive: "2", Negative: "1", Categorical: []string{"user"}}
	for _, c := range []struct {
		schema Schema
		in     string
		want   float64
		reason Reason
	}{
		{strict, `"UP"`, 1, ""}, {strict, `"DOWN"`, 0, ""}, {strict, `"\u0055P"`, 1, ""}, {strict, `"up"`, 0, LabelUnknown},
		{strict, `1`, 0, LabelUnknown},
		{strict, `true`, 0, LabelUnknown}, {strict, `""`, 0, IDEmpty}, {strict, `null`, 0, MissingField}, {strict, `["UP"]`,
			0, WrongType},
		{loose, `true`, 1, ""}, {loose, `false`, 0, ""}, {loose, `"true"`, 1, ""}, {loose, `"anything"`, 0, ""}, {loose,
			`0.5`, 0, WrongType},
		{two, `2`, 1, ""}, {two, `"1"`, 0, ""}, {two, `2.0`, 0, WrongType}, {two, `3`, 0, LabelUnknown},
	} {
		for _, more := range []string{"", `,"nested":{}`} { // by flat, and by the other way
			var ev Event
			r := NewJSON(c.schema, DefaultLimits()).Decode(&ev, []byte(`{"user":"u","y":`+c.in+more+`}`), now)
			if got := reason(r); got != c.reason || r == nil && ev.Label != c.want {
				t.Errorf("%s of %q: label %g, reason %q", c.in, c.schema.Positive, ev.Label, got)
			}
			if r != nil && !slices.Contains(c.schema.Causes(), r.Cause()) {
				t.Errorf("%v is not among the causes of %q", r, c.schema.Positive)
			}
			if got := reason(r); got == LabelUnknown &&
				(r.Field != "y" || r.Got != "another class" || r.Expected != c.schema.Positive+" or "+c.schema.Negative) {
				t.Error(r)
			}
		}
	}
}
