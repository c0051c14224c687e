package config

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestOptionalFields: an entry of the three lists may be a mapping that says more than the name. Without one, what is
// stored and hashed is what it was before there were such entries.
func TestOptionalFields(t *testing.T) {
	text := strings.Replace(
		smallest,
		"categorical: [user, item]",
		"categorical: [user, {name: item}, {name: city, optional: true}], "+
			"numeric: [{name: age, optional: true}, {name: price, optional: false}],\n      multi:\n        [tags, "+
			"{optional: true, name: extras}]",
		1,
	)
	c, problems := parse(t, text)
	if problems != nil {
		t.Fatal(problems)
	}
	s := c.Models[0].Schema
	if !slices.Equal(s.Categorical, []string{"user", "item", "city"}) ||
		!slices.Equal(s.Numeric, []string{"age", "price"}) ||
		!slices.Equal(s.Multi, []string{"tags", "extras"}) ||
		!slices.Equal(s.Optional, []string{"age", "city", "extras"}) {
		t.Errorf("%+v", s)
	}
	stored, err := DecodeStored(c.Models[0].Stored())
	if err != nil || !slices.Equal(stored.Schema.Optional, s.Optional) {
		t.Errorf("stored as %+v, %v", stored, err)
	}
	plain, _ := parse(
		t,
		strings.NewReplacer("{name: city, optional: true}", "city", "{name: age, optional: true}", "age",
			"{optional: true, name: extras}", "extras", "{name: item}", "item", "{name: price, optional: false}",
			"price").Replace(text),
	)
	m := c.Models[0]
	m.Schema.Optional = nil
	if bytes.Contains(plain.Models[0].Stored(), []byte("optional")) || plain.Models[0].SampleHash() != m.SampleHash() ||
		m.SampleHash() == c.Models[0].SampleHash() {
		t.Error("the hash of a model without optional fields is not what it was, or that of one with them is")
	}
}

// TestFunctionsOfAField: what a field is said to be a function of reaches the decoder's schema, and is no part of what
// rows depend on.
func TestFunctionsOfAField(t *testing.T) {
	text := strings.Replace(smallest, "categorical: [user, item]",
		"categorical: [user, item, {name: age, of: user}], multi: [{name: genre, of: item}]", 1)
	c, problems := parse(t, text)
	if problems != nil {
		t.Fatal(problems)
	}
	want := map[string]string{"age": "user", "genre": "item"}
	if got := c.Models[0].Schema.Event().Of; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	stored, err := DecodeStored(c.Models[0].Stored())
	if err != nil || !maps.Equal(stored.Schema.Of, want) {
		t.Errorf("stored as %+v, %v", stored, err)
	}
	plain, _ := parse(t,
		strings.NewReplacer("{name: age, of: user}", "age", "{name: genre, of: item}", "genre").Replace(text))
	if m := c.Models[0]; m.SampleHash() != plain.Models[0].SampleHash() || m.Hash() == plain.Models[0].Hash() {
		t.Error("the hash of what rows depend on has the groups of fields, or that of what versions depend on has not")
	}
}

// TestCrosses: crosses are the last categorical fields of the decoder's schema, and a model without any is stored as
// before there were such.
func TestCrosses(t *testing.T) {
	c, problems := parse(t,
		strings.Replace(smallest, "[user, item]", "[user, item, hour], cross: [[user, item], [item, hour, user]]", 1))
	if problems != nil {
		t.Fatal(problems)
	}
	s := c.Models[0].Schema.Event()
	if !slices.Equal(s.Categorical, []string{"user", "item", "hour", "user×item", "item×hour×user"}) ||
		s.NumGiven() != 3 ||
		!slices.Equal(s.Cross[0], event.Cross{0, 1}) ||
		!slices.Equal(s.Cross[1], event.Cross{1, 2, 0}) {
		t.Errorf("%+v", s)
	}
	plain, _ := parse(t, smallest)
	if bytes.Contains(plain.Models[0].Stored(), []byte("cross")) ||
		plain.Models[0].SampleHash() == c.Models[0].SampleHash() {
		t.Error("a model without crosses is stored with them, or has the same hash as one with them")
	}
}

