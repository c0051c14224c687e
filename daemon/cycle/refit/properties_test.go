package refit_test

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/cycletest/refits"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// TestListsHaveProperties: a list over items takes the year of each item, whatever the request says, as a score of that
// item with its year does. A request may lack it. A restart keeps what is known.
func TestListsHaveProperties(t *testing.T) {
	m := sideModel(nil)
	c := newCycle(t, m)
	events := withSides(cycletest.Stream(9, 3000))
	observeAll(c, events)
	ch := mustRefit(t, c, sampleOf(events))
	ch.Version.Version = 1
	published, err := scorer.NewModel(ch.Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	years := make(map[string]string)
	for i := range events {
		years[events[i].Categorical[1]] = events[i].Categorical[4]
	}
	user := events[0].Categorical
	list := func(year string) []format.Item {
		in := format.Input{Categorical: []string{user[0], "", user[2], user[3], year}}
		q := &format.Query{Input: in, Over: "item", K: 10}
		items, err := published.TopK(nil, q, new(scorer.Scratch))
		if err != nil || len(items) != 10 {
			t.Fatalf("%d items, %v", len(items), err)
		}
		return items
	}
	got := list("")
	if other := list("y1"); !slices.Equal(other, got) {
		t.Errorf("%v with a year in the request, %v without", other, got)
	}
	var best []float64
	for item, year := range years {
		in := format.Input{Categorical: []string{user[0], item, user[2], user[3], year}}
		p, err := published.Predict(&in)
		if err != nil {
			t.Fatal(err)
		}
		best = append(best, p.Value)
		if i := slices.IndexFunc(got, func(x format.Item) bool { return x.Name == item }); i >= 0 && got[i].Value != p.Value {
			t.Errorf("%s has the value %v in the list, %v as an event", item, got[i].Value, p.Value)
		}
	}
	slices.Sort(best)
	for i, x := range got {
		if x.Value != best[len(best)-1-i] {
			t.Errorf("place %d has the value %v, the best are %v", i, x.Value, best[len(best)-10:])
		}
	}
	again, err := fitted.FromSnapshot(m, published)
	if err != nil {
		t.Fatal(err)
	}
	again.FoldIn, again.NoFoldIn = published.Contents().FoldIn, published.Contents().NoFoldIn
	if was, is := refits.PayloadOf(t, ch, m), refits.PayloadOf(t, again, m); was != is {
		t.Errorf("payload %s after a restart, %s before", is, was)
	}
}
