package cycle

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// summed returns a cycle whose consumers have a sum that deltas follow, after 3400 events of a list.
func summed(t *testing.T, m *config.Model, isNumber bool) (*Cycle, []event.Event) {
	t.Helper()
	c, list := newCycle(t, m), branchedWithProduct(isNumber)
	for i := range list {
		ev := &list[i]
		switch {
		case i < 1000 && i%3 == 0: // in the version, and in no event after it
			if ev.Categorical[1] = "old"; !isNumber {
				ev.Label = 1
			}
		case i > 3600 && i%9 == 0:
			ev.Categorical[1] = "new"
		}
	}
	observeAll(c, list[:1000])
	ch := mustRefit(t, c, sampleOf(list[:1000]))
	ch.Version.Version = 1
	c.Install(ch)
	observeWithUpdates(c, list[1000:3400], 200)
	if f := c.publisher.deltas; f == nil || !f.Published || f.Form != mixture.FormPool {
		t.Fatal("consumers do not have a sum that deltas follow")
	}
	return c, list
}

// TestDeltasOfASumHaveFewRows: factors of a sum do not make deltas larger than publish.deltas.max_rows says, but for
// rows of numbers.
func TestDeltasOfASumHaveFewRows(t *testing.T) {
	m := branchedModel(true)
	c, list := summed(t, m, true)
	m.Publish.Deltas.MaxRows = 3 // as by a reload
	f := c.publisher.deltas
	names, most := int(f.Forms[f.Form].Numbers), 0
	for at := 3400; at < 3600; at += 20 {
		observeAll(c, list[at:at+20])
		if why := c.TakeDelta(time.UnixMilli(int64(at))); why != "" {
			t.Fatalf("at %d the deltas end: %s", at, why)
		}
		for d := c.Delta(); d != nil; d = c.Delta() {
			rows := len(slices.DeleteFunc(slices.Clone(d.Columns), func(j int32) bool { return int(j) >= names }))
			most = max(most, rows)
			c.PublishDelta()
		}
	}
	if most != 3 {
		t.Errorf("a delta has rows of %d names", most)
	}
}

// TestDeltasOfASum: after each delta a reader's outputs are the sum of what is live, by the weights as they are then:
// with trees that were fitted since, with names that came since, of a name that nothing has touched since the refit,
// and after a whole version of the update and deltas.
func TestDeltasOfASum(t *testing.T) {
	for _, isNumber := range []bool{false, true} {
		c, list := summed(t, branchedModel(isNumber), isNumber)
		f := c.publisher.deltas
		own, limit := f.Forms[f.Form].Rows.(*updates.SumRows), c.champion.OutputLimit()
		trees, factors, whole := 0, 0, false
		for at := 3400; at < 4400; at += 100 {
			before := own.Constant
			observeAll(c, list[at:at+100])
			if why := c.TakeDelta(time.UnixMilli(int64(at))); why != "" {
				t.Fatalf("at %d the deltas end: %s", at, why)
			}
			for d := c.Delta(); d != nil; d = c.Delta() {
				if d.Trees != nil {
					trees++
				}
				c.PublishDelta()
			}
			if !slices.Equal(before, own.Constant) {
				factors++
			}
			c.publisher.race.Chosen = mixture.FormPool
			if at == 3900 {
				if x := c.BeginCompaction(); x == nil {
					t.Fatal("no whole version can be made of the update and its deltas")
				} else if u, err := x.Make(); err != nil {
					t.Fatal(err)
				} else {
					c.publisher.PublishUpdate(u)
					whole = true
				}
			}
			forms := c.ensemble.candidates(false)
			sum := updates.NewPooledSum(&forms, c.ensemble.pooled.Used.Newton)
			w := c.ensemble.pooled.Weights(c.ensemble.pooled.Used.Newton, sum.Has)
			reader := fitted.NewFrozenScorer(&fitted.FixedModel{Model: f.Of.Model, Vocab: f.Of.Vocabulary,
				After: c.Following()})
			got, each := []float64{0}, []float64{0}
			for i := range list[:200] {
				asked := list[at+i/2]
				if i%2 == 0 {
					asked.Categorical = []string{asked.Categorical[0], "old"}
				}
				ev, want := &asked, w.Constant[0]
				for k, form := range mixture.PooledForms {
					if forms[form].Model != nil {
						fitted.NewScorer(forms[form].Model, forms[form].Vocab).Outputs(each, ev)
						want += w.Factors[k] * each[0]
					}
				}
				reader.Outputs(got, ev)
				// Trees stay until their factor has moved by a share.
				if limited := limit > 0 && math.Abs(want) > limit; !limited &&
					!(math.Abs(got[0]-want) <= min(0.05*(1+math.Abs(want)), 2)) {
					t.Fatalf("number %t, event %d after %d: the reader says %g, what is live %g", isNumber, i, at, got[0], want)
				}
			}
		}
		if l := c.ensemble.expertOf(experts.PartBoosted).Learner.(*experts.Boosted); trees < 2 || factors < 5 || !whole ||
			l.Fits() < trees {
			t.Errorf("%d deltas have trees, %d other factors, of ten; a whole version: %t", trees, factors, whole)
		}
	}
}
