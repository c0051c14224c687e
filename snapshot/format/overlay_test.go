package format

import (
	"errors"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// TestLabelledFromMap reads labels of every task.
func TestLabelledFromMap(t *testing.T) {
	number := &Schema{Task: Ordinal, Label: "y", Levels: 5, Categorical: []string{"user"}}
	class := &Schema{Task: Multilabel, Label: "y", Classes: []string{"a", "b"}}
	if e, err := number.LabelledFromMap(map[string]any{"user": "u", "y": 4}); err != nil || e.Label != 4 ||
		e.Categorical[0] != "u" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := class.LabelledFromMap(map[string]any{"y": []any{"b", "a"}}); err != nil ||
		!slices.Equal(e.Classes, []string{"b", "a"}) {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := class.LabelledFromMap(map[string]any{"y": "b"}); err != nil ||
		!slices.Equal(e.Classes, []string{"b"}) {
		t.Errorf("%+v, %v", e, err)
	}
	for s, events := range map[*Schema][]map[string]any{number: {{}, {"y": "4"}, {"y": nil}, {"y": 1, "user": 1.5}},
		class: {{}, {"y": 3.5}, {"y": []any{3.5}}}} {
		for _, event := range events {
			if e, err := s.LabelledFromMap(event); !errors.Is(err, disk.ErrInput) {
				t.Errorf("%v: %+v, %v, want ErrInput", event, e, err)
			}
		}
	}
}
