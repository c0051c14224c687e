package role

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/model/modeltest"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// liveRig is what learns forwarded events of a team of two shards, without a topic to read them from.
type liveRig struct {
	*Learner
	log     bytes.Buffer
	dropped map[string]int
}

// newLiveRig returns a run of a trainer on a state.
func newLiveRig(t *testing.T, store *sketch.Store) *liveRig {
	t.Helper()
	m := modeltest.Ratings()
	m.Shard = config.Shard{Role: config.RoleTrainer, Count: 2, Topic: "merge", LiveTopic: "live"}
	r := &liveRig{dropped: make(map[string]int)}
	o := &part.Options{Config: &config.Config{}, Settings: m, Metrics: metrics.New(prometheus.NewRegistry()),
		Log: slog.New(slog.NewTextHandler(&r.log, nil))}
	state := &state.State{Settings: m, Log: o.Log, Store: store}
	learning, err := NewCycle(m, state)
	if err != nil {
		t.Fatal(err)
	}
	if r.Learner, err = NewLearner(o, state, learning); err != nil {
		t.Fatal(err)
	}
	r.topic.OnDropped = func(reason string) { r.dropped[reason]++ }
	r.sink = ingest.New(m, store, learning)
	return r
}

// emptyStore returns the state of a trainer.
func emptyStore(t *testing.T) *sketch.Store {
	t.Helper()
	store, err := sketch.NewMemory(ingest.StoreOptions(modeltest.Ratings()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// forwarded returns a batch of the events of a partition from an offset up to another.
func forwarded(partition int32, born uint32, from, to int64) *shard.Forwarded {
	b := &shard.Forwarded{Shard: int(partition) % 2, Share: 1,
		Stretches: []shard.Stretch{{Topic: "r", Partition: partition, Incarnation: born, From: from, To: to}}}
	for at := from; at < to; at++ {
		ev := event.Event{Label: float64(1 + at%5), Weight: 1, Time: 1_700_000_000_000 + at,
			Categorical: []string{fmt.Sprint("u", at%7), fmt.Sprint("i", at%11)}}
		b.Events = append(b.Events, shard.ForwardedEvent{Offset: at, Payload: rows.AppendEvent(nil, &ev)})
	}
	return b
}

func (r *liveRig) gets(t *testing.T, scored, missed int64, batches ...*shard.Forwarded) {
	t.Helper()
	for _, b := range batches {
		r.onForwarded(t.Context(), b)
	}
	if n := r.cycle.Progressive().N; n != scored {
		t.Errorf("%d events are scored, want %d", n, scored)
	}
	if n := r.missed.Load(); n != missed {
		t.Errorf("%d offsets are missed, want %d", n, missed)
	}
}

// TestForwardedOnce: each event is learned once, in whatever batches it comes again, and what does not come is counted.
func TestForwardedOnce(t *testing.T) {
	r := newLiveRig(t, emptyStore(t))
	r.gets(t, 30, 0, forwarded(0, 0, 100, 120), forwarded(1, 0, 0, 10))
	r.gets(t, 30, 0, forwarded(0, 0, 100, 120), forwarded(0, 0, 90, 110)) // by a process that took the shard up
	r.gets(t, 35, 0, forwarded(0, 0, 110, 125))
	r.gets(t, 40, 7, forwarded(0, 0, 132, 137)) // 7 were lost
	r.gets(t, 45, 7, forwarded(0, 1, 0, 5))     // the topic was made again
	r.gets(t, 45, 7, forwarded(0, 0, 137, 140)) // of the one before
	r.gets(t, 50, 7, forwarded(0, 1, 0, 10))
	if n := r.learned.Load(); n != 50 {
		t.Errorf("%d events are learned, want 50", n)
	}
	thin := forwarded(1, 0, 10, 20)
	thin.Events, thin.Share = thin.Events[3:5], 0.2
	r.gets(t, 52, 7, thin)
	r.gets(t, 53, 7, forwarded(1, 0, 20, 21))
	if cut, _ := r.cycle.Known(); len(cut) != 2 || cut[0].Next+cut[1].Next != 10+21 {
		t.Errorf("known up to %v", cut)
	}
}

// TestForwardedAfterRestart: a run reads the topic from its start again. The losses continue from what was kept: no
// event counts twice, whether the run before ended in order or was killed. All that no refit has is learned again.
func TestForwardedAfterRestart(t *testing.T) {
	for name, end := range map[string]struct {
		inOrder bool
		again   int64 // of the events that the second run scores
	}{"ended": {true, 0}, "killed": {false, 20}} {
		t.Run(name, func(t *testing.T) {
			store := emptyStore(t)
			first := newLiveRig(t, store)
			first.gets(t, 50, 0, forwarded(0, 0, 0, 20), forwarded(1, 0, 0, 30))
			first.keep()
			first.gets(t, 70, 0, forwarded(0, 0, 20, 40))
			if end.inOrder {
				first.keep()
			}
			want := first.cycle.Progressive()
			second := newLiveRig(t, store)
			second.gets(t, 70-end.again, 0)
			second.gets(t, 70, 0, forwarded(0, 0, 0, 20), forwarded(1, 0, 0, 30), forwarded(0, 0, 20, 40))
			if n := second.learned.Load(); n != 70 {
				t.Errorf("%d events are learned, want 70", n)
			}
			if a, b := *want.All.Live.RMSE, *second.cycle.Progressive().All.Live.RMSE; end.inOrder && a != b {
				t.Errorf("the live loss is %v, without a restart %v", b, a)
			}
			second.gets(t, 80, 0, forwarded(1, 0, 30, 40))
		})
	}
}

// TestKeptBeforeTheTopicIsRead: a run that ends before it has read the topic again keeps the losses and how far they
// are.
func TestKeptBeforeTheTopicIsRead(t *testing.T) {
	store := emptyStore(t)
	first := newLiveRig(t, store)
	first.gets(t, 50, 0, forwarded(0, 0, 0, 20), forwarded(1, 0, 0, 30))
	first.keep()
	second := newLiveRig(t, store)
	second.gets(t, 50, 0, forwarded(0, 0, 0, 10))
	second.keep()
	third := newLiveRig(t, store)
	third.gets(t, 50, 0, forwarded(0, 0, 0, 10), forwarded(0, 0, 10, 20), forwarded(1, 0, 0, 30))
	third.gets(t, 60, 0, forwarded(0, 0, 20, 30))
}

// TestHostileForwarded: batches that no shard can have forwarded change nothing, are counted and logged once, and what
// comes next is learned.
func TestHostileForwarded(t *testing.T) {
	r := newLiveRig(t, emptyStore(t))
	r.gets(t, 10, 0, forwarded(0, 0, 0, 10))
	with := func(edit func(ev *event.Event)) *shard.Forwarded {
		b := forwarded(0, 0, 10, 11)
		ev := event.Event{Label: 3, Weight: 1, Time: 1_700_000_000_000, Categorical: []string{"u", "i"}}
		edit(&ev)
		b.Events[0].Payload = rows.AppendEvent(nil, &ev)
		return b
	}
	other := forwarded(0, 0, 10, 20)
	other.Stretches[0].Topic = "other"
	foreign := forwarded(0, 0, 10, 20)
	foreign.Shard = 1
	cut := forwarded(0, 0, 10, 11)
	cut.Events[0].Payload = cut.Events[0].Payload[:5]
	hostile := map[string]*shard.Forwarded{"another topic": other, "a partition of another shard": foreign,
		"a payload that is cut":     cut,
		"offsets far above":         forwarded(0, 0, 11+shard.MaxStretch, 12+shard.MaxStretch),
		"a label that is no number": with(func(ev *event.Event) { ev.Label = math.NaN() }),
		"an endless weight":         with(func(ev *event.Event) { ev.Weight = math.Inf(1) }),
		"a weight of 0":             with(func(ev *event.Event) { ev.Weight = 0 }),
		"a field less":              with(func(ev *event.Event) { ev.Categorical = ev.Categorical[:1] }),
		"a number more":             with(func(ev *event.Event) { ev.Numeric = []float64{1} }),
		"a time of next year":       with(func(ev *event.Event) { ev.Time = time.Now().AddDate(1, 0, 0).UnixMilli() })}
	for name, b := range hostile {
		before, words := r.log.Len(), r.dropped[shard.DroppedWord]
		r.refused.Clear() // some are refused for the same reason
		r.gets(t, 10, 0, b, b)
		if n := r.dropped[shard.DroppedWord] - words; n != 2 {
			t.Errorf("%s: %d batches are counted, want 2", name, n)
		}
		if n := strings.Count(r.log.String()[before:], "events of a shard are left out"); n != 1 {
			t.Errorf("%s: logged %d times, want once", name, n)
		}
	}
	r.gets(t, 20, 0, forwarded(0, 0, 10, 20))
}

// TestOneWordStopsNothing: a batch of offsets, or of an incarnation, that a shard could have come to and has not does
// not have the events after it passed over for long. Two batches continue from before, and all after the first is
// learned. A true step that large is one, whatever comes late.
func TestOneWordStopsNothing(t *testing.T) {
	for name, word := range map[string]*shard.Forwarded{
		"the largest to": {Share: 1, Stretches: []shard.Stretch{{Topic: "r", From: 10, To: shard.MaxStretch}}},
		"a later from": {Share: 1, Stretches: []shard.Stretch{
			{Topic: "r", From: shard.MaxStretch, To: shard.MaxStretch + 1}}},
		"the largest incarnation": {Share: 1, Stretches: []shard.Stretch{
			{Topic: "r", Incarnation: math.MaxUint32, From: 0, To: 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLiveRig(t, emptyStore(t))
			r.gets(t, 10, 0, forwarded(0, 0, 0, 10))
			missed := max(0, word.Stretches[0].From-10)
			r.gets(t, 10, missed, word)
			r.gets(t, 10, missed, forwarded(0, 0, 10, 20))
			r.gets(t, 20, missed, forwarded(0, 0, 20, 30))
			if r.gets(t, 25, missed, forwarded(0, 0, 30, 35)); r.dropped[shard.DroppedWord] != 1 {
				t.Errorf("dropped are %v", r.dropped)
			}
			if cut, _ := r.cycle.Known(); len(cut) != 1 || cut[0].Next != 35 {
				t.Errorf("known up to %v", cut)
			}
		})
	}
	r := newLiveRig(t, emptyStore(t))
	far := int64(10 + 2*longStep)
	r.gets(t, 10, 0, forwarded(0, 0, 0, 10))
	r.gets(t, 15, far-10, forwarded(0, 0, far, far+5), forwarded(0, 0, 10, 20))
	r.gets(t, 20, far-10, forwarded(0, 0, far+5, far+10), forwarded(0, 0, 20, 30), forwarded(0, 0, 30, 40))
}
