package ingest

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
)

// TestConsistentCut (G9): a sample that is taken while events are stored is the one of exactly the records below its
// cut, row by row, whatever is stored at the same time.
func TestConsistentCut(t *testing.T) {
	const parts, n, size = 2, 3000, 50
	m := ingesttest.Ratings(400)
	logs := [parts]*consumer.Batch{}
	for p := range logs {
		logs[p] = batch(rand.New(rand.NewPCG(1, uint64(p))), int32(p), 0, n)
	}
	slice := func(p int, lo, hi int64) *consumer.Batch {
		b := *logs[p]
		b.Base, b.Next, b.Records = lo, hi, logs[p].Records[lo:hi]
		return &b
	}
	g, store := newIngest(t, m, t.TempDir())
	var writing sync.WaitGroup
	done := make(chan struct{})
	writing.Go(func() {
		defer close(done)
		for at := int64(0); at < n; at += size {
			for p := range logs {
				if err := g.Apply(t.Context(), slice(p, at, at+size)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	var taken []*encode.Sample
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		s, err := TakeSample(m, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		if k := len(taken); k == 0 || !reflect.DeepEqual(taken[k-1].Cut, s.Cut) {
			taken = append(taken, s)
		}
	}
	writing.Wait()
	for _, got := range taken[max(0, len(taken)-6):] {
		again, other := newIngest(t, m, "")
		for _, c := range got.Cut {
			if c.Next > 0 {
				if err := again.Apply(t.Context(), slice(int(c.Partition), 0, c.Next)); err != nil {
					t.Fatal(err)
				}
			}
		}
		want, err := TakeSample(m, other, nil)
		if err != nil {
			t.Fatal(err)
		}
		got.Lineage, want.Lineage = "", ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the sample cut at %v is not that of the records below: digest %s, want %s", got.Cut, got.Digest,
				want.Digest)
		}
	}
	t.Logf("%d cuts", len(taken))
	if len(taken) < 3 {
		t.Errorf("%d different cuts: nothing was stored during the takes", len(taken))
	}
}
