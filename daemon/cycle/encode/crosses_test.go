package encode

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TestVocabularyOfOtherCrosses: a version whose crosses begin with others than those of the schema is not taken for one
// of it.
func TestVocabularyOfOtherCrosses(t *testing.T) {
	schema := crossing(&event.Schema{Categorical: []string{"a", "b", "c"}}, []event.Cross{{0, 1}})
	of := func(cross ...[]string) *format.Contents {
		return &format.Contents{Schema: snapshot.Schema{Cross: cross}, Vocabulary: make([][]string, 3+len(cross))}
	}
	for _, c := range []struct {
		contents *format.Contents
		ok       bool
	}{{of([]string{"a", "b"}), true}, {of([]string{"a", "b"}, []string{"b", "c"}), true}, {of([]string{"b", "c"}), false},
		{of([]string{"b", "c"}, []string{"a", "b"}), false}, {of([]string{"a", "b"}, []string{"a", "d"}), false}, {of(),
			false}} {
		if v, ok := VocabularyOf(schema, c.contents); ok != c.ok || ok && v.Own != len(c.contents.Schema.Cross)-1 {
			t.Errorf("crosses %v: taken %t", c.contents.Schema.Cross, ok)
		}
	}
}
