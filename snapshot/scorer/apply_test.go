package scorer

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// TestFoldAfterDeltas: events are folded into a model with deltas as into the version that it would be.
func TestFoldAfterDeltas(t *testing.T) {
	for name, c := range snapshottest.FoldShapes() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, 8))
			m := chained(t, c)
			var err error
			for range 12 {
				m, err = m.Apply(snapshottest.SomeDelta(rng, m))
				snapshottest.Must(t, err)
			}
			version, err := NewModel(m.Contents())
			snapshottest.Must(t, err)
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
				history := snapshottest.HistoryOf(c, user, 7)
				a, err := m.Fold(history)
				snapshottest.Must(t, err)
				b, err := version.Fold(history)
				snapshottest.Must(t, err)
				if !reflect.DeepEqual(a.rows, b.rows) {
					t.Fatalf("%s: row %+v, want %+v", user, a.rows, b.rows)
				}
				x, y := make([]float64, m.NumOutputs()), make([]float64, m.NumOutputs())
				var s Scratch
				for i, in := range snapshottest.ChainInputs(rng, m.Contents()) {
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
	c := snapshottest.WithCrosses(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA,
		K: 5, Linear: true, Mapped: ""})
	m := chained(t, c)
	fork := func(x chain, ds []*format.Delta) chain {
		slow := newSlowChain(c)
		for _, d := range ds {
			slow.apply(d)
		}
		return chain{x.m, slow}
	}
	chains, deltas := []chain{{m, newSlowChain(c)}}, [][]*format.Delta{nil}
	for range 60 {
		at := rng.IntN(len(chains))
		d := snapshottest.SomeDelta(rng, chains[at].m)
		next, err := chains[at].m.Apply(d)
		snapshottest.Must(t, err)
		ds := append(slices.Clone(deltas[at]), d)
		chains, deltas = append(chains, fork(chain{m: next}, ds)), append(deltas, ds)
	}
	for i, x := range chains {
		got, err := format.PayloadDigest(x.m.Contents())
		snapshottest.Must(t, err)
		want, err := format.PayloadDigest(x.slow.contents())
		snapshottest.Must(t, err)
		if got != want {
			t.Errorf("chain %d of %d deltas: %s, want %s", i, len(deltas[i]), got, want)
		}
	}
}

// TestReadersWhileDeltasArrive: a model says the same for as long as anybody holds it.
func TestReadersWhileDeltasArrive(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	first := chained(t, snapshottest.TestContents(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink,
		Kernel: format.ANOVA, K: 5, Linear: true, Mapped: ""}))
	var current atomic.Pointer[Model]
	current.Store(first)
	stop, wait := make(chan struct{}), sync.WaitGroup{}
	inputs := snapshottest.TestInputs()
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
					_, err := m.TopK(nil, &format.Query{Input: inputs[i], Over: "item", K: 3}, &s)
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
		next, err := m.Apply(snapshottest.SomeDelta(rng, m))
		snapshottest.Must(t, err)
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
	m := chained(t, snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity,
		Kernel: format.ANOVA, K: 1, Linear: true, Mapped: ""}))
	rng := rand.New(rand.NewPCG(4, 5))
	columns, most := map[format.AddedName]int32{}, 0
	for range 500 {
		d := snapshottest.RowsDelta(rng, m, 1, 1+rng.IntN(3))
		for i := range d.Added {
			d.Added[i].Field = rng.IntN(3)
			columns[d.Added[i]] = d.Columns[1+i]
		}
		next, err := m.Apply(d)
		snapshottest.Must(t, err)
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
	m := chained(t, snapshottest.WithCrosses(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink,
		Kernel: format.ANOVA, K: 5, Linear: true, Mapped: ""}))
	for range 20 {
		next, err := m.Apply(snapshottest.SomeDelta(rng, m))
		snapshottest.Must(t, err)
		m = next
	}
	dst, s, inputs := make([]float64, m.NumOutputs()), new(Scratch), snapshottest.ChainInputs(rng, m.Contents())
	items := make([]format.Item, 0, 100)
	run := func() {
		for i := range inputs {
			m.Score(dst, &inputs[i], s)
			_, err := m.TopK(items, &format.Query{Input: inputs[i], Over: "item", K: 10}, s)
			snapshottest.Must(t, err)
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("Score and TopK allocate %g times", n)
	}
}
