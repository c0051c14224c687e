package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/cycletest/refits"
	"github.com/refitd/refitd/daemon/cycle/encode"
	encoded "github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/snapshot/format"
)

// vectorItems is how many items there are, of which every tenth has no event; vectorDim how long their vectors are.
const (
	vectorItems = 200
	vectorDim   = 20
)

// vectorModel has a table of items with vectors.
func vectorModel() *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels = "regression", 0
		m.Publish.KeepSample = true
		m.Tables = []config.Table{{Name: "items", Of: "item", Vector: []config.Vector{{Name: "text", Dim: vectorDim}}}}
	})
}

// vectorWorld returns events whose items are as good as their vectors say, the row of each item, and how good it is.
func vectorWorld(seed uint64, n int) (events []event.Event, rows []*tables.Row, good []float64) {
	r := rand.New(rand.NewPCG(seed, 5))
	direction := make([]float64, vectorDim)
	for i := range direction {
		direction[i] = r.NormFloat64() / math.Sqrt(vectorDim)
	}
	for i := range vectorItems {
		row, sum := &tables.Row{Event: event.Event{Categorical: []string{fmt.Sprint("i", i)}, Weight: 1}}, 0.0
		for c := range vectorDim {
			v := r.NormFloat64()
			row.Vectors = append(row.Vectors, float32(3+v))
			sum += v * direction[c]
		}
		rows, good = append(rows, row), append(good, sum)
	}
	for i := range n {
		u, v := r.IntN(60), r.IntN(vectorItems)
		if v%10 == 0 {
			v++
		}
		events = append(events, event.Event{Label: good[v] + 0.3*r.NormFloat64(), Weight: 1, Time: int64(i),
			Categorical: []string{fmt.Sprint("u", u), rows[v].Name()}})
	}
	return events, rows, good
}

// lossOf returns the mean squared error of a version on the items without events, or on the others.
func lossOf(c *format.Contents, good []float64, isCold bool) float64 {
	rows := make(map[string]int)
	for j, name := range c.Vocabulary[1] {
		rows[name] = len(c.Vocabulary[0]) + j
	}
	sum, n := 0.0, 0
	for i, want := range good {
		if (i%10 == 0) != isCold {
			continue
		}
		at, ok := rows[fmt.Sprint("i", i)]
		got := 0.0
		if ok {
			got = c.Linear[at]
		}
		sum, n = sum+(got-want)*(got-want), n+1
	}
	return sum / float64(n)
}

// TestVectors: an item without events has the row that its vector says, in the version that a refit makes, and soon
// after its record in what is live; known items are no worse. The refit is a function of sample and tables: its record
// gives it again, whatever the number of processors.
func TestVectors(t *testing.T) {
	events, rows, good := vectorWorld(1, 3000)
	m := vectorModel()
	c := newCycle(t, m)
	for _, row := range rows[:vectorItems-10] { // the last ten come later, of which i190 has no event
		c.Tables().Put(0, row)
	}
	sample := func() *encode.Sample {
		s := refits.SampleOf(events)
		s.SetTables(c.Tables().Snapshot())
		return s
	}
	ch := mustRefit(t, c, sample())
	if len(ch.Vectors) != 1 || len(ch.Vectors[0].Parts[0].Projection.Axes) != vectorDim {
		t.Fatalf("priors %+v", ch.Vectors)
	}
	contents := ch.Contents(m)
	bare := mustRefit(t, newCycle(t, m), refits.SampleOf(events)).Contents(m)
	cold, none := lossOf(contents, good[:vectorItems-10], true), lossOf(bare, good[:vectorItems-10], true)
	if warm, was := lossOf(contents, good, false), lossOf(bare, good, false); !(cold < 0.1*none) || !(warm < 1.02*was) {
		t.Errorf("loss of items without events %g, %g without vectors; of others %g and %g", cold, none, warm, was)
	}
	refits.Repeated(t, ch, m, 1)
	func() {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
		other := newCycle(t, m)
		if got, want := refits.PayloadOf(t, mustRefit(t, other, sample()), m), refits.PayloadOf(t, ch, m); got != want {
			t.Errorf("payload %s on three processors, %s on others", got, want)
		}
	}()
	ch.Version.Version = 1
	c.Install(ch)
	observeAll(c, events[:200])
	expected := 0.0
	begins := func() float64 {
		live, _, err := c.Live(time.Unix(1, 0), time.Unix(1, 0), "test")
		if err != nil {
			t.Fatal(err)
		}
		in := format.Input{Categorical: []string{"u1", "i190"}}
		with, err := live.Predict(&in)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := live.Column(1, "i190"); !ok {
			return math.NaN()
		}
		expected, in.Categorical[1] = with.Value, "nothing"
		without, err := live.Predict(&in)
		if err != nil {
			t.Fatal(err)
		}
		return with.Value - without.Value
	}
	if before := begins(); !math.IsNaN(before) {
		t.Errorf("i190 is worth %g before its record", before)
	}
	c.Tables().Put(0, rows[190])
	if got := begins(); !(math.Abs(got-good[190]) < 0.3*math.Abs(good[190])+0.1) {
		t.Errorf("i190 is worth %g in what is live, want about %g", got, good[190])
	}
	before := begins()
	// Its first event says what is known, and changes nothing.
	c.Observe(&event.Event{Label: expected, Weight: 1, Time: 9999, Categorical: []string{"u1", "i190"}}, true,
		encoded.Position{Topic: "t", Offset: 200}, nil, nil)
	if after := begins(); !(math.Abs(after-before) < 0.2*math.Abs(before)) {
		t.Errorf("after an event as expected i190 is worth %g, %g before", after, before)
	}
}
