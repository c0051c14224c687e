package scoring

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TestFeaturesDigest: it is of the canonical JSON as documented, written by hand here, whatever the order of lists, and
// without what is absent.
func TestFeaturesDigest(t *testing.T) {
	t.Parallel()
	s := &snapshot.Schema{
		Categorical: []string{"user", "item", "\u20ac", "z"},
		Numeric:     []format.NumericField{{Name: "price"}, {Name: "age"}, {Name: "n"}},
		Multi:       []string{"tags", "none"},
	}
	for _, test := range []struct {
		in   snapshot.Input
		want string
	}{
		{snapshot.Input{Categorical: []string{"u1", "a\"\\\n\u00e9\u2028", "x", ""}, Numeric: []float64{1e21, math.NaN(),
			0.1},
			Multi: [][]string{{"b", "a", "b"}, {}}},
			"{\"item\":\"a\\\"\\\\\\n\u00e9\u2028\",\"n\":0.1,\"price\":1e+21,\"tags\":[\"a\",\"b\"],\"user\":\"u1\"," +
				"\"\u20ac\":\"x\"}"},
		{snapshot.Input{Categorical: []string{"", "", "", ""}, Numeric: []float64{5, math.NaN(), 1e-7}, Multi: [][]string{nil,
			nil}}, `{"n":1e-7,"price":5}`},
		{snapshot.Input{Categorical: []string{"17", "", "", ""}}, `{"user":"17"}`},
	} {
		sum := sha256.Sum256([]byte(test.want))
		if got, err := FeaturesDigest(s, &test.in); err != nil || got != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("%+v: %s, %v, want that of %s", test.in, got, err, test.want)
		}
	}
}

// TestPropensity: a probability is copied, what is none is a rejection that names the field, an absent one is no
// mistake.
func TestPropensity(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		event  string
		want   float64 // 0 for none
		reason event.Reason
	}{
		{`{"a":[{"p":2}],"p":0.5}`, 0.5, ""},
		{`{"p":1,"b":{}}`, 1, ""},
		{`{"a":1}`, 0, ""},
		{`{"p":null}`, 0, ""},
		{`{"p":0}`, 0, event.NumberRange},
		{`{"p":1.0000001}`, 0, event.NumberRange},
		{`{"p":-0.1}`, 0, event.NumberRange},
		{`{"p":1e999}`, 0, event.NumberRange},
		{`{"p":"0.5"}`, 0, event.WrongType},
		{`{"p":[0.5]}`, 0, event.WrongType},
		{`{"p":true}`, 0, event.WrongType},
	} {
		p, rejection := propensityOf([]byte(test.event), "p")
		switch {
		case rejection != nil && (rejection.Reason != test.reason || rejection.Field != "p" || rejection.Expected == ""):
			t.Errorf("%s: %v, want %q", test.event, rejection, test.reason)
		case rejection == nil && (test.reason != "" || (p == nil) != (test.want == 0) || p != nil && float64(
			*p) != test.want):
			t.Errorf("%s: %v, want %g %q", test.event, p, test.want, test.reason)
		}
	}
}
