package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestFoldAfterDeltas: events are folded into a model with deltas as into the version that it would be.
func TestFoldAfterDeltas(t *testing.T) {
	for name, c := range foldShapes() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, 8))
			m := chained(t, c)
			var err error
			for range 12 {
				m, err = m.Apply(someDelta(rng, m))
				must(t, err)
			}
			version, err := NewModel(m.Contents())
			must(t, err)
			var users []string
			for l := range m.layers {
				for _, a := range m.layers[l].names {
					if a.Field == 0 {
						users = append(users, a.Name)
					}
				}
			}
			if len(users) == 0 {
				t.Fatal("no user was added")
			}
			for _, user := range []string{"u1", "u99", users[0], users[len(users)-1]} {
				history := historyOf(c, user, 7)
				a, err := m.Fold(history)
				must(t, err)
				b, err := version.Fold(history)
				must(t, err)
				if !reflect.DeepEqual(a.rows, b.rows) {
					t.Fatalf("%s: row %+v, want %+v", user, a.rows, b.rows)
				}
				x, y := make([]float64, m.NumOutputs()), make([]float64, m.NumOutputs())
				var s Scratch
				for i, in := range chainInputs(rng, m.Contents()) {
					if in.Categorical != nil {
						in.Categorical[0] = user
					}
					if n, want := a.Score(x, &in, &s), b.Score(y, &in, &s); n != want || !sameBits(x, y) {
						t.Errorf("%s, event %d: %v with %d unseen, want %v with %d", user, i, x, n, y, want)
					}
				}
			}
		})
	}
}

// TestChainsFork: a model may be given several next deltas. Each makes a separate chain, and none changes another.
func TestChainsFork(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	type chain struct {
		m    *Model
		slow *slowChain
	}
	c := withCrosses(shape{Ordinal, OrdinalLink, ANOVA, 5, true, ""})
	m := chained(t, c)
	fork := func(x chain, ds []*Delta) chain {
		slow := newSlowChain(c)
		for _, d := range ds {
			slow.apply(d)
		}
		return chain{x.m, slow}
	}
	chains, deltas := []chain{{m, newSlowChain(c)}}, [][]*Delta{nil}
	for range 60 {
		at := rng.IntN(len(chains))
		d := someDelta(rng, chains[at].m)
		next, err := chains[at].m.Apply(d)
		must(t, err)
		ds := append(slices.Clone(deltas[at]), d)
		chains, deltas = append(chains, fork(chain{m: next}, ds)), append(deltas, ds)
	}
	for i, x := range chains {
		got, err := PayloadDigest(x.m.Contents())
		must(t, err)
		want, err := PayloadDigest(x.slow.contents())
		must(t, err)
		if got != want {
			t.Errorf("chain %d of %d deltas: %s, want %s", i, len(deltas[i]), got, want)
		}
	}
}

// TestReadersWhileDeltasArrive: a model says the same for as long as anybody holds it.
func TestReadersWhileDeltasArrive(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	first := chained(t, testContents(shape{Ordinal, OrdinalLink, ANOVA, 5, true, ""}))
	var current atomic.Pointer[Model]
	current.Store(first)
	stop, wait := make(chan struct{}), sync.WaitGroup{}
	inputs := testInputs()
	for range 3 {
		wait.Go(func() {
			var s Scratch
			a, b := make([]float64, 4), make([]float64, 4)
			for done := false; !done; {
				select {
				case <-stop:
					done = true
				default:
				}
				m := current.Load()
				for i := range inputs {
					m.Score(a, &inputs[i], &s)
					_, err := m.TopK(nil, &Query{Input: inputs[i], Over: "item", K: 3}, &s)
					if m.Score(b, &inputs[i], &s); err != nil || !sameBits(a, b) {
						t.Errorf("event %d: %v, then %v (%v)", i, a, b, err)
						return
					}
				}
			}
		})
	}
	want := first.Contents()
	for m := first; m.Position().Sequence < 200; {
		next, err := m.Apply(someDelta(rng, m))
		must(t, err)
		m = next
		current.Store(m)
	}
	close(stop)
	wait.Wait()
	if !reflect.DeepEqual(first.Contents(), want) {
		t.Error("the version was changed by its deltas")
	}
}

