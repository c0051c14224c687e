package sketch

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/refitd/refitd/sketch/internal/policy"
)

// benchPayload has the size of a small JSON event.
var benchPayload = []byte(fmt.Sprintf("%-100s", `{"user":"u123456","item":"i4567","rating":4,"ts":1700000000000}`))

func benchPart(next int64, n int) *Part {
	p := &Part{Topic: "ratings", Partition: 3, Base: next, Next: next + int64(n)}
	for i := range n {
		p.Records = append(
			p.Records,
			Record{Offset: next + int64(i), Fate: Applied, CRC: uint32(i), Time: 1_700_000_000_000 + next, Weight: 1,
				Payload: benchPayload},
		)
	}
	return p
}

func advance(p *Part) {
	n := p.Next - p.Base
	p.Base, p.Next, p.classified = p.Next, p.Next+n, nil
	for i := range p.Records {
		p.Records[i].Offset += n
		p.Records[i].Time += n
	}
}

func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name  string
		size  int
		fill  bool
		decay bool
	}{{"filling", 1 << 24, false, false}, {"full", 20_000, true, false}, {"fullDecay", 20_000, true, true}} {
		for _, n := range []int{1000, 5000} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				o := Options{Dir: b.TempDir(), Size: c.size, HoldoutSize: 2000, HoldoutFraction: 0.1, Seed: 1}
				if c.decay {
					o.HalfLife = 20_000e6 // 20,000 events of 1 ms
				}
				s, err := Open(b.Context(), o)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				if err := s.Begin("ratings", 3, 0); err != nil {
					b.Fatal(err)
				}
				p := benchPart(0, n)
				for c.fill && p.Next < 500_000 {
					if err := s.Apply(p, nil); err != nil {
						b.Fatal(err)
					}
					advance(p)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Apply(p, nil); err != nil {
						b.Fatal(err)
					}
					advance(p)
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

// BenchmarkMillionRows opens, and copies, a sample of a million rows.
func BenchmarkMillionRows(b *testing.B) {
	const rows = 1_000_000
	o := Options{Dir: b.TempDir(), Size: rows, Seed: 1}
	s := mustOpen(b, o)
	must(b, s.Begin("ratings", 3, 0))
	for p := benchPart(0, 5000); p.Base < rows; advance(p) {
		must(b, s.Apply(p, nil))
	}
	b.Run("Sample", func(b *testing.B) {
		for b.Loop() {
			_, err := s.Sample()
			must(b, err)
		}
	})
	b.Run("State", func(b *testing.B) {
		for b.Loop() {
			_, err := s.State()
			must(b, err)
		}
	})
	must(b, s.Close())
	b.Run("Open", func(b *testing.B) {
		for b.Loop() {
			must(b, mustOpen(b, o).Close())
		}
	})
}

func BenchmarkDraw(b *testing.B) {
	d := policy.NewDrawer(1, 0.1)
	var o int64
	for b.Loop() {
		d.ByOffset("ratings", 0, 3, o)
		o++
	}
}

func BenchmarkRank(b *testing.B) {
	r := policy.Rule{Keyed: true, HalfLife: 3.6e6}
	h := uint64(1)
	for b.Loop() {
		r.Rank(h, 2.5, 1_700_000_000_000)
		h = h*6364136223846793005 + 1
	}
}

// BenchmarkMerge: what a trainer takes for a head of a shard, with the rows that came since the one before, durably.
func BenchmarkMerge(b *testing.B) {
	for _, n := range []int{0, 100} {
		b.Run(fmt.Sprint(n, " rows"), func(b *testing.B) {
			o := Options{Size: 20_000, Seed: 1}
			o.Dir, o.Merges = b.TempDir(), true
			trainer, err := Open(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			defer trainer.Close()
			o.Dir, o.Merges, o.Mirror = "", false, true
			s, err := NewMemory(o)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for i := range int32(8) {
				if err := s.Begin("ratings", i, 0); err != nil {
					b.Fatal(err)
				}
			}
			p := benchPart(0, max(1, n))
			var size int
			for b.Loop() {
				b.StopTimer()
				if n == 0 {
					p.Records[0].Fate = Control
				}
				if err := s.Apply(p, nil); err != nil {
					b.Fatal(err)
				}
				advance(p)
				e, err := s.Excerpt(1<<30, nil, true)
				if err == nil {
					err = s.Mirrored(e, nil, false)
				}
				if err != nil {
					b.Fatal(err)
				}
				text, err := json.Marshal(e.Head)
				if err != nil {
					b.Fatal(err)
				}
				size = len(text)
				b.StartTimer()
				if _, err := trainer.Merge(&Share{Pairs: e.Pairs, Head: e.Head}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size), "B/head")
		})
	}
}
