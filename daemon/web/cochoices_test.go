package web

import (
	"net/http"
	"testing"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	models "github.com/refitd/refitd/snapshot/scorer"
)

// A version without fold-in that has co-choices takes a history for its lists, over HTTP as in the library, and serves
// their file.
func TestHistoryOfListsAlone(t *testing.T) {
	b := newBench(t)
	c := contents(format.Binary, 3)
	c.CoChoices = &format.CoChoices{Over: "item", By: "user", HalfLife: 2, Weight: 1, Scale: 1,
		Neighbours: [][]format.Neighbour{{{Place: 3, Lift: 1e9}}, {{Place: 0, Lift: 1e9}}, {}, {{Place: 2, Lift: 1e9}}},
		Recent:     [][]int32{{0}}}
	b.promote(t, "clicks", b.publish(t, "clicks", c))
	chosen := ratingEvent("u1", "i2", 30)
	chosen["y"] = 1
	for _, of := range []struct {
		user    string
		history []any
		first   string // empty for the list of a version without co-choices
	}{{"u1", nil, "i4"}, {"u1", []any{chosen}, "i1"}, {"u9", nil, ""}} {
		ask := map[string]any{"event": ratingEvent(of.user, "-", 50), "over": "item", "k": 4}
		if of.history != nil {
			ask["history"] = of.history
		}
		var top struct{ Items []snapshot.Item }
		b.want(http.StatusOK, &top, "POST", "/v1/models/clicks/topk", ask)
		if of.first == "" {
			plain, err := models.NewModel(contents(format.Binary, 3))
			if err != nil {
				t.Fatal(err)
			}
			q := &snapshot.Query{Input: *input(of.user, "-", 50), Over: "item", K: 4}
			items, err := plain.TopK(nil, q, new(snapshot.Scratch))
			if err != nil {
				t.Fatal(err)
			}
			of.first = items[0].Name
		}
		if len(top.Items) != 4 || top.Items[0].Name != of.first {
			t.Errorf("%s after %v gets %+v, want %s first", of.user, of.history, top.Items, of.first)
		}
	}
	if code := b.ask("GET", "/v1/models/clicks/versions/2/files/cochoices", nil).Code; code != http.StatusOK {
		t.Errorf("the file is answered with %d", code)
	}
}
