package cycle

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestDecayedWeights have the mean 1 and halve with each half-life.
func TestDecayedWeights(t *testing.T) {
	age := []float64{0, 100, 200, 700}
	for _, base := range [][]float64{nil, {1, 2, 0.5, 1}} {
		w, sum := decayed(base, age, 100), 0.0
		for i := range w {
			sum += w[i]
			b, first := 1.0, 1.0
			if base != nil {
				b, first = base[i], base[0]
			}
			if got, want := w[i]/w[0], b/first*math.Exp2(-age[i]/100); math.Abs(got-want) > 1e-12 {
				t.Errorf("base %v: row %d counts %g of the first, want %g", base, i, got, want)
			}
		}
		if math.Abs(sum-float64(len(w))) > 1e-12 {
			t.Errorf("base %v: weights add up to %g", base, sum)
		}
		if still := decayed(base, age, math.Inf(1)); len(still) != len(base) {
			t.Errorf("base %v: weights %v where nothing decays", base, still)
		}
	}
}

// TestIsLessNeedsEvidence: a difference counts if it is larger than its standard error, weighted.
func TestIsLessNeedsEvidence(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	n := 400
	a, b, weight := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range a {
		b[i], weight[i] = 1+0.3*r.NormFloat64(), 1
		a[i] = b[i] - 0.05 + 0.3*r.NormFloat64()
		if i%2 == 0 {
			weight[i] = 1e-6
			a[i] += 10 // of no weight
		}
	}
	if !isLess(a, b, weight, horizonErrors) {
		t.Error("a clear gain does not count")
	}
	if isLess(b, a, weight, horizonErrors) || isLess(b, b, weight, horizonErrors) {
		t.Error("a loss, or nothing, counts as a gain")
	}
}

// setAges gives the rows of a sample of n events ages as if so many times as many events came.
func setAges(s *Sample, n int, times float64) {
	for i := range n {
		age := float64(n-i) * times
		switch i % 10 {
		case 0:
			s.SelectAge = append(s.SelectAge, age)
		case 1:
			s.GateAge = append(s.GateAge, age)
		default:
			s.TrainAge = append(s.TrainAge, age)
		}
	}
}

// TestHorizonFollowsAChange: when all items change their character a refit chooses to forget, and is better on what follows than one that cannot; on
// a stream that stays as it is nothing is forgotten.
func TestHorizonFollowsAChange(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	run := func(change, ages bool) (loss float64, horizon int) {
		m := ratingsModel(func(m *config.Model) { m.Publish.KeepSample = true })
		c := newCycle(t, m)
		events := stream(5, 8000)
		if change {
			events = append(events[:4000], stream(77, 4000)...)
		}
		for to := 1000; to <= 7000; to += 1000 {
			observeAll(c, events[to-1000:to])
			s := sampleOf(events[:to])
			if ages {
				setAges(s, to, 20)
			}
			ch := refit(t, c, s)
			if change && to >= 6000 {
				repeated(t, ch, m, 2)
			}
			c.Install(ch)
		}
		champion := c.Champion()
		scorer, outputs := newScorer(champion.Model, champion.Vocabulary), make([]float64, c.target.Outputs())
		for i := range events[7000:] {
			ev := &events[7000+i]
			scorer.outputs(outputs, ev)
			loss += squared(c.target.Clip(c.target.Value(outputs))-ev.Label) / 1000
		}
		return loss, champion.horizon
	}
	forgetting, chosen := run(true, true)
	keeping, _ := run(true, false)
	if chosen == 0 || forgetting > 0.9*keeping {
		t.Errorf("after a change: loss %.3f with horizon %g, %.3f without", forgetting, horizons[chosen], keeping)
	}
	if _, chosen := run(false, true); chosen != 0 {
		t.Errorf("a stream that does not change is forgotten with horizon %g", horizons[chosen])
	}
}

