package cycle

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
)

// colours is a multi-class model of two names.
func colours() *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels, m.Schema.Classes, m.Train.Loss = "multiclass", 0, []string{
			"red",
			"green",
			"blue",
		}, "mlogistic"
		m.Evaluate.BaselineBy = ""
	})
}

// palette is colours with 12 classes, of which the first 3, 5 and 10 are not all.
func palette() *config.Model {
	m := colours()
	m.Schema.Classes = append(m.Schema.Classes, "cyan", "magenta", "yellow", "black", "white", "grey", "brown", "pink",
		"orange")
	return m
}

// labelled gives events of stream one of three classes.
func labelled(seed uint64, n int) []event.Event {
	events := cycletest.Stream(seed, n)
	for i := range events {
		events[i].Classes = []string{[]string{"red", "green", "blue"}[min(2, int(events[i].Label)/2)]}
		events[i].Label = 0
	}
	return events
}

// check compares METRICS member by member.
func check(t *testing.T, what string, got, want *report.Metrics, tolerance float64) {
	t.Helper()
	g, w := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for i := range g.NumField() {
		name := g.Type().Field(i).Name
		a, isNumber := g.Field(i).Interface().(*report.Number)
		if !isNumber {
			if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
				t.Fatalf("%s: %s %v, want %v", what, name, g.Field(i), w.Field(i))
			}
			continue
		}
		b := w.Field(i).Interface().(*report.Number)
		if (a == nil) != (b == nil) || a != nil && !(math.Abs(float64(*a-*b)) <= tolerance*(1+math.Abs(float64(*b)))) {
			t.Fatalf("%s: %s %v, want %v", what, name, text(a), text(b))
		}
	}
}

func text(n *report.Number) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(float64(*n))
}

// near returns b in place of an a that a sketch knows to a tolerance.
func near(a, b *report.Number, tolerance float64) *report.Number {
	if a == nil || b == nil || math.Abs(float64(*a-*b)) > tolerance {
		return a
	}
	return b
}

// drawnOutcome draws an event of a class and what one predictor makes of it.
func drawnOutcome(r *rand.Rand, t *encode.Target, targets []float64) (o evaluate.EventOutcome, outputs []float64) {
	outputs = make([]float64, len(targets))
	for c := range outputs {
		outputs[c] = targets[c] + 2*r.NormFloat64()
	}
	return evaluate.Outcome(t, &event.Event{}, outputs, targets), outputs
}

