package event

import (
	"testing"
)

// TestHalfPairs: half an emoji means U+FFFD in every string of an event, and loses the event nowhere.
func TestHalfPairs(t *testing.T) {
	const value = `{"user":"nice \ud83d","item":"\uD83D\uDE00","rating":4,"ts":1700000000000,"comment":"nice \ud83d","\ude00":{"\udc00":["\ud83d"]}}`
	var ev Event
	if r := NewJSON(ratings, DefaultLimits()).Decode(&ev, []byte(value), now); r != nil {
		t.Fatal(r)
	}
	if ev.Categorical[0] != "nice \ufffd" || ev.Categorical[1] != "😀" {
		t.Errorf("%q", ev.Categorical)
	}
	m := &Mapping{Envelope: Debezium, Fields: []MappedField{{Name: "user", From: mustSource(t, `after."who\ufffd"`)}}}
	record := Record{
		Value: []byte(
			`{"op":"c","after":{"who\ud83d":"a\ud83d","item":"i","rating":4,"ts":1},"source":{"db":"\udc00"}}`),
		Time: now,
	}
	if r, _ := NewMapped(ratings, DefaultLimits(), m, nil).DecodeRecord(&ev, &record); r != nil ||
		ev.Categorical[0] != "a\ufffd" {
		t.Errorf("%q, %v", ev.Categorical, r)
	}
}

func mustSource(t *testing.T, text string) Source {
	t.Helper()
	s, err := ParseSource(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
