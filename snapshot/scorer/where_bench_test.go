//go:build unix

package scorer

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
)

// BenchmarkTopKWhere ranks all of 10^6 items, the 1 % that have a genre, and of those a flag, on one core, with k = 16.
func BenchmarkTopKWhere(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		x := newCatalogueOf(b, n, 16)
		for name, where := range map[string][]format.Condition{
			"all":            nil,
			"genre":          {{Field: "genre", Any: []string{"g7"}}},
			"genre_in_stock": {{Field: "in_stock", Any: []string{"true"}}, {Field: "genre", Any: []string{"g7", "g8"}}},
			"price":          {{Field: "genre", Any: []string{"g7"}}, {Field: "price", Max: new(float64)}},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				q := &format.Query{Input: format.Input{Categorical: []string{"u1", "", "", ""}}, Over: "item", K: 10, Where: where}
				var s Scratch
				var dst []format.Item
				var err error
				if dst, err = x.TopK(dst, q, &s); err != nil || len(dst) == 0 {
					b.Fatal(dst, err)
				}
				b.ReportAllocs()
				began := cpuTime(b)
				for b.Loop() {
					if dst, err = x.TopK(dst[:0], q, &s); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((cpuTime(b)-began).Seconds()*1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// cpuTime is what the process has used: a machine that does other work makes what waits for a turn longer, not this.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// newCatalogueOf is a model of ten users and n items, of which each has a genre of a hundred, a flag, a price and two
// tags in a table.
func newCatalogueOf(t testing.TB, n, k int) *Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	c := &format.Contents{
		Schema: format.Schema{Task: format.Regression, Label: "y", Categorical: []string{"user", "item", "genre", "in_stock"},
			Multi: []string{"tags"}, Numeric: []format.NumericField{{Name: "price", Center: 10, Scale: 10, Clip: 1}},
			Optional: []string{"genre", "in_stock", "tags", "price"}},
		Kernel: format.Homogeneous, Link: format.Identity, NumOutputs: 1, NumBasis: k, Vocabulary: make([][]string, 5),
		Bias:   []float64{0.5},
		Golden: []format.Golden{{Input: format.Input{Categorical: []string{"u1", "i1", "", ""}}}},
	}
	rows := make([]*format.TableRow, n)
	for i := range n {
		name := fmt.Sprintf("i%07d", i)
		c.Vocabulary[1] = append(c.Vocabulary[1], name)
		rows[i] = &format.TableRow{Name: name, Categorical: []string{fmt.Sprint("g", rng.IntN(100)),
			strconv.FormatBool(rng.IntN(2) == 0)}, Numeric: []float64{float64(rng.IntN(40) - 20)},
			Multi: [][]string{{fmt.Sprint("t", rng.IntN(50)), fmt.Sprint("t", 50+rng.IntN(50))}}}
	}
	for f, name := range []string{0: "u", 2: "g", 4: "t"} {
		for i := 0; i < 100 && name != ""; i++ {
			c.Vocabulary[f] = append(c.Vocabulary[f], fmt.Sprint(name, i))
		}
	}
	c.Vocabulary[3] = []string{"false", "true"}
	for _, names := range c.Vocabulary {
		c.NumFeatures += len(names)
	}
	c.NumFeatures++
	for _, of := range []struct {
		to *[]float64
		n  int
	}{{&c.Basis, k * c.NumFeatures}, {&c.Linear, c.NumFeatures}, {&c.Weights, k}} {
		*of.to = make([]float64, of.n)
		for i := range *of.to {
			(*of.to)[i] = rng.NormFloat64()
		}
	}
	c.Tables = []*format.Table{format.NewTable("items", "item", []string{"genre", "in_stock"}, []string{"tags"},
		[]string{"price"}, rows)}
	m, err := NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
