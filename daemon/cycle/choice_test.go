package cycle

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/solver"
)

// inverted returns select rows of which a third are of one entity, with labels turned round, and a sample without them.
func inverted(events []event.Event) (clean, attacked *Sample) {
	clean, attacked = sampleOf(events), sampleOf(events)
	n := len(clean.Select) / 2
	for i := range n {
		ev := events[10*i]
		ev.Categorical = []string{"invented", ev.Categorical[1]}
		ev.Label = 6 - ev.Label
		attacked.Select = append(attacked.Select, AppendEvent(nil, &ev))
	}
	return clean, attacked
}

// TestOneEntityChoosesNoStrength: an entity that owns a third of the select rows, with inverted labels, does not
// choose the strength of the penalty. Without a cap it does.
func TestOneEntityChoosesNoStrength(t *testing.T) {
	lambda := func(share float64, s *Sample) float64 {
		c := newCycle(t, publicModel(func(m *config.Model) { m.Train.Cap.Share, m.Train.Refit = share, "output" }))
		own := *s
		return float64(refit(t, c, &own).Version.Lambda)
	}
	for _, seed := range []uint64{0, 4} {
		clean, attacked := inverted(public(seed, 4000))
		if want, got := lambda(0.01, clean), lambda(0.01, attacked); got != want {
			t.Errorf("seed %d: λ is %g, without the entity %g", seed, got, want)
		}
		if want, got := lambda(0, clean), lambda(0, attacked); got == want {
			t.Errorf("seed %d, no cap: λ is %g with and without the entity: the attack shows nothing", seed, got)
		}
	}
}

// TestChoicesAreCapped: in every list of losses by which a refit chooses, an entity counts for no more than its share,
// and where none has more the weights are those without a cap.
func TestChoicesAreCapped(t *testing.T) {
	m := publicModel(nil)
	schema := m.Schema.Event()
	clean, attacked := inverted(public(22, 5000))
	for _, s := range []*Sample{clean, attacked} {
		for i := range s.Select {
			s.SelectAge = append(s.SelectAge, float64(i))
		}
		for i := range s.Train {
			s.TrainAge = append(s.TrainAge, float64(i))
		}
	}
	for _, unbounded := range []bool{false, true} {
		j := prepared(t, &refitJob{given: -1, model: m, schema: &schema, sample: attacked, alarmAge: math.Inf(1), unbounded: unbounded})
		attacked.Train = sampleOf(public(22, 5000)).Train // which prepare takes
		names := make(map[string]bool)
		for i := range j.select_.events {
			names[j.select_.events[i].Categorical[0]] = true
		}
		for _, h := range []int{0, len(horizons) - 1} {
			j.horizon = h
			for what, weights := range map[string][]float64{"select": j.selectWeights(), "recent": j.recentWeights()} {
				own, all := 0.0, 0.0
				for i := range j.select_.events {
					w := weightAt(weights, i)
					if j.select_.events[i].Categorical[0] == "invented" {
						own += w
					}
					all += w
				}
				if before := decayed(nil, j.sample.SelectAge, horizons[h]); unbounded && what == "select" && !slices.Equal(weights, before) {
					t.Errorf("%s rows, horizon %d: a refit of an earlier build has other weights", what, h)
				}
				// limit·S of an uncapped sum S, over what is left of it
				share := shareOfEach(0.01, len(names))
				if most := share / (1 - 0.6); (own/all > most) != unbounded {
					t.Errorf("%s rows, horizon %d, unbounded %t: one entity has %.3f of the weight, want at most %.3f", what, h, unbounded, own/all, most)
				}
			}
		}
	}
	j := prepared(t, &refitJob{given: -1, model: m, schema: &schema, sample: clean, alarmAge: math.Inf(1)})
	if w := j.selectWeights(); w != nil {
		t.Error("rows of entities within their shares have weights")
	}
}

