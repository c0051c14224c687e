package snapshot

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// foldable returns a random model with a fold-in, of the fields of testContents: with shared outputs, of two groups
// (user; all else) for the homogeneous kernel, of which coordinates are squares' sums.
func foldable(s shape, shared bool) *Contents {
	s.linear = true
	c := testContents(s)
	c.Golden = []Golden{{Input: testInputs()[0]}}
	rng := rand.New(rand.NewPCG(3, uint64(s.k)))
	d, m, k := c.NumFeatures, c.NumOutputs, s.k
	f := &FoldIn{
		Shared:     shared,
		Likelihood: map[string]string{Identity: GaussianLikelihood, Softmax: MultinomialLikelihood}[s.link],
	}
	if f.Likelihood == "" {
		f.Likelihood = LogisticLikelihood
	}
	if shared {
		for i := range c.Linear {
			c.Linear[i] = c.Linear[i/m*m]
		}
		for i := range c.Weights {
			c.Weights[i] = c.Weights[i/m*m]
		}
	}
	linear := f.numLinear(m)
	if f.Likelihood == GaussianLikelihood {
		for range linear {
			f.Noise = append(f.Noise, 0.5+rng.Float64())
		}
	}
	user := FoldInField{Name: "user", Rates: []float64{1, 0.97, 0.9}, Losses: []float64{1, 0.5, 0.7}}
	item := FoldInField{Name: "item", Rates: []float64{1}, Losses: []float64{0}}
	if s.kernel == ANOVA {
		for r := range k {
			f.Coordinates, f.Scale = append(f.Coordinates, k-1-r), append(f.Scale, 0.5+rng.Float64())
			user.Signs, item.Signs = append(user.Signs, int(1-2*(r%2))), append(item.Signs, 1)
		}
	} else {
		basis, weights := c.Basis, c.Weights
		c.NumBasis, c.Basis, c.Weights = 2*k, nil, nil
		for r := range k {
			f.Coordinates, f.Scale = append(f.Coordinates, r, r), append(f.Scale, 0.7, 1.3)
			user.Signs, item.Signs = append(user.Signs, 1, 1), append(item.Signs, 1, -1)
			for n, scale := range []float64{0.7, 1.3} {
				for o := range m {
					c.Weights = append(c.Weights, float64(1-2*n)*0.25*weights[r*m+o]/(scale*scale))
				}
			}
		}
		for j := range d {
			for r := range k {
				z, sign := basis[j*k+r], 1.0
				if j >= len(c.Vocabulary[0]) {
					sign = -1
				}
				c.Basis = append(c.Basis, 0.7*z, sign*1.3*z)
			}
		}
	}
	for range linear + k {
		user.Precision, item.Precision = append(user.Precision, 0.5+3*rng.Float64()), append(
			item.Precision,
			1+rng.Float64(),
		)
	}
	item.Precision = item.Precision[:linear] // linear weights alone
	clear(item.Signs)
	f.Fields = []FoldInField{user, item}
	c.FoldIn = f
	return c
}

// historyOf returns events of a user, with labels of the model's task.
func historyOf(c *Contents, user string, n int) []LabelledEvent {
	rng := rand.New(rand.NewPCG(9, uint64(n)))
	events := make([]LabelledEvent, n)
	for i := range events {
		e := &events[i]
		e.Input = Input{
			Categorical: []string{user, []string{"i1", "i2", "i9"}[rng.IntN(3)]},
			Numeric:     []float64{20 + 30*rng.Float64()},
			Multi:       [][]string{[]string{"a", "b"}[:rng.IntN(3)]},
		}
		e.Weight = []float64{0, 1, 0.5}[rng.IntN(3)]
		switch c.Schema.Task {
		case Regression:
			e.Label = rng.NormFloat64()
		case Binary:
			e.Label = float64(rng.IntN(2))
		case Ordinal:
			e.Label = float64(1 + rng.IntN(c.Schema.Levels))
		case Multiclass:
			e.Classes = c.Schema.Classes[rng.IntN(3):][:1]
		case Multilabel:
			e.Classes = c.Schema.Classes[rng.IntN(3):]
		}
	}
	return events
}

