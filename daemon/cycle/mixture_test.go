package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// scripted is a baseline that says what the test told it to.
type scripted struct {
	title string
	says  []float64 // nil: nothing
}

func (s *scripted) name() string                               { return s.title }
func (s *scripted) learn(*event.Event, []float64, *counted)    {}
func (s *scripted) predict(dst []float64, _ *event.Event) bool { return copy(dst, s.says) > 0 }

func targetOf(t *testing.T, task string) *Target {
	t.Helper()
	m := ratingsModel(nil)
	switch task {
	case "multiclass":
		m = classesModel(event.Multiclass, nil)
	case "binary":
		m = switchModel()
	}
	target, err := NewTarget(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestMixtureIsNotFarBehind: the parts take turns in being right, and some are silent now and then. Over any 20,000 events, those with a change in
// them included, the mixture's loss is at most 1 % and .001 above that of the best single part over the same events.
func TestMixtureIsNotFarBehind(t *testing.T) {
	for _, task := range []string{"ordinal", "binary", "multiclass"} {
		t.Run(task, func(t *testing.T) {
			target := targetOf(t, task)
			parts := make([]*scripted, 4)
			var baselines []baseline
			for i := range parts {
				parts[i] = &scripted{title: fmt.Sprint("part", i)}
				baselines = append(baselines, parts[i])
			}
			m := mixtureOf(target, nil, baselines, -1, 100)
			m.stacks, m.pool = nil, nil
			m.parts = m.parts[:numLearned+len(parts)]
			r := rand.New(rand.NewPCG(11, 1))
			const n, stretch = 100_000, 20_000
			mixed, each := make([]float64, n), make([][]float64, len(parts))
			targets, outputs := make([]float64, target.Outputs()), make([]float64, target.Outputs())
			for i := range n {
				ev := label(r, target)
				target.Encode(targets, ev)
				for p, s := range parts {
					noise := 1.0
					if (i/7_000+i/30_000)%len(parts) == p {
						noise = 0.5
					}
					s.says = says(r, target, ev, targets, noise)
				}
				if i%5 == 4 {
					parts[3].says = nil
				}
				m.predict(ev, nil, nil, nil)
				if target.IsNumeric() {
					mixed[i] = squared(m.value() - ev.Label)
				} else {
					m.outputs(outputs)
					mixed[i] = target.Loss.Eval(nil, outputs, targets)
				}
				for p := range parts {
					loss := math.NaN()
					if m.parts[numLearned+p].present {
						loss = m.loss(&m.parts[numLearned+p], ev, targets)
					}
					each[p] = append(each[p], loss)
				}
				m.learn(ev, targets, nil)
			}
			for from := 0; from+stretch <= n; from += 1000 {
				for p := range parts[:3] {
					total, best := 0.0, 0.0
					for i := from; i < from+stretch; i++ {
						total, best = total+mixed[i], best+each[p][i]
					}
					if total/stretch > 1.01*best/stretch+0.001 {
						t.Fatalf("events %d to %d: loss %.4f, part %d alone %.4f", from, from+stretch, total/stretch, p, best/stretch)
					}
				}
			}
		})
	}
}

func squared(v float64) float64 { return v * v }

// label draws an event without fields.
func label(r *rand.Rand, target *Target) *event.Event {
	ev := &event.Event{Label: float64(1 + r.IntN(5)), Weight: 1}
	switch target.Task {
	case event.Binary:
		ev.Label = float64(r.IntN(2))
	case event.Multiclass:
		ev.Classes = []string{target.Classes[r.IntN(len(target.Classes))]}
	}
	return ev
}

// says returns a prediction that is the worse the larger the noise.
func says(r *rand.Rand, target *Target, ev *event.Event, targets []float64, noise float64) []float64 {
	if target.IsNumeric() {
		return []float64{target.Clip(ev.Label + noise*r.NormFloat64())}
	}
	out, sum := make([]float64, len(targets)), 0.0
	for c, t := range targets {
		out[c] = math.Exp(noise * r.NormFloat64())
		if t > 0 {
			out[c] *= 4
		}
		sum += out[c]
	}
	if len(out) == 1 {
		return []float64{1 / (1 + math.Exp(noise*r.NormFloat64()-1.4*targets[0]))}
	}
	for c := range out {
		out[c] /= sum
	}
	return out
}

// TestMixtureGivesProbabilities: they are between 0 and 1 and those of exclusive classes add up to 1; outputs lead back to them.
func TestMixtureGivesProbabilities(t *testing.T) {
	c := newCycle(t, classesModel(event.Multiclass, nil))
	for _, ev := range classStream(event.Multiclass, 500) {
		c.Observe(&ev, true, Position{}, nil, nil)
		sum := 0.0
		for _, p := range c.mixture.mixed {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("probability %g", p)
			}
			sum += p
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("probabilities add up to %g", sum)
		}
		outputs, back := make([]float64, len(c.mixture.mixed)), make([]float64, len(c.mixture.mixed))
		c.mixture.outputs(outputs)
		softmaxTo(back, outputs)
		for i, p := range c.mixture.mixed {
			if math.Abs(back[i]-p) > 1e-6 {
				t.Fatalf("probability %g comes back from its output as %g", p, back[i])
			}
		}
	}
}

// TestStackIsLeastSquares compares stacks with least squares by definition over all events.
func TestStackIsLeastSquares(t *testing.T) {
	for i, fade := range stackFades {
		stackIsLeastSquares(t, fade, i > 0)
	}
}

func stackIsLeastSquares(t *testing.T, fade float64, byNewness bool) {
	r := rand.New(rand.NewPCG(5, 5))
	const n, k = 400, 3
	s := newStack(k, fade, byNewness)
	parts := make([]part, k)
	for i := range parts {
		parts[i] = part{value: []float64{0}, present: true}
	}
	var rows [][]float64
	var misses []float64
	for e := range n {
		y := 3 + r.NormFloat64()
		for i := range parts {
			parts[i].value[0] = y + float64(i+1)*0.4*r.NormFloat64() + 0.3
		}
		parts[2].present = e%7 > 0
		newness := r.Float64()
		got, ok := s.predict(parts, newness)
		if !ok {
			t.Fatal("no prediction")
		}
		x := make([]float64, k) // of 1, which has no unit, and of parts, by how much they differ from the first
		for i := 1; i < k; i++ {
			if parts[i].present {
				x[i] = parts[i].value[0] - parts[0].value[0]
			}
		}
		if byNewness {
			x = append(x, newness, newness*x[1], newness*x[2])
		}
		x[0] = 1
		if e == n-1 {
			v := parts[0].value[0]
			for i, w := range leastSquares(t, rows[:len(rows)/s.every*s.every], misses, s.unit, fade) {
				if i%k == 0 {
					w *= s.unit
				}
				v += w * x[i]
			}
			if math.Abs(got-v) > 1e-9 {
				t.Errorf("fading by %g the stack predicts %.12g, least squares %.12g", fade, got, v)
			}
			break
		}
		rows, misses = append(rows, x), append(misses, y-parts[0].value[0])
		s.learn(y)
	}
}

// leastSquares solves for the weights that rows give, which are of three parts, once or twice, measured in a unit.
func leastSquares(t *testing.T, rows [][]float64, misses []float64, unit, fade float64) []float64 {
	t.Helper()
	last, k := len(rows), len(rows[0])
	a := make([][]float64, k)
	for i := range a {
		a[i] = make([]float64, k+1)
		a[i][i] = stackRidge
	}
	for e := range last {
		w := math.Pow(fade, float64(last-1-e))
		x := append([]float64(nil), rows[e]...)
		for i := range x {
			if i%3 > 0 {
				x[i] /= unit
			}
		}
		for i := range a {
			for j := range x {
				a[i][j] += w * x[i] * x[j]
			}
			a[i][k] += w * x[i] * misses[e] / unit
		}
	}
	for i := range a { // Gauss and Jordan
		for j := range a {
			if j == i {
				continue
			}
			f := a[j][i] / a[i][i]
			for c := range a[j] {
				a[j][c] -= f * a[i][c]
			}
		}
	}
	out := make([]float64, k)
	for i := range out {
		out[i] = a[i][k] / a[i][i]
	}
	return out
}

// TestStacksOfTwoFades: where the best weights stay the stack that forgets slowly errs less, where they change the other one does.
func TestStacksOfTwoFades(t *testing.T) {
	run := func(changes bool) (errors [2]float64) {
		r := rand.New(rand.NewPCG(12, 2))
		parts := make([]part, 12)
		stacks := [2]*stack{}
		for i, fade := range stackFades {
			stacks[i] = newStack(len(parts), fade, false)
		}
		for e := range 30_000 {
			y, best := r.NormFloat64(), 0
			if changes {
				best = e / 1500 % len(parts)
			}
			for i := range parts {
				noise := 1.0
				if i == best {
					noise = 0.7
				}
				parts[i] = part{value: []float64{y + noise*r.NormFloat64()}, present: true}
			}
			for i, s := range stacks {
				v, _ := s.predict(parts, 1)
				errors[i] += squared(v - y)
				s.learn(y)
			}
		}
		return errors
	}
	if e := run(false); !(e[1] < e[0]) {
		t.Errorf("without a change: squared errors %v", e)
	}
	if e := run(true); !(e[0] < e[1]) {
		t.Errorf("with changes: squared errors %v", e)
	}
}

// TestStackOfNewcomers: where one part predicts the first events of an entity best and another the rest the slow stack, whose weights know how many came,
// errs less than the other one.
func TestStackOfNewcomers(t *testing.T) {
	target := targetOf(t, "ordinal")
	parts := []*scripted{{title: "of newcomers"}, {title: "of others"}}
	m := mixtureOf(target, nil, []baseline{parts[0], parts[1]}, 0, 1000)
	r := rand.New(rand.NewPCG(13, 2))
	targets, first := make([]float64, target.Outputs()), make([]float64, target.Outputs())
	errors, seen := [2]float64{}, make([]int, 500)
	for i := range 10_000 {
		user := int(500 * r.Float64() * r.Float64())
		ev := event.Event{Label: float64(1 + r.IntN(5)), Categorical: []string{fmt.Sprint(user)}, Weight: 1}
		target.Encode(targets, &ev)
		for p, s := range parts {
			noise := 1.5
			if (seen[user] < 20) == (p == 0) {
				noise = 0.2
			}
			s.says = []float64{ev.Label + noise*r.NormFloat64()}
		}
		m.predict(&ev, first, nil, nil)
		for k := range errors {
			errors[k] += squared(m.parts[len(m.parts)-2+k].value[0] - ev.Label)
		}
		m.learn(&ev, targets, nil)
		if seen[user]++; int(m.events[m.entities.find(0, ev.Categorical[0])]) != seen[user] && i < 500 {
			t.Fatalf("event %d: %g events of an entity that had %d", i, m.events[m.entities.find(0, ev.Categorical[0])], seen[user])
		}
	}
	if !(errors[1] < 0.9*errors[0]) {
		t.Errorf("squared errors %.0f, of the stack that knows of newcomers %.0f", errors[0], errors[1])
	}
}

// TestStackOutlivesOutliers: one label of 10⁹ does not move the predictions for the rest by much.
func TestStackOutlivesOutliers(t *testing.T) {
	run := func(outlier bool) (total float64) {
		r := rand.New(rand.NewPCG(8, 2))
		s := newStack(2, stackFades[0], false)
		parts := []part{{value: []float64{0}, present: true}, {value: []float64{0}, present: true}}
		for e := range 3000 {
			y := r.NormFloat64()
			parts[0].value[0], parts[1].value[0] = y+0.5*r.NormFloat64(), y+0.5*r.NormFloat64()
			v, _ := s.predict(parts, 1)
			if e > 1000 {
				total += squared(v - y)
			}
			if outlier && e == 1000 {
				y = 1e9
			}
			s.learn(y)
		}
		return total
	}
	clean, hit := run(false), run(true)
	if hit > 1.3*clean || math.IsNaN(hit) {
		t.Errorf("squared error %.1f after an outlier, %.1f without", hit, clean)
	}
}

// TestBaselinesByDefinition compares the conditional means and frequencies with counts.
func TestBaselinesByDefinition(t *testing.T) {
	target := targetOf(t, "ordinal")
	mean := &conditional{title: "x", target: target, field: 0, fade: 1, width: 1, slots: newSlots(100), before: newSlots(100)}
	after := &conditional{title: "y", target: target, field: 0, fade: 1, last: true, width: 1, slots: newSlots(100), before: newSlots(100)}
	events := stream(3, 400)
	got := make([]float64, 1)
	lastOf := func(i int) (float64, bool) {
		for j := i - 1; j >= 0; j-- {
			if events[j].Categorical[0] == events[i].Categorical[0] {
				return events[j].Label, true
			}
		}
		return 0, false
	}
	for i := range events {
		all, sum, n, sumAfter, nAfter := 0.0, 0.0, 0.0, 0.0, 0.0
		label, known := lastOf(i)
		for j := range i {
			all += events[j].Label / float64(i)
			if events[j].Categorical[0] == events[i].Categorical[0] {
				sum, n = sum+events[j].Label, n+1
			}
			if l, ok := lastOf(j); ok && l == label {
				sumAfter, nAfter = sumAfter+events[j].Label, nAfter+1
			}
		}
		if ok := mean.predict(got, &events[i]); ok != (i > 0) || ok && math.Abs(got[0]-(baselinePrior*all+sum)/(baselinePrior+n)) > 1e-9 {
			t.Fatalf("event %d: mean of the name %g (%v), by definition %g", i, got[0], ok, (baselinePrior*all+sum)/(baselinePrior+n))
		}
		if ok := after.predict(got, &events[i]); ok != known || ok && math.Abs(got[0]-(baselinePrior*all+sumAfter)/(baselinePrior+nAfter)) > 1e-9 {
			t.Fatalf("event %d: mean after the entity's last label %g (%v), by definition %g", i, got[0], ok, (baselinePrior*all+sumAfter)/(baselinePrior+nAfter))
		}
		mean.learn(&events[i], nil, nil)
		after.learn(&events[i], nil, nil)
	}
}

// TestLossOfLiveNumbers: the squared loss that is told of live predictions of numbers is that of the mixture, half of its mean square.
func TestLossOfLiveNumbers(t *testing.T) {
	c := newCycle(t, regressionModel())
	observeAll(c, stream(5, 1500))
	live := c.Progressive().All.Live
	if got, want := float64(*live.Loss), float64(*live.RMSE)*float64(*live.RMSE)/2; math.Abs(got-want) > 1e-12 {
		t.Errorf("loss %g with RMSE %g, want %g", got, float64(*live.RMSE), want)
	}
}