// TestWindowMetricsByDefinition compares every metric of the window and its slices, after each of many events, with
// those of a Quality that is given the events of the window alone; and once a loss of 1e18 has left the window, nothing
// of it is left.
func TestWindowMetricsByDefinition(t *testing.T) {
	for name, m := range map[string]*config.Model{"binary": switchModel(), "multiclass": colours(),
		"many classes": palette()} {
		c := newCycle(t, m)
		const window = evaluate.WindowBlock + 37
		p, q := evaluate.NewProgressive(c.target, window, true), c.target
		r := rand.New(rand.NewPCG(5, 5))
		type past struct {
			ev               event.Event
			outputs, targets []float64
			slice            evaluate.Slice
			last             bool
		}
		var all []past
		base := evaluate.NewReference(q)
		for n := range 3 * window {
			e := past{
				ev:      event.Event{Label: float64(r.IntN(2))},
				targets: make([]float64, q.Outputs()),
				slice:   evaluate.Slice(r.IntN(int(evaluate.NumSlices))),
			}
			if len(q.Classes) > 0 {
				e.ev.Classes = q.Classes[r.IntN(2)+r.IntN(2):][:1]
			}
			if !q.Encode(e.targets, &e.ev) {
				t.Fatal("no targets")
			}
			var o [evaluate.NumRoles]evaluate.EventOutcome
			o[evaluate.Live], e.outputs = drawnOutcome(r, q, e.targets)
			if o[evaluate.Published] = o[evaluate.Live]; n == 5 || n == window+9 {
				for i := range o {
					o[i] = evaluate.EventOutcome{Present: true, Lossy: true, Loss: 1e18, Square: 1e18, Abs: 1e9}
				}
				e.outputs = nil
			}
			versus := p.Compare(e.targets)
			if want := base.Next(e.targets); versus != want {
				t.Fatalf("%s: compared with %+v, want %+v", name, versus, want)
			}
			versus.Slice, e.last = e.slice, versus.Last
			p.Add(&o, versus)
			if all = append(all, e); n%307 != 0 && n < 3*window-2 {
				continue
			}
			recent := all[max(0, len(all)-window):]
			parts := map[evaluate.Slice]*evaluate.Quality{
				evaluate.Unsliced:    evaluate.NewQuality(q, nil),
				evaluate.NewEntity:   evaluate.NewQuality(q, nil),
				evaluate.KnownEntity: evaluate.NewQuality(q, nil),
			}
			spoilt, sums := false, evaluate.Tally{}
			for _, e := range recent {
				if e.outputs == nil {
					spoilt = true
					break
				}
				parts[evaluate.Unsliced].Add(&e.ev, e.outputs, e.targets)
				if e.slice != evaluate.Unsliced {
					parts[e.slice].Add(&e.ev, e.outputs, e.targets)
				}
				if e.last {
					sums.Last++
				}
			}
			if spoilt || len(recent) < 300 {
				continue
			}
			got := p.Report()
			for what, x := range map[string]struct{ got, want *report.Metrics }{
				"window": {got.Window.Live, parts[evaluate.Unsliced].Metrics()}, "published": {got.Window.Published,
					parts[evaluate.Unsliced].Metrics()},
				"new": {got.Slices.NewEntity.Live, parts[evaluate.NewEntity].Metrics()}, "known": {got.Slices.KnownEntity.Published,
					parts[evaluate.KnownEntity].Metrics()},
			} {
				x.got.AUC, x.got.ECE = near(x.got.AUC, x.want.AUC, 0.002), near(x.got.ECE, x.want.ECE, 0.01)
				// Quality begins to compare at its first event, the window has what was before it.
				x.want.KappaLast, x.want.EntropyNormalised = x.got.KappaLast, x.got.EntropyNormalised
				check(t, fmt.Sprintf("%s, event %d, %s", name, n, what), x.got, x.want, 1e-12)
			}
			if live := got.Window.Live; name == "many classes" {
				missed := 0.0
				for _, e := range recent {
					ranked, class := slices.Clone(e.outputs), evaluate.Class(q, e.targets)
					slices.Sort(ranked)
					if e.outputs[class] < ranked[len(ranked)-5] {
						missed++
					}
				}
				if want := missed / float64(len(recent)); float64(*live.Top5Error) != want ||
					*live.Top3Error < *live.Top5Error ||
					*live.Top10Error > *live.Top5Error {
					t.Fatalf("the class is not among the first 3, 5 and 10 in %v, %v and %v, want %g of 5",
						*live.Top3Error, *live.Top5Error, *live.Top10Error, want)
				}
			} else if live.Top3Error != nil {
				t.Fatalf("%s: top-3 error %v", name, *live.Top3Error)
			}
			accuracy, last := float64(*got.Window.Live.Accuracy), float64(sums.Last)/float64(len(recent))
			if want := (accuracy - last) / (1 - last); math.Abs(float64(*got.Window.Live.KappaLast)-want) > 1e-12 {
				t.Fatalf("%s: κ %g, want %g", name, *got.Window.Live.KappaLast, want)
			}
		}
		if p.Sums.All[evaluate.Live].Compared != int64(len(all)) {
			t.Errorf("%s: %d of %d compared", name, p.Sums.All[evaluate.Live].Compared, len(all))
		}
	}
}

// TestEntropyOfReference: entropy_normalised is the log loss over that of the frequencies of the events before, by its
// definition.
func TestEntropyOfReference(t *testing.T) {
	for name, m := range map[string]*config.Model{"binary": switchModel(), "multiclass": colours()} {
		q := newCycle(t, m).target
		r := rand.New(rand.NewPCG(6, 6))
		quality, loss, base := evaluate.NewQuality(q, nil), 0.0, 0.0
		classes := max(2, q.Outputs())
		counts, n := make([]float64, classes), 0.0
		for range 500 {
			class := min(r.IntN(4), classes-1)
			ev := event.Event{Label: float64(class)}
			if len(q.Classes) > 0 {
				ev.Classes = q.Classes[class : class+1]
			}
			targets := make([]float64, q.Outputs())
			q.Encode(targets, &ev)
			_, outputs := drawnOutcome(r, q, targets)
			quality.Add(&ev, outputs, targets)
			loss += q.Loss.Eval(nil, outputs, targets)
			base -= math.Log((counts[class] + 1/float64(classes)) / (n + 1))
			counts[class]++
			n++
		}
		if got := float64(*quality.Metrics().EntropyNormalised); math.Abs(got-loss/base) > 1e-12 {
			t.Errorf("%s: %g, want %g", name, got, loss/base)
		}
	}
}

