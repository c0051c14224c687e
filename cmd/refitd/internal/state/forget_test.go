package state

import (
	"testing"

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
