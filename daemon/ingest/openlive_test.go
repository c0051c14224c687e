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
)

// TestLiveOfLaterLabels: what is learned between refits from labels that come later is about as good as with every
// label at once, in losses of the predictions at the event, also where new names come.
func TestLiveOfLaterLabels(t *testing.T) {
	const n, spacing, window, refit, fresh = 24_000, int64(1000), int64(3_000_000), 8000, 16_000
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
	play := func(isLate, live bool) (losses []float64) {
		m := clicks(n)
		m.Input.Outcomes.Window = config.Duration(window * 1e6)
		if !isLate {
			m.Input.Outcomes.Window = config.Duration(time.Second)
		}
		m.Sample.MaxBytes, m.Sample.Holdout.Size = 0, 4000
		m.Train.MaxBasis, m.Train.FoldIn.Enabled = 2, live
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
		at := 0
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
				s, err := TakeSample(m, store)
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
			if events%4000 == 0 {
				at++
				for _, l := range c.TakeLosses() {
					if l.Name == "live" || l.Name == "published" {
						t.Logf("late %t live %t: %d: %s %d events %.4f", isLate, live, events, l.Name, l.N, l.Loss)
						if l.Name == "live" {
							losses = append(losses, l.Loss)
						}
					}
				}
			}
		}
		r := c.Progressive()
		t.Logf("late %t live %t: all: live %.4f ECE %.4f; last window %.4f ECE %.4f", isLate, live, float64(*r.All.Live.Loss), float64(*r.All.Live.ECE), float64(*r.Window.Live.Loss), float64(*r.Window.Live.ECE))
		return losses
	}
	play(false, true)
	play(true, true)
	play(true, false)
}