// TestHorizonOfClasses: when the borders of classes move, a refit without names forgets, too, with and without a feature map, and refits that look back
// for ever do not recover in twice the events; one from nothing keeps what was chosen. Where nothing moves, nothing is forgotten.
func TestHorizonOfClasses(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	const n, moved = 8000, 4000
	run := func(asked config.FeatureMap, linear, change, ages bool) (losses []float64, chosen int) {
		m := chessModel(asked)
		m.Publish.KeepSample = true
		c, events := newCycle(t, m), chess(7, n, 1, linear)
		for i := moved; i < n && change; i++ {
			if class := &events[i].Classes[0]; *class != "none" {
				*class = map[string]string{"black": "white", "white": "black"}[*class]
			}
		}
		for to := 1000; to < n; to += 1000 {
			s := sampleOf(events[:to])
			if ages {
				setAges(s, to, 20)
			}
			ch := refit(t, c, s)
			if change && to == n-1000 {
				repeated(t, ch, m, 2)
			}
			c.Install(ch)
			if to <= moved {
				continue
			}
			scorer, outputs, targets, loss := newScorer(ch.Model, ch.Vocabulary), make([]float64, 3), make([]float64, 3), 0.0
			for i := range events[to : to+1000] {
				ev := &events[to+i]
				scorer.outputs(outputs, ev)
				c.target.Encode(targets, ev)
				loss += c.target.Judged(ev, outputs, targets) / 1000
			}
			losses = append(losses, loss)
		}
		chosen = c.Champion().horizon
		if c.Cold = true; change && ages {
			s := sampleOf(events)
			setAges(s, n, 20)
			if again := refit(t, c, s); again.Version.Warm || again.horizon != chosen {
				t.Errorf("%s: a refit from nothing has horizon %g, the last one %g", asked, horizons[again.horizon], horizons[chosen])
			}
		}
		return losses, chosen
	}
	for _, asked := range []config.FeatureMap{"fourier:60", ""} { // empty for none
		linear := asked == ""
		forgetting, chosen := run(asked, linear, true, true)
		keeping, _ := run(asked, linear, true, false)
		if last := len(keeping) - 1; chosen == 0 || forgetting[last/2] > 0.9*keeping[last] {
			t.Errorf("%s: after a change losses %.3f with horizon %g, %.3f without", asked, forgetting, horizons[chosen], keeping)
		}
		if _, chosen := run(asked, linear, false, true); chosen != 0 {
			t.Errorf("%s: a stream that does not change is forgotten with horizon %g", asked, horizons[chosen])
		}
	}
}

// TestHorizonsAfterAnAlarm: horizons are compared on the select rows since an alarm where these are enough, else on all of them.
func TestHorizonsAfterAnAlarm(t *testing.T) {
	t.Parallel()
	j := &refitJob{unbounded: true, alarmAge: math.Inf(1), sample: &Sample{}, target: &Target{}, select_: &encoded{}}
	for i := range 400 {
		j.sample.SelectAge = append(j.sample.SelectAge, 20*float64(i))
	}
	all := j.recentWeights()
	for _, test := range []struct {
		age  float64
		rows int // with a weight
	}{{math.Inf(1), 400}, {3000, 151}, {900, 400}} {
		j.alarmAge = test.age
		n := 0
		for i, w := range j.recentWeights() {
			if w > 0 {
				n++
				if w != all[i] {
					t.Errorf("alarm %g events ago: row %d has weight %g, %g without an alarm", test.age, i, w, all[i])
				}
			}
		}
		if n != test.rows {
			t.Errorf("alarm %g events ago: %d rows have a weight, want %d", test.age, n, test.rows)
		}
	}
}

// TestHorizonsOfRareLabels: horizons are compared by recent select rows if these have enough of either label.
func TestHorizonsOfRareLabels(t *testing.T) {
	for _, c := range []struct {
		task event.Task
		ones int
		tell bool
	}{{event.Binary, 0, false}, {event.Binary, 4, false}, {event.Binary, 5, true}, {event.Binary, 396, false}, {event.Regression, 4, true}} {
		j := &refitJob{target: &Target{Objective: config.Objective{Task: c.task}}, select_: &encoded{events: make([]event.Event, 400)}}
		weight := make([]float64, 400)
		for i := range weight {
			if weight[i] = 1; i < c.ones {
				j.select_.events[i].Label = 1
			}
		}
		if got := j.horizonsTell(weight); got != c.tell {
			t.Errorf("%v, %d of 400 labels are 1: %v", c.task, c.ones, got)
		}
	}
}

// TestRowsWithin: rows are as young as asked for, at least the newest thousand, at most ten thousand spread evenly.
func TestRowsWithin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n, rows int
		age     float64
		oldest  float64
	}{{500, 500, 10, 499}, {5000, 1000, 10, 999}, {5000, 3001, 3000, 3000}, {40_000, horizonTrain, 20_000, 20_000}, {40_000, horizonTrain, math.Inf(1), 39_999}} {
		j := &refitJob{sample: &Sample{}}
		for i := range test.n {
			j.sample.TrainAge = append(j.sample.TrainAge, float64((i*7919)%test.n)) // every age once
		}
		rows := j.rowsWithin(test.age)
		oldest := 0.0
		for i, row := range rows {
			oldest = max(oldest, j.sample.TrainAge[row])
			if i > 0 && row <= rows[i-1] {
				t.Fatalf("rows out of order at %d", i)
			}
		}
		if len(rows) != test.rows || oldest > test.oldest || oldest < test.oldest*0.99 {
			t.Errorf("%d rows, up to age %g: %d of them, the oldest %g; want %d and %g", test.n, test.age, len(rows), oldest, test.rows, test.oldest)
		}
	}
}
