package cycle

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// TestMixtureFootprint fills the mixture of a stream with more names than it keeps.
func TestMixtureFootprint(t *testing.T) {
	const rows = 5000
	target := targetOf(t, "ordinal")
	before := cycletest.Heap()
	setting := &baselines.Setting{Target: target, Fields: 2, By: 0, Limit: rows}
	m := mixture.NewMixture(nil, setting)
	for i := range 4 * rows {
		ev := &event.Event{
			Label:       float64(1 + i%5),
			Weight:      1,
			Categorical: []string{fmt.Sprintf("user-%011d", i), fmt.Sprintf("item-%011d", i)},
		}
		m.Combine(ev, nil, nil, nil, nil)
		m.Learn(ev, nil, nil)
	}
	if took, said := cycletest.Heap()-before, mixture.Footprint(0, setting, 16); took > said || 2*took < said {
		t.Errorf("a mixture takes %d bytes, said to be %d", took, said)
	}
	runtime.KeepAlive(m)
}

// TestNumbersFootprint fills the experts that learn numbers.
func TestNumbersFootprint(t *testing.T) {
	for _, size := range []struct{ numbers, outputs, rows int }{{2, 2, 100}, {16, 26, 5000}, {100, 3, 20_000}} {
		m := cycletest.NumericModel(size.numbers, size.outputs)
		m.Schema.Categorical, m.Train.FoldIn.MaxRows = []string{"kind"}, size.rows
		c := newCycle(t, m)
		c.ensemble.experts = nil
		before := cycletest.Heap()
		setting := c.ensemble.setting()
		all := setting.NewLasting()
		targets := make([]float64, size.outputs)
		for i := range 5000 {
			ev := &event.Event{
				Weight:      1,
				Categorical: []string{fmt.Sprintf("kind-%011d", i)},
				Classes:     m.Schema.Classes[i%2 : i%2+1],
			}
			for _, b := range all {
				if l, ok := b.Learner.(*experts.AdaGrad); ok {
					l.Gather(ev)
					l.Learn(ev, targets, 1)
				}
			}
		}
		m.Input.MaxIDBytes = 16
		parts := make(map[string]int64)
		setting.AddFootprints(parts)
		if took, said := cycletest.Heap()-before, parts["numbers"]; took > said || 6*took < said {
			t.Errorf("%d numbers and %d outputs take %d bytes, said to be %d", size.numbers, size.outputs, took, said)
		}
		runtime.KeepAlive(all)
	}
}

// TestBoostedFootprint: boosted trees of full windows take no more than their footprint, and not much less.
func TestBoostedFootprint(t *testing.T) {
	for _, size := range []struct{ numbers, outputs int }{{3, 2}, {12, 8}} {
		m := cycletest.NumericModel(size.numbers, size.outputs)
		m.Schema.Categorical, m.Input.MaxIDBytes = []string{"kind"}, 16
		c := newCycle(t, m)
		kind, setting := experts.KindOf(experts.PartBoosted), c.ensemble.setting()
		c.ensemble.experts = nil
		targets, random := make([]float64, size.outputs), rand.New(rand.NewPCG(1, 2))
		before := cycletest.Heap()
		b := kind.New(setting, nil, nil)
		for i := range 4200 {
			ev := &event.Event{Weight: 1, Categorical: []string{fmt.Sprintf("kind-%011d", i)},
				Numeric: make([]float64, size.numbers)}
			for f := range ev.Numeric {
				ev.Numeric[f] = random.Float64()
			}
			clear(targets)
			targets[int(4*ev.Numeric[0])%size.outputs] = 1
			b.Learner.Gather(ev)
			b.Learner.Learn(ev, targets, 1)
		}
		if took, said := cycletest.Heap()-before, kind.Footprint(setting); took > said || 4*took < said {
			t.Errorf("%d numbers and %d outputs take %d bytes, the footprint is %d", size.numbers, size.outputs, took, said)
		}
		runtime.KeepAlive(b)
	}
}

// TestBayesFootprint: naive Bayes of full slots takes no more than its footprint, and not much less.
func TestBayesFootprint(t *testing.T) {
	for _, outputs := range []int{2, 26} {
		m := cycletest.NumericModel(0, outputs)
		m.Schema.Categorical, m.Train.FoldIn.MaxRows, m.Input.MaxIDBytes = []string{"kind"}, 5000, 16
		c := newCycle(t, m)
		kind, setting, targets := experts.KindOf(experts.PartBayes), c.ensemble.setting(), make([]float64, outputs)
		c.ensemble.experts = nil
		before := cycletest.Heap()
		b := kind.New(setting, nil, nil)
		for i := range 5000 {
			ev := &event.Event{Weight: 1, Categorical: []string{fmt.Sprintf("kind-%011d", i)}}
			b.Learner.Gather(ev)
			b.Learner.Learn(ev, targets, 1)
		}
		if took, said := cycletest.Heap()-before, kind.Footprint(setting); took > said || 3*took < said {
			t.Errorf("%d outputs: it takes %d bytes, the footprint is %d", outputs, took, said)
		}
		runtime.KeepAlive(b)
	}
}

// TestCapFootprint: what bounds entities takes no more than its footprint, and not much less.
func TestCapFootprint(t *testing.T) {
	m := cycletest.PublicModel(func(m *config.Model) { m.Schema.Identity = "id" })
	schema := m.Schema.Event()
	before := cycletest.Heap()
	limits, counts := admission.NewEntityCap(m, &schema), new(rows.Counted)
	for i := range 2*admission.RememberedIdentities - 1 { // both halves of each map are full
		user := fmt.Sprintf("user-%011d", i%(2*m.Train.FoldIn.MaxRows))
		limits.Take(counts, &event.Event{Identity: fmt.Sprint(i), Categorical: []string{user, fmt.Sprint("i", i)}},
			rows.Position{Topic: "t", Offset: int64(i)})
	}
	if took, said := cycletest.Heap()-before, CapFootprint(m, 16); took > said || 3*took < said {
		t.Errorf("it takes %d bytes, the footprint is %d", took, said)
	}
	runtime.KeepAlive(limits)
}
