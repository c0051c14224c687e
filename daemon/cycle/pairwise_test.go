package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// clicksModel has binary labels, two entities, an hour and some more fields.
func clicksModel(more int) *config.Model {
	m := crossModel()
	m.Schema.Task, m.Schema.Cross, m.Schema.Categorical = "binary", nil, []string{"user", "item", "hour"}
	m.Train.Loss = config.Auto
	for i := range more {
		m.Schema.Categorical = append(m.Schema.Categorical, fmt.Sprint("more", i))
	}
	m.Resolve()
	return m
}

// clicked draws events: users and items have biases, items and hours an effect of each pair, users come back to items,
// more often to some, and click more often then; other fields carry nothing.
func clicked(n, more int, pairs float64, seed uint64) []event.Event {
	r := rand.New(rand.NewPCG(seed, 5))
	user, item, hours := make([]float64, 400), make([]float64, 200), make(map[[2]int]float64)
	for u := range user {
		user[u] = .7*r.NormFloat64() - 1
	}
	for i := range item {
		item[i] = .9 * r.NormFloat64()
	}
	events := make([]event.Event, n)
	for at := range events {
		u, h := r.IntN(len(user)), r.IntN(6)
		i, liked := r.IntN(len(item)), 0.0
		if r.Float64() < .3 {
			i, liked = (7*u+31*r.IntN(4))%len(item), 1.5
		}
		if _, ok := hours[[2]int{i, h}]; !ok {
			hours[[2]int{i, h}] = r.NormFloat64()
		}
		logit := user[u] + item[i] + pairs*(hours[[2]int{i, h}]+liked)
		names := []string{fmt.Sprint("u", u), fmt.Sprint("i", i), fmt.Sprint("h", h)}
		for f := range more {
			names = append(names, fmt.Sprint(r.IntN(4+8*f)))
		}
		events[at] = event.Event{Weight: 1, Categorical: names}
		if r.Float64() < 1/(1+math.Exp(-logit)) {
			events[at].Label = 1
		}
	}
	return events
}

// nameLoss returns the mean log loss of the learner on events, each before it is learned, and the learner.
func nameLoss(t *testing.T, m *config.Model, events []event.Event) (float64, *experts.Pairwise) {
	t.Helper()
	c := newCycle(t, m)
	l := experts.NewPairwise(&c.schema, c.target, m.Train.FoldIn.MaxRows)
	sum := 0.0
	out, target := make([]float64, 1), make([]float64, 1)
	for i := range events {
		l.Outputs(out, &events[i])
		c.target.Encode(target, &events[i])
		sum += math.Log1p(math.Exp(-target[0] * out[0]))
		l.Learn(&events[i], target, 1)
	}
	return sum / float64(len(events)), l
}

// in lists the pairs that a learner has in its sum.
func in(l *experts.Pairwise) (pairs [][2]int) {
	for t := range l.Terms {
		if x := &l.Terms[t]; x.In && x.With >= 0 {
			pairs = append(pairs, [2]int{x.Field, x.With})
		}
	}
	return pairs
}

// TestNamesFindPairs: pairs of names that say something are found and gain, without a cross in the schema; those that
// say nothing, and fields that do, cost little.
func TestNamesFindPairs(t *testing.T) {
	alone, l := nameLoss(t, clicksModel(0), clicked(30_000, 0, 1, 1))
	if got := in(l); !slices.Equal(got, [][2]int{{0, 1}, {1, 2}}) {
		t.Errorf("pairs %v", got)
	}
	if p := l.Terms[1].Precision; p < .7 || p > 2 {
		t.Errorf("items of variance .81: precision %g", p)
	}
	l2 := experts.NewPairwise(&event.Schema{Categorical: []string{"user", "item", "hour"}}, targetOf(t, "binary"),
		20_000)
	l2.Terms = l2.Terms[:3] // no pairs
	if plain := plainLoss(t, l2, clicked(30_000, 0, 1, 1)); alone > plain-.015 {
		t.Errorf("log loss %.4f with pairs, %.4f without", alone, plain)
	}
	noisy, l := nameLoss(t, clicksModel(5), clicked(30_000, 5, 1, 1)) // other draws of labels: the same law
	if got := in(l); !slices.Equal(got, [][2]int{{0, 1}, {1, 2}}) {
		t.Errorf("pairs %v with fields that carry nothing", got)
	}
	if noisy > alone+.01 {
		t.Errorf("log loss %.4f with fields that carry nothing, %.4f without them", noisy, alone)
	}
	for _, x := range l.Terms {
		if x.With > 2 && !x.Off {
			t.Errorf("pair %d, %d is not given up", x.Field, x.With)
		}
	}
}

// TestNamesCostNothing: where pairs say nothing the learner is as good as without them.
func TestNamesCostNothing(t *testing.T) {
	events := clicked(30_000, 2, 0, 2)
	with, l := nameLoss(t, clicksModel(2), events)
	if got := in(l); got != nil {
		t.Errorf("pairs %v", got)
	}
	plain := experts.NewPairwise(&event.Schema{Categorical: []string{"user", "item", "hour", "a", "b"}},
		targetOf(t, "binary"), 20_000)
	plain.Terms = plain.Terms[:5]
	if without := plainLoss(t, plain, events); with > without+.0004 {
		t.Errorf("log loss %.5f with pairs, %.5f without", with, without)
	}
}

func plainLoss(t *testing.T, l *experts.Pairwise, events []event.Event) float64 {
	t.Helper()
	sum := 0.0
	out := make([]float64, 1)
	for i := range events {
		l.Outputs(out, &events[i])
		y := 2*events[i].Label - 1
		sum += math.Log1p(math.Exp(-y * out[0]))
		l.Learn(&events[i], []float64{y}, 1)
	}
	return sum / float64(len(events))
}

