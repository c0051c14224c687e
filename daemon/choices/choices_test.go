package choices

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// TestPopularity: places are those of a sort, whatever comes and goes first.
func TestPopularity(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	p := popularity{at: make(map[string]int)}
	counts, seen := make(map[string]int), map[string]int{"n3": 1, "n11": 2}
	var chosen []string
	for range 3000 {
		name := fmt.Sprintf("n%d", int(40*r.Float64()*r.Float64()))
		place := p.place(name, seen)
		above, equal := 0, 0
		for other, n := range counts {
			if seen[other] > 0 || other == name || n == 0 {
				continue
			}
			if n > counts[name] {
				above++
			} else if n == counts[name] {
				equal++
			}
		}
		found := place > 0
		switch {
		case seen[name] > 0 || counts[name] == 0:
			if found {
				t.Fatalf("%s has place %d: it is seen, or new", name, place)
			}
		case found && (place <= above || place > above+equal+1) || !found && above+equal < Listed:
			t.Fatalf("%s has place %d: %d are more popular, %d as popular", name, place, above, equal)
		}
		p.add(name)
		counts[name]++
		if chosen = append(chosen, name); len(chosen) > 100 {
			p.remove(chosen[0])
			counts[chosen[0]]--
			chosen = chosen[1:]
		}
	}
	if !slices.IsSortedFunc(p.counts, func(a, b int) int { return b - a }) || slices.Contains(p.counts, 0) ||
		len(p.at) != len(p.names) {
		t.Errorf("counts %v of %d names", p.counts, len(p.at))
	}
}

// TestKnown: with a limit, what is known is what follows from the last choices alone.
func TestKnown(t *testing.T) {
	const limit = 50
	m := &config.Model{Schema: config.Schema{Task: config.Implicit, Categorical: []string{"user", "item"}}}
	m.Input.Negatives.Of, m.Train.FoldIn.By = "item", []string{"item", "user"}
	r := rand.New(rand.NewPCG(8, 8))
	var events []*event.Event
	k := New(m, limit)
	for range 500 {
		user := fmt.Sprintf("u%d", r.IntN(5))
		if r.IntN(20) == 0 {
			user = "" // nobody
		}
		ev := &event.Event{Categorical: []string{user, fmt.Sprintf("i%d", int(30*r.Float64()*r.Float64()))}}
		k.Note(ev)
		events = append(events, ev)
		fresh := New(m, 0)
		for _, ev := range events[max(0, len(events)-limit):] {
			fresh.Note(ev)
		}
		if !reflect.DeepEqual(k.seen, fresh.seen) {
			t.Fatalf("after %d choices %v is known, of the last ones %v", len(events), k.seen, fresh.seen)
		}
		for name, at := range fresh.popular.at {
			if i, ok := k.popular.at[name]; !ok || k.popular.counts[i] != fresh.popular.counts[at] ||
				len(k.popular.at) != len(fresh.popular.at) {
				t.Fatalf("%s was chosen %d times, %d in all: %v", name, fresh.popular.counts[at], len(events),
					k.popular)
			}
		}
	}
	m.Schema.Task = "binary"
	if New(m, limit) != nil {
		t.Error("a model with labels has choices")
	}
}

// TestHits: the means over choices in a list, beyond it and in none.
func TestHits(t *testing.T) {
	var h Hits
	var m report.Metrics
	if h.AddTo(&m); m.Recall10 != nil || m.NDCG10 != nil {
		t.Errorf("%+v of no choice", m)
	}
	for _, place := range []int{1, 3, 0, 0} {
		h.Add(place)
	}
	h.AddTo(&m)
	if h.N() != 4 || math.Abs(float64(*m.Recall10)-0.5) > 1e-12 || math.Abs(float64(*m.NDCG10)-1.5/4) > 1e-12 {
		t.Errorf("recall %v, nDCG %v", *m.Recall10, *m.NDCG10)
	}
}
