package cycle

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
)

// groupChoices returns choices by users who mostly choose an item of the group of their last choice, whatever that
// is. Each choice has four negatives before it.
func groupChoices(n int) (events []event.Event) {
	r := rand.New(rand.NewPCG(5, 50))
	last := make(map[int]int)
	for i := range n {
		user, item := r.IntN(200), r.IntN(120)
		if r.IntN(5) > 0 {
			item = item/10*10 + last[user]%10
		}
		last[user] = item
		for k := range 5 {
			ev := event.Event{Weight: 1, Time: int64(i),
				Categorical: []string{fmt.Sprint("u", user), fmt.Sprint("i", r.IntN(120))}}
			if k == 4 {
				ev.Label, ev.Categorical[1] = 1, fmt.Sprint("i", item)
			}
			events = append(events, ev)
		}
	}
	return events
}

// Lists of refits and of updates follow what was chosen last, by what the version knows and by a history, and a restart
// keeps that.
func TestListsFollowTheLastChoices(t *testing.T) {
	m := cycletest.ChoicesModel(t)
	c, events := newCycle(t, m), groupChoices(6000)
	ch := mustRefit(t, c, choicesSample(events))
	c.Install(ch)
	var keep bytes.Buffer
	if err := ch.WriteCheckpoint(&keep); err != nil {
		t.Fatal(err)
	}
	version, err := scorer.NewModel(ch.Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	if version.Contents().CoChoices == nil || version.HistoryField() != "user" {
		t.Fatalf("the refit has no co-choices: %s", ch.Version.Reason)
	}
	// ofGroup counts the names of a list that are of a group.
	ofGroup := func(what string, lister interface {
		TopK([]snapshot.Item, *snapshot.Query, *snapshot.Scratch) ([]snapshot.Item, error)
	}, group int) int {
		q := &snapshot.Query{Input: snapshot.Input{Categorical: []string{"u7", ""}}, Over: "item", K: 10}
		items, err := lister.TopK(nil, q, new(snapshot.Scratch))
		if err != nil {
			t.Fatal(what, err)
		}
		return len(slices.DeleteFunc(items, func(x snapshot.Item) bool {
			var item int
			_, err := fmt.Sscanf(x.Name, "i%d", &item)
			return err != nil || item%10 != group
		}))
	}
	own := 0
	for group := range 10 {
		over, err := version.Fold([]snapshot.LabelledEvent{
			{Input: snapshot.Input{Categorical: []string{"u7", fmt.Sprint("i", 50+group)}}, Label: 1}})
		if err != nil {
			t.Fatal(err)
		}
		own += ofGroup("history", over, group)
	}
	if own < 50 { // 10 by chance
		t.Errorf("of 100 names after one of a group, %d are of the group", own)
	}
	for i := range events {
		c.Observe(&events[i], true, rows.Position{Topic: "choices", Offset: int64(i)}, nil, nil)
	}
	for i, item := range []string{"i13", "i43", "i83"} {
		ev := &event.Event{Label: 1, Weight: 1, Categorical: []string{"u7", item}}
		c.Observe(ev, true, rows.Position{Topic: "choices", Offset: int64(len(events) + i)}, nil, nil)
	}
	update, err := scorer.NewModel(c.Update().Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	if n := ofGroup("update", update, 3); n < 6 {
		t.Errorf("of ten names after three of group 3, %d are of it", n)
	}
	ch.Version.Version = version.Manifest().Version
	again, err := fitted.Restore(m, version, keep.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if again.Contents(m).CoChoices == nil {
		t.Error("a restart loses the co-choices of the champion")
	}
}

// K8b: what a version of popularity alone predicts is how often names are chosen, against names drawn uniformly.
func TestPopularityAloneIsCalibrated(t *testing.T) {
	m := cycletest.ChoicesModel(t)
	ch := mustRefit(t, newCycle(t, m), choicesSample(chosenRows(8000, false)))
	if !ch.PopularOnly {
		t.Fatal("the version is not of popularity alone")
	}
	version, err := scorer.NewModel(ch.Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	r, score := rand.New(rand.NewPCG(9, 9)), make([]float64, 1)
	predicted, chosen, n := 0.0, 0.0, 0.0
	var top, topChosen float64 // of predictions above a half
	for _, ev := range chosenRows(16_000, false)[40_000:] {
		if ev.Label == 0 {
			ev.Categorical = []string{ev.Categorical[0], fmt.Sprint("i", r.IntN(120))}
		}
		in := fitted.InputOf(&event.Schema{Categorical: m.Schema.Categorical}, &ev)
		version.Score(score, &in, new(snapshot.Scratch))
		p := 1 / (1 + math.Exp(-score[0]))
		predicted, chosen, n = predicted+p, chosen+ev.Label, n+1
		if p > 0.5 {
			top, topChosen = top+p, topChosen+ev.Label
		}
	}
	if math.Abs(predicted-chosen)/n > 0.02 || top == 0 || math.Abs(top/topChosen-1) > 0.15 {
		t.Errorf("of %g rows %g are predicted and %g chosen, of likely ones %g and %g", n, predicted, chosen, top, topChosen)
	}
}