// TestBaselinesCarryEveryMetric: baselines of classes have the metrics of their frequencies, those of numbers the loss
// if numbers are what it takes.
func TestBaselinesCarryEveryMetric(t *testing.T) {
	events := labelled(7, 1500)
	c := newCycle(t, colours())
	observeAll(c, events[:700])
	ch := mustRefit(t, c, sampleOf(events[:700]))
	c.Install(ch)
	c.progress.progressive = evaluate.NewProgressive(c.target, 800, true)
	c.progress.StartTail()
	entropy := 0.0
	want, last, lastRight := evaluate.NewQuality(c.target, nil), "", 0
	targets := make([]float64, 3)
	for i := range events[700:] {
		ev := &events[700+i]
		c.Observe(ev, true, rows.Position{}, nil, nil)
		c.target.Encode(targets, ev)
		p := ch.Means.Frequencies[evaluate.Class(c.target, targets)]
		entropy -= math.Log(p)
		want.Add(
			ev,
			[]float64{
				math.Log(ch.Means.Frequencies[0]),
				math.Log(ch.Means.Frequencies[1]),
				math.Log(ch.Means.Frequencies[2]),
			},
			targets,
		)
		if ev.Classes[0] == last {
			lastRight++
		}
		last = ev.Classes[0]
	}
	p := c.Progressive()
	majority, after := p.Baselines.Majority, p.Baselines.LastLabel
	if math.Abs(float64(*majority.Loss)-entropy/800) > 1e-9 || math.Abs(float64(*majority.EntropyNormalised)-1) > 0.05 {
		t.Errorf("majority: loss %v, want %g; %v of the base rate", text(majority.Loss), entropy/800,
			text(majority.EntropyNormalised))
	}
	majority.KappaLast, majority.EntropyNormalised = nil, nil
	w := want.Metrics()
	w.KappaLast, w.EntropyNormalised = nil, nil
	check(t, "majority", majority, w, 1e-6)
	if after.N != 799 || math.Abs(float64(*after.Accuracy)-float64(lastRight)/799) > 1e-12 || after.Loss == nil ||
		after.ECE == nil ||
		*after.KappaLast != 0 ||
		after.MacroF1 == nil ||
		len(after.RecallPerClass) != 3 {
		t.Errorf("last label: %+v, accuracy %v, want %g", after, text(after.Accuracy), float64(lastRight)/799)
	}
	if p.Window.Live.KappaLast == nil || *p.Window.Live.KappaLast <= 0 || *p.Window.Live.EntropyNormalised >= 1 {
		t.Errorf("live κ %v, %v of the base rate", text(p.Window.Live.KappaLast), text(p.Window.Live.EntropyNormalised))
	}
	tail := c.progress.Tail()
	check(t, "the tail of all", tail.Live, p.Window.Live, 1e-12)
	check(t, "the tail's slice", tail.Slices.KnownEntity.Live, p.Slices.KnownEntity.Live, 1e-12)

	hinge := colours()
	hinge.Train.Loss, hinge.Train.Refit = "smoothed_hinge", "output"
	c = newCycle(t, hinge)
	observeAll(c, events[:300])
	c.Install(mustRefit(t, c, sampleOf(events[:300])))
	observeAll(c, events[300:600])
	b := c.Progressive()
	if m := b.Baselines.Majority; m.Loss != nil || m.ECE != nil || m.MacroF1 == nil || b.Window.Live.ECE != nil ||
		b.Window.Live.EntropyNormalised != nil {
		t.Errorf("without probabilities %+v, live %+v", m, b.Window.Live)
	}

	c = newCycle(t, amountsModel(nil))
	observeAll(c, amountEvents(t, 400))
	if m := c.Progressive().Baselines.SGDBias; m.Loss == nil ||
		math.Abs(float64(*m.Loss)-float64(*m.RMSE**m.RMSE)/2) > 1e-9 {
		t.Errorf("SGD biases: loss %v of RMSE %v", text(m.Loss), text(m.RMSE))
	}
	c = newCycle(t, cycletest.RatingsModel(nil))
	observeAll(c, cycletest.Stream(1, 100))
	if m := c.Progressive().Baselines.SGDBias; m.Loss != nil || m.RMSE == nil {
		t.Errorf("a number has a loss of levels: %+v", m)
	}
}

