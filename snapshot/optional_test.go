package snapshot

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// strict returns a model with two categorical fields, a number and a list, of which some are optional; nil makes it
// as before fields could be optional.
func strict(t *testing.T, optional []string) *Contents {
	t.Helper()
	c := testContents(shapes[2])
	c.Schema.Optional = optional
	return c
}

// refused checks that an event is refused for a field that is missing.
func refused(t *testing.T, field string, err error) {
	t.Helper()
	if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "missing_field") ||
		!strings.Contains(err.Error(), `"`+field+`"`) {
		t.Errorf("%v, want missing_field %q", err, field)
	}
}

// TestMissingFields: an event that lacks a field which is not optional is refused with its name, by everything that can
// refuse; a version from before fields could be optional takes it.
func TestMissingFields(t *testing.T) {
	c := strict(t, nil)
	s := &c.Schema
	user, item, number, list := s.Categorical[0], s.Categorical[1], s.Numeric[0].Name, s.Multi[0]
	whole := func() map[string]any {
		m := map[string]any{list: []any{}}
		for _, f := range s.Categorical {
			m[f] = "x"
		}
		for _, f := range s.Numeric {
			m[f.Name] = 1.0
		}
		for _, f := range s.Multi {
			m[f] = []any{}
		}
		return m
	}
	old, err := NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(strict(t, []string{item, list}))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{user, item, number, list} {
		event := whole()
		if delete(event, field); field == number {
			event[field] = nil // counts as absent
		}
		if _, err := old.Schema().InputFromMap(event); err != nil {
			t.Errorf("without %s: %v by a version of before", field, err)
		}
		in, err := m.Schema().InputFromMap(event)
		if field == user || field == number {
			refused(t, field, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Predict(&in)
		want := make([]float64, m.NumOutputs())
		m.Score(want, &in, new(Scratch))
		if err != nil || !slices.Contains(p.Absent, field) || !slices.Equal(p.Outputs, want) {
			t.Errorf("without %s: %+v, %v, want %v", field, p, err, want)
		}
	}
	full, err := m.Schema().InputFromMap(whole())
	if err != nil {
		t.Fatal(err)
	}
	if p, err := m.Predict(&full); err != nil ||
		!slices.Equal(p.Absent, []string{list}) { // an empty list and none are the same
		t.Errorf("%+v, %v", p, err)
	}
	lacking := full
	lacking.Categorical = slices.Clone(full.Categorical)
	lacking.Categorical[0] = ""
	_, err = m.Predict(&lacking)
	refused(t, user, err)
	_, err = m.Explain(&lacking)
	refused(t, user, err)
	_, err = m.TopK(nil, &Query{Input: lacking, Over: item, K: 1}, new(Scratch))
	refused(t, user, err)
	if _, err := m.TopK(nil, &Query{Input: lacking, Over: user, K: 1}, new(Scratch)); err != nil {
		t.Errorf("over the missing field itself: %v", err)
	}
	lacking = full
	lacking.Numeric = append([]float64{math.NaN()}, full.Numeric[1:]...)
	_, err = m.Predict(&lacking)
	refused(t, number, err)
	_, err = m.Predict(&Input{})
	refused(t, user, err)
	if _, err := old.Predict(&Input{}); err != nil {
		t.Errorf("nothing at all, by a version of before: %v", err)
	}
	if _, err := NewModel(strict(t, []string{"none"})); !errors.Is(err, ErrContents) {
		t.Errorf("an optional field that there is not: %v", err)
	}
}

// TestOptionalIsPublished: the manifest says which fields are optional, also that none is; golden events may lack the
// optional ones. The payload's digest is what it was before there was a choice: readers of before compute it, and
// versions of before are reproduced.
func TestOptionalIsPublished(t *testing.T) {
	plain := strict(t, nil)
	user, item := plain.Schema.Categorical[0], plain.Schema.Categorical[1]
	numbers := make([]float64, len(plain.Schema.Numeric))
	lists := make([][]string, len(plain.Schema.Multi))
	digests := map[string]string{}
	for name, optional := range map[string][]string{"before": nil, "none": {}, "some": {item}} {
		dir, c := t.TempDir(), strict(t, optional)
		c.Golden = []Golden{{Input: Input{Categorical: []string{"u1", "i1"}, Numeric: numbers, Multi: lists}}}
		if len(optional) > 0 {
			c.Golden = append(
				c.Golden,
				Golden{Input: Input{Categorical: []string{"u1", ""}, Numeric: numbers, Multi: lists}},
			)
		}
		manifest, err := NewStore(dir).Publish(t.Context(), "m", c)
		if err != nil {
			t.Fatal(name, err)
		}
		m, err := Open(dir, "m", Selector{Version: 1})
		if err != nil {
			t.Fatal(name, err)
		}
		if !reflect.DeepEqual(m.Schema().Optional, optional) {
			t.Errorf("%s: optional %q came back as %q", name, optional, m.Schema().Optional)
		}
		b, err := os.ReadFile(filepath.Join(dir, "m", "1", "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(b, []byte(`"optional"`)); has != (optional != nil) {
			t.Errorf("%s: the manifest speaks of optional fields: %t", name, has)
		}
		digests[name] = manifest.PayloadDigest
	}
	if digests["before"] != digests["none"] || digests["some"] != digests["none"] {
		t.Errorf("digests %v", digests)
	}
	c := strict(t, []string{item})
	c.Golden = []Golden{{Input: Input{Categorical: []string{"", "i1"}, Numeric: numbers, Multi: lists}}}
	_, err := NewStore(t.TempDir()).Publish(t.Context(), "m", c)
	refused(t, user, err)
}
