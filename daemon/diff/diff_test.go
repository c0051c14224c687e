package diff

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// ratings returns random contents over users, items, tags and an age.
func ratings(kernel string, users int, rng *rand.Rand) *format.Contents {
	names := func(prefix string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(prefix, i))
		}
		return list
	}
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	c := &format.Contents{
		Schema: snapshot.Schema{
			Task:        format.Ordinal,
			Label:       "rating",
			Levels:      3,
			Categorical: []string{"user", "item"},
			Multi: []string{
				"tags",
			},
			Numeric: []format.NumericField{{Name: "age", Scale: 1}},
			Augment: true,
		},
		Kernel:     kernel,
		Link:       format.OrdinalLink,
		NumOutputs: 2,
		NumBasis:   4,
		Vocabulary: [][]string{names("u", users), names("i", 9), names("t", 5)},
		Bias:       []float64{0.1, 0.2},
	}
	c.NumFeatures = users + 9 + 5 + 2
	c.Basis, c.Weights = normal(c.NumFeatures*4), normal(8)
	return c
}

func model(t *testing.T, c *format.Contents) *snapshot.Model {
	t.Helper()
	m, err := scorer.NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The bounded search finds the pairs that looking at all of them does, with the weights that Explain has.
func TestInteractionsAgainstAllPairs(t *testing.T) {
	for _, kernel := range []string{format.ANOVA, format.Homogeneous} {
		c := ratings(kernel, 30, rand.New(rand.NewPCG(1, 1)))
		m := model(t, c)
		belief := Believes(m)
		if len(belief.Outputs) != 2 || belief.Outputs[1].Output != "rating ≤ 2" || belief.Outputs[0].BasisUsed != 4 ||
			!belief.Outputs[0].Exact {
			t.Fatalf("%+v", belief.Outputs)
		}
		names := columnNames(c)
		for o, out := range belief.Outputs {
			var all []float64
			for i := range c.NumFeatures {
				for j := i + 1; j < c.NumFeatures; j++ {
					field := func(j int) string { f, _, _ := strings.Cut(names[j], "="); return f }
					if field(i) == field(j) && field(i) != "tags" {
						continue
					}
					w := 0.0
					for r := range 4 {
						w += c.Weights[r*2+o] * c.Basis[i*4+r] * c.Basis[j*4+r]
					}
					if kernel == format.Homogeneous {
						w *= 2
					}
					all = append(all, w)
				}
			}
			slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(math.Abs(b), math.Abs(a)) })
			for n, x := range out.Interactions {
				if math.Abs(float64(x.Weight)-all[n]) > 1e-12*math.Abs(all[n]) {
					t.Errorf("%s, output %d, place %d: %v, want %g", kernel, o, n, x, all[n])
				}
			}
		}
		in, err := m.Schema().InputFromMap(map[string]any{"user": "u3", "item": "i4"})
		if err != nil {
			t.Fatal(err)
		}
		explained, err := m.Explain(&in)
		if err != nil {
			t.Fatal(err)
		}
		for _, term := range explained.Terms {
			if slices.Equal(term.Features, []string{"user=u3", "item=i4"}) {
				best, _ := interactions(m, 0, names)
				for _, x := range best {
					if slices.Equal(x.Features, []string{"user=u3", "item=i4"}) &&
						math.Abs(float64(x.Weight)-term.Contribution[0]) > 1e-12 {
						t.Errorf("weight %g, explained as %g", float64(x.Weight), term.Contribution[0])
					}
				}
			}
		}
	}
}