func amountEvents(t *testing.T, n int) []event.Event {
	decoder := event.NewJSON(amountsModel(nil).Schema.Event(), event.DefaultLimits())
	events := make([]event.Event, n)
	for i, line := range amounts(4, n, "a", "0", 1) {
		if r := decoder.Decode(&events[i], []byte(line), 1); r != nil {
			t.Fatal(r)
		}
	}
	return events
}

// TestSlicesByDefinition: an event is of a new entity if the version that consumers have does not know its name in a
// field of train.fold_in.by, and in no slice before there is a version.
func TestSlicesByDefinition(t *testing.T) {
	tier.NotUnderRace(t)
	for _, by := range [][]string{{"user"}, {"item"}, {"user", "item"}} {
		m := cycletest.RatingsModel(func(m *config.Model) { m.Train.FoldIn.By, m.Evaluate.Window = by, 2000 })
		c := newCycle(t, m)
		events := cycletest.Stream(8, 1200)
		for i := range events[600:] {
			ev := &events[600+i]
			if i%3 == 0 {
				ev.Categorical = []string{fmt.Sprintf("new%d", i), ev.Categorical[1]}
			}
			if i%5 == 0 {
				ev.Categorical = []string{ev.Categorical[0], fmt.Sprintf("new%d", i)}
			}
			if i%7 == 0 {
				ev.Categorical = []string{"", ev.Categorical[1]} // absent
			}
		}
		observeAll(c, events[:500])
		c.Install(mustRefit(t, c, sampleOf(events[:500])))
		known, fresh, square := int64(0), int64(0), 0.0
		s := fitted.NewScorer(c.champion.Model, c.champion.Vocabulary)
		outputs := make([]float64, c.target.Outputs())
		for i := range events[500:] {
			ev := &events[500+i]
			c.Observe(ev, true, rows.Position{}, nil, nil)
			unknown := false
			for f, name := range m.Schema.Categorical {
				for _, field := range by {
					unknown = unknown ||
						field == name && ev.Categorical[f] != "" &&
							c.champion.Vocabulary.Column(f, ev.Categorical[f]) < 0
				}
			}
			if unknown {
				fresh++
				s.Outputs(outputs, ev)
				e := c.target.Clip(c.target.Value(outputs)) - ev.Label
				square += e * e
			} else {
				known++
			}
		}
		got := c.Progressive().Slices
		if got.NewEntity.Published.N != fresh || got.NewEntity.Live.N != fresh ||
			got.KnownEntity.Published.N != known ||
			fresh == 0 ||
			known == 0 {
			t.Errorf("%v: %d new and %d known, want %d and %d", by, got.NewEntity.Published.N,
				got.KnownEntity.Published.N, fresh, known)
		}
		if v := float64(*got.NewEntity.Published.RMSE); math.Abs(v-math.Sqrt(square/float64(fresh))) > 1e-9 {
			t.Errorf("%v: RMSE %g, want %g", by, v, math.Sqrt(square/float64(fresh)))
		}
	}
	if newCycle(t, switchModel()).Progressive().Slices != nil {
		t.Error("slices without entities")
	}
}