// foldShapes are the forms that a fold-in has, with shared outputs or not.
func foldShapes() map[string]*Contents {
	all := map[string]*Contents{}
	for _, s := range shapes {
		classes := s.task == Multiclass || s.task == Multilabel
		if _, degree := s.kernelOf(); s.mapped != "" || s.k == 0 ||
			degree == cubic { // no posterior has products of three
			continue
		}
		all[s.String()] = foldable(s, !classes)
	}
	return all
}

func TestFoldIsTheGaussianPosterior(t *testing.T) {
	for name, c := range foldShapes() {
		t.Run(name, func(t *testing.T) {
			m, err := NewModel(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, user := range []string{"u9", "u1"} { // new and known
				center := make([]float64, len(c.FoldIn.Fields[0].Precision))
				if user == "u1" {
					linear := c.FoldIn.numLinear(c.NumOutputs)
					copy(center, c.Linear[:linear])
					for v, r := range c.FoldIn.Coordinates {
						center[linear+r] = c.Basis[v] / (float64(c.FoldIn.Fields[0].Signs[v]) * c.FoldIn.Scale[v])
					}
				}
				for _, held := range []int{0, 7, 12} { // of 12 events
					slow, events := newSlowFold(c, center), historyOf(c, user, 12)
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
						t.Errorf(
							"%d events of %q folded in, want %d of %s",
							over.Folded(),
							over.Entities(),
							len(events),
							user,
						)
					}
					got, plain, s := make([]float64, c.NumOutputs), make([]float64, c.NumOutputs), Scratch{}
					for _, e := range historyOf(c, user, 5) {
						want := slow.with(slow.mixed(), &e.Input)
						unseen := over.Score(got, &e.Input, &s)
						if !closeTo(got, want, 1e-9) {
							t.Errorf("%s: outputs %v, want %v", user, got, want)
						}
						known := m.Score(plain, &e.Input, &s)
						if user == "u9" && unseen != known-1 || user == "u1" && unseen != known {
							t.Errorf("%s: %d unseen names, %d without a history", user, unseen, known)
						}
						if same := closeTo(got, plain, 1e-9); same != (user == "u1" && held == len(events)) {
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
	for name, c := range foldShapes() {
		t.Run(name, func(t *testing.T) {
			m, err := NewModel(c)
			if err != nil {
				t.Fatal(err)
			}
			events := append(historyOf(c, "u9", 6), historyOf(c, "u2", 3)...)
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
			var all []Input
			for _, user := range []string{"u1", "u2", "u9"} {
				for _, item := range []string{"i1", "i2"} {
					all = append(
						all,
						Input{Categorical: []string{user, item}, Numeric: []float64{33}, Multi: [][]string{{"a"}}},
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
				if !closeTo(a, b, 1e-9) || !slices.Equal(a, batch[i*n:(i+1)*n]) {
					t.Errorf(
						"%q: folded %v, learned one by one %v, in a batch %v",
						in.Categorical,
						a,
						b,
						batch[i*n:(i+1)*n],
					)
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
				if !closeTo(b, a, 1e-9) || named == 0 {
					t.Errorf("%q: terms add up to %v, want %v; %d name the user", in.Categorical, b, a, named)
				}
			}
			q := Query{
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
					&Input{Categorical: []string{"u9", item.Name}, Numeric: []float64{33}, Multi: [][]string{{"a"}}},
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
			if _, err := whole.TopK(nil, &q, &s); !errors.Is(err, ErrInput) {
				t.Errorf("ranking over the field of the history: %v, want ErrInput", err)
			}
		})
	}
}

func TestFoldRefuses(t *testing.T) {
	c := foldable(shape{Ordinal, OrdinalLink, ANOVA, 2, true, ""}, true)
	c.Schema.Optional = []string{"tags"}
	m, err := NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	good := historyOf(c, "u1", 3)
	var pooled Overlay
	for want, spoil := range map[string]func(e *LabelledEvent){
		`event 1: bad event: missing_label`:           func(e *LabelledEvent) { e.Label = math.NaN() },
		`event 1: bad event: label "y" is 2.5`:        func(e *LabelledEvent) { e.Label = 2.5 },
		`event 1: bad event: label "y" is 6`:          func(e *LabelledEvent) { e.Label = 6 },
		`has no field "user"`:                         func(e *LabelledEvent) { e.Categorical = []string{"", "i1"} },
		`has no field "item"`:                         func(e *LabelledEvent) { e.Categorical = []string{"u1", ""} },
		`event 1: bad event: 1 categorical fields`:    func(e *LabelledEvent) { e.Categorical = []string{"u1"} },
		`event 1: bad event: weight -1`:               func(e *LabelledEvent) { e.Weight = -1 },
		`events of "u1" have numbers too far from`:    func(e *LabelledEvent) { e.Numeric = []float64{1e308} },
		`event 1: bad event: weight +Inf, want a pos`: func(e *LabelledEvent) { e.Weight = math.Inf(1) },
	} {
		events := slices.Clone(good)
		spoil(&events[1])
		over, err := m.Fold(events)
		if !errors.Is(err, ErrInput) || !strings.Contains(fmt.Sprint(err), want) || over != nil {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := m.FoldInto(&pooled, "", events); err == nil || len(pooled.Entities()) != 0 || pooled.Folded() != 0 {
			t.Errorf("%s: %v, and the overlay has %q", want, err, pooled.Entities())
		}
	}
	if _, err := m.Fold(make([]LabelledEvent, MaxHistory+1)); !errors.Is(err, ErrInput) ||
		!strings.Contains(err.Error(), "at most 1000 (MaxHistory)") {
		t.Errorf("too long a history: %v", err)
	}
	if err := m.FoldInto(&pooled, "tags", good); !errors.Is(err, ErrInput) {
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
	c := foldable(shape{Ordinal, OrdinalLink, ANOVA, 5, true, ""}, true)
	m, err := NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	var pooled Overlay
	var s Scratch
	a, b := make([]float64, c.NumOutputs), make([]float64, c.NumOutputs)
	histories := [][]LabelledEvent{
		historyOf(c, "u9", 9),
		append(historyOf(c, "u1", 4), historyOf(c, "u2", 4)...),
		historyOf(c, "u3", 5),
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
	if bytes := pooled.shape.bytes(); bytes > 10<<10 {
		t.Errorf("a row of %d bytes", bytes)
	}
}

// TestLabelledFromMap reads labels of every task.
func TestLabelledFromMap(t *testing.T) {
	number := &Schema{Task: Ordinal, Label: "y", Levels: 5, Categorical: []string{"user"}}
	class := &Schema{Task: Multilabel, Label: "y", Classes: []string{"a", "b"}}
	if e, err := number.LabelledFromMap(map[string]any{"user": "u", "y": 4}); err != nil || e.Label != 4 ||
		e.Categorical[0] != "u" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := class.LabelledFromMap(map[string]any{"y": []any{"b", "a"}}); err != nil ||
		!slices.Equal(e.Classes, []string{"b", "a"}) {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := class.LabelledFromMap(map[string]any{"y": "b"}); err != nil ||
		!slices.Equal(e.Classes, []string{"b"}) {
		t.Errorf("%+v, %v", e, err)
	}
	for s, events := range map[*Schema][]map[string]any{number: {{}, {"y": "4"}, {"y": nil}, {"y": 1, "user": 1.5}},
		class: {{}, {"y": 3.5}, {"y": []any{3.5}}}} {
		for _, event := range events {
			if e, err := s.LabelledFromMap(event); !errors.Is(err, ErrInput) {
				t.Errorf("%v: %+v, %v, want ErrInput", event, e, err)
			}
		}
	}
}

// benchFold returns a model of 4 outputs and k = 20 with a fold-in, and 20 events of a new user.
func benchFold(b *testing.B) (*Model, []LabelledEvent) {
	c := foldable(shape{Ordinal, OrdinalLink, ANOVA, 20, true, ""}, true)
	m, err := NewModel(c)
	if err != nil {
		b.Fatal(err)
	}
	return m, historyOf(c, "u9", 20)
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
		in := Input{Categorical: []string{user, "i1"}}
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
