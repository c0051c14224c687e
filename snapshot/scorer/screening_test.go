package scorer

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// screened returns a model of a shape with more names of items than TopK ranks without a screen: some are alike, some
// lie far from the others, some say nothing.
func screened(t *testing.T, s snapshottest.Shape) *Model {
	t.Helper()
	c := snapshottest.TestContents(s)
	const names = minNames + 900
	snapshottest.Widen(c, names)
	rng := rand.New(rand.NewPCG(4, uint64(s.K)))
	like := func(values []float64, width int) {
		row := func(i int) []float64 { return values[(5+i)*width : (6+i)*width] } // of item x…i
		for range 300 {
			copy(row(rng.IntN(names)), row(rng.IntN(names)))
		}
		for range 50 {
			clear(row(rng.IntN(names)))
		}
		for i := range 40 {
			for r := range row(i) {
				row(100 * i)[r] *= math.Pow(10, float64(i%8)-4)
			}
		}
	}
	like(c.Basis, c.NumBasis)
	if c.Linear != nil {
		like(c.Linear, c.NumOutputs)
	}
	m, err := NewModel(c)
	snapshottest.Must(t, err)
	return m
}

// sameAsOfAll compares rankings of items with the beginning of the ranking of all of them, which passes none over.
func sameAsOfAll(t *testing.T, m *Model, in *format.Input, class string) {
	t.Helper()
	var plain Scratch
	exclude := []string{"x7", "x4321", "nobody"}
	all, err := m.TopK(nil, &format.Query{Input: *in, Over: "item", K: m.numNames(1), Class: class, Exclude: exclude},
		&plain)
	snapshottest.Must(t, err)
	for _, workers := range []int{1, 2} {
		for _, k := range []int{1, 10, 200} {
			s := Scratch{Workers: workers}
			q := format.Query{Input: *in, Over: "item", K: k, Class: class, Exclude: exclude}
			for range 2 { // in the memory of another ranking, too
				got, err := m.TopK(nil, &q, &s)
				snapshottest.Must(t, err)
				if !slices.Equal(got, all[:k]) {
					t.Fatalf("%d of class %q by %d: %.300v, want %.300v", k, class, workers, fmt.Sprint(got),
						fmt.Sprint(all[:k]))
				}
			}
		}
	}
}

// TestScreenedRankingIsExact: for every kind of model, before and after there is a screen, and after deltas that change
// rows, add names and change weights, few rows and so many that all are copied to one place.
func TestScreenedRankingIsExact(t *testing.T) {
	for _, shape := range snapshottest.Shapes {
		t.Run(shape.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, 8))
			m, inputs := screened(t, shape), snapshottest.TestInputs()
			for _, rows := range []int{30, 30, 1500, 30} {
				for i := range inputs {
					sameAsOfAll(t, m, &inputs[i], []string{"red", "green", "blue"}[i%3])
				}
				if made := m.screens[1].made.Load(); m.rowWidth() > 0 && !isCube(&m.contents) &&
					(made == nil || made.columns == nil) {
					t.Error("no screen")
				}
				d := snapshottest.RowsDelta(rng, m, rows, 3)
				if rng.IntN(2) == 0 && len(m.contents.Weights) > 0 {
					d.Weights = slices.Clone(m.contents.Weights)
					d.Weights[0] += 0.5
				}
				next, err := m.Apply(d)
				snapshottest.Must(t, err)
				m = next
			}
		})
	}
}