// TestProgressiveSumsOfBothBuilds: sums come back as they were, those of a build before distributions are continued
// without what they lack, and damaged ones are refused.
func TestProgressiveSumsOfBothBuilds(t *testing.T) {
	events := labelled(9, 600)
	run := func(c *Cycle, from, to int) {
		observeAll(c, events[from:to])
	}
	whole := newCycle(t, palette())
	run(whole, 0, 600)
	first := newCycle(t, palette())
	run(first, 0, 300)
	b, err := first.progress.Sums()
	if err != nil {
		t.Fatal(err)
	}
	again := newCycle(t, palette())
	if err := again.progress.Restore(b); err != nil {
		t.Fatal(err)
	}
	if back, err := again.progress.Sums(); err != nil || !bytes.Equal(back, b) ||
		!reflect.DeepEqual(again.progress.progressive.All, first.progress.progressive.All) {
		t.Errorf("%s came back as %s, error %v", b, back, err)
	}
	check(t, "all after a restart", again.Progressive().All.Live, first.Progressive().All.Live, 0)
	run(again, 300, 600)
	if got, want := again.Progressive().All.Live, whole.Progressive().All.Live; got.N != want.N ||
		got.Top10Error == nil ||
		got.MacroF1 == nil ||
		got.ECE == nil ||
		got.KappaLast == nil {
		t.Errorf("after a restart %+v", got)
	}

	old := newCycle(t, palette())
	const before = `{"n":300,"no_model":300,"all":[{"n":0,"loss":0,"square":0,"abs":0,"correct":0},{"n":300,"loss":150,"square":0,"abs":0,"correct":210},` +
		`{"n":0,"loss":0,"square":0,"abs":0,"correct":0},{"n":299,"loss":0,"square":0,"abs":0,"correct":100},{"n":0,"loss":0,"square":0,"abs":0,"correct":0},` +
		`{"n":300,"loss":200,"square":0,"abs":0,"correct":200}]}`
	if err := old.progress.Restore([]byte(before)); err != nil {
		t.Fatal(err)
	}
	run(old, 300, 400)
	if m := old.Progressive().All.Live; m.N != 400 || m.Loss == nil || m.Accuracy == nil || m.ECE != nil ||
		m.MacroF1 != nil ||
		m.KappaLast != nil ||
		m.EntropyNormalised != nil ||
		m.Top3Error != nil {
		t.Errorf("sums of an earlier build were restored as %+v", m)
	}
	if m := old.Progressive().Window.Live; m.N != 100 || m.ECE == nil || m.KappaLast == nil || m.Top3Error == nil {
		t.Errorf("its window %+v", m)
	}
	var sums map[string]any
	if err := json.Unmarshal(b, &sums); err != nil {
		t.Fatal(err)
	}
	predictors := sums["predictors"].([]any)
	predictors[0].(map[string]any)["distribution"] = "gA=="
	damaged, _ := json.Marshal(sums)
	if err := newCycle(t, palette()).progress.Restore(damaged); err == nil {
		t.Error("a distribution that is cut off was restored")
	}
	sums["predictors"], sums["reference"] = nil, map[string]any{"counts": []int{1, 2}}
	damaged, _ = json.Marshal(sums)
	if err := newCycle(t, palette()).progress.Restore(damaged); err == nil {
		t.Error("counts of other classes were restored")
	}
}

// TestLossBelowZeroIsCounted: it counts as 0 and is reported; what rounding makes of 0 is not reported.
func TestLossBelowZeroIsCounted(t *testing.T) {
	p := evaluate.NewProgressive(newCycle(t, switchModel()).target, 10, false)
	for _, loss := range []float64{-1, -1e-12, 0, 2} {
		var o [evaluate.NumRoles]evaluate.EventOutcome
		o[evaluate.Live] = evaluate.EventOutcome{Present: true, Lossy: true, Loss: loss}
		p.Add(&o, evaluate.Compared{Known: true})
	}
	if p.Invalid != 1 || *p.Report().All.Live.Loss != 0.5 || *p.Report().Window.Live.Loss != 0.5 {
		t.Errorf("%d counted, losses %v and %v", p.Invalid, text(p.Report().All.Live.Loss),
			text(p.Report().Window.Live.Loss))
	}
}

