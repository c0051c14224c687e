package ingest

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/export"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
)

// TestHeavyEventInTheSample: one event of the largest weight stays in the sample, and counts there as at most √n times
// the others, in training, where it is held out and in an exported sample. Order and restarts change nothing.
func TestHeavyEventInTheSample(t *testing.T) {
	const n, heavy = 2000, 3
	for _, size := range []int{400, 10_000} {
		m := ingesttest.Ratings(size)
		m.Schema.Weight = "w"
		records := make([]consumer.Record, n)
		for i := range records {
			weight := "1"
			if i%(n/heavy) == 5 {
				weight = "1000000"
			}
			records[i].Value = fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"w":%s,"ts":%d}`, i%90, i%70,
				1+i%5, weight, 1700000000000+i)
			records[i].Offset, records[i].CRC = int64(i), uint32(i)
		}
		take := func(step int) *encode.Sample {
			g, store := newIngest(t, m, "")
			for at := 0; at < n; at += step {
				b := &consumer.Batch{
					Topic:         "t",
					Base:          int64(at),
					Next:          int64(at + step),
					HighWatermark: n,
					Records:       records[at : at+step],
				}
				if err := g.Apply(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			s, err := TakeSample(m, store, nil)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := store.Sample()
			if err != nil {
				t.Fatal(err)
			}
			LimitWeights(m, raw)
			var exported []float64
			if err := export.Rows(raw, func(r *export.Row) error {
				if len(exported) < len(raw.Train) {
					exported = append(exported, r.Weight)
				}
				return nil
			}); err != nil || !slices.Equal(exported, s.Weights) {
				t.Errorf("size %d: exported weights are not those of a refit (%v)", size, err)
			}
			s.Lineage = ""
			return s
		}
		s := take(n)
		if other := take(50); !reflect.DeepEqual(other, s) {
			t.Errorf("size %d: other batches of the same events, another sample", size)
		}
		if s.Limited < 1 || s.Limited > heavy+1 || s.WeightLimit > 1.01*math.Sqrt(n) {
			t.Errorf("size %d: %d rows limited to %g", size, s.Limited, s.WeightLimit)
		}
		sum, most := 0.0, 0.0
		for _, w := range s.Weights {
			sum, most = sum+w, max(most, w)
		}
		if share := most / sum; share > 2/math.Sqrt(float64(len(s.Weights))) {
			t.Errorf("size %d: one row of %d has %.3f of all weight", size, len(s.Weights), share)
		}
		for _, w := range s.HeldOutWeights {
			if w > 1.01*s.WeightLimit {
				t.Errorf("size %d: a held-out row weighs %g", size, w)
			}
		}
	}
}
