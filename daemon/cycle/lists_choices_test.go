package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
)

func choicesModel(t *testing.T) *config.Model {
	t.Helper()
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "choices", []string{"choices"}
	m.Schema = config.Schema{Task: config.Implicit, Time: "ts", TimeUnit: "ms", Categorical: []string{"user", "item"}}
	m.Train.MaxBasis = 4
	m.Resolve()
	if problems := m.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return &m
}

// chosenRows returns choices, each behind four negatives of which nothing says that they are: names as likely as the one that was chosen. With taste users of
// even number choose items of even number and the others the others.
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
			events = append(events, event.Event{Label: label, Weight: 1, Time: int64(i), Categorical: []string{fmt.Sprint("u", user), fmt.Sprint("i", item)}})
		}
		for range 4 {
			add(0, item(r.IntN(2)))
		}
		add(1, item(user%2))
	}
	return events
}

// choicesSample puts choices with their negatives into parts: a tenth of the choices each for select and gate rows.
func choicesSample(events []event.Event) *Sample {
	s := &Sample{Digest: "choices"}
	for i := range events {
		row := AppendEvent(nil, &events[i])
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
func listOf(t *testing.T, m *config.Model, ch *Champion, user string) (names []string) {
	t.Helper()
	version, err := snapshot.NewModel(ch.Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	items, err := version.TopK(nil, &snapshot.Query{Input: snapshot.Input{Categorical: []string{user, ""}}, Over: "item", K: 10}, &snapshot.Scratch{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		names = append(names, i.Name)
	}
	return names
}

// K8b: where users have no taste, a version lists what was chosen most often, and says that it does no more; where they have one, it lists what is to it.
func TestListsAreOfPopularityOrBetter(t *testing.T) {
	for _, taste := range []bool{false, true} {
		m := choicesModel(t)
		events := chosenRows(3000, taste)
		counts := make(map[string]int)
		for i := range events {
			counts[events[i].Categorical[1]] += int(events[i].Label)
		}
		ch := refit(t, newCycle(t, m), choicesSample(events))
		if ch.Version.Decision != "promoted" || ch.popularOnly == taste || strings.Contains(ch.Version.Reason, "popularity alone") == taste {
			t.Fatalf("taste %t: %s, popularity alone %t: %s", taste, ch.Version.Decision, ch.popularOnly, ch.Version.Reason)
		}
		if ch.Version.Gate.Recall10 == nil || ch.Version.Gate.NDCG10 == nil {
			t.Errorf("taste %t: no figures of lists: %+v", taste, ch.Version.Gate)
		}
		list, above := listOf(t, m, ch, "u2"), 0
		if !taste {
			for k := 1; k < len(list); k++ {
				if counts[list[k]] > counts[list[k-1]]+1 { // by shares that have faded a little
					t.Errorf("%s, chosen %d times, is listed behind %s, %d", list[k], counts[list[k]], list[k-1], counts[list[k-1]])
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

// Popularity is in versions and not in what is learned on, also after a restart.
func TestPopularityOfVersions(t *testing.T) {
	m := choicesModel(t)
	ch := refit(t, newCycle(t, m), choicesSample(chosenRows(3000, true)))
	contents, dir := ch.Contents(m), t.TempDir()
	contents.Meta.Created, contents.Meta.Writer = time.Unix(1, 0), "test"
	manifest, err := snapshot.NewStore(dir).Publish(t.Context(), m.Name, contents)
	if err != nil {
		t.Fatal(err)
	}
	ch.Version.Version = manifest.Version
	keep, err := ch.Keep()
	if err != nil {
		t.Fatal(err)
	}
	version, err := snapshot.Open(dir, m.Name, snapshot.Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Revive(m, version, keep)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range ch.Model.Linear {
		if math.Abs(again.Model.Linear[i]-w) > 1e-9 {
			t.Fatalf("weight %d is %g, it was %g", i, again.Model.Linear[i], w)
		}
	}
	if math.Abs(again.Model.Bias[0]-ch.Model.Bias[0]) > 1e-9 || again.popularOnly != ch.popularOnly {
		t.Errorf("bias %g, it was %g", again.Model.Bias[0], ch.Model.Bias[0])
	}
	ev := &event.Event{Categorical: []string{"u1", "i0"}}
	own, all := make([]float64, 1), make([]float64, 1)
	newScorer(ch.Model, ch.Vocabulary).outputs(own, ev)
	in := InputOf(ch.Vocabulary.schema, ev)
	version.Score(all, &in, &snapshot.Scratch{})
	if d := all[0] - own[0] - ch.popular.of(ev); math.Abs(d) > 1e-9 {
		t.Errorf("the version says %g, the model %g and popularity %g", all[0], own[0], ch.popular.of(ev))
	}
}

// What is mixed follows what is chosen now, and what was chosen all along where nothing changes; names that there is no room for are given up, rare ones first.
func TestPopularity(t *testing.T) {
	m := choicesModel(t)
	choose := func(p *popularity, r *rand.Rand, n, from int) {
		for range n {
			p.choose(&event.Event{Label: 1, Categorical: []string{"u", fmt.Sprint("i", from+int(40*math.Pow(r.Float64(), 2)))}})
		}
	}
	r, p := rand.New(rand.NewPCG(1, 3)), newPopularity(m)
	choose(p, r, 8000, 0)
	p.choose(&event.Event{Label: 0, Categorical: []string{"u", "not chosen"}})
	w := p.weights()
	if w.Names["i0"] <= w.Names["i10"] || w.Names["i10"] <= w.Names["i39"] || w.Names["not chosen"] != 0 || len(w.Names) != 40 {
		t.Errorf("weights %v", w.Names)
	}
	sum := 0.0
	for _, v := range w.Names {
		sum += math.Exp(w.Shared + v)
	}
	if math.Abs(sum/40-1) > 0.01 {
		t.Errorf("a name is chosen %g times as often as the mean one", sum/40)
	}
	if ratio := w.Names["i0"] - w.Names["i20"]; math.Abs(ratio-math.Log(math.Sqrt(1.0/40)/(math.Sqrt(21.0/40)-math.Sqrt(20.0/40)))) > 0.25 {
		t.Errorf("i0 is chosen exp(%.2f) times as often as i20", ratio)
	}
	choose(p, r, 1500, 20) // others from now on
	if w = p.weights(); w.Names["i20"] <= w.Names["i0"] || w.Names["i50"] <= w.Names["i10"] {
		t.Errorf("after a change i20 %g, i0 %g", w.Names["i20"], w.Names["i0"])
	}
	p.limit = 30
	p.choose(&event.Event{Label: 1, Categorical: []string{"u", "new"}})
	if _, known := p.names["i20"]; !known || len(p.names) > 31 {
		t.Errorf("%d names are kept, of 30", len(p.names))
	}
	if newPopularity(ratingsModel(func(*config.Model) {})) != nil {
		t.Error("events with labels have a popularity")
	}
}
