package refit_test

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/choose"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/solver"
)

// inverted returns select rows of which a third are of one entity, with labels turned round, and a sample without them.
func inverted(events []event.Event) (clean, attacked *encode.Sample) {
	clean, attacked = sampleOf(events), sampleOf(events)
	n := len(clean.Select) / 2
	for i := range n {
		ev := events[10*i]
		ev.Categorical = []string{"invented", ev.Categorical[1]}
		ev.Label = 6 - ev.Label
		attacked.Select = append(attacked.Select, rows.AppendEvent(nil, &ev))
	}
	return clean, attacked
}

// TestOneEntityChoosesNoStrength: an entity that owns a third of the select rows, with inverted labels, does not
// choose the strength of the penalty. Without a cap it does.
func TestOneEntityChoosesNoStrength(t *testing.T) {
	lambda := func(share float64, s *encode.Sample) float64 {
		c := newCycle(t,
			cycletest.PublicModel(func(m *config.Model) { m.Train.Cap.Share, m.Train.Refit = share, "output" }))
		own := *s
		return float64(mustRefit(t, c, &own).Version.Lambda)
	}
	for _, seed := range []uint64{0, 4} {
		clean, attacked := inverted(cycletest.Public(seed, 4000))
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
	m := cycletest.PublicModel(nil)
	schema := m.Schema.Event()
	clean, attacked := inverted(cycletest.Public(22, 5000))
	for _, s := range []*encode.Sample{clean, attacked} {
		for i := range s.Select {
			s.SelectAge = append(s.SelectAge, float64(i))
		}
		for i := range s.Train {
			s.TrainAge = append(s.TrainAge, float64(i))
		}
	}
	for _, unbounded := range []bool{false, true} {
		j := prepared(
			t,
			&task.Task{
				Process: task.Process{Budget: new(task.Budget)},
				Model:   m,
				Schema:  &schema,
				Choices: task.Choices{
					Given:     -1,
					Unbounded: unbounded,
				},
				Rows: task.Rows{
					Sample: attacked,
				},
				Criteria: task.Criteria{
					AlarmAge: math.Inf(1),
				},
			},
		)
		attacked.Train = sampleOf(cycletest.Public(22, 5000)).Train // which prepare takes
		names := make(map[string]bool)
		for i := range j.Rows.Select_.Events {
			names[j.Rows.Select_.Events[i].Categorical[0]] = true
		}
		for _, h := range []int{0, len(fitted.HalfLives) - 1} {
			j.Choices.HalfLife = h
			for what, weights := range map[string][]float64{"select": j.SelectWeights(), "recent": choose.RecentWeights(j)} {
				own, all := 0.0, 0.0
				for i := range j.Rows.Select_.Events {
					w := encode.WeightAt(weights, i)
					if j.Rows.Select_.Events[i].Categorical[0] == "invented" {
						own += w
					}
					all += w
				}
				if before := fitted.Decayed(nil, j.Rows.Sample.SelectAge, fitted.HalfLives[h]); unbounded &&
					what == "select" &&
					!slices.Equal(weights, before) {
					t.Errorf("%s rows, horizon %d: a refit of an earlier build has other weights", what, h)
				}
				// limit·S of an uncapped sum S, over what is left of it
				share := admission.ShareOfEach(0.01, len(names))
				if most := share / (1 - 0.6); (own/all > most) != unbounded {
					t.Errorf("%s rows, horizon %d, unbounded %t: one entity has %.3f of the weight, want at most %.3f",
						what, h, unbounded, own/all, most)
				}
			}
		}
	}
	j := prepared(t, &task.Task{
		Process: task.Process{Budget: new(task.Budget)},
		Model:   m,
		Schema:  &schema,
		Choices: task.Choices{
			Given: -1,
		},
		Rows: task.Rows{
			Sample: clean,
		},
		Criteria: task.Criteria{
			AlarmAge: math.Inf(1),
		}})
	if w := j.SelectWeights(); w != nil {
		t.Error("rows of entities within their shares have weights")
	}
}

// TestOneRowChoosesNothing: a row that a model predicts absurdly counts as a plausible loss, so that it hides nothing
// that other rows say.
func TestOneRowChoosesNothing(t *testing.T) {
	m := regressionModel()
	m.Schema.LabelMin, m.Schema.LabelMax = 0, 0
	schema := m.Schema.Event()
	events := cycletest.Public(23, 2000)
	for i := range events {
		events[i].Numeric = make([]float64, len(schema.Numeric))
	}
	for _, unbounded := range []bool{false, true} {
		j := prepared(
			t,
			&task.Task{
				Process: task.Process{Budget: new(task.Budget)},
				Model:   m,
				Schema:  &schema,
				Choices: task.Choices{
					Given:     -1,
					Unbounded: unbounded,
				},
				Rows: task.Rows{
					Sample: sampleOf(events),
				}},
		)
		absurd := solver.NewModel(solver.ANOVA, j.Vocab.NumColumns(), 1, true)
		bad := absurd.Clone()
		absurd.Bias[0], bad.Bias[0] = 3, 4.5
		at, _ := j.Rows.Select_.X.Row(0)
		absurd.Linear[at[0]] = 1e6
		rare := 0.0 // rows of that name
		for i := range j.Rows.Select_.Events {
			if j.Rows.Select_.Events[i].Categorical[0] == j.Rows.Select_.Events[0].Categorical[0] {
				rare++
			}
		}
		most, _ := j.Plausible()
		loss := evaluate.Loss(j.Rows.Select_, j.Target, absurd, nil)
		if bounded := loss <= most; bounded == unbounded {
			t.Errorf("unbounded %t: %g rows with outputs of a million make a mean loss of %g", unbounded, rare, loss)
		}
		if l := choose.Losses(j, absurd); (l[0] == most) == unbounded ||
			l[len(l)-1] != j.Target.Judged(&j.Rows.Select_.Events[len(l)-1], []float64{3}, nil) {
			t.Errorf("unbounded %t: losses of rows are %g and %g", unbounded, l[0], l[len(l)-1])
		}
		if choose.Gains(j, choose.Losses(j, absurd), choose.Losses(j, bad)) == unbounded {
			t.Errorf("unbounded %t: the model that predicts most rows better is taken %t", unbounded, !unbounded)
		}
	}
}

// TestFoldsAreCapped: feature maps are chosen by rows of which an entity has its share.
func TestFoldsAreCapped(t *testing.T) {
	m := cycletest.PublicModel(func(m *config.Model) {
		m.Schema.Numeric, m.Train.FeatureMap, m.Train.Refit = []string{"x"}, "auto", "output"
	})
	schema := m.Schema.Event()
	events := cycletest.Public(24, 4000)
	for i := range events {
		if events[i].Numeric = []float64{float64(i % 7)}; i > 2000 && i%3 == 0 {
			events[i].Categorical = []string{"invented", "i3"}
		}
	}
	j := prepared(t, &task.Task{
		Process: task.Process{Budget: new(task.Budget)},
		Model:   m,
		Schema:  &schema,
		Choices: task.Choices{
			Given: -1,
		},
		Rows: task.Rows{
			Sample: sampleOf(events),
		}})
	rows := encode.CountTo(j.Rows.Problem.X.NumRows())
	own, others := 0.0, 0.0
	weights := choose.FoldWeights(j, rows)
	for i, row := range rows[choose.FoldAt(0, len(rows)):] {
		if j.Rows.Train.Names[row] == "invented" {
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
		for range choose.FoldAt(f+1, len(rows)) - choose.FoldAt(f, len(rows)) {
			worse := 0.0
			if j.Rows.Train.Names[rows[choose.FoldAt(0, len(rows))+i]] == "invented" {
				worse = 10
			}
			a[f], b[f] = append(a[f], 1+worse), append(b[f], 2)
			i++
		}
	}
	if !choose.IsBetter(a, b, weights, 0) || choose.IsBetter(a, b, nil, 0) {
		t.Errorf("a form that is better for others is taken %t, without weights %t", choose.IsBetter(a, b, weights, 0),
			choose.IsBetter(a, b, nil, 0))
	}
}
