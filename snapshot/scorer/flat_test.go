package scorer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// flatModel scores as the first build did: from tables as they stand in Contents, one map for each field, no deltas.
// Model.Score has to say the same to the bit.
type flatModel struct {
	c       *format.Contents
	index   []map[string]int32
	crosses [][]int
}

func newFlatModel(c *format.Contents) *flatModel {
	m, column := &flatModel{c: c}, int32(0)
	for _, names := range c.Vocabulary {
		index := map[string]int32{}
		for _, name := range names {
			index[name] = column
			column++
		}
		m.index = append(m.index, index)
	}
	for _, parts := range c.Schema.Cross {
		var fields []int
		for _, name := range parts {
			fields = append(fields, slices.Index(c.Schema.Categorical, name))
		}
		m.crosses = append(m.crosses, fields)
	}
	return m
}

func (m *flatModel) score(dst []float64, in *format.Input, s *Scratch) (unseen int) {
	if err := in.Check(&m.c.Schema); err != nil {
		panic(err)
	}
	unseen = m.encode(in, s)
	s.ruled = make([]float64, len(dst))
	m.c.Trees.AddTo(s.ruled, in.Categorical, in.Numeric)
	m.outputs(dst, s)
	return unseen
}

func (m *flatModel) encode(in *format.Input, s *Scratch) (unseen int) {
	schema := &m.c.Schema
	s.index, s.value = s.index[:0], s.value[:0]
	for f, name := range in.Categorical {
		if name == "" {
			continue
		}
		if j, ok := m.index[f][name]; ok {
			s.index, s.value = append(s.index, j), append(s.value, 1)
		} else {
			unseen++
		}
	}
	for c, parts := range m.crosses {
		var names []string
		for _, f := range parts {
			if in.Categorical != nil && in.Categorical[f] != "" {
				names = append(names, in.Categorical[f])
			}
		}
		if len(names) < len(parts) {
			continue
		}
		if j, ok := m.index[len(schema.Categorical)+c][format.CrossName(names...)]; ok {
			s.index, s.value = append(s.index, j), append(s.value, 1)
		}
	}
	for f, names := range in.Multi {
		index, start := m.index[schema.FirstMulti()+f], len(s.index)
		for _, name := range names {
			if j, ok := index[name]; ok {
				s.index = append(s.index, j)
			} else if name != "" {
				unseen++
			}
		}
		slices.Sort(s.index[start:])
		s.index = s.index[:start+len(slices.Compact(s.index[start:]))]
		for range s.index[start:] {
			s.value = append(s.value, format.MultiValue(nil, f, len(names)))
		}
	}
	first := m.c.NumFeatures - schema.NumExtra()
	for f, v := range in.Numeric {
		if x := schema.Numeric[f].Scaled(v); format.IsFinite(v) && x != 0 {
			s.index, s.value = append(s.index, int32(first+f)), append(s.value, x)
		}
	}
	if schema.Augment {
		s.index, s.value = append(s.index, int32(m.c.NumFeatures-1)), append(s.value, 1)
	}
	s.phi = s.phi[:0]
	if fm := schema.FeatureMap; fm != nil && in.Numeric != nil {
		s.phi = slices.Grow(s.phi, fm.NumColumns())[:fm.NumColumns()]
		if !fm.Columns(s.phi, in.Numeric) {
			s.phi = s.phi[:0]
		}
	}
	return unseen
}

