package state

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TestVersionsThatNameASubject: a version names a subject in the vocabulary of its field, of a cross or of a list of
// last names, and in golden events.
func TestVersionsThatNameASubject(t *testing.T) {
	schema := &snapshot.Schema{
		Categorical: []string{"user", "item"},
		Cross:       [][]string{{"user", "item"}},
		Multi:       []string{"tags", "seen"},
		Derived:     []format.Derived{{Name: "seen", Kind: "last", Of: "user", Field: "item", K: 3}},
	}
	for name, c := range map[string]struct {
		vocabulary [][]string
		golden     [][]string // of the multi fields
		want       bool
	}{
		"field":            {[][]string{{}, {"x"}, {}, {}, {}}, nil, true},
		"cross":            {[][]string{{}, {}, {"u×x"}, {}, {}}, nil, true},
		"last names":       {[][]string{{}, {}, {}, {}, {"a", "x"}}, nil, true},
		"golden last name": {[][]string{{}, {}, {}, {}, {}}, [][]string{nil, {"x"}}, true},
		"another field":    {[][]string{{"x"}, {"xx"}, {"xx×a"}, {"x"}, {"a"}}, [][]string{{"x"}, {"a"}}, false},
	} {
		contents := &format.Contents{Vocabulary: c.vocabulary}
		if c.golden != nil {
			contents.Golden = []format.Golden{
				{Input: snapshot.Input{Categorical: []string{"u", "i"}, Multi: c.golden}},
			}
		}
		e := Erasure{Field: "item", Value: "x"}
		if got := e.names(schema, contents); got != c.want {
			t.Errorf("%s: named %t, want %t", name, got, c.want)
		}
	}
}

// TestLettersThatNameASubject: dead letters name a subject in the value, the key or a header: as a word, and where
// values have a schema anywhere, since the length before a name may be a letter.
func TestLettersThatNameASubject(t *testing.T) {
	header := framing.AppendHeaders(nil, framing.Header{Name: "user", Value: []byte("x7")})
	for name, c := range map[string]struct {
		letter       sketch.DeadLetter
		json, framed bool
	}{
		"value":           {sketch.DeadLetter{Payload: []byte(`{"user":"x7"`)}, true, true},
		"key":             {sketch.DeadLetter{Detail: sketch.Detail{Key: []byte("x7")}}, true, true},
		"header":          {sketch.DeadLetter{Detail: sketch.Detail{Headers: header}}, true, true},
		"another":         {sketch.DeadLetter{Payload: []byte("x8"), Detail: sketch.Detail{Key: []byte("x")}}, false, false},
		"another word":    {sketch.DeadLetter{Payload: []byte("xx7")}, false, true},
		"behind a length": {sketch.DeadLetter{Payload: []byte("\x00\x00\x00\x00\x070x7")}, false, true},
	} {
		e := Erasure{Model: new(config.Model), Field: "user", Value: "x7"}
		if got := e.namedBy(&c.letter); got != c.json {
			t.Errorf("%s: named %t, want %t", name, got, c.json)
		}
		e.Model.Input.Format = event.FormatAvro
		if got := e.namedBy(&c.letter); got != c.framed {
			t.Errorf("%s, in Avro: named %t, want %t", name, got, c.framed)
		}
	}
}
