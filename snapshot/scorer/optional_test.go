package scorer

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// TestMissingFields: an event that lacks a field which is not optional is refused with its name, by everything that can
// refuse; a version from before fields could be optional takes it.
func TestMissingFields(t *testing.T) {
	c := snapshottest.Strict(t, nil)
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
	m, err := NewModel(snapshottest.Strict(t, []string{item, list}))
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
			snapshottest.Refused(t, field, err)
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
	snapshottest.Refused(t, user, err)
	_, err = m.Explain(&lacking)
	snapshottest.Refused(t, user, err)
	_, err = m.TopK(nil, &format.Query{Input: lacking, Over: item, K: 1}, new(Scratch))
	snapshottest.Refused(t, user, err)
	if _, err := m.TopK(nil, &format.Query{Input: lacking, Over: user, K: 1}, new(Scratch)); err != nil {
		t.Errorf("over the missing field itself: %v", err)
	}
	lacking = full
	lacking.Numeric = append([]float64{math.NaN()}, full.Numeric[1:]...)
	_, err = m.Predict(&lacking)
	snapshottest.Refused(t, number, err)
	_, err = m.Predict(&format.Input{})
	snapshottest.Refused(t, user, err)
	if _, err := old.Predict(&format.Input{}); err != nil {
		t.Errorf("nothing at all, by a version of before: %v", err)
	}
	if _, err := NewModel(snapshottest.Strict(t, []string{"none"})); !errors.Is(err, disk.ErrContents) {
		t.Errorf("an optional field that there is not: %v", err)
	}
}
