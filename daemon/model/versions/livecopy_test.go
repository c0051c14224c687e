package versions

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// aged returns a model that was made so long ago.
func aged(t *testing.T, age time.Duration) *snapshot.Model {
	t.Helper()
	m, err := scorer.NewModel(
		&format.Contents{
			Kernel:      format.ANOVA,
			Link:        format.Identity,
			NumFeatures: 1,
			NumOutputs:  1,
			Weights:     []float64{},
			Schema:      snapshot.Schema{Task: format.Regression, Label: "y", Categorical: []string{"user"}},
			Vocabulary: [][]string{
				{"u1"},
			},
			Linear: []float64{1},
			Bias:   []float64{1},
			Meta:   format.Meta{Created: time.Now().Add(-age)},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLiveIsFresh: no request gets a copy that was a second old when it asked, one copy is made for many requests, and
// none waits for a copy while the last one may be served.
func TestLiveIsFresh(t *testing.T) {
	t.Parallel()
	var made, slow atomic.Int32
	release := make(chan struct{})
	l := &Live{log: slog.New(slog.DiscardHandler), copy: func() (liveCopy, error) {
		if made.Add(1); slow.Load() == 1 {
			<-release
		}
		return liveCopy{model: aged(t, 0)}, nil
	}}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if m, err := l.Get(); err != nil || m == nil {
				t.Error(m, err)
			}
		})
	}
	all.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("%d copies for requests at one moment", n)
	}
	if l.Get(); made.Load() != 1 {
		t.Error("a copy was made although the last is fresh")
	}
	slow.Store(1)
	middle := aged(t, liveRenew+10*time.Millisecond)
	l.last.Store(&liveCopy{model: middle})
	for range 5 { // during the first another copy is being made
		if m, err := l.Get(); m != middle || err != nil {
			t.Fatalf("%v, %v: the last copy may be served still", m, err)
		}
	}
	close(release)
	l.Close()
	if n := made.Load(); n != 2 || l.last.Load().model == middle {
		t.Errorf("%d copies, one was to be made in parallel with the requests", n)
	}
	old := aged(t, liveAge)
	l.last.Store(&liveCopy{model: old})
	if m, err := l.Get(); m == old || err != nil || made.Load() != 3 {
		t.Errorf("a copy that is too old was served, %d made, error %v", made.Load(), err)
	}
}

// TestLiveFails: an error or a panic is the request's, and the next one tries again.
func TestLiveFails(t *testing.T) {
	t.Parallel()
	fault := func() { panic("index out of range") }
	l := &Live{log: slog.New(slog.DiscardHandler), copy: func() (liveCopy, error) {
		fault()
		return liveCopy{}, errors.New("not finite")
	}}
	if m, err := l.Get(); m != nil || err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("%v, %v", m, err)
	}
	fault = func() {}
	if m, err := l.Get(); m != nil || err == nil || err.Error() != "not finite" {
		t.Errorf("%v, %v", m, err)
	}
	last := aged(t, liveRenew)
	l.last.Store(&liveCopy{model: last})
	if m, err := l.Get(); m != last || err != nil {
		t.Errorf("%v, %v: the last copy may be served still", m, err)
	}
	l.Close()
	if l.last.Load().model != last {
		t.Error("a copy that could not be made is served")
	}
}

// TestLiveIsHeldBack: a copy that the guard holds back is not served, nobody makes another one while it is fresh, and
// one that is good again is served.
func TestLiveIsHeldBack(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	copies := []liveCopy{
		{aged(t, 0), ""},
		{aged(t, 0), guard.HeldBackWindow},
		{aged(t, 0), guard.HeldBackHoldout},
		{aged(t, 0), ""},
	}
	made := 0
	l := &Live{log: slog.New(slog.NewTextHandler(&log, nil)), copy: func() (liveCopy, error) {
		made++
		return copies[made-1], nil
	}}
	for i, want := range []string{"", "window", "held_out", ""} {
		for range 2 {
			m, err := l.Get()
			var heldBack *web.HeldBackError
			switch {
			case want == "" && (err != nil || m != copies[i].model):
				t.Errorf("copy %d: %v, %v", i, m, err)
			case want != "" && (m != nil || !errors.As(err, &heldBack) || heldBack.Reason != want):
				t.Errorf("copy %d: %v, %v, want it held back by %s", i, m, err, want)
			}
		}
		if got := string(l.HeldBack()); got != want {
			t.Errorf("copy %d: the status says %q, want %q", i, got, want)
		}
		if made != i+1 {
			t.Errorf("%d copies made for %d", made, i+1)
		}
		l.last.Store(&liveCopy{aged(t, liveAge), copies[i].heldBack})
	}
	for _, line := range []string{"live model held back", "live model answers again"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q is logged %d times", line, n)
		}
	}
}

func TestWatermarkOfLedger(t *testing.T) {
	t.Parallel()
	if at := watermarkOf([]sketch.LedgerRow{{Watermark: sketch.NoTime}}); !at.IsZero() {
		t.Error(at)
	}
	if at := watermarkOf([]sketch.LedgerRow{{Watermark: 7}, {Watermark: 12},
		{Watermark: sketch.NoTime}}); at.UnixMilli() != 12 {
		t.Error(at)
	}
}
