package encode

import (
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

func TestVocabularyIsCappedByCountThenName(t *testing.T) {
	schema := cycletest.RatingsModel(nil).Schema.Event()
	var events []event.Event
	for _, names := range [][]string{{"b", "x"}, {"a", "x"}, {"c", "y"}, {"c", "y"}} {
		events = append(events, event.Event{Categorical: names})
	}
	v := BuildVocabulary(&schema, events, false, 3, nil, nil)
	if want := [][]string{{"c"}, {"x", "y"}}; !reflect.DeepEqual(v.Names, want) || v.Dropped != 2 {
		t.Errorf("kept %v without %d, want %v without 2", v.Names, v.Dropped, want)
	}
	index, _ := v.Encode(nil, nil, &events[0])
	if !slices.Equal(index, []int32{1}) {
		t.Errorf("an event with one unknown name has columns %v", index)
	}
}
