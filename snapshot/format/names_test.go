package format

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// TestWholeNumbersAreNames: a whole number of any kind means its decimal text wherever an event given as a map has a
// name.
func TestWholeNumbersAreNames(t *testing.T) {
	t.Parallel()
	type code uint16
	s := Schema{
		Task:        Multilabel,
		Label:       "y",
		Classes:     []string{"7", "a"},
		Categorical: []string{"item"},
		Multi:       []string{"tags"},
		Optional:    []string{"tags", "item"},
	}
	for _, test := range []struct {
		value any
		want  string // empty is refused
	}{
		{"1006", "1006"}, {1006, "1006"}, {int64(-7), "-7"}, {int8(3), "3"}, {uint64(1 << 63), "9223372036854775808"}, {code(
			4), "4"},
		{1006.0, "1006"}, {float32(5), "5"}, {json.Number("12345678901234567890"), "12345678901234567890"}, {json.Number(
			"-0"), "0"},
		{1.5, ""}, {9007199254740992.0, ""}, {json.Number("1.0"), ""}, {json.Number("1e3"), ""}, {true, ""}, {struct{}{}, ""},
	} {
		in, err := s.InputFromMap(map[string]any{"item": test.value})
		if test.want == "" {
			if !errors.Is(err, disk.ErrInput) {
				t.Errorf("%T %v: %v, want ErrInput", test.value, test.value, err)
			}
			continue
		}
		if err != nil || in.Categorical[0] != test.want {
			t.Errorf("%T %v: %q, %v, want %q", test.value, test.value, in.Categorical, err, test.want)
		}
	}
	for _, list := range []any{[]any{7, "a"}, []string{"7", "a"}, [2]any{"7", "a"}, []any{json.Number("7"), "a"}} {
		e, err := s.LabelledFromMap(map[string]any{"tags": list, "y": list})
		want := []string{"7", "a"}
		if err != nil || !reflect.DeepEqual(e.Multi[0], want) || !reflect.DeepEqual(e.Classes, want) {
			t.Errorf("%T %v: %q, %q, %v", list, list, e.Multi, e.Classes, err)
		}
	}
	e, err := s.LabelledFromMap(map[string]any{"tags": []int{7}, "y": 7})
	if err != nil || !reflect.DeepEqual(e.Classes, []string{"7"}) || e.Multi[0][0] != "7" {
		t.Errorf("%q, %q, %v", e.Multi, e.Classes, err)
	}
	for _, list := range []any{"7", 7, []byte("7"), []any{1.5}, []any{nil}, map[string]any{"7": 1}} {
		if _, err := s.InputFromMap(map[string]any{"tags": list}); !errors.Is(err, disk.ErrInput) {
			t.Errorf("%T %v: %v, want ErrInput", list, list, err)
		}
	}
}
