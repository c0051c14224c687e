package web

import (
	"encoding/json"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestChampion: what scores outside of HTTP is the followed version with its deltas; events that are none are
// rejected, and the next one is scored.
func TestChampion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if b.Champion("ratings", nil) != nil || b.Champion("none", nil) != nil {
		t.Error("there is a champion before one is followed")
	}
	b.listen(t)
	var c *Champion
	within(t, patience, "a champion", func() bool { c = b.Champion("ratings", nil); return c != nil })
	if b.Champion("ratings", c) != c {
		t.Error("the same version is another champion")
	}
	value, err := json.Marshal(ratingEvent("new2", "i2", 31))
	if err != nil {
		t.Fatal(err)
	}
	g := b.grows(t, "ratings", 1)
	for _, sequence := range []int64{0, 1, 4} {
		g.by(int(sequence - g.model.Position().Sequence))
		within(t, patience, "the deltas",
			func() bool { c = b.Champion("ratings", c); return c.Answered().Delta == sequence })
		want, err := g.model.Predict(input("new2", "i2", 31))
		if err != nil {
			t.Fatal(err)
		}
		if _, rejection, err := c.Score([]byte(`{"user":"u1","item":"i1"}`), -1); err != nil ||
			rejection.Reason != event.MissingField {
			t.Errorf("an event without a number: %v, %v", rejection, err)
		}
		got, rejection, err := c.Score(value, -1)
		if err != nil || rejection != nil || float64(got.Outputs[0]) != want.Outputs[0] ||
			len(got.Unseen) != len(want.Unseen) ||
			got.Input.Numeric[0] != 31 {
			t.Errorf("after %d deltas %+v, want %+v, %v %v", sequence, got, want, rejection, err)
		}
	}
	b.publish(t, "ratings", g.model.Contents())
	within(t, patience, "the next version",
		func() bool { c = b.Champion("ratings", c); return c.Answered().Version == 2 && c.Answered().Delta == 0 })
}
