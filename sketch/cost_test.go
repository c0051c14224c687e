package sketch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/sketch/internal/reservoir"
)

// costLog is n events of very different sizes, the records of one partition.
func costLog(n int) []Record {
	rng := rand.New(rand.NewPCG(3, 1))
	records := make([]Record, n)
	for i := range records {
		size := 10 + rng.IntN(200)
		if rng.IntN(20) == 0 {
			size = 5000 + rng.IntN(20_000)
		}
		records[i] = Record{
			Offset:  int64(i),
			Fate:    Applied,
			CRC:     uint32(i),
			Time:    int64(rng.IntN(1e6)),
			Weight:  1 + float64(rng.IntN(3)),
			Group:   fmt.Append(nil, i%3),
			Payload: make([]byte, size),
		}
	}
	return records
}

// costRows returns the offsets in the training sample of a store, of one class if there are quotas, sorted.
func costRows(t *testing.T, s *Store) (offsets []int64, cost int64) {
	t.Helper()
	sample, err := s.Sample()
	must(t, err, s.Check())
	for i := range sample.Train {
		offsets = append(offsets, sample.Train[i].Offset)
		cost += int64(s.costOf(sample.Train[i].Payload))
	}
	slices.Sort(offsets)
	return offsets, cost
}

// TestCost: the rows are the longest run from the largest rank down that costs no more than it may, however the log was
// cut and whenever the limit came, and a state that was made without one comes to the same.
func TestCost(t *testing.T) {
	const n, limit = 3000, 400_000
	records := costLog(n)
	for name, change := range map[string]func(*Options){
		"uniform": func(*Options) {}, "decay": func(o *Options) { o.HalfLife = 1e9 * 100 }, "weights": func(
			o *Options) {
			o.Weighted = true
		},
		"quotas": func(o *Options) { o.Quotas = []Quota{{Class: "0", Share: 0.5}, {Class: "1", Share: 0.2}} },
	} {
		t.Run(name, func(t *testing.T) {
			options := diskOptions(t)
			options.Size, options.Seed, options.DrawSeed, options.HoldoutFraction, options.MaxCost = 600, 5, false, 0, limit
			change(&options)
			feed := func(s *Store, from, to, step int) {
				must(t, s.Begin("t", 0, 0))
				for ; from < to; from += step {
					p := Part{
						Topic:   "t",
						Base:    int64(from),
						Next:    int64(min(from+step, to)),
						Records: slices.Clone(records[from:min(from+step, to)]),
					}
					for i := range p.Records {
						if len(options.Quotas) == 0 {
							p.Records[i].Group = nil
						}
					}
					must(t, s.Apply(&p, nil))
				}
			}
			memory := func(o Options) *Store {
				o.Dir = ""
				s, err := NewMemory(o)
				must(t, err)
				return s
			}
			once := memory(options)
			feed(once, 0, n, n)
			want, cost := costRows(t, once)
			if cost > limit || cost < limit-3*30_000 || len(want) >= 600 {
				t.Fatalf("%d rows cost %d, of %d", len(want), cost, limit)
			}
			// By sorting all of them.
			unbounded := options
			unbounded.MaxCost, unbounded.Size = 0, n
			if len(options.Quotas) == 0 {
				all := memory(unbounded)
				feed(all, 0, n, 100)
				entries := slices.Clone(all.samples.All[Train].Entries)
				slices.SortFunc(entries, func(a, b reservoir.Entry) int { return -reservoir.BySmallest(a, b) })
				run, sum := 0, int64(0)
				for _, e := range entries {
					if sum += int64(e.Cost); sum > limit {
						break
					}
					run++
				}
				if run != len(want) {
					t.Errorf("%d rows, the longest run that fits has %d", len(want), run)
				}
			}
			// Cut into small parts, with the state opened again in between, a limit that was not there at first, and
			// one that was larger.
			for _, first := range []int64{limit, 0, 3 * limit} {
				o := options
				o.Dir, o.MaxCost = t.TempDir(), first
				s := mustOpen(t, o)
				feed(s, 0, n/2, 7)
				must(t, s.Close())
				o.MaxCost = limit
				s = mustOpen(t, o)
				feed(s, n/2, n, 11)
				if got, _ := costRows(t, s); !slices.Equal(got, want) {
					t.Errorf("limit %d at first: %d rows, want %d", first, len(got), len(want))
				}
				must(t, s.Close())
			}
			// A larger limit leaves room, and says so.
			o := options
			o.Dir = t.TempDir()
			s := mustOpen(t, o)
			feed(s, 0, n, 100)
			lineage := s.Lineage()
			must(t, s.Close())
			o.MaxCost = 0
			s = mustOpen(t, o)
			state := stateOf(t, s)
			if got, _ := costRows(t, s); !slices.Equal(got, want) || !state.UnderFilled || s.Lineage() == lineage {
				t.Errorf("without a limit: %d rows of %d, under-filled %t", len(got), len(want), state.UnderFilled)
			}
			must(t, s.Close())
		})
	}
}
