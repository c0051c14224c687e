package ingest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
)

// TestLiveOfLaterLabels: what is learned between refits from labels that come later has the right share of outcomes,
// and is better than the refit alone where new names come. As of 12,000 events with median delays of 300 events, log
// losses with new names and without a version, with every label at once, these, and defaults at the end of windows
// alone:
//
//	0.549, 0.561, 0.80 and 0.55, 0.65, 2.9; of the refit alone 0.581
func TestLiveOfLaterLabels(t *testing.T) {
	const n, spacing, window, refit, fresh = 12_000, int64(2000), int64(3_000_000), 4000, 8000
	type record struct {
		at      int64
		outcome bool
		value   string
	}
	start := int64(1_600_000_000_000)
	log := func(isLate bool) (list []record) {
		p := newPlanted()
		p.items = append(p.items, make([]float64, 20)...)
		for i := 20; i < 40; i++ {
			p.items[i] = 0.8 * p.rng.NormFloat64()
		}
		for i := range int64(n) {
			at := start + i*spacing
			user, item := p.rng.IntN(len(p.users)), p.rng.IntN(20)
			if i >= fresh && p.rng.IntN(2) == 0 {
				item += 20
			}
			click := 1 / (1 + math.Exp(1-p.users[user]-p.items[item]))
			list = append(list, record{at, false, fmt.Sprintf(`{"id":"e%d","user":"u%d","item":"i%d","ts":%d}`, i, user, item, at)})
			clicked, delay := p.rng.Float64() < click, min(int64(600_000*math.Exp(p.rng.NormFloat64())), window-1)
			if !clicked {
				continue
			}
			if !isLate {
				delay = 0
			}
			list = append(list, record{at + delay, true, fmt.Sprintf(`{"of":"e%d","ts":%d}`, i, at+delay)})
		}
		slices.SortStableFunc(list, func(a, b record) int { return cmp.Compare(a.at, b.at) })
		return list
	}
	play := func(isLate bool) (live, published, ece float64) {
		m := ingesttest.Clicks(n)
		m.Input.Outcomes.Window = config.Duration(window * 1e6)
		if !isLate {
			m.Input.Outcomes.Window = config.Duration(time.Second)
		}
		m.Sample.MaxBytes, m.Sample.Holdout.Size = 0, 4000
		m.Train.MaxBasis = 2
		c, err := cycle.New(m, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		c.Workers = 2
		_, store := joinedStore(t, m)
		defer store.Close()
		g := New(m, store, c)
		var next [2]int64
		events := 0
		c.WatchLosses()
		for _, r := range log(isLate) {
			b := &consumer.Batch{Topic: "seen", Base: next[0]}
			side := 0
			if r.outcome {
				side, b.Topic, b.Base = 1, "clicked", next[1]
			}
			next[side]++
			b.Next = next[side]
			b.Records = []consumer.Record{{Offset: b.Base, Timestamp: r.at, Value: []byte(r.value)}}
			if err := g.Apply(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if r.outcome {
				continue
			}
			if events++; events == refit {
				s, err := TakeSample(m, store, nil)
				if err != nil {
					t.Fatal(err)
				}
				ch, err := c.Refit(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				ch.Version.Version = 1
				c.Install(ch)
			}
			if events%2000 == 0 {
				for _, l := range c.TakeLosses() {
					switch l.Name {
					case "live":
						live = l.Loss
					case "published":
						published = l.Loss
					}
				}
				t.Logf("labels late %t, %d events: live %.4f, published %.4f", isLate, events, live, published)
			}
		}
		return live, published, float64(*c.Progressive().Window.Live.ECE)
	}
	atOnce, _, _ := play(false)
	live, published, ece := play(true)
	if !(live < published-0.01) || !(live < 1.04*atOnce) || !(ece < 0.04) {
		t.Errorf("live %.4f, ECE %.4f, published %.4f, with every label at once %.4f", live, ece, published, atOnce)
	}
}
