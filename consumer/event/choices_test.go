package event

import "testing"

// TestChoices: every event of a schema of choices has label 1, and the weight of its kind; kinds of weight 0 are
// filtered, others are refused.
func TestChoices(t *testing.T) {
	s := Schema{
		Task:        Binary,
		Choices:     true,
		Label:       "event",
		Kinds:       map[string]float64{"view": 1, "buy": 5, "scroll": 0},
		Weight:      "w",
		Time:        "ts",
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	d := NewJSON(s, DefaultLimits())
	for value, want := range map[string]float64{
		`{"user":"u","item":"i","event":"view","ts":1}`:         1,
		`{"user":"u","item":"i","event":"buy","ts":1}`:          5,
		`{"user":"u","item":"i","event":"buy","ts":1,"w":2}`:    10,
		`{"w":0.5,"user":"u","item":"i","event":"buy","ts":1}`:  2.5,
		`{"user":"u","item":"i","event":"b\u0075y","ts":1}`:     5, // by way of the decoder of any JSON
		`{"user":"u","item":"i","w":2,"event":"view","ts":1.0}`: 2,
	} {
		var ev Event
		if r := d.Decode(&ev, []byte(value), 0); r != nil || ev.Label != 1 || ev.Weight != want {
			t.Errorf("%s: label %g, weight %g, want 1 and %g (%v)", value, ev.Label, ev.Weight, want, r)
		}
	}
	causes := make(map[Cause]bool)
	for _, c := range s.Causes() {
		causes[c] = true
	}
	for value, want := range map[string]Reason{
		`{"user":"u","item":"i","event":"scroll","ts":1}`: Filtered,
		`{"user":"u","item":"i","event":"sell","ts":1}`:   LabelUnknown,
		`{"user":"u","item":"i","event":1.5,"ts":1}`:      WrongType,
		`{"user":"u","item":"i","ts":1}`:                  MissingField,
	} {
		var ev Event
		r := d.Decode(&ev, []byte(value), 0)
		if r == nil || r.Reason != want || r.Field != "event" || r.Expected == "" || !causes[r.Cause()] {
			t.Errorf("%s: %+v, want %s of event, which is among the causes", value, r, want)
		}
	}
	s.Label, s.Kinds = "", nil
	var ev Event
	if r := NewJSON(s, DefaultLimits()).Decode(&ev, []byte(`{"user":"u","item":"i","ts":1}`), 0); r != nil ||
		ev.Label != 1 ||
		ev.Weight != 1 {
		t.Errorf("without kinds: %+v, %v", ev, r)
	}
}
