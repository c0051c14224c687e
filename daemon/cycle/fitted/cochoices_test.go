package fitted

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
)

// chooseInGroups has users choose items of the group of their last choice three times in four where they do, else any
// item.
func chooseInGroups(p *Popularity, r *rand.Rand, n int, groups bool) {
	last := make(map[int]int)
	for range n {
		user, item := r.IntN(60), r.IntN(100)
		if groups && r.IntN(4) > 0 {
			item = item/10*10 + last[user]%10
		}
		last[user] = item
		p.Choose(&event.Event{Label: 1, Categorical: []string{fmt.Sprint("u", user), fmt.Sprint("i", item)}})
	}
}

// TestCoChoices: what entities choose after each other becomes neighbours of versions, and where that lists no better
// than popularity versions have none.
func TestCoChoices(t *testing.T) {
	m := cycletest.ChoicesModel(t)
	p := NewPopularity(m)
	chooseInGroups(p, rand.New(rand.NewPCG(50, 1)), 8000, false)
	if x := p.CoChoices(); x != nil {
		t.Errorf("of choices without neighbours lists have co-choices of weight %g", x.Weight)
	}
	p = NewPopularity(m)
	chooseInGroups(p, rand.New(rand.NewPCG(50, 2)), 8000, true)
	p.Choose(&event.Event{Label: 1, Categorical: []string{"u3", "i7"}})
	p.Choose(&event.Event{Label: 0, Categorical: []string{"u3", "i8"}})
	w := p.Weights()
	if w.CoChoices == nil {
		t.Fatal("lists have no co-choices")
	}
	schema := m.Schema.Event()
	v := &encode.Vocabulary{Names: [][]string{{"u3", "new"}, nil}}
	for i := range 100 {
		v.Names[1] = append(v.Names[1], fmt.Sprint("i", i))
	}
	x := w.CoChoices.contents(&schema, 1, v)
	if x.Over != "item" || x.By != "user" || len(x.Neighbours) != 100 || len(x.Recent) != 2 {
		t.Fatalf("co-choices over %s by %s of %d names and %d entities", x.Over, x.By, len(x.Neighbours), len(x.Recent))
	}
	for i, list := range x.Neighbours {
		own := 0
		for _, n := range list[:min(len(list), 9)] {
			if int(n.Place)%10 == i%10 {
				own++
			}
		}
		if own < 7 { // of another group one in ten
			t.Errorf("of the 9 nearest names of name %d, %d are of its group", i, own)
		}
	}
	if recent := x.Recent[0]; len(recent) != recentChoices || recent[len(recent)-1] != 7 || len(x.Recent[1]) > 0 {
		t.Errorf("recent choices %v", x.Recent)
	}
}

// TestCoChoicesBounded: names and entities that there is no room for are given up, with what others have of them, and
// what is kept takes no more than its footprint.
func TestCoChoicesBounded(t *testing.T) {
	m := cycletest.ChoicesModel(t)
	m.Train.FoldIn.MaxRows = 2000
	before := cycletest.Heap()
	p, r := NewPopularity(m), rand.New(rand.NewPCG(50, 3))
	for i := range 60_000 {
		user, item := i/10+r.IntN(40), i/20+r.IntN(200)
		p.Choose(&event.Event{Label: 1,
			Categorical: []string{fmt.Sprintf("user-%011d", user), fmt.Sprintf("item-%011d", item)}})
	}
	if len(p.Names) > 2000 || len(p.pairs.choosers) > 2000 {
		t.Errorf("%d names and %d entities are kept, of 2000", len(p.Names), len(p.pairs.choosers))
	}
	w := p.Weights()
	took := cycletest.Heap() - before
	const counts = 384 // rows.PopularityBytes
	if said := CoChoiceBytes(2000, 16) + counts*2000; took > said || 8*took < said {
		t.Errorf("they take %d bytes, said to be %d", took, said)
	}
	for _, of := range p.List {
		if len(of.near) > Neighbours(2000)*3/2 {
			t.Fatalf("a name has %d neighbours", len(of.near))
		}
	}
	if x := w.CoChoices; x != nil && slices.ContainsFunc(x.Pairs, func(pair CoChoicePair) bool {
		return int(pair.Other) >= len(x.Names) || !strings.HasPrefix(x.Names[pair.Other], "item-")
	}) {
		t.Error("a pair has a name that was given up")
	}
	runtime.KeepAlive(p)
}

// TestCoChoiceWays: what a name gains in each way is by definition, the sum over pairs with the way's prior, half-life
// and weight.
func TestCoChoiceWays(t *testing.T) {
	p := NewPopularity(cycletest.ChoicesModel(t))
	chooseInGroups(p, rand.New(rand.NewPCG(50, 4)), 3000, true)
	who, of := p.pairs.choosers["u3"], p.Names["i7"]
	p.pairs.mark++
	p.touch(who)
	var got [numCoChoiceWays]float64
	of.lifted(&got, 2, p.pairs.mark)
	for way, value := range got {
		by, sum := wayAt(way), 0.0
		for i, x := range who.recent {
			for _, pair := range x.near {
				if pair.of == of {
					n := float64(pair.n) * math.Exp2(-(p.Now-x.nearAt)/popularityLives[coChoiceLife])
					sum += math.Exp2(-float64(len(who.recent)-1-i)/by.halfLife) * n * p.totals.n[coChoiceLife] /
						((x.n[coChoiceLife] + by.prior) * (of.n[coChoiceLife] + by.prior))
				}
			}
		}
		if want := 2 * (1 + by.weight*sum); sum == 0 || math.Abs(value-want) > 1e-9*want {
			t.Errorf("in way %d %g, by definition %g", way, value, want)
		}
	}
}
