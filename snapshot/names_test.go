package snapshot

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
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
			if !errors.Is(err, ErrInput) {
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
		if _, err := s.InputFromMap(map[string]any{"tags": list}); !errors.Is(err, ErrInput) {
			t.Errorf("%T %v: %v, want ErrInput", list, list, err)
		}
	}
}

// TestBinaryNames: a binary label that has names is predicted and read by them.
func TestBinaryNames(t *testing.T) {
	t.Parallel()
	c := testContents(shape{Binary, Logistic, ANOVA, 2, true, ""})
	c.Schema.Positive, c.Schema.Negative = "UP", "DOWN"
	dir := t.TempDir()
	_, err := NewStore(dir).Publish(t.Context(), "m", c)
	must(t, err)
	m, err := Open(dir, "m", Selector{Version: 1})
	must(t, err)
	seen := map[any]bool{}
	for i := range 50 {
		p, err := m.Predict(&Input{Categorical: []string{"u1", "i1"}, Numeric: []float64{float64(4 * i)}})
		must(t, err)
		want := "DOWN"
		if p.Probabilities[1] > 0.5 {
			want = "UP"
		}
		if names := p.Names(); p.Label() != want || !reflect.DeepEqual(names, []string{"DOWN", "UP"}) ||
			names[int(p.Value)] != want {
			t.Errorf("%v %v %v of %v, want %s", p.Label(), p.Value, p.Probabilities, names, want)
		}
		seen[p.Label()] = true
	}
	if len(seen) != 2 {
		t.Errorf("one label alone was predicted: %v", seen)
	}
	s := Schema{Task: Binary, Label: "y", Positive: "2", Negative: "1", Categorical: []string{"item"}}
	open := s
	open.Negative = ""
	for _, test := range []struct {
		schema *Schema
		label  any
		want   float64 // NaN is refused
	}{
		{&s, "2", 1}, {&s, 2, 1}, {&s, "1", 0}, {&s, 1, 0}, {&s, 2.0, 1}, {&s, 0, 0}, {&s, "3", math.NaN()},
		{&open, "2", 1}, {&open, "other", 0}, {&open, 1, 1}, {&open, 0, 0},
	} {
		e, err := test.schema.LabelledFromMap(map[string]any{"item": "i", "y": test.label})
		if errors.Is(err, ErrInput) != math.IsNaN(test.want) || err == nil && e.Label != test.want {
			t.Errorf(
				"%v of %q and %q: %g, %v, want %g",
				test.label,
				test.schema.Positive,
				test.schema.Negative,
				e.Label,
				err,
				test.want,
			)
		}
	}
}
