package cycle

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// branchedWithProduct returns 5000 events in which rules of if and else and a product decide.
func branchedWithProduct(isNumber bool) []event.Event {
	list, r := branched(1, 5000, isNumber), rand.New(rand.NewPCG(3, 3))
	for i := range list {
		ev := &list[i]
		smooth := (ev.Numeric[0] - 5) * (ev.Numeric[1] - 0.5)
		if isNumber {
			ev.Label += 25 * smooth
		} else if logit := 3*(2*ev.Label-1) + 2*smooth; r.Float64() < 1/(1+math.Exp(-logit)) {
			ev.Label = 1
		} else {
			ev.Label = 0
		}
	}
	return list
}

// TestUpdateFromPool: where rules of if and else and a product decide, updates become a sum of variants, which loses
// less than each. A reader's outputs are the sum of theirs.
func TestUpdateFromPool(t *testing.T) {
	for _, isNumber := range []bool{false, true} {
		m := branchedModel(isNumber)
		c, list := newCycle(t, m), branchedWithProduct(isNumber)
		observeAll(c, list[:1000])
		ch := mustRefit(t, c, sampleOf(list[:1000]))
		ch.Version.Version = 1
		c.Install(ch)
		observeWithUpdates(c, list[1000:], 200)
		if got := c.publisher.race.Chosen; got != mixture.FormPool || !c.publisher.updates {
			t.Fatalf("updates are of form %d, want %d; consumers get them: %t", got, mixture.FormPool, c.publisher.updates)
		}
		for f, x := range c.publisher.published.Load().Forms {
			if units, _ := c.publisher.race.Difference(mixture.FormPool, mixture.Variant(f)); x.Model != nil && units < 0 {
				t.Errorf("the sum loses %g more than form %d", -units, f)
			}
		}
		if !c.ensemble.isPooled(experts.PartBoosted) || c.neededPart() != experts.PartBoosted {
			t.Error("trees may sleep")
		}
		forms := c.ensemble.candidates(false)
		u, w := c.update(&forms), forms[mixture.FormPool].Pooled
		contents := u.Contents(m)
		if contents.FoldIn != nil || !strings.Contains(contents.NoFoldIn, "sum") {
			t.Errorf("fold-in %v, none since %q", contents.FoldIn, contents.NoFoldIn)
		}
		version := opened(t, contents)
		got, own, limit := []float64{0}, []float64{0}, c.champion.OutputLimit()
		reader := fitted.NewFrozenScorer(&fitted.FixedModel{Model: u.Model, Vocab: u.Vocabulary, After: version})
		for i := range list[:300] {
			ev, want := &list[4500+i], w.Constant[0]
			for k, f := range mixture.PooledForms {
				if forms[f].Model != nil {
					fitted.NewScorer(forms[f].Model, forms[f].Vocab).Outputs(own, ev)
					want += w.Factors[k] * own[0]
				}
			}
			reader.Outputs(got, ev)
			if limited := limit > 0 && math.Abs(want) > limit; !limited && math.Abs(got[0]-want) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("event %d: the reader says %g, the variants %g", i, got[0], want)
			}
		}
	}
}

// TestConsumersFollowAChange: soon after labels have come to mean something else, an update is asked for that has
// followed them, though the refit was better for longer: of events without names.
func TestConsumersFollowAChange(t *testing.T) {
	m := config.DefaultModel()
	m.Name, m.Schema = "quarters", config.Schema{Task: "binary", Label: "on", TimeUnit: "ms", Numeric: []string{"a", "b"}}
	m.Train.MaxBasis, m.Evaluate.Window, m.Publish.Deltas.Every = 10, 500, 1
	m.Resolve()
	c, r := newCycle(t, &m), rand.New(rand.NewPCG(5, 5))
	list := make([]event.Event, 2200)
	for i := range list {
		a, b := r.NormFloat64(), r.NormFloat64()
		list[i] = event.Event{Weight: 1, Numeric: []float64{a, b}}
		if (a*b > 0) == (i < 1500) {
			list[i].Label = 1
		}
	}
	observeAll(c, list[:1000])
	c.Install(mustRefit(t, c, sampleOf(list[:1000])))
	publish := func() {
		if u, _ := c.NextUpdate(); u != nil {
			c.publisher.PublishUpdate(u)
		}
	}
	publish()
	p, score, targets := c.NewBatchScorer(), updates.Score{}, make([]float64, 1)
	served, refit := 0.0, 0.0
	for i := 1000; i < len(list); i += 50 {
		for k := range list[i : i+50] {
			ev := &list[i+k]
			if p.Refresh(); i >= 1800 && c.target.Encode(targets, ev) {
				p.Score(&score, ev)
				served, refit = served+score.Published.Loss/400, refit+score.Refit/400
			}
		}
		observeAll(c, list[i:i+50])
		whole := c.TakeDelta(time.UnixMilli(int64(i)))
		for c.Delta() != nil {
			c.PublishDelta()
		}
		if whole != "" || i >= 1500 && c.AsksUpdate() {
			publish()
		}
	}
	if !(served < 0.8*refit) {
		t.Errorf("consumers lose %g after the change, by the refit %g", served, refit)
	}
}