// The bounded search finds the triples that looking at all of them does, with the weights that Explain has, and names
// those that were planted.
func TestInteractionsAgainstAllTriples(t *testing.T) {
	for _, kernel := range []string{format.ANOVA, format.Homogeneous} {
		c := ratings(kernel, 12, rand.New(rand.NewPCG(1, 5)))
		c.Degree = 3
		for i := range c.Basis { // so that bounds are below 1: another factor would rule too much out
			c.Basis[i] *= 0.2
		}
		m, names := model(t, c), columnNames(c)
		for o, out := range Believes(m).Outputs {
			var all []float64
			field := func(j int) string { f, _, _ := strings.Cut(names[j], "="); return f }
			share := func(i, j int) bool { return field(i) == field(j) && field(i) != "tags" }
			for i := range c.NumFeatures {
				for j := i + 1; j < c.NumFeatures; j++ {
					for l := j + 1; l < c.NumFeatures; l++ {
						if share(i, j) || share(i, l) || share(j, l) {
							continue
						}
						w := 0.0
						for r := range 4 {
							w += c.Weights[r*2+o] * c.Basis[i*4+r] * c.Basis[j*4+r] * c.Basis[l*4+r]
						}
						if kernel == format.Homogeneous {
							w *= 6
						}
						all = append(all, w)
					}
				}
			}
			slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(math.Abs(b), math.Abs(a)) })
			if len(out.Interactions) != shownInteractions || !out.Exact {
				t.Fatalf("%s, output %d: %+v", kernel, o, out)
			}
			for n, x := range out.Interactions {
				if math.Abs(float64(x.Weight)-all[n]) > 1e-12*math.Abs(all[n]) {
					t.Errorf("%s, output %d, place %d: %v, want %g", kernel, o, n, x, all[n])
				}
			}
		}
		for j := range c.NumFeatures {
			for r := range 4 {
				c.Basis[j*4+r] *= 0.01
			}
		}
		planted := []int{3, 12 + 4, 12 + 9 + 2} // a user, an item and a tag
		for _, j := range planted {
			c.Basis[j*4] = 1
		}
		best, exact := interactions(model(t, c), 0, names)
		if want := []string{"user=u3", "item=i4", "tags=t2"}; !exact || !slices.Equal(best[0].Features, want) {
			t.Errorf("%s: %v first (%t), want %v", kernel, best[0], exact, want)
		}
		in, err := m.Schema().InputFromMap(map[string]any{"user": "u3", "item": "i4", "tags": []any{"t2"}})
		if err != nil {
			t.Fatal(err)
		}
		explained, err := model(t, c).Explain(&in)
		if err != nil {
			t.Fatal(err)
		}
		for _, term := range explained.Terms {
			if slices.Equal(term.Features, best[0].Features) &&
				math.Abs(float64(best[0].Weight)-term.Contribution[0]) > 1e-12 {
				t.Errorf("weight %g, explained as %g", float64(best[0].Weight), term.Contribution[0])
			}
		}
	}
}

// Basis vectors are matched by direction: not by place, sign or length, and over the features that both versions have.
func TestBasisIsMatchedByDirection(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	a := ratings(format.ANOVA, 30, rng)
	b := *a
	b.Basis = make([]float64, len(a.Basis))
	to := []int{2, 0, 3} // vector r of a is vector to[r] of b; the last of a went, one came
	for j := range a.NumFeatures {
		for r, s := range to {
			b.Basis[j*4+s] = -3 * a.Basis[j*4+r]
		}
		b.Basis[j*4+1] = rng.NormFloat64()
	}
	d := Basis(model(t, a), model(t, &b))
	if len(d.Kept) != 3 || len(d.In) != 1 || len(d.Out) != 1 || d.In[0].Index != 1 || d.Out[0].Index != 3 ||
		len(d.In[0].Features) != topFeatures {
		t.Fatalf("%+v", d)
	}
	for _, m := range d.Kept {
		if to[m.A] != m.B || math.Abs(float64(m.Cosine)-1) > 1e-12 {
			t.Errorf("%+v", m)
		}
	}
	total := 0.0
	for _, s := range shares(model(t, a)) {
		total += s
	}
	if math.Abs(total-1) > 1e-12 {
		t.Errorf("shares add up to %g", total)
	}
}

func TestFeaturesInAndOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	a, b := ratings(format.ANOVA, 30, rng), ratings(format.ANOVA, 42, rng)
	d := Features(model(t, a), model(t, b))
	if d[0].Field != "user" || d[0].Common != 30 || d[0].In != 12 || d[0].Out != 0 || len(d[0].InNames) != shownNames ||
		d[1].Common != 9 ||
		d[3].Field != "age" ||
		d[3].Common != 1 {
		t.Errorf("%+v", d)
	}
}

func TestChurn(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	a := ratings(format.ANOVA, 10, rng)
	b := *a
	b.Bias = []float64{0.1, 0.9}
	var events []snapshot.Input
	for range 50 {
		events = append(events,
			snapshot.Input{Categorical: []string{fmt.Sprint("u", rng.IntN(10)), fmt.Sprint("i", rng.IntN(9))}})
	}
	strict := *a
	strict.Schema.Optional = slices.Clone(a.Schema.Categorical[1:])
	for _, f := range a.Schema.Numeric {
		strict.Schema.Optional = append(strict.Schema.Optional, f.Name)
	}
	strict.Schema.Optional = append(strict.Schema.Optional, a.Schema.Multi...)
	gap := snapshot.Input{Categorical: append([]string{""}, events[0].Categorical[1:]...)}
	if c, err := Churn(model(t, a), model(t, &strict), append([]snapshot.Input{gap}, events...)); err != nil ||
		c.Events != len(events) {
		t.Errorf("%+v, %v, want the event left out that one version refuses", c, err)
	}
	same, err := Churn(model(t, a), model(t, a), events)
	if err != nil || same.MeanAbsolute != 0 || same.LargestAbsolute != 0 || *same.RankCorrelation != 1 ||
		same.ChangedClasses != nil {
		t.Errorf("%+v, error %v", same, err)
	}
	moved, err := Churn(model(t, a), model(t, &b), events)
	if err != nil ||
		!(moved.MeanAbsolute > 0 && moved.MeanAbsolute <= moved.LargestAbsolute && moved.LargestAbsolute < 1) ||
		!(*moved.RankCorrelation > 0.5 && *moved.RankCorrelation < 1) {
		t.Errorf("%+v, error %v", moved, err)
	}
	b.Schema.Levels, b.NumOutputs, b.Bias, b.Weights = 2, 1, b.Bias[:1], b.Weights[:4]
	if _, err := Churn(model(t, a), model(t, &b), events); !errors.Is(err, ErrIncomparable) {
		t.Errorf("error %v", err)
	}
	binary := func(bias float64) *snapshot.Model {
		return model(
			t,
			&format.Contents{
				Schema:     snapshot.Schema{Task: format.Binary},
				Kernel:     format.ANOVA,
				Link:       format.Logistic,
				NumOutputs: 1,
				Bias:       []float64{bias},
			},
		)
	}
	flipped, err := Churn(binary(1), binary(-1), []snapshot.Input{{}, {}})
	if err != nil || *flipped.ChangedClasses != 1 || flipped.RankCorrelation != nil ||
		math.Abs(float64(flipped.MeanAbsolute)-math.Tanh(0.5)) > 1e-12 {
		t.Errorf("%+v, error %v", flipped, err)
	}
}

// Ties share their mean rank (Spearman by hand).
func TestRankCorrelation(t *testing.T) {
	column := func(v ...float64) (rows [][]float64) {
		for _, x := range v {
			rows = append(rows, []float64{x})
		}
		return rows
	}
	if r := correlation(column(1, 2, 3, 4), column(10, 30, 20, 40)); math.Abs(float64(*r)-0.8) > 1e-12 {
		t.Errorf("%g", float64(*r))
	}
	if got := ranks(column(5, 1, 5, 2), 0); !slices.Equal(got, []float64{3.5, 1, 3.5, 2}) {
		t.Errorf("%v", got)
	}
	if correlation(column(1), column(1)) != nil || correlation(column(1, 1), column(1, 2)) != nil {
		t.Error("a correlation of nothing")
	}
}
