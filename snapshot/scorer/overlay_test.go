package scorer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestFoldIsTheGaussianPosterior(t *testing.T) {
	for name, c := range snapshottest.FoldShapes() {
		t.Run(name, func(t *testing.T) {
			m, err := NewModel(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, user := range []string{"u9", "u1"} { // new and known
				center := make([]float64, len(c.FoldIn.Fields[0].Precision))
				if user == "u1" {
					linear := c.FoldIn.NumLinear(c.NumOutputs)
					copy(center, c.Linear[:linear])
					for v, r := range c.FoldIn.Coordinates {
						center[linear+r] = c.Basis[v] / (float64(c.FoldIn.Fields[0].Signs[v]) * c.FoldIn.Scale[v])
					}
				}
				for _, held := range []int{0, 7, 12} { // of 12 events
					slow, events := newSlowFold(c, center), snapshottest.HistoryOf(c, user, 12)
					slow.known = user == "u1"
					for i := range events {
						events[i].Held = i < held
						slow.learn(m, &events[i])
					}
					over, err := m.Fold(events)
					if err != nil {
						t.Fatal(err)
					}
					if over.Folded() != len(events) || !slices.Equal(over.Entities(), []string{user}) {
						t.Errorf("%d events of %q folded in, want %d of %s", over.Folded(), over.Entities(),
							len(events), user)
					}
					got, plain, s := make([]float64, c.NumOutputs), make([]float64, c.NumOutputs), Scratch{}
					for _, e := range snapshottest.HistoryOf(c, user, 5) {
						want := slow.with(slow.mixed(), &e.Input)
						unseen := over.Score(got, &e.Input, &s)
						if !rowmath.CloseTo(got, want, 1e-9) {
							t.Errorf("%s: outputs %v, want %v", user, got, want)
						}
						known := m.Score(plain, &e.Input, &s)
						if user == "u9" && unseen != known-1 || user == "u1" && unseen != known {
							t.Errorf("%s: %d unseen names, %d without a history", user, unseen, known)
						}
						if same := rowmath.CloseTo(got, plain, 1e-9); same != (user == "u1" && held == len(events)) {
							t.Errorf("%s, %d events held: outputs %v, the version's own are %v", user, held, got, plain)
						}
					}
				}
			}
		})
	}
}

// TestOverlayScoresAlike: all ways of scoring agree, other entities stay as they are, and Learn is Fold of one event
// more.
func TestOverlayScoresAlike(t *testing.T) {
	for name, c := range snapshottest.FoldShapes() {
		t.Run(name, func(t *testing.T) {
			m, err := NewModel(c)
			if err != nil {
				t.Fatal(err)
			}
			events := append(snapshottest.HistoryOf(c, "u9", 6), snapshottest.HistoryOf(c, "u2", 3)...)
			whole, err := m.Fold(events)
			if err != nil {
				t.Fatal(err)
			}
			step, err := m.Fold(nil)
			for i := range events {
				before := step
				if err == nil {
					step, err = before.Learn(&events[i])
				}
				if err == nil && before.Folded() != i {
					t.Fatalf("an overlay of %d events has %d once another one learned from it", i, before.Folded())
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			var s Scratch
			n := c.NumOutputs
			a, b, plain := make([]float64, n), make([]float64, n), make([]float64, n)
			var all []format.Input
			for _, user := range []string{"u1", "u2", "u9"} {
				for _, item := range []string{"i1", "i2"} {
					all = append(
						all,
						format.Input{Categorical: []string{user, item}, Numeric: []float64{33}, Multi: [][]string{{"a"}}},
					)
				}
			}
			batch := make([]float64, n*len(all))
			whole.ScoreBatch(batch, all, &s)
			for i := range all {
				in := &all[i]
				whole.Score(a, in, &s)
				step.Score(b, in, &s)
				m.Score(plain, in, &s)
				if !rowmath.CloseTo(a, b, 1e-9) || !slices.Equal(a, batch[i*n:(i+1)*n]) {
					t.Errorf("%q: folded %v, learned one by one %v, in a batch %v", in.Categorical, a, b,
						batch[i*n:(i+1)*n])
				}
				if other := in.Categorical[0] == "u1"; slices.Equal(a, plain) != other {
					t.Errorf("%q: outputs %v, %v without history", in.Categorical, a, plain)
				}
				p, err := whole.Predict(in)
				if err != nil || !slices.Equal(p.Outputs, a) || slices.Contains(p.Unseen, "user=u9") {
					t.Errorf("%q: predicted %v, unseen %q, %v", in.Categorical, p.Outputs, p.Unseen, err)
				}
				e, err := whole.Explain(in)
				if err != nil {
					t.Fatal(err)
				}
				clear(b)
				named := 0
				for _, term := range e.Terms {
					for o, v := range term.Contribution {
						b[o] += v
					}
					if slices.Contains(term.Features, "user="+in.Categorical[0]) {
						named++
					}
				}
				if !rowmath.CloseTo(b, a, 1e-9) || named == 0 {
					t.Errorf("%q: terms add up to %v, want %v; %d name the user", in.Categorical, b, a, named)
				}
			}
			q := format.Query{
				Input: all[4],
				Over:  "item",
				K:     2,
				Class: strings.Join(c.Schema.Classes[:min(1, len(c.Schema.Classes))], ""),
			}
			items, err := whole.TopK(nil, &q, &s)
			if err != nil || len(items) != 2 {
				t.Fatalf("%v, %v", items, err)
			}
			output, by, _ := m.rankingOf(q.Class)
			for _, item := range items {
				whole.Score(
					a,
					&format.Input{Categorical: []string{"u9", item.Name}, Numeric: []float64{33}, Multi: [][]string{{"a"}}},
					&s,
				)
				key := a[output]
				if by != byOutput {
					key = m.key(by, output, a)
				}
				if want := m.itemValue(by, key); math.Abs(item.Value-want) > 1e-9 {
					t.Errorf("%s ranked with %g, want %g", item.Name, item.Value, want)
				}
			}
			q.Over = "user"
			if _, err := whole.TopK(nil, &q, &s); !errors.Is(err, disk.ErrInput) {
				t.Errorf("ranking over the field of the history: %v, want ErrInput", err)
			}
		})
	}
}

func TestFoldRefuses(t *testing.T) {
	c := snapshottest.Foldable(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA,
		K: 2, Linear: true, Mapped: ""}, true)
	c.Schema.Optional = []string{"tags"}
	m, err := NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	good := snapshottest.HistoryOf(c, "u1", 3)
	var pooled Overlay
	for want, spoil := range map[string]func(e *format.LabelledEvent){
		`event 1: bad event: missing_label`:           func(e *format.LabelledEvent) { e.Label = math.NaN() },
		`event 1: bad event: label "y" is 2.5`:        func(e *format.LabelledEvent) { e.Label = 2.5 },
		`event 1: bad event: label "y" is 6`:          func(e *format.LabelledEvent) { e.Label = 6 },
		`has no field "user"`:                         func(e *format.LabelledEvent) { e.Categorical = []string{"", "i1"} },
		`has no field "item"`:                         func(e *format.LabelledEvent) { e.Categorical = []string{"u1", ""} },
		`event 1: bad event: 1 categorical fields`:    func(e *format.LabelledEvent) { e.Categorical = []string{"u1"} },
		`event 1: bad event: weight -1`:               func(e *format.LabelledEvent) { e.Weight = -1 },
		`events of "u1" have numbers too far from`:    func(e *format.LabelledEvent) { e.Numeric = []float64{1e308} },
		`event 1: bad event: weight +Inf, want a pos`: func(e *format.LabelledEvent) { e.Weight = math.Inf(1) },
	} {
		events := slices.Clone(good)
		spoil(&events[1])
		over, err := m.Fold(events)
		if !errors.Is(err, disk.ErrInput) || !strings.Contains(fmt.Sprint(err), want) || over != nil {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := m.FoldInto(&pooled, "", events); err == nil || len(pooled.Entities()) != 0 || pooled.Folded() != 0 {
			t.Errorf("%s: %v, and the overlay has %q", want, err, pooled.Entities())
		}
	}
	if _, err := m.Fold(make([]format.LabelledEvent, MaxHistory+1)); !errors.Is(err, disk.ErrInput) ||
		!strings.Contains(err.Error(), "at most 1000 (MaxHistory)") {
		t.Errorf("too long a history: %v", err)
	}
	if err := m.FoldInto(&pooled, "tags", good); !errors.Is(err, disk.ErrInput) {
		t.Errorf("a field without fold-in: %v", err)
	}
	if err := m.FoldInto(&pooled, "item", good); err != nil || len(pooled.Entities()) == 0 ||
		pooled.Entities()[0] == "u1" {
		t.Errorf("folded by item: %v, %q", err, pooled.Entities())
	}
	if plain, err := m.Fold(nil); err != nil || plain.Folded() != 0 {
		t.Errorf("no history: %v", err)
	}
}

// TestPooledFoldIsTheSame: an overlay made in the memory of another one is the same, and once it has grown takes no
// more.
func TestPooledFoldIsTheSame(t *testing.T) {
	c := snapshottest.Foldable(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA,
		K: 5, Linear: true, Mapped: ""}, true)
	m, err := NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	var pooled Overlay
	var s Scratch
	a, b := make([]float64, c.NumOutputs), make([]float64, c.NumOutputs)
	histories := [][]format.LabelledEvent{
		snapshottest.HistoryOf(c, "u9", 9),
		append(snapshottest.HistoryOf(c, "u1", 4), snapshottest.HistoryOf(c, "u2", 4)...),
		snapshottest.HistoryOf(c, "u3", 5),
	}
	for range 2 {
		for _, events := range histories {
			fresh, err := m.Fold(events)
			if err == nil {
				err = m.FoldInto(&pooled, "", events)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				fresh.Score(a, &events[i].Input, &s)
				if pooled.Score(b, &events[i].Input, &s); !slices.Equal(a, b) {
					t.Errorf("pooled %v, want %v", b, a)
				}
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := m.FoldInto(&pooled, "", histories[0]); err != nil {
			t.Error(err)
		}
		pooled.Score(a, &histories[0][0].Input, &s)
	}); n > 0.5 && !tier.UnderRace() {
		// the race detector, and now and then the collector, empty the pool of working memory
		t.Errorf("%g allocations of a pooled fold and a score", n)
	}
	if bytes := pooled.shape.Bytes(); bytes > 10<<10 {
		t.Errorf("a row of %d bytes", bytes)
	}
}

// benchFold returns a model of 4 outputs and k = 20 with a fold-in, and 20 events of a new user.
func benchFold(b *testing.B) (*Model, []format.LabelledEvent) {
	c := snapshottest.Foldable(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA,
		K: 20, Linear: true, Mapped: ""}, true)
	m, err := NewModel(c)
	if err != nil {
		b.Fatal(err)
	}
	return m, snapshottest.HistoryOf(c, "u9", 20)
}

func BenchmarkFold(b *testing.B) {
	m, events := benchFold(b)
	var o Overlay
	b.ReportAllocs()
	for b.Loop() {
		if err := m.FoldInto(&o, "", events); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScoreOverlay(b *testing.B) {
	m, events := benchFold(b)
	o, err := m.Fold(events)
	if err != nil {
		b.Fatal(err)
	}
	var s Scratch
	dst := make([]float64, m.NumOutputs())
	for name, user := range map[string]string{"known": "u1", "folded": "u9"} {
		in := format.Input{Categorical: []string{user, "i1"}}
		b.Run(name+"-model", func(b *testing.B) {
			if user == "u9" {
				b.Skip("the model does not know the name")
			}
			b.ReportAllocs()
			for b.Loop() {
				m.Score(dst, &in, &s)
			}
		})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.Score(dst, &in, &s)
			}
		})
	}
}
