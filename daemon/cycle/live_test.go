package cycle

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
)

// TestLiveShares: a live copy scores events whose names were touched since the previous copy as a whole copy does. This
// holds for every variant, also while deltas of the same learners are published. The copy shares the other rows with
// the previous one, except pairs of names, which are copied each time.
func TestLiveShares(t *testing.T) {
	tier.NotUnderRace(t)
	for name, test := range fewDeltaCases() {
		t.Run(name, func(t *testing.T) {
			// a copy is made where numbers come to mean something else
			calls, shared, links := 0, 0, map[*encode.LevelLink]bool{}
			c := test.play(t, func(c *Cycle, consumer *snapshot.Model, since []event.Event) {
				if test.form == mixture.FormNewton || test.form == mixture.FormAdaGrad || test.form == mixture.FormPool {
					return // on another feature map than the copy
				}
				at := time.UnixMilli(int64(1000 + calls))
				got, _, err := c.Live(at, at, "w")
				if err != nil {
					t.Fatal(err)
				}
				p := got.Position()
				if !p.Created.Equal(at) || !p.Watermark.Equal(at) || got.Manifest().Writer != "w" || len(p.Cut) > 0 {
					t.Fatalf("it says %+v of itself", p)
				}
				if b := c.ensemble.expertOf(experts.PartGaussian); b != nil && test.form != mixture.FormFoldIn {
					links[b.Link] = true
				}
				if calls++; p.Sequence > 0 {
					shared++
				}
				contents := updates.ContentsOf(c.Update(), c.config)
				contents.Golden = nil
				want, err := scorer.NewModel(contents)
				if err != nil {
					t.Fatal(err)
				}
				tolerance := 1e-9
				if c.config.Publish.Tensors == "f32" {
					tolerance = 1e-5
				}
				a, b := make([]float64, c.target.Outputs()), make([]float64, c.target.Outputs())
				var s snapshot.Scratch
				for i := range since {
					in := fitted.InputOf(&c.schema, &since[i])
					got.Score(a, &in, &s)
					want.Score(b, &in, &s)
					for o := range a {
						if math.Abs(a[o]-b[o]) > tolerance*(1+math.Abs(b[o])) {
							t.Fatalf("call %d, output %d is %.12g, %.12g by a copy", calls, o, a[o], b[o])
						}
					}
				}
			})
			switch {
			case test.form == mixture.FormNewton, test.form == mixture.FormAdaGrad, test.form == mixture.FormPool:
			case test.form == mixture.FormNames:
				if shared > 0 {
					t.Error("pairs of names are listed for two")
				}
			case calls < 10 || shared < calls-3-len(links):
				t.Errorf("%d of %d share their rows", shared, calls)
			}
			before := c.publisher.live
			again := *c.champion
			c.Install(&again)
			if m, _, err := c.Live(time.UnixMilli(1), time.Time{}, ""); err != nil || m.Position().Sequence > 0 ||
				before != nil && c.publisher.live == before {
				t.Errorf("after a refit: %v, %v", m.Position(), err)
			}
			c.publisher.endLive()
			for _, b := range c.ensemble.experts {
				if l, ok := b.Learner.(*experts.FoldIn); ok && len(l.Slots.Touched) > 0 {
					t.Error("what is touched is listed for nobody")
				}
			}
		})
	}
	if _, _, err := newCycle(t, cycletest.RatingsModel(nil)).Live(time.Now(), time.Time{}, ""); !errors.Is(err,
		updates.ErrNoChampion) {
		t.Errorf("without a champion: %v", err)
	}
}
