package scorer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// afterDeltas returns a model of contents with so many deltas.
func afterDeltas(b *testing.B, c *format.Contents, deltas, rows, added int) *Model {
	b.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	model, err := NewModel(c)
	for range deltas {
		if err == nil {
			model, err = model.Apply(snapshottest.RowsDelta(rng, model, rows, added))
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return model
}

// A second of a busy topic: 8,000 rows of a million change, 100 of them of new names.
func BenchmarkApply(b *testing.B) {
	m := afterDeltas(b, snapshottest.UserItem(500_000, 20, 1), 1, 8000, 0)
	d := snapshottest.RowsDelta(rand.New(rand.NewPCG(9, 9)), m, 7900, 100)
	frame, err := d.Encode(m.Shape(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"decode", func() error { _, err := format.DecodeDelta(frame, m.Shape(), nil); return err }},
		{"apply", func() error { _, err := m.Apply(d); return err }},
		{"encode", func() error { _, err := d.Encode(m.Shape(), nil); return err }},
	} {
		b.Run(step.name, func(b *testing.B) {
			b.ReportAllocs()
			quickest := math.Inf(1) // what else the machine does hardly shows in it
			for b.Loop() {
				begin := time.Now()
				if err := step.do(); err != nil {
					b.Fatal(err)
				}
				quickest = min(quickest, time.Since(begin).Seconds())
			}
			b.ReportMetric(1000*quickest, "ms/quickest")
			b.ReportMetric(float64(len(frame))/float64(8*21*len(d.Columns)), "bytes/rowsize")
		})
	}
}

// Score of a model with deltas compared with that of the version, of names all over 200,000 rows and with cold
// caches: the median of the ratios of blocks of calls that take turns, just before the rows are copied to one place
// and after.
func BenchmarkScoreAfterDeltas(b *testing.B) {
	base, err := NewModel(snapshottest.UserItem(100_000, 20, 1))
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	models := []*Model{base}
	for after, last := base, base; len(models) < 3; last = after {
		if after, err = after.Apply(snapshottest.RowsDelta(rng, after, 1000, 0)); err != nil {
			b.Fatal(err)
		}
		if x := after.rows.Merge; x != nil {
			<-x.Done
		}
		if &after.contents.Basis[0] != &last.contents.Basis[0] {
			models = append(models, last, after)
		}
	}
	names, caches := make([][2]string, 2000), make([]int64, 16<<20)
	dst, s, in := make([]float64, 1), new(Scratch), format.Input{Categorical: make([]string, 2)}
	ratios := make([][]float64, len(models))
	for b.Loop() {
		for i := range names {
			names[i] = [2]string{fmt.Sprint("u", rng.IntN(100_000)), fmt.Sprint("i", rng.IntN(100_000))}
		}
		var took [3]float64
		for _, i := range rng.Perm(len(models)) {
			for j := range caches {
				caches[j]++
			}
			begin := time.Now()
			for _, n := range names {
				in.Categorical[0], in.Categorical[1] = n[0], n[1]
				models[i].Score(dst, &in, s)
			}
			took[i] = time.Since(begin).Seconds()
		}
		for i := range models {
			ratios[i] = append(ratios[i], took[i]/took[0])
		}
	}
	for i, of := range []string{"", "before", "after"} {
		slices.Sort(ratios[i])
		if i > 0 {
			b.ReportMetric(ratios[i][len(ratios[i])/2], of+"/version")
		}
	}
}