// TestNamesStayFinite: events of one class alone, weights of 0 and great ones, lists and absent names.
func TestNamesStayFinite(t *testing.T) {
	s := &event.Schema{Categorical: []string{"a", "b"}, Multi: []string{"c"}}
	l := experts.NewPairwise(s, targetOf(t, "binary"), 100)
	out := make([]float64, 1)
	r := rand.New(rand.NewPCG(8, 8))
	for i := range 60_000 {
		ev := event.Event{Categorical: []string{fmt.Sprint(r.IntN(9)), ""}, Multi: [][]string{nil}}
		if i%2 == 0 {
			ev.Categorical[1], ev.Multi[0] = fmt.Sprint(i), []string{"x", "y", "x"}
		}
		l.Outputs(out, &ev)
		if math.IsNaN(out[0]) || math.IsInf(out[0], 0) {
			t.Fatalf("event %d: %g", i, out[0])
		}
		y := 1.0
		if i > 50_000 {
			y = -1
		}
		l.Learn(&ev, []float64{y}, []float64{0, 1, 1e300, math.Inf(1)}[i%4])
	}
	if l.Outputs(out, &event.Event{Categorical: []string{"", ""}, Multi: [][]string{nil}}); !(out[0] < 5) {
		t.Errorf("output %g after 10,000 labels of 0", out[0])
	}
	if len(l.Cells.List) > experts.NamesCells*100 {
		t.Errorf("%d cells for a limit of %d", len(l.Cells.List), experts.NamesCells*100)
	}
}

// TestNamesAreAPart: the mixture of a binary model has the learner from the first event on, and gains by it; so has
// that of numbers with three fields.
func TestNamesAreAPart(t *testing.T) {
	c := newCycle(t, clicksModel(0))
	events := clicked(10_000, 0, 1, 3)
	observeAll(c, events)
	p := c.ensemble.mixture.Part(experts.PartNames)
	if p == nil || !p.Present ||
		mixture.Mean(&p.Reported) > mixture.Mean(&c.ensemble.mixture.Part("fold_in").Reported) {
		t.Errorf("part %+v", p)
	}
	for _, task := range []string{"ordinal", "regression", "multiclass"} {
		for fields := 2; fields <= 3; fields++ {
			m := clicksModel(0)
			m.Schema.Task, m.Train.Loss, m.Schema.Categorical = task, config.Auto, m.Schema.Categorical[:fields]
			switch task {
			case "ordinal":
				m.Schema.Levels = 5
			case "multiclass":
				m.Schema.Classes = []string{"a", "b"}
			}
			m.Resolve()
			if has := newCycle(t, m).ensemble.mixture.Part(experts.PartNames) != nil; has != (fields == 3 &&
				task != "multiclass") {
				t.Errorf("%s of %d fields: %t", task, fields, has)
			}
		}
	}
}

// TestNamesOfNumbers: the same learner of labels that are numbers, in any unit, finds a pair of fields and comes near
// to the noise; an outlier of a label does not set it back.
func TestNamesOfNumbers(t *testing.T) {
	for _, unit := range []float64{1, 1e6} {
		m := clicksModel(0)
		m.Schema.Task, m.Train.Loss = "regression", config.Auto
		m.Resolve()
		c := newCycle(t, m)
		l := experts.NewPairwise(&c.schema, c.target, 20_000)
		r := rand.New(rand.NewPCG(2, 9))
		var single [2][40]float64
		var pair [40][40]float64
		for a := range 40 {
			single[0][a], single[1][a] = r.NormFloat64(), r.NormFloat64()
			for b := range 40 {
				pair[a][b] = r.NormFloat64()
			}
		}
		const n, noise = 30_000, .5
		out, sum := make([]float64, 1), 0.0
		for i := range n {
			a, b := r.IntN(40), r.IntN(40)
			ev := event.Event{Categorical: []string{fmt.Sprint(a), fmt.Sprint(b), fmt.Sprint(r.IntN(30))}}
			y := unit * (10 + single[0][a] + single[1][b] + pair[a][b] + noise*r.NormFloat64())
			if l.Outputs(out, &ev); i >= n-5000 {
				sum += (out[0] - y) * (out[0] - y) / (unit * unit) / 5000
			}
			if i%1000 == 999 && i < n-5000 {
				y *= 1e9
			}
			l.Learn(&ev, []float64{y}, 1)
		}
		if got := in(l); !slices.Equal(got, [][2]int{{0, 1}}) {
			t.Errorf("pairs %v", got)
		}
		if sum = math.Sqrt(sum); !(sum < 1.15*noise) {
			t.Errorf("unit %g: error %.4f with noise of %g", unit, sum, noise)
		}
	}
}

// TestNamesFootprint fills the learner with more pairs than it keeps.
func TestNamesFootprint(t *testing.T) {
	const rows = 5000
	m := clicksModel(0)
	m.Train.FoldIn.MaxRows = rows
	c := newCycle(t, m)
	before := cycletest.Heap()
	l := experts.NewPairwise(&c.schema, c.target, rows)
	out := make([]float64, 1)
	for i := range 40_000 {
		ev := &event.Event{Categorical: []string{fmt.Sprint(i), fmt.Sprint(i % 1000), fmt.Sprint(i % 7)}}
		l.Outputs(out, ev)
		l.Learn(ev, []float64{1}, 1)
	}
	said := experts.KindOf(experts.PartNames).Footprint(c.ensemble.setting())
	if took := cycletest.Heap() - before; took > said || 4*took < said {
		t.Errorf("the learner takes %d bytes, said to be %d", took, said)
	}
	runtime.KeepAlive(l)
}
