package refit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/choose"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// wanderers draws events whose numbers walk at random and whose label stays for about a hundred events, whatever the
// numbers are: they predict the label of the events just before and after, and nothing of later ones.
func wanderers(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 5))
	events := make([]event.Event, n)
	x, label := make([]float64, 3), 0.0
	for i := range events {
		for f := range x {
			x[f] = 0.999*x[f] + 0.05*r.NormFloat64()
		}
		if r.IntN(100) == 0 {
			label = 1 - label
		}
		events[i] = event.Event{Weight: 1, Numeric: slices.Clone(x), Label: label}
	}
	return events
}

// TestMapIsJudgedOnNewerRows: on labels that come in runs a map predicts held-out rows, which lie between those it was
// fitted to, and nothing that comes later; auto leaves it out.
func TestMapIsJudgedOnNewerRows(t *testing.T) {
	tier.NotUnderRace(t)
	for seed := range uint64(3) {
		m := config.DefaultModel()
		m.Name = "runs"
		m.Schema = config.Schema{Task: "binary", Label: "y", TimeUnit: "ms", Numeric: []string{"a", "b", "c"}}
		m.Resolve()
		events := wanderers(seed, 5000)
		if ch := mustRefit(t, newCycle(t, &m), sampleOf(events)); ch.Version.FeatureMap != "" {
			t.Errorf("seed %d: auto takes %s, gate log loss %v", seed, ch.Version.FeatureMap, ch.Version.Gate.Loss)
		}
		asked := m
		asked.Train.FeatureMap = "fourier:200"
		with, without := mustRefit(t, newCycle(t, &asked), sampleOf(events)), mustRefit(t, newCycle(t, &m),
			sampleOf(events))
		if a, b := float64(*with.Version.Gate.Loss), float64(*without.Version.Gate.Loss); a > b {
			t.Errorf(
				"seed %d: held-out rows have a log loss of %g with the map, %g without: they are not what auto could be fooled by",
				seed,
				a,
				b,
			)
		}
	}
}

// saddle draws binary events of the log odds 1.5·a·b.
func saddle(n int) []event.Event {
	r := rand.New(rand.NewPCG(7, 7))
	events := make([]event.Event, n)
	for i := range events {
		a, b := r.NormFloat64(), r.NormFloat64()
		events[i] = event.Event{Weight: 1, Numeric: []float64{a, 10 + 3*b}}
		if r.Float64() < 1/(1+math.Exp(-1.5*a*b)) {
			events[i].Label = 1
		}
	}
	return events
}

// TestFormOfNumbers: auto finds the simplest feature map that serves, without basis vectors, and repeats the choice
// as the sample grows.
func TestFormOfNumbers(t *testing.T) {
	tier.NotUnderRace(t)
	for _, test := range []struct {
		name, want string
		events     []event.Event
		model      *config.Model
	}{
		{"line", "", chess(1, 3000, 1, true), chessModel("auto")},
		{"board", "fourier:200", chess(1, 3000, 1, false), chessModel("auto")},
		{"product", "products:2", saddle(3000), switchModel()},
		{"lambda", "products:2", saddle(3000), func() *config.Model { m := switchModel(); m.Train.Lambda = 100; return m }()},
		{"none", "", saddle(3000), func() *config.Model { m := switchModel(); m.Train.FeatureMap = ""; return m }()},
	} {
		c := newCycle(t, test.model)
		for round, n := range []int{2500, 2510, 3000} {
			ch := mustRefit(t, c, sampleOf(test.events[:n]))
			if ch.Version.FeatureMap != test.want {
				t.Errorf("%s, round %d: map %q, want %q", test.name, round, ch.Version.FeatureMap, test.want)
			}
			if wants := test.name == "lambda" || test.name == "none"; (ch.Model.NumBasis > 0) != wants {
				t.Errorf("%s, round %d: %d basis vectors", test.name, round, ch.Model.NumBasis)
			}
			ch.Version.Version = int64(round + 1)
			c.Install(ch)
		}
	}
}

// TestFormsInTime: forms are compared on the newest rows by age, whatever order the sample has, spread over all of it.
func TestFormsInTime(t *testing.T) {
	m, n := cycletest.NumericModel(2, 40), 3000
	events := cycletest.Spots(1, n, 2, 40, 1)
	s := sampleOf(events)
	r := rand.New(rand.NewPCG(2, 2))
	for range s.Train {
		s.TrainAge = append(s.TrainAge, r.Float64())
	}
	age := s.TrainAge
	schema := m.Schema.Event()
	j := &task.Task{
		Process: task.Process{Budget: new(task.Budget)},
		Model:   m,
		Schema:  &schema,
		Choices: task.Choices{
			Given: -1,
		},
		Rows: task.Rows{
			Sample: s,
		}}
	if err := refit.Prepare(j); err != nil {
		t.Fatal(err)
	}
	rows := choose.InTime(j)
	if len(rows) != 1000 {
		t.Fatalf("%d rows of 40 outputs, want 1000", len(rows))
	}
	last, sum := math.Inf(1), 0.0
	for _, row := range rows {
		if age[row] > last {
			t.Fatalf("a row of age %g follows one of %g", age[row], last)
		}
		last = age[row]
		sum += last
	}
	if mean := sum / 1000; math.Abs(mean-0.5) > 0.02 {
		t.Errorf("mean age %g of rows that are spread over ages from 0 to 1", mean)
	}
}

// TestProductsByDefinition: weights on products make the model that a polynomial of degree 2 is.
func TestProductsByDefinition(t *testing.T) {
	m := switchModel()
	m.Train.FeatureMap = "products:2"
	ch := mustRefit(t, newCycle(t, m), sampleOf(cycletest.Numbers(3, 2000)))
	fm := ch.Vocabulary.Map
	if fm.Kind != format.Products || len(ch.Model.Map) != 5 {
		t.Fatalf("map %s with %d weights, want products with 5", fm.Kind, len(ch.Model.Map))
	}
	published, err := scorer.NewModel(ch.Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	var s snapshot.Scratch
	at := func(a, b float64) float64 {
		out := make([]float64, 1)
		published.Score(out, &snapshot.Input{Numeric: []float64{a, b}}, &s)
		return out[0]
	}
	// The mixed difference of second order is the weight of a·b.
	h := 0.1
	difference := at(h, 10+h) - at(h, 10-h) - at(-h, 10+h) + at(-h, 10-h)
	basis := 0.0
	for r := range ch.Model.NumBasis { // the kernel of degree 2 has such a term, too
		c0, c1 := ch.Model.Basis[r], ch.Model.Basis[ch.Model.NumBasis+r]
		basis += 2 * ch.Model.Weights[r] * c0 * c1 / ch.Vocabulary.Numeric[0].Scale / ch.Vocabulary.Numeric[1].Scale
	}
	want := 4*h*h*ch.Model.Map[3]/fm.Scaling[0].Scale/fm.Scaling[1].Scale + 4*h*h*basis
	if math.Abs(difference-want) > 1e-9 || !(want > 0) {
		t.Errorf("mixed difference %g, want %g, positive: %s", difference, want, fmt.Sprint(ch.Model.Map))
	}
}
