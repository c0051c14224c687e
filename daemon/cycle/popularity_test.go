package cycle

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
)

// chosenRows returns choices, each behind four negatives of which nothing says that they are: names as likely as the
// one that was chosen. With taste users of even number choose items of even number and the others the others.
func chosenRows(n int, taste bool) (events []event.Event) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range n {
		user := r.IntN(80)
		item := func(parity int) int {
			k := int(120 * math.Pow(r.Float64(), 2))
			if taste {
				k = 2*(k/2) + parity
			}
			return k
		}
		add := func(label float64, item int) {
			events = append(
				events,
				event.Event{
					Label:       label,
					Weight:      1,
					Time:        int64(i),
					Categorical: []string{fmt.Sprint("u", user), fmt.Sprint("i", item)},
				},
			)
		}
		for range 4 {
			add(0, item(r.IntN(2)))
		}
		add(1, item(user%2))
	}
	return events
}

// choicesSample puts choices with their negatives into parts: a tenth of the choices each for select and gate rows.
func choicesSample(events []event.Event) *encode.Sample {
	s := &encode.Sample{Digest: "choices"}
	for i := range events {
		row := rows.AppendEvent(nil, &events[i])
		switch i / 5 % 10 {
		case 0:
			s.Select = append(s.Select, row)
		case 1:
			s.Gate = append(s.Gate, row)
		default:
			s.Train = append(s.Train, row)
		}
	}
	return s
}

// listOf returns the names that a version lists for a user.
func listOf(t *testing.T, m *config.Model, ch *fitted.Fitted, user string) (names []string) {
	t.Helper()
	version, err := scorer.NewModel(ch.Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	items, err := version.TopK(nil,
		&snapshot.Query{Input: snapshot.Input{Categorical: []string{user, ""}}, Over: "item", K: 10},
		&snapshot.Scratch{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		names = append(names, i.Name)
	}
	return names
}

// K8b: where users have no taste, a version lists what was chosen most often, and says that it does no more; where they
// have one, it lists what is to it.
func TestListsAreOfPopularityOrBetter(t *testing.T) {
	for _, taste := range []bool{false, true} {
		m := cycletest.ChoicesModel(t)
		events := chosenRows(3000, taste)
		counts := make(map[string]int)
		for i := range events {
			counts[events[i].Categorical[1]] += int(events[i].Label)
		}
		ch := mustRefit(t, newCycle(t, m), choicesSample(events))
		if ch.Version.Decision != "promoted" || ch.PopularOnly == taste ||
			strings.Contains(ch.Version.Reason, "popularity alone") == taste {
			t.Fatalf("taste %t: %s, popularity alone %t: %s", taste, ch.Version.Decision, ch.PopularOnly,
				ch.Version.Reason)
		}
		if ch.Version.Gate.Recall10 == nil || ch.Version.Gate.NDCG10 == nil {
			t.Errorf("taste %t: no figures of lists: %+v", taste, ch.Version.Gate)
		}
		list, above := listOf(t, m, ch, "u2"), 0
		if !taste {
			for k := 1; k < len(list); k++ {
				if counts[list[k]] > counts[list[k-1]]+1 { // by shares that have faded a little
					t.Errorf("%s, chosen %d times, is listed behind %s, %d", list[k], counts[list[k]], list[k-1],
						counts[list[k-1]])
				}
			}
			continue
		}
		for _, name := range list {
			var k int
			if fmt.Sscanf(name, "i%d", &k); k%2 == 0 {
				above++
			}
		}
		if above < 8 {
			t.Errorf("of %v %d names are to the taste of the user", list, above)
		}
	}
}

// TestPopularityAfterARestart: choices of one user that count for no more than others' while they come count for no
// more after a restart.
func TestPopularityAfterARestart(t *testing.T) {
	m := cycletest.ChoicesModel(t)
	live, again := newCycle(t, m), newCycle(t, m)
	for i := range 600 {
		ev := &event.Event{Label: 1, Weight: 1, Time: int64(i),
			Categorical: []string{fmt.Sprint("u", i), fmt.Sprint("i", i%20)}}
		if i%2 == 0 {
			ev.Categorical = []string{"u", "i7"}
		}
		at, payload := rows.Position{Topic: "t", Offset: int64(i)}, rows.AppendEvent(nil, ev)
		live.Observe(ev, true, at, payload, nil)
		if err := again.Relearn(at, payload, false); err != nil {
			t.Fatal(err)
		}
	}
	weights := func(c *Cycle) *fitted.PopularWeights { return c.ensemble.popular.Weights() }
	if got, want := fmt.Sprint(weights(again)), fmt.Sprint(weights(live)); got != want {
		t.Errorf("popularity after a restart is %.200s, it was %.200s", got, want)
	}
}

// Popularity is in versions and not in what is learned on, also after a restart.
func TestPopularityOfVersions(t *testing.T) {
	m := cycletest.ChoicesModel(t)
	ch := mustRefit(t, newCycle(t, m), choicesSample(chosenRows(3000, true)))
	contents, dir := ch.Contents(m), t.TempDir()
	contents.Meta.Created, contents.Meta.Writer = time.Unix(1, 0), "test"
	manifest, err := publish.NewStore(dir).Publish(t.Context(), m.Name, contents)
	if err != nil {
		t.Fatal(err)
	}
	ch.Version.Version = manifest.Version
	var keep bytes.Buffer
	if err := ch.WriteCheckpoint(&keep); err != nil {
		t.Fatal(err)
	}
	version, err := snapshot.Open(dir, m.Name, snapshot.Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	again, err := fitted.Restore(m, version, keep.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range ch.Model.Linear {
		if math.Abs(again.Model.Linear[i]-w) > 1e-9 {
			t.Fatalf("weight %d is %g, it was %g", i, again.Model.Linear[i], w)
		}
	}
	if math.Abs(again.Model.Bias[0]-ch.Model.Bias[0]) > 1e-9 || again.PopularOnly != ch.PopularOnly {
		t.Errorf("bias %g, it was %g", again.Model.Bias[0], ch.Model.Bias[0])
	}
	ev := &event.Event{Categorical: []string{"u1", "i0"}}
	own, all := make([]float64, 1), make([]float64, 1)
	fitted.NewScorer(ch.Model, ch.Vocabulary).Outputs(own, ev)
	in := fitted.InputOf(ch.Vocabulary.Schema, ev)
	version.Score(all, &in, &snapshot.Scratch{})
	if d := all[0] - own[0] - ch.Popular.Of(ev); math.Abs(d) > 1e-9 {
		t.Errorf("the version says %g, the model %g and popularity %g", all[0], own[0], ch.Popular.Of(ev))
	}
}
