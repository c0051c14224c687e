package dataset

import (
	"iter"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestHalfPairsInFiles: a line with half an emoji is a record to replay and a row to guess a schema from; one with
// bytes that are not UTF-8 is neither.
func TestHalfPairsInFiles(t *testing.T) {
	const line = `{"user":"u\ud83d","comment":"nice \ud83d","ts":7}`
	r, reason := jsonRecord([]byte(line), "user")
	if reason != "" || string(r.Key) != "u\ufffd" || string(r.Value) != line || r.Time != 7 {
		t.Errorf("%+v, %q", r, reason)
	}
	p := ProfileOf(one([]byte(line)))
	if p.Rows != 1 || p.Skipped.Lines != 0 {
		t.Errorf("%+v", p)
	}
	bad := []byte(strings.Replace(line, "nice", "\xff", 1))
	if _, reason := jsonRecord(bad, "user"); reason != event.NotUTF8 {
		t.Errorf("%q, want %q", reason, event.NotUTF8)
	}
	if p := ProfileOf(one(bad)); p.Rows != 0 {
		t.Errorf("%+v", p)
	}
}

// TestFaultsOfJSON: a line of JSON that is no event has one reason for profiles and for replay.
func TestFaultsOfJSON(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for line, want := range map[string]event.Reason{
		`{"user":"a","user":"b"}`:        event.DuplicateKey,
		`{"user":"a","n":{"x":1,"x":2}}`: event.DuplicateKey,
		`[1]`:                            event.NotObject, `null`: event.NotObject, `"x"`: event.NotObject,
		`[1,{"a":1,"a":2}]`: event.DuplicateKey,
		`{"user":`:          event.NotJSON, `x`: event.NotJSON, `[1`: event.NotJSON, deep: event.TooDeep,
	} {
		p := ProfileOf(one([]byte(line)))
		if causes := p.Skipped.Causes; p.Rows != 0 || len(causes) != 1 || causes[0].Reason != want {
			t.Errorf("profile of %s: %+v, want %s", line, p.Skipped, want)
		}
		if _, reason := jsonRecord([]byte(line), "user"); reason != want && want != event.TooDeep {
			t.Errorf("replay of %s: %s, want %s", line, reason, want)
		}
	}
}

// one is a sequence of a value.
func one(value []byte) iter.Seq2[[]byte, *event.Rejection] {
	return func(yield func([]byte, *event.Rejection) bool) { yield(value, nil) }
}
