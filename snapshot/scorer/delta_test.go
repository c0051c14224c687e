package scorer

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// slowChain is a chain by the definition: a map from columns to rows, and the contents written out anew whenever they
// are asked for.
type slowChain struct {
	base       *format.Contents
	rows       map[int32][]float64 // linear, then basis
	names      map[int32]format.AddedName
	columns    int
	bias, w, u []float64
	losses     [][]float64
	trees      *format.Trees
	round      func(float64) float64
}

func newSlowChain(c *format.Contents) *slowChain {
	s := &slowChain{
		base:    c,
		rows:    map[int32][]float64{},
		names:   map[int32]format.AddedName{},
		columns: c.NumFeatures,
		bias:    c.Bias,
		w:       c.Weights,
		u:       c.MapWeights,
		trees:   c.Trees,
	}
	s.round = func(v float64) float64 { return v }
	if c.Tensors == format.F32 {
		s.round = func(v float64) float64 { return float64(float32(v)) }
	}
	for j := range c.NumFeatures {
		var row []float64
		if c.Linear != nil {
			row = append(row, c.Linear[j*c.NumOutputs:(j+1)*c.NumOutputs]...)
		}
		s.rows[int32(j)] = append(row, c.Basis[j*c.NumBasis:(j+1)*c.NumBasis]...)
	}
	column := int32(0)
	for f, names := range c.Vocabulary {
		for _, name := range names {
			s.names[column] = format.AddedName{Field: f, Name: name}
			column++
		}
	}
	return s
}

func (s *slowChain) apply(d *format.Delta) {
	for _, a := range d.Added {
		s.names[int32(s.columns)] = a
		s.columns++
	}
	k := s.base.NumBasis
	for i, j := range d.Columns {
		var row []float64
		if s.base.Linear != nil {
			row = append(row, d.Linear[i*s.base.NumOutputs:(i+1)*s.base.NumOutputs]...)
		}
		s.rows[j] = append(row, d.Basis[i*k:(i+1)*k]...)
	}
	for _, t := range []struct{ to, from *[]float64 }{{&s.bias, &d.Bias}, {&s.w, &d.Weights}, {&s.u, &d.MapWeights}} {
		if *t.from != nil {
			*t.to = *t.from
		}
	}
	if d.Trees != nil {
		s.trees = d.Trees
	}
	if d.FoldInLosses != nil {
		s.losses = d.FoldInLosses
	}
}

func (s *slowChain) contents() *format.Contents {
	c := *s.base
	c.NumFeatures, c.Vocabulary = s.columns, make([][]string, len(s.base.Vocabulary))
	c.Basis, c.Golden = nil, nil
	c.Bias, c.Weights, c.MapWeights, c.Trees = s.bias, s.w, s.u, s.trees
	var linear []float64
	add := func(j int32) {
		row, m := s.rows[j], 0
		if s.base.Linear != nil {
			m = s.base.NumOutputs
		}
		for i, v := range row {
			if i < m {
				linear = append(linear, s.round(v))
			} else {
				c.Basis = append(c.Basis, s.round(v))
			}
		}
	}
	for f := range c.Vocabulary {
		for j := range int32(s.columns) {
			if a, ok := s.names[j]; ok && a.Field == f {
				c.Vocabulary[f] = append(c.Vocabulary[f], a.Name)
				add(j)
			}
		}
	}
	for j := range int32(s.columns) {
		if _, ok := s.names[j]; !ok {
			add(j)
		}
	}
	if c.Linear != nil {
		c.Linear = linear
	}
	if s.losses != nil {
		f := *c.FoldIn
		f.Fields = slices.Clone(f.Fields)
		for i := range f.Fields {
			f.Fields[i].Losses = s.losses[i]
		}
		c.FoldIn = &f
	}
	return &c
}

