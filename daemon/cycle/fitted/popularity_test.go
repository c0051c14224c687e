package fitted

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// What is mixed follows what is chosen now, and what was chosen all along where nothing changes; names that there is no
// room for are given up, rare ones first.
func TestPopularity(t *testing.T) {
	m := cycletest.ChoicesModel(t)
	choose := func(p *Popularity, r *rand.Rand, n, from int) {
		for range n {
			p.Choose(
				&event.Event{
					Label:       1,
					Categorical: []string{"u", fmt.Sprint("i", from+int(40*math.Pow(r.Float64(), 2)))},
				},
			)
		}
	}
	r, p := rand.New(rand.NewPCG(1, 3)), NewPopularity(m)
	choose(p, r, 8000, 0)
	p.Choose(&event.Event{Label: 0, Categorical: []string{"u", "not chosen"}})
	w := p.Weights()
	if w.Names["i0"] <= w.Names["i10"] || w.Names["i10"] <= w.Names["i39"] || w.Names["not chosen"] != 0 ||
		len(w.Names) != 40 {
		t.Errorf("weights %v", w.Names)
	}
	sum := 0.0
	for _, v := range w.Names {
		sum += math.Exp(w.Shared + v)
	}
	if math.Abs(sum/40-1) > 0.01 {
		t.Errorf("a name is chosen %g times as often as the mean one", sum/40)
	}
	if ratio := w.Names["i0"] - w.Names["i20"]; math.Abs(
		ratio-math.Log(math.Sqrt(1.0/40)/(math.Sqrt(21.0/40)-math.Sqrt(20.0/40)))) > 0.25 {
		t.Errorf("i0 is chosen exp(%.2f) times as often as i20", ratio)
	}
	choose(p, r, 1500, 20) // others from now on
	if w = p.Weights(); w.Names["i20"] <= w.Names["i0"] || w.Names["i50"] <= w.Names["i10"] {
		t.Errorf("after a change i20 %g, i0 %g", w.Names["i20"], w.Names["i0"])
	}
	p.limit = 30
	p.Choose(&event.Event{Label: 1, Categorical: []string{"u", "new"}})
	if _, known := p.Names["i20"]; !known || len(p.Names) > 31 {
		t.Errorf("%d names are kept, of 30", len(p.Names))
	}
	if NewPopularity(cycletest.RatingsModel(func(*config.Model) {})) != nil {
		t.Error("events with labels have a popularity")
	}
}
