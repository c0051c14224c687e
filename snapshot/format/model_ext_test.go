package format_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestInputFromMap(t *testing.T) {
	s := &snapshottest.TestContents(snapshottest.Shapes[0]).Schema
	in, err := s.InputFromMap(
		map[string]any{"user": "u1", "item": nil, "age": json.Number("3e1"), "tags": []any{"a", "b"}, "other": 1})
	want := format.Input{Categorical: []string{"u1", ""}, Numeric: []float64{30}, Multi: [][]string{{"a", "b"}}}
	if err != nil || !reflect.DeepEqual(in, want) {
		t.Errorf("got %+v, %v, want %+v", in, err, want)
	}
	if in, err = s.InputFromMap(nil); err != nil || !math.IsNaN(in.Numeric[0]) {
		t.Errorf("no fields: %+v, %v, want all missing", in, err)
	}
	for _, event := range []map[string]any{
		{"user": 1.5}, {"age": "30"}, {"age": json.Number("1e999")}, {"age": math.Inf(1)}, {"tags": "a"}, {"tags": []any{"a",
			1.5}}, {"age": true},
	} {
		if in, err := s.InputFromMap(event); !errors.Is(err, disk.ErrInput) {
			t.Errorf("%v: %+v, %v, want ErrInput", event, in, err)
		}
	}
}
