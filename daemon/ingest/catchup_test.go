package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// tastes returns n records of which the user says the label.
func tastes(seed uint64, n int) *consumer.Batch {
	r := rand.New(rand.NewPCG(seed, 1))
	b := &consumer.Batch{Topic: "t", Next: int64(n)}
	for i := range n {
		user := r.IntN(2500)
		b.Records = append(b.Records, consumer.Record{Offset: int64(i), Timestamp: 1700000000000 + int64(i),
			Value: fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":%d}`, user, r.IntN(9), 1+user%5,
				1700000000000+i), CRC: r.Uint32()})
	}
	return b
}

// feed applies a log in parts of 500, the last of which come once the model has caught up. The bytes of a part are gone
// once it was taken, as those of a fetch are.
func feed(t *testing.T, g *Ingest, whole *consumer.Batch, behind int64) {
	t.Helper()
	for lo := 0; lo < len(whole.Records); lo += 500 {
		part := *whole
		part.Base, part.Next, part.Records = int64(lo), int64(lo+500), whole.Records[lo:lo+500]
		part.HighWatermark = max(part.Next, behind)
		part.LastStable = part.HighWatermark
		if err := g.Take(t.Context(), &part); err != nil {
			t.Fatal(err)
		}
		for i := range part.Records {
			clear(part.Records[i].Value)
		}
	}
	if err := g.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestCatchUpLeavesStateAlone: what is stored does not depend on what is learned live, and an even share of the events
// is scored. Once it has caught up, the live model knows the names that it passed over.
func TestCatchUpLeavesStateAlone(t *testing.T) {
	const n, behind = 10_000, 9500
	type outcome struct {
		state          *sketch.State
		passed, scored int64
		begun, ended   int
		late           float64 // loss of the last events
	}
	run := func(bound, relearn time.Duration) (out outcome) {
		m := ingesttest.Ratings(12_000)
		m.Train.CatchUp = config.CatchUp(bound)
		m.Evaluate.Window = n - behind
		g, store := newIngest(t, m, "")
		if bound > 0 { // else a machine that is busy would take a minute for the backlog, which is noted
			g.catchUp.least = 0
		}
		g.OnApplied = func(c Counts) { out.passed += c.Passed }
		g.OnCatchUp = func(c CatchUp, at CatchUpStep) {
			if at == CatchUpBegins {
				out.begun++
				return
			}
			if out.ended++; c.Read != behind-500 || c.Left != 0 {
				t.Errorf("caught up after %d records, %d left", c.Read, c.Left)
			}
			g.catchUp.bound = relearn
		}
		feed(t, g, tastes(1, n), behind)
		var err error
		if out.state, err = store.State(); err != nil {
			t.Fatal(err)
		}
		var losses map[string]float64
		out.scored, _, losses = g.cycle.WindowLosses()
		out.late = losses["live"]
		return out
	}
	all := run(0, 0)
	if all.begun != 0 || all.passed != 0 || all.scored != n {
		t.Fatalf("learn_all: %d catch-ups, %d passed, %d scored", all.begun, all.passed, all.scored)
	}
	thin := run(time.Nanosecond, time.Hour)
	if thin.begun != 1 || thin.ended != 1 {
		t.Fatalf("%d catch-ups began, %d ended", thin.begun, thin.ended)
	}
	const read = behind - 500 // while it caught up
	if share := float64(thin.scored-(n-read)) / read; share < 0.8/CatchUpShare || share > 1.2/CatchUpShare {
		t.Errorf("a share of %.3f of the events was scored, want about 1/%d", share, CatchUpShare)
	}
	if thin.passed+thin.scored != n {
		t.Errorf("%d passed and %d scored of %d", thin.passed, thin.scored, n)
	}
	if thin.state.SampleDigest != all.state.SampleDigest ||
		thin.state.Partitions[0].Digest != all.state.Partitions[0].Digest {
		t.Error("the state depends on what is learned")
	}
	without := run(time.Nanosecond, time.Nanosecond) // too short to learn a row
	t.Logf("loss of the last %d events: %.4f learned all, %.4f with the rows passed over, %.4f without",
		n-behind, all.late, thin.late, without.late)
	if thin.late > without.late/2 {
		t.Error("the rows that were passed over are not learned")
	}
}

// TestCatchUpOfLaterLabels: a catch-up on events and outcomes learns from a share of the keys, with their labels. What
// it leaves open is held after it, and no event whose outcome was passed over is taken for one without.
func TestCatchUpOfLaterLabels(t *testing.T) {
	const n, behind, spacing, delay, ahead = 8000, 6000, 10, 300, 80
	isClicked := func(i int64) bool { return i%5 == 0 }
	run := func(bound time.Duration) (state *sketch.State, stages [4]int, held int) {
		m := ingesttest.Clicks(2 * n)
		m.Sample.MaxBytes, m.Train.CatchUp = 0, config.CatchUp(bound)
		g, store, _ := observing(t, m)
		defer store.Close()
		g.catchUp.least = 0
		g.OnCatchUp = func(c CatchUp, at CatchUpStep) {
			if at == CatchUpEnds {
				g.catchUp.bound = time.Hour
			}
		}
		observe := g.observe
		g.observe = func(events []cycle.Observation, panicked func(int, any)) {
			for _, o := range events {
				stages[o.Stage]++
				i := (o.Event.Time - 1_700_000_000_000) / spacing
				if is := o.Event.Label > 0; o.Stage == cycle.Final && is != isClicked(i) {
					t.Fatalf("event %d is final with the label %g, bound %v", i, o.Event.Label, bound)
				}
			}
			observe(events, panicked)
		}
		var of [2]consumer.Batch
		of[0].Topic, of[1].Topic = "seen", "clicked"
		for i := range int64(n) {
			at := 1_700_000_000_000 + i*spacing
			add := func(side int, value string) {
				b := &of[side]
				b.Records = append(b.Records, consumer.Record{Offset: b.Next, Timestamp: at, Value: []byte(value)})
				b.Next++
			}
			if add(0, fmt.Sprintf(`{"id":"e%d","user":"u%d","item":"i","ts":%d}`, i, i%50, at)); isClicked(i) {
				add(1, fmt.Sprintf(`{"of":"e%d","ts":%d}`, i, at+delay))
			}
		}
		for lo := 0; lo < n; lo += 500 {
			for _, side := range []int{1, 0} {
				step := []int{500, 100}[side]
				part, from, lead := of[side], lo/500*step, ahead*side
				to := min(len(part.Records), from+step)
				if to = min(len(part.Records), to+lead); lo > 0 { // outcomes are read before their events
					from = min(len(part.Records), from+lead)
				}
				part.Base, part.Next, part.Records = int64(from), int64(to), part.Records[from:to]
				part.HighWatermark = max(part.Next, int64(behind*step/500+lead))
				part.LastStable = part.HighWatermark
				if err := g.Apply(t.Context(), &part); err != nil {
					t.Fatal(err)
				}
				for i := range part.Records {
					part.Records[i].Value = slices.Repeat([]byte{'x'}, len(part.Records[i].Value))
				}
			}
			if lo == behind-500 {
				held = len(g.open.held)
			}
		}
		state, err := store.State()
		if err != nil {
			t.Fatal(err)
		}
		return state, stages, held
	}
	all, stages, held := run(0)
	if stages[cycle.Shown] != n {
		t.Fatalf("learn_all: %v", stages)
	}
	t.Logf("learn_all: %v, %d are held", stages, held)
	thin, stages, open := run(time.Nanosecond)
	t.Logf("caught up: %v, %d are held", stages, open)
	if thin.SampleDigest != all.SampleDigest {
		t.Error("the state depends on what is learned")
	}
	if share := float64(stages[cycle.Shown]) / n; share < 0.2 || share > 0.3 { // a sixteenth, then all that can be
		t.Errorf("a share of %.2f was shown", share)
	}
	if open < held/3 { // half of a window, but for those with outcomes
		t.Errorf("%d are open after the catch-up, %d of those who learn all", open, held)
	}
}

// TestLongCatchUpIsReported: one that lasts says every second how far it is, with the rate and the time that is left,
// also where every event is learned.
func TestLongCatchUpIsReported(t *testing.T) {
	for _, bound := range []config.CatchUp{config.AutoCatchUp, 0} {
		synctest.Test(t, func(t *testing.T) {
			m := ingesttest.Ratings(100)
			m.Train.CatchUp = bound
			c := newCatchUp(m)
			var steps []CatchUpStep
			var shown []CatchUp
			var rates []float64
			c.observe = func(now CatchUp, at CatchUpStep) {
				steps, shown, rates = append(steps, at), append(shown, now), append(rates, now.PerSecond())
			}
			for second := range int64(31) { // 50,000 a second
				next := (second + 1) * 50_000
				thin, ended := c.next(&sketch.Part{Topic: "t", Base: next - 50_000, Next: next}, max(0, 1_500_000-next))
				if thin != (bound > 0 && len(steps) < 30) || ended != nil && bound == 0 {
					t.Fatalf("bound %s, second %d: thin %v, passed over %v", bound, second, thin, ended)
				}
				time.Sleep(time.Second)
			}
			want := append([]CatchUpStep{CatchUpBegins}, slices.Repeat([]CatchUpStep{CatchUpLasts}, 28)...)
			if want = append(want, CatchUpEnds); !slices.Equal(steps, want) {
				t.Fatalf("bound %s: steps %v, want %v", bound, steps, want)
			}
			eta, rate := shown[10].ETA, rates[10]
			if eta < 15*time.Second || eta > 19*time.Second || rate < 50_000 || rate > 56_000 || shown[29].ETA != 0 {
				t.Errorf("bound %s: after ten seconds %s left at %g a second; in the end %s", bound, eta, rate, shown[29].ETA)
			}
		})
	}
}

// TestSilentPartitionsAreNotBehind: a partition without a part for some time, such as a halted one, is not waited for.
func TestSilentPartitionsAreNotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := ingesttest.Ratings(100)
		m.Train.CatchUp = config.CatchUp(time.Second)
		c := newCatchUp(m)
		part := func(partition int32, left int64) bool {
			thin, _ := c.next(&sketch.Part{Topic: "t", Partition: partition, Next: 500}, left)
			return thin
		}
		if !part(0, 1_000_000) || !part(1, 10) {
			t.Fatal("a model that is a million events behind does not catch up")
		}
		time.Sleep(silence + time.Second)
		if part(1, 0) {
			t.Error("a silent partition is waited for")
		}
	})
}