// sameModel fails unless two models say the same to the bit.
func sameModel(t *testing.T, got, want *Model, inputs []format.Input) {
	t.Helper()
	var s1, s2 Scratch
	a, b := make([]float64, got.NumOutputs()), make([]float64, want.NumOutputs())
	for i := range inputs {
		in := &inputs[i]
		if x, y := got.Score(a, in, &s1), want.Score(b, in, &s2); x != y || !sameBits(a, b) {
			t.Fatalf("event %d: %v with %d unseen, want %v with %d", i, a, x, b, y)
		}
		p, err1 := got.Predict(in)
		q, err2 := want.Predict(in)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("event %d: predicts %+v (%v), want %+v (%v)", i, p, err1, q, err2)
		}
		e, err1 := got.Explain(in)
		f, err2 := want.Explain(in)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(e, f) {
			t.Fatalf("event %d: explained by %+v (%v), want %+v (%v)", i, e, err1, f, err2)
		}
		for _, over := range []string{"item", "user"} {
			q := format.Query{
				Input:   *in,
				Over:    over,
				K:       1 + 3*(i%3),
				Class:   "green",
				Exclude: []string{"u2", "new \"11\"", "nobody"},
			}
			x, err1 := got.TopK(nil, &q, &s1)
			y, err2 := want.TopK(nil, &q, &s2)
			if err1 != nil || err2 != nil || !reflect.DeepEqual(x, y) {
				t.Fatalf("event %d: best of %s %v (%v), want %v (%v)", i, over, x, err1, y, err2)
			}
		}
	}
}

func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// chained gives the model of contents that nobody published the manifest of a version.
func chained(t *testing.T, c *format.Contents) *Model {
	t.Helper()
	for i := range c.Golden {
		c.Golden[i].Outputs = nil
	}
	m, err := NewModel(c)
	snapshottest.Must(t, err)
	m.manifest.Model, m.manifest.Version, m.manifest.Digest = "m", 3, "sha256:"+disk.HexSum(nil)
	return m
}

// TestChainIsTheVersion: a model with deltas, which came as frames, is bit for bit the one that a full version there
// would be.
func TestChainIsTheVersion(t *testing.T) {
	for name, c := range snapshottest.ChainShapes() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			m := chained(t, c)
			base, slow := m, newSlowChain(m.Contents())
			var frames bytes.Buffer
			for range 30 {
				d := snapshottest.SomeDelta(rng, m)
				frame, err := d.Encode(base.Shape(), nil)
				snapshottest.Must(t, err)
				frames.Write(frame)
				read, err := format.DecodeDelta(frame, base.Shape(), nil)
				snapshottest.Must(t, err)
				m, err = m.Apply(read)
				snapshottest.Must(t, err)
				slow.apply(d)
				if got := m.Position(); got.Sequence != d.Sequence || got.Digest != d.Digest ||
					!got.Created.Equal(d.Created) {
					t.Fatalf("at %+v after delta %d", got, d.Sequence)
				}
			}
			want, err := NewModel(slow.contents())
			snapshottest.Must(t, err)
			inputs := snapshottest.ChainInputs(rng, m.Contents())
			sameModel(t, m, want, inputs)
			again, err := NewModel(m.Contents())
			snapshottest.Must(t, err)
			sameModel(t, m, again, inputs)
			digest, err := format.PayloadDigest(m.Contents())
			snapshottest.Must(t, err)
			if other, err := format.PayloadDigest(slow.contents()); err != nil || digest != other {
				t.Errorf("contents have digest %s, want %s (%v)", digest, other, err)
			}
			if got, want := m.Contents().FoldIn, slow.contents().FoldIn; !reflect.DeepEqual(got, want) {
				t.Errorf("fold-in %+v, want %+v", got, want)
			}
			twice := base // from the stream of frames
			for {
				frame, err := format.ReadFrame(&frames)
				if err == io.EOF {
					break
				}
				snapshottest.Must(t, err)
				d, err := format.DecodeDelta(frame, twice.Shape(), nil)
				snapshottest.Must(t, err)
				twice, err = twice.Apply(d)
				snapshottest.Must(t, err)
			}
			if !reflect.DeepEqual(twice.Position(), m.Position()) ||
				!reflect.DeepEqual(twice.Contents(), m.Contents()) {
				t.Error("the stream of frames makes another model")
			}
		})
	}
}