// TestDerived: derived fields are the last optional ones of their lists, before crosses, also once they were stored; a
// model without any is stored as before there were such.
func TestDerived(t *testing.T) {
	c, problems := parse(
		t,
		strings.Replace(
			smallest,
			"[user, item]",
			"[user, {name: item, optional: true}], multi: [tag], cross: [[item, hour]], derived: "+
				"[{name: hour, kind: time_bin, unit: hour}, {name: seen, kind: last, of: user, field: item, k: 3}, {name: "+
				"before, kind: previous_label, of: item}]",
			1,
		),
	)
	if problems != nil {
		t.Fatal(problems)
	}
	again, err := DecodeStored(c.Models[0].Stored())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Model{&c.Models[0], again} {
		s := m.Schema.Event()
		categorical, multi := m.Schema.GivenFields()
		if !slices.Equal(s.Categorical, []string{"user", "item", "hour", "before", "item×hour"}) || !slices.Equal(s.Multi,
			[]string{"tag", "seen"}) ||
			!slices.Equal(s.Optional, []string{"before", "hour", "item", "seen"}) || !slices.Equal(categorical, []string{"user",
			"item"}) ||
			!slices.Equal(multi, []string{"tag"}) ||
			!slices.Equal(s.Cross[0], event.Cross{1, 2}) ||
			m.Evaluate.BaselineBy != "item" {
			t.Errorf("%+v", s)
		}
		want := []event.Derived{
			{Kind: event.TimeBin, Of: -1, Unit: "hour", Field: -1, At: 2},
			{Kind: event.Last, Of: 0, K: 3, Field: 1, Multi: true, At: 1},
			{Kind: event.PreviousLabel, Of: 1, Field: -1, At: 3},
		}
		if !slices.Equal(s.Derived, want) {
			t.Errorf("%+v", s.Derived)
		}
	}
	plain, _ := parse(t, smallest)
	if bytes.Contains(plain.Models[0].Stored(), []byte("derived")) ||
		plain.Models[0].SampleHash() == c.Models[0].SampleHash() {
		t.Error("a model without derived fields is stored with them, or has the same hash as one with them")
	}
	multilabel, problems := parse(
		t,
		strings.NewReplacer(
			"task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]",
			"task: multilabel, label: tags, classes: [a, b], categorical: [user], derived: [{name: before, kind: "+
				"previous_label, of: user}]",
			", baseline_by: item",
			"",
		).Replace(smallest),
	)
	if problems != nil || !slices.Equal(multilabel.Models[0].Schema.Multi, []string{"before"}) ||
		multilabel.Models[0].Evaluate.BaselineBy != "user" {
		t.Errorf("%+v, %v", multilabel, problems)
	}
}

// TestLastOfTheOtherField: of two categorical fields, a derived field of last names is of the one that is no entity, as
// if that was written.
func TestLastOfTheOtherField(t *testing.T) {
	with := func(derived string) *Config {
		c, problems := parse(t, strings.Replace(smallest, "[user, item]", "[user, item], derived: ["+derived+"]", 1))
		if problems != nil {
			t.Fatal(problems)
		}
		return c
	}
	for of, field := range map[string]string{"user": "item", "item": "user"} {
		given := with("{name: seen, kind: last, of: " + of + ", field: " + field + ", k: 3}")
		if c := with("{name: seen, kind: last, of: " + of + ", k: 3}"); c.Hash() != given.Hash() ||
			c.Models[0].Schema.Derived[0].Field != field {
			t.Errorf("last names of %s are %+v", of, c.Models[0].Schema.Derived)
		}
	}
}