func (m *flatModel) outputs(dst []float64, s *Scratch) {
	c := m.c
	k, numOut := c.NumBasis, c.NumOutputs
	copy(dst, c.Bias)
	if c.Linear != nil {
		for e, j := range s.index {
			x := s.value[e]
			for o, w := range c.Linear[int(j)*numOut : (int(j)+1)*numOut] {
				dst[o] += w * x
			}
		}
	}
	for j, x := range s.phi {
		if x != 0 {
			for o, w := range c.MapWeights[j*numOut : (j+1)*numOut] {
				dst[o] += w * x
			}
		}
	}
	for o, v := range s.ruled {
		dst[o] += v
	}
	if k == 0 {
		return
	}
	s.sum, s.kern = slices.Grow(s.sum[:0], k)[:k], slices.Grow(s.kern[:0], k)[:k]
	sum, kern := s.sum, s.kern
	clear(sum)
	clear(kern)
	if c.Degree == format.Cubic {
		m.cubes(s)
	} else {
		for e, j := range s.index {
			x := s.value[e]
			for r, h := range c.Basis[int(j)*k : (int(j)+1)*k] {
				a := h * x
				sum[r] += a
				kern[r] += a * a
			}
		}
		for r, a := range sum {
			if c.Kernel == format.ANOVA {
				kern[r] = 0.5 * (a*a - kern[r])
			} else {
				kern[r] = a * a
			}
		}
	}
	for r, v := range kern {
		for o, w := range c.Weights[r*numOut : (r+1)*numOut] {
			dst[o] += w * v
		}
	}
}

// cubes stores the kernels of degree 3, which no build before format 5 had.
func (m *flatModel) cubes(s *Scratch) {
	for r := range m.c.NumBasis {
		sum, pairs, triples := 0.0, 0.0, 0.0
		for e, j := range s.index {
			a := m.c.Basis[int(j)*m.c.NumBasis+r] * s.value[e]
			triples += a * pairs
			pairs += a * sum
			sum += a
		}
		if s.kern[r] = triples; m.c.Kernel == format.Homogeneous {
			s.kern[r] = sum * sum * sum
		}
	}
}

// TestScoreIsTheFlatOne: Score equals that of a flat model of the same contents, for versions and for models with
// deltas.
func TestScoreIsTheFlatOne(t *testing.T) {
	for name, c := range snapshottest.ChainShapes() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(6, 6))
			m := chained(t, c)
			for range 15 {
				flat, dst, want := newFlatModel(m.Contents()), make([]float64,
					m.NumOutputs()), make([]float64, m.NumOutputs())
				var s1, s2 Scratch
				for i, in := range snapshottest.ChainInputs(rng, m.Contents()) {
					if n, other := m.Score(dst, &in, &s1), flat.score(want, &in, &s2); n != other ||
						!sameBits(dst, want) {
						t.Fatalf("event %d: %v with %d unseen, want %v with %d", i, dst, n, want, other)
					}
				}
				next, err := m.Apply(snapshottest.SomeDelta(rng, m))
				snapshottest.Must(t, err)
				m = next
			}
		})
	}
}

// BenchmarkScoreRatio takes the time of Score on a version, and on a model with 1,000 deltas, in that of the first
// build. The three take turns, and the quickest turn of each counts, so that what else the machine does hardly shows.
func BenchmarkScoreRatio(b *testing.B) {
	for _, shape := range []struct {
		name  string
		n, m  int
		every int
	}{{"small", 1000, 5, 1}, {"large-m1", 100_000, 1, 7919}} {
		b.Run(shape.name, func(b *testing.B) {
			c := snapshottest.UserItem(shape.n, 20, shape.m)
			after := afterDeltas(b, c, 1000, 20, 1)
			fresh, err := NewModel(c)
			if err != nil {
				b.Fatal(err)
			}
			flat, dst, s := newFlatModel(c), make([]float64, shape.m), new(Scratch)
			in := format.Input{Categorical: make([]string, 2)}
			scores := []func(dst []float64, in *format.Input, s *Scratch) int{flat.score, fresh.Score, after.Score}
			best, i := []float64{math.Inf(1), math.Inf(1), math.Inf(1)}, 0
			const turn = 1000
			for b.Loop() {
				for which, score := range scores {
					begin := time.Now()
					for e := range turn {
						at := ((3*i+which)*turn + e) * shape.every // different rows for each model: they share tables
						in.Categorical[0], in.Categorical[1] = c.Vocabulary[0][at%shape.n], c.Vocabulary[1][at*7%shape.n]
						score(dst, &in, s)
					}
					best[which] = min(best[which], float64(time.Since(begin).Nanoseconds())/turn)
				}
				i++
			}
			b.ReportMetric(best[0], "ns/flat")
			b.ReportMetric(best[1]/best[0], "version/flat")
			b.ReportMetric(best[2]/best[0], "deltas/flat")
		})
	}
}
