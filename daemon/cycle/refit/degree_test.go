package refit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/diff"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
)

// visits are events of a user, an item, some tags and an age.
func visits(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 4))
	events := make([]event.Event, n)
	for i := range events {
		events[i] = event.Event{
			Categorical: []string{fmt.Sprint("u", r.IntN(9)), fmt.Sprint("i", r.IntN(12))},
			Numeric:     []float64{40 + 10*r.NormFloat64()},
			Multi:       [][]string{[]string{"a", "b", "c", "d"}[r.IntN(3):][:r.IntN(2)]},
			Weight:      1,
			Label:       r.NormFloat64(),
		}
	}
	return events
}

// TestVersionsOfEveryKernel: what is published of a model of each kernel and degree scores 1,000 events as the solver
// does, in both types, and comes back from the store as the same model.
func TestVersionsOfEveryKernel(t *testing.T) {
	m := cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels, m.Schema.Multi, m.Schema.Numeric = "regression", 0, []string{
			"tags",
		}, []string{
			"age",
		}
		m.Train.FeatureMap, m.Train.Refit = "none", "output"
	})
	ch := mustRefit(t, newCycle(t, m), sampleOf(visits(1, 400)))
	for _, kernel := range []solver.Kernel{solver.ANOVA, solver.Homogeneous, solver.ANOVA3, solver.Homogeneous3} {
		rng := rand.New(rand.NewPCG(5, uint64(kernel)))
		model := solver.NewModel(kernel, ch.Model.NumFeatures, 1, true)
		model.NumBasis = 5
		for range model.NumFeatures * model.NumBasis {
			model.Basis = append(model.Basis, rng.NormFloat64())
		}
		for range model.NumBasis {
			model.Weights = append(model.Weights, rng.NormFloat64())
		}
		for j := range model.Linear {
			model.Linear[j] = rng.NormFloat64()
		}
		of := *ch
		of.Model, of.FoldIn, of.NoFoldIn, of.Version.Sweeps = model, nil, "", 0
		for _, tensors := range []string{format.F64, format.F32} {
			c := of.Contents(m)
			c.Tensors, c.Meta.Writer, c.Meta.Created = tensors, "test", time.Unix(1700000000, 0)
			store := t.TempDir()
			if _, err := publish.NewStore(store).Publish(t.Context(), "ratings", c); err != nil {
				t.Fatalf("%v of degree %d: %v", kernel, kernel.Degree(), err)
			}
			published, err := snapshot.Open(store, "ratings", snapshot.Selector{Version: 1})
			if err != nil {
				t.Fatal(err)
			}
			again, err := fitted.FromSnapshot(m, published)
			if err != nil {
				t.Fatal(err)
			}
			if again.Model.Kernel != kernel ||
				tensors == format.F64 && !reflect.DeepEqual(again.Model.Basis, model.Basis) {
				t.Errorf("kernel %v of degree %d came back as %v of degree %d", kernel, kernel.Degree(),
					again.Model.Kernel, again.Model.Kernel.Degree())
			}
			trainer, events := fitted.NewScorer(model, of.Vocabulary), visits(2, 1000)
			tolerance := map[string]float64{format.F64: 1e-9, format.F32: 1e-5}[tensors]
			want, got := make([]float64, 1), make([]float64, 1)
			var s snapshot.Scratch
			for i := range events {
				trainer.Outputs(want, &events[i])
				in := fitted.InputOf(of.Vocabulary.Schema, &events[i])
				if published.Score(got, &in, &s); !(math.Abs(got[0]-want[0]) <= tolerance*(1+math.Abs(want[0]))) {
					t.Fatalf("%v of degree %d in %s, event %d: published %g, trainer %g", kernel, kernel.Degree(),
						tensors, i, got[0], want[0])
				}
			}
		}
	}
}

// TestPlantedTriplesAreExplained: labels that depend on three names at once are learned by a kernel of degree 3, and
// Explain and inspect name these triples.
func TestPlantedTriplesAreExplained(t *testing.T) {
	fields, names := []string{"user", "item", "hour"}, 5
	planted := [][3]int{{0, 3, 1}, {2, 0, 4}, {4, 1, 2}}
	schema := snapshot.Schema{Task: format.Regression, Label: "y", Categorical: fields}
	c := &format.Contents{
		Schema:      schema,
		Kernel:      format.ANOVA,
		Degree:      3,
		Link:        format.Identity,
		NumFeatures: 3 * names,
		NumOutputs:  1,
	}
	for _, field := range fields {
		var list []string
		for i := range names {
			list = append(list, field[:1]+fmt.Sprint(i))
		}
		c.Vocabulary = append(c.Vocabulary, list)
	}
	rng := rand.New(rand.NewPCG(6, 7))
	p := &solver.Problem{X: solver.NewRows(3*names, 4000, 3*4000), Outputs: 1, Loss: solver.Squared{}}
	for range 4000 {
		at := [3]int{rng.IntN(names), rng.IntN(names), rng.IntN(names)}
		y := 0.3 * rng.NormFloat64()
		if n := slices.Index(planted, at); n >= 0 {
			y += 2 - 4*float64(n%2)
		}
		p.X.Append([]int32{int32(at[0]), int32(names + at[1]), int32(2*names + at[2])}, []float64{1, 1, 1})
		p.Targets = append(p.Targets, y)
	}
	s := solver.DefaultSettings()
	s.Kernel, s.MaxBasis, s.Lambda, s.LinearRidge, s.BiasRidge, s.MaxIterations, s.Seed = solver.ANOVA3, 6, 1, 1, 1, 200, 3
	result, err := coordinate.Descent{Starts: 10}.Fit(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	model := result.Model
	c.NumBasis, c.Basis, c.Weights, c.Linear, c.Bias = model.NumBasis, model.Basis, model.Weights, model.Linear, model.Bias
	published, err := scorer.NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	strongest := diff.Believes(published).Outputs[0].Interactions
	for _, at := range planted {
		in := snapshot.Input{
			Categorical: []string{fmt.Sprint("u", at[0]), fmt.Sprint("i", at[1]), fmt.Sprint("h", at[2])},
		}
		e, err := published.Explain(&in)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"user=" + in.Categorical[0], "item=" + in.Categorical[1], "hour=" + in.Categorical[2]}
		if !slices.Equal(e.Terms[0].Features, want) || math.Abs(math.Abs(e.Terms[0].Contribution[0])-2) > 0.5 {
			t.Errorf("%v is explained by %v", want, e.Terms[:3])
		}
		found := false
		for _, x := range strongest[:len(planted)] {
			found = found || slices.Equal(x.Features, want)
		}
		if !found {
			t.Errorf("%v is not among the strongest: %v", want, strongest)
		}
	}
}
