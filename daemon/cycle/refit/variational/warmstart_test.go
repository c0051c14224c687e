package variational

import (
	"reflect"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
)

func TestVocabularyCovering(t *testing.T) {
	schema := event.Schema{Categorical: []string{"a"}, Multi: []string{"m"}, Numeric: []string{"x"}}
	of := func(a string, m ...string) event.Event {
		return event.Event{Categorical: []string{a}, Multi: [][]string{m}, Numeric: []float64{1}}
	}
	v := encode.BuildVocabulary(&schema, []event.Event{of("b", "y"), of("d")}, true, 10, nil, nil)
	more := []event.Event{of("a", "z"), of("a", "z"), of("e", "z"), of("", "y"), of("d")}
	for _, c := range []struct {
		limit int
		names [][]string
	}{{10, [][]string{{"a", "b", "d", "e"}, {"y", "z"}}}, {5, [][]string{{"a", "b", "d"}, {"y", "z"}}}, {4,
		[][]string{{"b", "d"}, {"y", "z"}}}, {2, v.Names}} {
		got := covering(v, more, c.limit)
		if !reflect.DeepEqual(got.Names, c.names) {
			t.Errorf("at most %d names: %v, want %v", c.limit, got.Names, c.names)
		}
		for column, to := range columnsIn(v, got) {
			if got.Field[to] != v.Field[column] {
				t.Errorf("column %d of field %d is %d of field %d", column, v.Field[column], to, got.Field[to])
			}
		}
	}
}