// TestMeansKeptWithoutFrequencies: a champion of an earlier build predicts by its most frequent class alone.
func TestMeansKeptWithoutFrequencies(t *testing.T) {
	for _, m := range []*config.Model{switchModel(), colours()} {
		target := newCycle(t, m).target
		old := struct {
			Format   int
			Version  int64
			Majority int
		}{fitted.CheckpointFormat, 3, 1}
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(&old); err != nil {
			t.Fatal(err)
		}
		var k fitted.Checkpoint
		if err := gob.NewDecoder(&b).Decode(&k); err != nil {
			t.Fatal(err)
		}
		got, err := fitted.CheckpointMeans(target, &k)
		if err != nil {
			t.Fatal(err)
		}
		for class := range 2 {
			ev := event.Event{Label: float64(class), Classes: m.Schema.Classes[:0]}
			if len(m.Schema.Classes) > 0 {
				ev.Classes = m.Schema.Classes[class : class+1]
			}
			targets := make([]float64, target.Outputs())
			target.Encode(targets, &ev)
			if o := got.Outcome(target, &ev, targets); o.Class != 1 || o.Correct != (class == 1) || o.Lossy {
				t.Errorf("%s, class %d: %+v", m.Schema.Task, class, o)
			}
		}
		k.Frequencies = make([]float64, 7)
		if _, err := fitted.CheckpointMeans(target, &k); err == nil {
			t.Error("frequencies of other classes were taken")
		}
		k.Frequencies, k.Majority = nil, 9
		if _, err := fitted.CheckpointMeans(target, &k); err == nil {
			t.Error("a class that there is not was taken")
		}
	}
}

// TestQualityOfSeveralLabels: macro F1 and recalls of labels, and rankings of binary labels.
func TestQualityOfSeveralLabels(t *testing.T) {
	m := colours()
	m.Schema.Task, m.Train.Loss = "multilabel", "binary_logistic"
	target := newCycle(t, m).target
	q, counts := evaluate.NewQuality(target, nil), quality.NewClasses(3)
	for _, e := range []struct {
		classes []string
		outputs []float64
	}{{[]string{"red"}, []float64{1, -1, -1}}, {[]string{"red", "blue"}, []float64{1, 1, -1}}, {nil, []float64{-1, -1,
		2}}} {
		targets := make([]float64, 3)
		target.Encode(targets, &event.Event{Classes: e.classes})
		q.Add(&event.Event{Classes: e.classes}, e.outputs, targets)
		for c := range 3 {
			pair := [2]int{-1, -1}
			if e.outputs[c] > 0 {
				pair[0] = c
			}
			if targets[c] > 0 {
				pair[1] = c
			}
			counts.Add(pair[0], pair[1])
		}
	}
	got := q.Metrics()
	if got.MacroF1 == nil || math.Abs(float64(*got.MacroF1)-counts.MacroF1()) > 1e-12 ||
		got.RecallPerClass["red"] != 1 ||
		got.RecallPerClass["blue"] != 0 ||
		got.ECE != nil ||
		got.AUC != nil ||
		math.Abs(float64(*got.KappaLast)-1.0/3) > 1e-12 {
		t.Errorf("%+v, macro F1 %v, κ %v", got, text(got.MacroF1), text(got.KappaLast))
	}
	c := newCycle(t, switchModel())
	q = evaluate.NewQuality(c.target, func(ev *event.Event) string { return "u" })
	for i, score := range []float64{3, 2, 1} {
		ev := event.Event{Label: float64(i % 2)}
		q.Add(&ev, []float64{score}, []float64{2*ev.Label - 1})
	}
	if got = q.Metrics(); *got.AUC != 0.5 || *got.Recall10 != 1 || math.Abs(float64(*got.NDCG1)) > 0 ||
		math.Abs(float64(*got.NDCG10)-1/math.Log2(3)) > 1e-12 {
		t.Errorf("ranked %+v", got)
	}
}

// TestProgressiveFootprint holds what a full window takes, and the report of it, against what is said.
func TestProgressiveFootprint(t *testing.T) {
	for _, m := range []*config.Model{cycletest.RatingsModel(nil), colours()} {
		c := newCycle(t, m)
		before := cycletest.Heap()
		p := evaluate.NewProgressive(c.target, 20_000, true)
		p.StartTail()
		w := p.WindowInterval()
		if took, said := cycletest.Heap()-before, ProgressiveFootprint(20_000, c.target.Outputs(),
			c.target.Task); took > said ||
			2*took < said {
			t.Errorf("%s: progressive losses take %d bytes, said to be %d", m.Schema.Task, took, said)
		}
		runtime.KeepAlive([]any{p, w})
	}
}
