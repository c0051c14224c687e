package refit_test

import (
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestHorizonFollowsAChange: when all items change their character a refit chooses to forget, and is better on what
// follows than one that cannot; on a stream that stays as it is nothing is forgotten.
func TestHorizonFollowsAChange(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	run := func(change, ages bool) (loss float64, horizon int) {
		m := cycletest.RatingsModel(func(m *config.Model) { m.Publish.KeepSample = true })
		c := newCycle(t, m)
		events := cycletest.Stream(5, 8000)
		if change {
			events = append(events[:4000], cycletest.Stream(77, 4000)...)
		}
		for to := 1000; to <= 7000; to += 1000 {
			observeAll(c, events[to-1000:to])
			s := sampleOf(events[:to])
			if ages {
				setAges(s, to, 20)
			}
			ch := mustRefit(t, c, s)
			if change && to >= 6000 {
				repeated(t, ch, m, 2)
			}
			c.Install(ch)
		}
		champion := c.Champion()
		target := champion.Target
		scorer, outputs := fitted.NewScorer(champion.Model, champion.Vocabulary), make([]float64, target.Outputs())
		for i := range events[7000:] {
			ev := &events[7000+i]
			scorer.Outputs(outputs, ev)
			loss += cycletest.Squared(target.Clip(target.Value(outputs))-ev.Label) / 1000
		}
		return loss, champion.Horizon
	}
	forgetting, chosen := run(true, true)
	keeping, _ := run(true, false)
	if chosen == 0 || forgetting > 0.9*keeping {
		t.Errorf("after a change: loss %.3f with horizon %g, %.3f without", forgetting, fitted.HalfLives[chosen],
			keeping)
	}
	if _, chosen := run(false, true); chosen != 0 {
		t.Errorf("a stream that does not change is forgotten with horizon %g", fitted.HalfLives[chosen])
	}
}

// TestHorizonOfClasses: when the borders of classes move, a refit without names forgets, too, with and without a
// feature map, and refits that look back for ever do not recover in twice the events; one from nothing keeps what was
// chosen. Where nothing moves, nothing is forgotten.
func TestHorizonOfClasses(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	run := func(asked config.FeatureMap, linear, change, ages bool, n, every int) (losses []float64, chosen int) {
		m := chessModel(asked)
		m.Publish.KeepSample = true
		c, events, moved := newCycle(t, m), chess(7, n, 1, linear), n/2
		for i := moved; i < n && change; i++ {
			if class := &events[i].Classes[0]; *class != "none" {
				*class = map[string]string{"black": "white", "white": "black"}[*class]
			}
		}
		for to := every; to < n; to += every {
			s := sampleOf(events[:to])
			if ages {
				setAges(s, to, 20)
			}
			ch := mustRefit(t, c, s)
			if change && to == n-every {
				repeated(t, ch, m, 2)
			}
			c.Install(ch)
			if to <= moved {
				continue
			}
			scorer, outputs, targets, loss := fitted.NewScorer(ch.Model, ch.Vocabulary), make([]float64,
				3), make([]float64, 3), 0.0
			for i := range events[to : to+every] {
				ev := &events[to+i]
				scorer.Outputs(outputs, ev)
				c.Champion().Target.Encode(targets, ev)
				loss += c.Champion().Target.Judged(ev, outputs, targets) / float64(every)
			}
			losses = append(losses, loss)
		}
		chosen = c.Champion().Horizon
		if c.Cold = true; change && ages {
			s := sampleOf(events)
			setAges(s, n, 20)
			if again := mustRefit(t, c, s); again.Version.Warm || again.Horizon != chosen {
				t.Errorf("%s: a refit from nothing has horizon %g, the last one %g", asked,
					fitted.HalfLives[again.Horizon], fitted.HalfLives[chosen])
			}
		}
		return losses, chosen
	}
	for _, asked := range []config.FeatureMap{"fourier:60", ""} { // empty for none
		linear := asked == ""
		n := tier.Size(4000, 8000)
		forgetting, chosen := run(asked, linear, true, true, n, n/8)
		keeping, _ := run(asked, linear, true, false, n, n/8)
		if last := len(keeping) - 1; chosen == 0 || forgetting[last/2] > 0.9*keeping[last] {
			t.Errorf("%s: after a change losses %.3f with horizon %g, %.3f without", asked, forgetting,
				fitted.HalfLives[chosen], keeping)
		}
		if _, chosen := run(asked, linear, false, true, tier.Size(4000, 8000), tier.Size(2000, 1000)); chosen != 0 {
			t.Errorf("%s: a stream that does not change is forgotten with horizon %g", asked, fitted.HalfLives[chosen])
		}
	}
}