// TestNamesMerge: names are in few layers however they came, and each has its column.
func TestNamesMerge(t *testing.T) {
	m := chained(t, testContents(shape{Regression, Identity, ANOVA, 1, true, ""}))
	rng := rand.New(rand.NewPCG(4, 5))
	columns, most := map[AddedName]int32{}, 0
	for range 500 {
		d := rowsDelta(rng, m, 1, 1+rng.IntN(3))
		for i := range d.Added {
			d.Added[i].Field = rng.IntN(3)
			columns[d.Added[i]] = d.Columns[1+i]
		}
		next, err := m.Apply(d)
		must(t, err)
		m = next
		most = max(most, len(m.layers))
	}
	if most > 11 {
		t.Errorf("%d layers of %d names", most, len(columns))
	}
	for a, want := range columns {
		if j, ok := m.Column(a.Field, a.Name); !ok || j != want ||
			m.columnName(int(j)) != m.Schema().Named()[a.Field]+"="+a.Name {
			t.Fatalf("%v has column %d (%v), %q, want %d", a, j, ok, m.columnName(int(j)), want)
		}
	}
}

func TestScoreAfterDeltasDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 6))
	m := chained(t, withCrosses(shape{Ordinal, OrdinalLink, ANOVA, 5, true, ""}))
	for range 20 {
		next, err := m.Apply(someDelta(rng, m))
		must(t, err)
		m = next
	}
	dst, s, inputs := make([]float64, m.NumOutputs()), new(Scratch), chainInputs(rng, m.Contents())
	items := make([]Item, 0, 100)
	run := func() {
		for i := range inputs {
			m.Score(dst, &inputs[i], s)
			_, err := m.TopK(items, &Query{Input: inputs[i], Over: "item", K: 10}, s)
			must(t, err)
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("Score and TopK allocate %g times", n)
	}
}

// What the deltas in testdata/deltas1 lead to from the version in testdata/v1.
const (
	firstDeltas       = "testdata/deltas1"
	firstDeltaPayload = "sha256:649446d2cac1eadeaf4f60bdc3f97a398ffa52eb57423acfc373b3b99acbf50b"
	firstDeltaDigest  = "sha256:1a1989c2475821204ff247cbdaa4a72cbe0ab4878f4a8462dbc01f1f77b0cbe6"
)

var firstDeltaOutputs = []float64{-0.03125, 0.4375}

// testdata/deltas1 was written by the first build that had this format, signed with the key of signerOf(t, 1). It is
// never written again.
func TestFirstDeltaFormat(t *testing.T) {
	m, err := Open("testdata/v1", "ratings", Selector{})
	must(t, err)
	b, err := os.ReadFile(firstDeltas)
	must(t, err)
	r, cuts := bytes.NewReader(b), [][]Cut(nil)
	for {
		frame, err := ReadFrame(r)
		if err == io.EOF {
			break
		}
		must(t, err)
		d, err := DecodeDelta(frame, m.Shape(), signerOf(t, 1).Keys())
		must(t, err)
		m, err = m.Apply(d)
		must(t, err)
		cuts = append(cuts, m.Position().Cut)
	}
	want := [][]Cut{
		{{"ratings", 0, 115}, {"ratings", 1, 50}},
		{{"ratings", 0, 120}, {"ratings", 1, 70}},
	} // a delta says which partitions moved on
	if !reflect.DeepEqual(cuts, want) {
		t.Errorf("cuts %v, want %v", cuts, want)
	}
	at := m.Position()
	if digest, err := PayloadDigest(m.Contents()); err != nil || digest != firstDeltaPayload ||
		at.PayloadDigest != digest {
		t.Errorf("payload_digest %s (%v), said %s, want %s", digest, err, at.PayloadDigest, firstDeltaPayload)
	}
	if at.Version != 1 || at.Sequence != 2 || at.Digest != firstDeltaDigest {
		t.Errorf("at %+v", at)
	}
	in, err := m.Schema().
		InputFromMap(map[string]any{"user": "u9", "item": "i2", "tags": []any{"new", "old"}, "age": 50.0})
	must(t, err)
	p, err := m.Predict(&in)
	must(t, err)
	if fmt.Sprint(p.Outputs) != fmt.Sprint(firstDeltaOutputs) || len(p.Unseen) > 0 {
		t.Errorf("outputs %v, want %v; unseen %q", p.Outputs, firstDeltaOutputs, p.Unseen)
	}
}