// TestScreeningIsABound: no name is ruled out at its own leading value, and nearly all are at the tenth largest.
func TestScreeningIsABound(t *testing.T) {
	for _, shape := range snapshottest.Shapes {
		m := screened(t, shape)
		if m.rowWidth() == 0 || isCube(&m.contents) {
			continue
		}
		of, c, names := m.newScreen(1), &m.contents, m.numNames(1)
		for i, in := range snapshottest.TestInputs() {
			rng := rand.New(rand.NewPCG(5, uint64(i)))
			s := Scratch{base: make([]float64, c.NumOutputs)}
			m.encode(&format.Input{Categorical: []string{"u1", ""}, Numeric: in.Numeric, Multi: in.Multi}, &s)
			m.outputs(s.base, &s)
			q := question{model: m, field: 1, base: s.base, all: &s}
			if i%2 == 1 {
				mix := make([]float64, c.NumOutputs)
				for o := range mix {
					mix[o] = rng.NormFloat64() * math.Pow(10, float64(rng.IntN(5)-2))
				}
				q.lead(mix)
			} else {
				q.lead(nil)
			}
			var w search
			w.question = q
			leading := make([]float64, names)
			w.leadingOf(leading, int(m.first[1]))
			if !s.screening.begin(of, &q) {
				if slices.ContainsFunc(s.screening.full, func(v float64) bool { return v != 0 }) {
					t.Errorf("%s: not screened by weights %v", shape, s.screening.full)
				}
				continue
			}
			for n, v := range leading {
				if s.screening.possible(n/blockNames, v)>>(n%blockNames)&1 == 0 {
					t.Fatalf("%s, event %d: name %d is ruled out at its own leading value %g: %+v", shape, i, n, v,
						s.screening)
				}
			}
			sorted := slices.Sorted(slices.Values(leading))
			left, outliers := 0, 0
			for b := range (names + blockNames - 1) / blockNames {
				left += bits.OnesCount64(
					s.screening.possible(b, sorted[names-10]) & (1<<min(blockNames, names-b*blockNames) - 1))
				outliers += bits.OnesCount64(of.outliers[b])
			}
			if left > names/5+outliers {
				t.Errorf("%s, event %d: %d of %d names are left, %d lie far out", shape, i, left, names, outliers)
			}
		}
	}
}

// TestScreenBeyondNumbers: numbers whose squares over- or underflow have no screen, and are ranked all the same.
func TestScreenBeyondNumbers(t *testing.T) {
	for _, size := range []float64{1e-200, 1e145, 0} {
		c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity,
			Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""})
		snapshottest.Widen(c, minNames)
		for i := range c.Basis {
			c.Basis[i] *= size
		}
		for i := range c.Linear {
			c.Linear[i] *= size
		}
		m, err := NewModel(c)
		snapshottest.Must(t, err)
		for range 3 {
			sameAsOfAll(t, m, &format.Input{}, "")
		}
		if made := m.screens[1].made.Load(); (size == 0) != (made.columns != nil) {
			t.Errorf("numbers of %g: screen %v", size, made.columns)
		}
	}
}

// TestMixIsABound: whichever way leading values are mixed, a name whose key is as good as another one's has at least
// the leading value that follows from it.
func TestMixIsABound(t *testing.T) {
	for _, s := range []snapshottest.Shape{{Task: format.Multiclass, Link: format.Softmax, Kernel: format.ANOVA, K: 4,
		Linear: false, Mapped: ""}, {Task: format.Ordinal, Link: format.OrdinalLink, Kernel: format.ANOVA, K: 5, Linear: true,
		Mapped: ""}} {
		m, err := NewModel(snapshottest.TestContents(s))
		snapshottest.Must(t, err)
		rng, c := rand.New(rand.NewPCG(6, 6)), &m.contents
		bounded := 0
		for range 3000 {
			q := question{
				model:  m,
				field:  1,
				by:     map[string]ranking{format.Softmax: byShare, format.OrdinalLink: byLevel}[s.Link],
				base:   make([]float64, c.NumOutputs),
				output: rng.IntN(c.NumOutputs),
			}
			out, mix, sum := make([]float64, c.NumOutputs), make([]float64, c.NumOutputs), 0.0
			for o := range out {
				out[o] = 4 * rng.NormFloat64()
				if q.by == byLevel || o != q.output {
					mix[o] = -rng.ExpFloat64()
					sum -= mix[o]
				}
			}
			for o := range mix {
				mix[o] /= sum
			}
			if q.by == byShare {
				mix[q.output] = 1
			}
			low, high := q.least(m.key(q.by, q.output, out), q.entropyOf(mix), 0)
			w := search{question: q, high: high}
			if leading := rowmath.Dot(mix, out); leading < low || w.exceeds(out) {
				t.Fatalf("%s: outputs %v, mix %v: leading value %g, want at least %g; outputs up to %g", s, out, mix,
					leading, low, high)
			}
			if !math.IsInf(low, -1) {
				bounded++
			}
		}
		if bounded < 100 {
			t.Errorf("%s: %d of 3,000 have a bound", s, bounded)
		}
	}
}
