package experts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// bayesTarget is the target of a task with three classes, or of a binary label.
func bayesTarget(t *testing.T, task string) *encode.Target {
	t.Helper()
	m := config.DefaultModel()
	m.Schema = config.Schema{Task: task, Label: "label", TimeUnit: "ms", Categorical: []string{"user"}}
	if task != "binary" {
		m.Schema.Classes = []string{"a", "b", "c"}
	}
	m.Resolve()
	target, err := encode.NewTarget(&m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// drawTexts draws events of a user and a list, whose classes go with some names.
func drawTexts(r *rand.Rand, task string, n int) []event.Event {
	list := make([]event.Event, n)
	for i := range list {
		class := r.IntN(3)
		ev := event.Event{Weight: 0.5 + r.Float64(), Categorical: []string{fmt.Sprint("u", r.IntN(20))},
			Multi: [][]string{{fmt.Sprint("w", r.IntN(30)), fmt.Sprint("x", class, r.IntN(12))}}}
		switch {
		case task == "binary":
			ev.Label = float64(class % 2)
		case task == "multilabel" && r.IntN(5) == 0:
			ev.Classes = []string{"a", "c"}
		default:
			ev.Classes = []string{string(rune('a' + class))}
		}
		list[i] = ev
	}
	return list
}

// slowBayes keeps the events, and counts anew what a name says.
type slowBayes struct {
	target *encode.Target
	events []event.Event
}

// shares returns the share of each class among all events, with one that is of no class in particular.
func (s *slowBayes) shares(n int) []float64 {
	m := s.target.Outputs()
	total, class, targets := 1.0, make([]float64, m), make([]float64, m)
	for c := range class {
		class[c] = s.target.ClassPrior()
	}
	for i := range s.events[:n] {
		s.target.Encode(targets, &s.events[i])
		total += s.events[i].Weight
		for c, v := range targets {
			if v > 0 {
				class[c] += s.events[i].Weight
			}
		}
	}
	for c := range class {
		class[c] /= total
	}
	return class
}

// says returns what a name says of the classes under a smoothing, at the last event that has it.
func (s *slowBayes) says(name string, smoothing float64) []float64 {
	m := s.target.Outputs()
	total, class, targets, last := smoothing, make([]float64, m), make([]float64, m), -1
	for i := range s.events {
		ev := &s.events[i]
		if !slices.Contains(ev.Categorical, name) && !slices.Contains(ev.Multi[0], name) {
			continue
		}
		s.target.Encode(targets, ev)
		last, total = i, total+ev.Weight
		for c, v := range targets {
			if v > 0 {
				class[c] += ev.Weight
			}
		}
	}
	says := make([]float64, m)
	if last < 0 {
		return says
	}
	for c, share := range s.shares(last + 1) {
		p := (class[c] + smoothing*share) / total
		if says[c] = math.Log(p / share); s.target.Link == "logistic" {
			says[c] -= math.Log((1 - p) / (1 - share))
		}
	}
	return s.centred(says)
}

// centred takes out the mean of exclusive classes.
func (s *slowBayes) centred(v []float64) []float64 {
	if s.target.Link == "softmax" {
		mean := 0.0
		for _, x := range v {
			mean += x / float64(len(v))
		}
		for c := range v {
			v[c] -= mean
		}
	}
	return v
}

// TestNaiveBayesCounts: what names say, and the outputs, are those of a count of all events.
func TestNaiveBayesCounts(t *testing.T) {
	schema := &event.Schema{Categorical: []string{"user"}, Multi: []string{"words"}}
	for _, task := range []string{"multiclass", "binary", "multilabel"} {
		t.Run(task, func(t *testing.T) {
			slow := &slowBayes{target: bayesTarget(t, task)}
			l, m := NewNaiveBayes(schema, slow.target, 1000), slow.target.Outputs()
			targets, got := make([]float64, m), make([]float64, m)
			for i, ev := range drawTexts(rand.New(rand.NewPCG(1, 2)), task, 400) {
				l.Outputs(got, &ev)
				if i%50 == 49 {
					want := make([]float64, m)
					for e := range l.Each {
						x := &l.Each[e]
						base := slow.shares(i)
						for c, share := range base {
							if base[c] = math.Log(share); slow.target.Link == "logistic" {
								base[c] -= math.Log(1 - share)
							}
						}
						for c, v := range slow.centred(base) {
							v += x.bias[c]
							v += x.slope[0] * slow.says(ev.Categorical[0], x.smoothing)[c]
							for _, name := range ev.Multi[0] {
								v += x.slope[1] / 2 * slow.says(name, x.smoothing)[c]
							}
							want[c] += l.experts.Weights[e] * v
						}
					}
					for c := range want {
						if math.Abs(got[c]-want[c]) > 1e-9 {
							t.Fatalf("event %d: output %d is %g, by a count of all events %g", i, c, got[c], want[c])
						}
					}
				}
				slow.target.Encode(targets, &ev)
				l.Learn(&ev, targets, ev.Weight)
				slow.events = append(slow.events, ev)
			}
		})
	}
}

// TestNaiveBayesCorrects: a corrected label counts as if it had been the label, but for slopes, bias and weights.
func TestNaiveBayesCorrects(t *testing.T) {
	schema := &event.Schema{Categorical: []string{"user"}, Multi: []string{"words"}}
	target := bayesTarget(t, "multiclass")
	events := drawTexts(rand.New(rand.NewPCG(3, 2)), "multiclass", 200)
	learn := func(first string) *NaiveBayes {
		l, targets, was := NewNaiveBayes(schema, target, 1000), make([]float64, 3), events[0]
		was.Classes = []string{first}
		for i := range events {
			ev := &events[i]
			if i == 0 {
				ev = &was
			}
			target.Encode(targets, ev)
			l.Gather(ev)
			l.Learn(ev, targets, ev.Weight)
		}
		is := was
		is.Classes = []string{"b"}
		of := &admission.Correction{Was: &was, Is: &is, Counts: &rows.Counted{Shared: true}, Ages: make([]int32, 3)}
		if of.Encode(target) {
			l.Correct(of)
		}
		return l
	}
	a, b := learn("a"), learn("b")
	for c := range a.class {
		if math.Abs(a.class[c]-b.class[c]) > 1e-9 {
			t.Fatalf("class %d counts %g, want %g", c, a.class[c], b.class[c])
		}
	}
	for _, name := range events[0].Multi[0] {
		x, y := a.rows[a.Slots.Find(1, name)], b.rows[b.Slots.Find(1, name)]
		for c := range 4 {
			if math.Abs(x[c]-y[c]) > 1e-9 {
				t.Fatalf("%s counts %v, want %v", name, x[:4], y[:4])
			}
		}
	}
}

// TestNaiveBayesIsFinite: one label for long, weights of any size and names given up leave outputs finite.
func TestNaiveBayesIsFinite(t *testing.T) {
	schema := &event.Schema{Categorical: []string{"user"}, Multi: []string{"words"}}
	for _, task := range []string{"multiclass", "binary"} {
		target := bayesTarget(t, task)
		l, m := NewNaiveBayes(schema, target, 20), target.Outputs()
		targets, got := make([]float64, m), make([]float64, m)
		for i, ev := range drawTexts(rand.New(rand.NewPCG(5, 2)), task, 30_000) {
			if i > 1000 && i < 25_000 {
				ev.Label, ev.Weight = 1, 1e6
				if task == "multiclass" {
					ev.Classes = []string{"a"}
				}
			}
			if i%10 == 9 { // a label of an event that was never learned is corrected
				is := ev
				is.Label, is.Classes = 1-ev.Label, []string{"c"}
				of := &admission.Correction{Was: &ev, Is: &is, Counts: &rows.Counted{Shared: true}, Ages: make([]int32, 3)}
				if of.Encode(target) {
					l.Correct(of)
				}
			}
			l.Outputs(got, &ev)
			for c, v := range got {
				if !(math.Abs(v) < 100) {
					t.Fatalf("%s: output %d of event %d is %g", task, c, i, v)
				}
			}
			target.Encode(targets, &ev)
			l.Learn(&ev, targets, ev.Weight)
		}
	}
}

// TestNaiveBayesForgets: a name whose class changes says the new one after as many events as count, however many came.
func TestNaiveBayesForgets(t *testing.T) {
	schema, target := &event.Schema{Categorical: []string{"user"}}, bayesTarget(t, "binary")
	l, got := NewNaiveBayes(schema, target, 100), []float64{0}
	learn := func(n int, label float64) {
		for i := range n {
			for _, ev := range []event.Event{
				{Weight: 1, Categorical: []string{"u"}, Label: label},
				{Weight: 1, Categorical: []string{"v"}, Label: float64(i % 2)},
			} {
				l.Outputs(got, &ev)
				l.Learn(&ev, []float64{2*ev.Label - 1}, 1)
			}
		}
	}
	says := func() float64 { return l.evidenceOf(l.Slots.Find(0, "u"), 0)[0] }
	learn(60_000, 1)
	was := says()
	learn(nameMemory, 0)
	if was < 2 || says() > 0 {
		t.Errorf("it says %g, before the change %g", says(), was)
	}
}

// TestNaiveBayesHolds: names that are held, and what all events share where it is not to learn, learn nothing.
func TestNaiveBayesHolds(t *testing.T) {
	schema := &event.Schema{Categorical: []string{"user"}, Multi: []string{"words"}}
	target := bayesTarget(t, "multiclass")
	l, targets := NewNaiveBayes(schema, target, 1000), []float64{1, 0, 0}
	ev := event.Event{Weight: 1, Categorical: []string{"u"}, Multi: [][]string{{"w"}}}
	l.Gather(&ev)
	l.learnPart(&ev, targets, 1, &rows.Counted{Held: []bool{true, false}})
	if l.Slots.Find(0, "u") >= 0 || l.Slots.Find(1, "w") < 0 || l.events != 1 {
		t.Errorf("a held name is learned, another is not, or what all share learns: %g events", l.events)
	}
}
