package model

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
)

// aged returns a model that was made so long ago.
func aged(t *testing.T, age time.Duration) *snapshot.Model {
	t.Helper()
	m, err := snapshot.NewModel(&snapshot.Contents{Kernel: snapshot.ANOVA, Link: snapshot.Identity, NumFeatures: 1, NumOutputs: 1, Weights: []float64{},
		Schema:     snapshot.Schema{Task: snapshot.Regression, Label: "y", Categorical: []string{"user"}},
		Vocabulary: [][]string{{"u1"}}, Linear: []float64{1}, Bias: []float64{1}, Meta: snapshot.Meta{Created: time.Now().Add(-age)}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLiveIsFresh: no request gets a copy that was a second old when it asked, one copy is made for many requests, and none waits for a copy while
// the last one may be served.
func TestLiveIsFresh(t *testing.T) {
	t.Parallel()
	var made, slow atomic.Int32
	release := make(chan struct{})
	l := &liveModel{copy: func() (*snapshot.Model, error) {
		if made.Add(1); slow.Load() == 1 {
			<-release
		}
		return aged(t, 0), nil
	}}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if m, err := l.get(); err != nil || m == nil {
				t.Error(m, err)
			}
		})
	}
	all.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("%d copies for requests at one moment", n)
	}
	if l.get(); made.Load() != 1 {
		t.Error("a copy was made although the last is fresh")
	}
	slow.Store(1)
	middle := aged(t, liveRenew+10*time.Millisecond)
	l.last.Store(middle)
	for range 5 { // beside the first of which another is being made
		if m, err := l.get(); m != middle || err != nil {
			t.Fatalf("%v, %v: the last copy may be served still", m, err)
		}
	}
	close(release)
	l.close()
	if n := made.Load(); n != 2 || l.last.Load() == middle {
		t.Errorf("%d copies, one was to be made beside the requests", n)
	}
	old := aged(t, liveAge)
	l.last.Store(old)
	if m, err := l.get(); m == old || err != nil || made.Load() != 3 {
		t.Errorf("a copy that is too old was served, %d made, error %v", made.Load(), err)
	}
}

// TestLiveFails: an error or a panic is the request's, and the next one tries again.
func TestLiveFails(t *testing.T) {
	t.Parallel()
	fault := func() { panic("index out of range") }
	l := &liveModel{copy: func() (*snapshot.Model, error) {
		fault()
		return nil, errors.New("not finite")
	}}
	if m, err := l.get(); m != nil || err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("%v, %v", m, err)
	}
	fault = func() {}
	if m, err := l.get(); m != nil || err == nil || err.Error() != "not finite" {
		t.Errorf("%v, %v", m, err)
	}
	last := aged(t, liveRenew)
	l.last.Store(last)
	if m, err := l.get(); m != last || err != nil {
		t.Errorf("%v, %v: the last copy may be served still", m, err)
	}
	l.close()
	if l.last.Load() != last {
		t.Error("a copy that could not be made is served")
	}
}

func TestWatermarkOfLedger(t *testing.T) {
	t.Parallel()
	if at := watermarkOf([]sketch.LedgerRow{{Watermark: sketch.NoTime}}); !at.IsZero() {
		t.Error(at)
	}
	if at := watermarkOf([]sketch.LedgerRow{{Watermark: 7}, {Watermark: 12}, {Watermark: sketch.NoTime}}); at.UnixMilli() != 12 {
		t.Error(at)
	}
}