// TestOneRowChoosesNothing: a row that a model predicts absurdly counts as a plausible loss, so that it hides nothing
// that other rows say.
func TestOneRowChoosesNothing(t *testing.T) {
	m := regressionModel()
	m.Schema.LabelMin, m.Schema.LabelMax = 0, 0
	schema := m.Schema.Event()
	events := public(23, 2000)
	for i := range events {
		events[i].Numeric = make([]float64, len(schema.Numeric))
	}
	for _, unbounded := range []bool{false, true} {
		j := prepared(t, &refitJob{given: -1, model: m, schema: &schema, sample: sampleOf(events), unbounded: unbounded})
		absurd := solver.NewModel(solver.ANOVA, j.vocab.NumColumns(), 1, true)
		bad := absurd.Clone()
		absurd.Bias[0], bad.Bias[0] = 3, 4.5
		at, _ := j.select_.x.Row(0)
		absurd.Linear[at[0]] = 1e6
		rare := 0.0 // rows of that name
		for i := range j.select_.events {
			if j.select_.events[i].Categorical[0] == j.select_.events[0].Categorical[0] {
				rare++
			}
		}
		most, _ := j.plausible()
		loss := j.select_.loss(j.target, absurd, nil)
		if bounded := loss <= most; bounded == unbounded {
			t.Errorf("unbounded %t: %g rows with outputs of a million make a mean loss of %g", unbounded, rare, loss)
		}
		if l := j.losses(absurd); (l[0] == most) == unbounded || l[len(l)-1] != j.target.Judged(&j.select_.events[len(l)-1], []float64{3}, nil) {
			t.Errorf("unbounded %t: losses of rows are %g and %g", unbounded, l[0], l[len(l)-1])
		}
		if j.gains(j.losses(absurd), j.losses(bad)) == unbounded {
			t.Errorf("unbounded %t: the model that predicts most rows better is taken %t", unbounded, !unbounded)
		}
	}
}

// TestFoldsAreCapped: feature maps are chosen by rows of which an entity has its share.
func TestFoldsAreCapped(t *testing.T) {
	m := publicModel(func(m *config.Model) {
		m.Schema.Numeric, m.Train.FeatureMap, m.Train.Refit = []string{"x"}, "auto", "output"
	})
	schema := m.Schema.Event()
	events := public(24, 4000)
	for i := range events {
		if events[i].Numeric = []float64{float64(i % 7)}; i > 2000 && i%3 == 0 {
			events[i].Categorical = []string{"invented", "i3"}
		}
	}
	j := prepared(t, &refitJob{given: -1, model: m, schema: &schema, sample: sampleOf(events)})
	rows := countTo(j.problem.X.NumRows())
	own, others := 0.0, 0.0
	weights := j.foldWeights(rows)
	for i, row := range rows[foldAt(0, len(rows)):] {
		if j.train.names[row] == "invented" {
			own += weights[i]
		} else {
			others += weights[i]
		}
	}
	if !(own > 0) || own > 0.02*others {
		t.Errorf("the rows of one entity have the weight %g, those of others %g", own, others)
	}
	// Two of three folds are won by the rows of others.
	a, b := make([][]float64, 3), make([][]float64, 3)
	for f, i := 0, 0; f < 3; f++ {
		for range foldAt(f+1, len(rows)) - foldAt(f, len(rows)) {
			worse := 0.0
			if j.train.names[rows[foldAt(0, len(rows))+i]] == "invented" {
				worse = 10
			}
			a[f], b[f] = append(a[f], 1+worse), append(b[f], 2)
			i++
		}
	}
	if !isBetter(a, b, weights, 0) || isBetter(a, b, nil, 0) {
		t.Errorf("a form that is better for others is taken %t, without weights %t", isBetter(a, b, weights, 0), isBetter(a, b, nil, 0))
	}
}

// TestWeightsCountAsCopies: a row of weight 2 counts as two rows in the calibration of margins and in the link of levels.
func TestWeightsCountAsCopies(t *testing.T) {
	twice := func(list []float64, width int) []float64 {
		return append(slices.Clone(list), list[:len(list)/2/width*width]...)
	}
	weights := slices.Repeat([]float64{1}, 400)
	for i := range 200 {
		weights[i] = 2
	}
	near := func(what string, got, want []float64) {
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-6*(1+math.Abs(want[i])) {
				t.Errorf("%s: %v with weights, %v with copies", what, got, want)
				return
			}
		}
	}
	for _, k := range []int{1, 4} {
		rows, model := marginOutputs(400, k)
		var outputs []float64
		for i := range rows.x.NumRows() {
			index, value := rows.x.Row(i)
			out := make([]float64, k)
			model.Predict(out, nil, index, value)
			outputs = append(outputs, out...)
		}
		run := func(outputs, targets, weights []float64) []float64 {
			f := &calibrationFit{outputs: outputs, targets: targets, weights: weights, k: k, shifts: k > 1, chances: make([]float64, k)}
			c := f.run()
			return append([]float64{c.factor}, c.shift...)
		}
		near(fmt.Sprint(k, " outputs"), run(outputs, rows.targets, weights), run(twice(outputs, k), twice(rows.targets, k), nil))
	}
	numbers, targets := make([]float64, 400), make([]float64, 0, 400*4)
	for i := range numbers {
		numbers[i] = 1 + float64(i*37%400)/100
		for c := range 4 {
			targets = append(targets, math.Copysign(1, float64(c)+1.5-numbers[i]+float64(i%3-1)))
		}
	}
	start := newLevelLink(4, 1)
	a, b := start.fit(numbers, targets, weights), start.fit(twice(numbers, 1), twice(targets, 4), nil)
	near("link", append(a.Threshold, a.Slope), append(b.Threshold, b.Slope))
}
