package cycle

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// sharers returns cycles that share what they learn, on one champion that was made of the first events and has their cut in two partitions.
func sharers(t testing.TB, n int, m *config.Model, events []event.Event) (cycles []*Cycle, ch *Champion) {
	t.Helper()
	first := newCycle(t, m)
	ch = refit(t, first, sampleOf(events))
	ch.Version.Version, ch.Version.PayloadDigest = 7, "sha256:seven"
	ch.Version.Cut = []report.Cut{{Topic: "t", Partition: 0, Next: 100}, {Topic: "t", Partition: 1, Next: 200}}
	for range n {
		c := newCycle(t, m)
		c.Shares = true
		c.Install(ch)
		cycles = append(cycles, c)
	}
	return cycles, ch
}

// observeIn observes events of a partition from an offset on.
func observeIn(c *Cycle, partition int32, from int64, events []event.Event) {
	for i := range events {
		ev := events[i]
		c.Observe(&ev, true, Position{Topic: "t", Partition: partition, Offset: from + int64(i)}, AppendEvent(nil, &ev), nil)
	}
}

// toldBy returns what a cycle has to tell after it went through the codec.
func toldBy(t *testing.T, c *Cycle) *Learned {
	t.Helper()
	l, more := c.TakeLearned(1<<20, 1000)
	if l == nil || more {
		t.Fatalf("told %v, more %t", l, more)
	}
	head, rows, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeLearned(head, rows)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// foldInError returns the RMSE of what the fold-in of a cycle predicts for events.
func foldInError(c *Cycle, events []event.Event) float64 {
	sum, outputs := 0.0, make([]float64, c.target.Outputs())
	for i := range events {
		c.learner.outputs(outputs, &events[i])
		e := c.target.Value(outputs) - events[i].Label
		sum += e * e
	}
	return math.Sqrt(sum / float64(len(events)))
}

// TestToldIsLearned: a cycle that observes nothing and is told what another one learns has its live model, in every form, and so do updates of it.
func TestToldIsLearned(t *testing.T) {
	m := ratingsModel(nil)
	events := stream(3, 3000)
	cycles, _ := sharers(t, 2, m, events[:2000])
	shard, trainer := cycles[0], cycles[1]
	for i := range 10 {
		observeIn(shard, 0, 100+int64(100*i), events[2000+100*i:2100+100*i])
		l := toldBy(t, shard)
		if missed, err := trainer.Apply(l); missed != 0 || err != nil {
			t.Fatal(missed, err)
		}
		if missed, err := trainer.Apply(l); missed != 0 || err != nil { // told twice
			t.Fatal(missed, err)
		}
	}
	if l, _ := shard.TakeLearned(10, 1000); l != nil {
		t.Errorf("told again: %v", l)
	}
	want := []report.Cut{{Topic: "t", Partition: 0, Next: 1100}, {Topic: "t", Partition: 1, Next: 200}}
	if cut, _ := trainer.Known(); !reflect.DeepEqual(cut, want) {
		t.Errorf("known up to %v, want %v", cut, want)
	}
	a, b := shard.Update(), trainer.Update()
	for f, names := range a.Vocabulary.Names {
		for _, name := range names {
			i, j := a.Vocabulary.Column(f, name), b.Vocabulary.Column(f, name)
			if j < 0 {
				t.Fatalf("%s was not told", name)
			}
			k := a.Model.NumBasis
			for r := range k {
				if x, y := a.Model.Basis[int(i)*k+r], b.Model.Basis[int(j)*k+r]; math.Abs(x-y) > 1e-4*(1+math.Abs(x)) {
					t.Fatalf("%s: coordinate %d is %g, told %g", name, r, x, y)
				}
			}
		}
	}
}

// TestShardsShare: two cycles with half of the events each that tell each other have about the fold-in of one that has all of them, and a better one than
// if they do not.
func TestShardsShare(t *testing.T) {
	m := ratingsModel(nil)
	events := stream(3, 6000)
	run := func(n, every int, share bool) float64 {
		cycles, _ := sharers(t, n, m, events[:800])
		sum := mean{}
		for i := 800; i < 5600; i += every {
			for k, c := range cycles {
				var own []event.Event
				for j := i + k; j < i+every; j += n {
					own = append(own, events[j])
				}
				e := foldInError(c, own)
				sum.add(e*e, float64(len(own)))
				observeIn(c, int32(k), 200+int64(i), own)
			}
			for k, c := range cycles {
				if l, _ := c.TakeLearned(1<<20, 1000); share && l != nil {
					for other, to := range cycles {
						if other != k {
							if _, err := to.Apply(l); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			}
		}
		return math.Sqrt(sum.mean())
	}
	one, team, alone := run(1, 40, false), run(2, 40, true), run(2, 40, false)
	t.Logf("one %.4f, two that share %.4f, two alone %.4f", one, team, alone)
	if team > one+0.005 || alone < one+0.01 {
		t.Errorf("one %.4f, two that share %.4f, two alone %.4f", one, team, alone)
	}
}

type mean struct{ sum, n float64 }

func (m *mean) add(v, n float64) { m.sum, m.n = m.sum+n*v, m.n+n }
func (m *mean) mean() float64    { return m.sum / m.n }

// TestNothingIsLearnedTwice: what a new run of a shard was told of its own events by its last run, and what the champion has, it does not learn again from its
// sample; what the last run had not told it does, and tells it.
func TestNothingIsLearnedTwice(t *testing.T) {
	m := ratingsModel(nil)
	events := stream(3, 2300)
	cycles, _ := sharers(t, 3, m, events[:2000])
	before, again, whole := cycles[0], cycles[1], cycles[2]
	observeIn(before, 0, 100, events[2000:2200])
	l := toldBy(t, before) // the rest it does not come to tell
	observeIn(before, 0, 300, events[2200:2300])

	if missed, err := again.Apply(l); missed != 0 || err != nil {
		t.Fatal(missed, err)
	}
	for i := range 300 {
		ev := &events[2000+i]
		if err := again.Relearn(Position{Topic: "t", Offset: 100 + int64(i)}, AppendEvent(nil, ev), false); err != nil {
			t.Fatal(err)
		}
	}
	observeIn(again, 0, 50, events[1950:2000]) // below the cut of the champion
	if _, err := whole.Apply(l); err != nil {
		t.Fatal(err)
	}
	rest := toldBy(t, again)
	if !reflect.DeepEqual(rest.From, []report.Cut{{Topic: "t", Next: 300}}) || !reflect.DeepEqual(rest.To, []report.Cut{{Topic: "t", Next: 400}}) {
		t.Errorf("told from %v to %v, want 300 to 400", rest.From, rest.To)
	}
	if missed, err := whole.Apply(rest); missed != 0 || err != nil {
		t.Fatal(missed, err)
	}
	probe := events[1950:2300] // all that would have been learned twice
	for i := range probe {
		want, got, told := foldInError(before, probe[i:i+1]), foldInError(again, probe[i:i+1]), foldInError(whole, probe[i:i+1])
		if math.Abs(got-want) > 1e-3 || math.Abs(told-got) > 1e-3 {
			t.Fatalf("event %d: error %.6f, started again %.6f, told %.6f", i, want, got, told)
		}
	}
	late := &Learned{Champion: "sha256:seven", From: []report.Cut{{Topic: "t", Next: 450}}, To: []report.Cut{{Topic: "t", Next: 500}}, Parts: rest.Parts}
	if missed, err := whole.Apply(late); missed != 50 || err != nil {
		t.Errorf("missed %d, %v; want 50", missed, err)
	}
}

// TestToldOnAnotherChampion: what stands on another champion is refused, and after a new one a shard tells everything from its cut on.
func TestToldOnAnotherChampion(t *testing.T) {
	m := ratingsModel(nil)
	events := stream(3, 2300)
	cycles, ch := sharers(t, 2, m, events[:2000])
	shard, trainer := cycles[0], cycles[1]
	observeIn(shard, 0, 100, events[2000:2200])
	old := toldBy(t, shard)
	next := *ch
	next.Version.Version, next.Version.PayloadDigest = 8, "sha256:eight"
	next.Version.Cut = []report.Cut{{Topic: "t", Partition: 0, Next: 150}}
	trainer.Install(&next)
	if _, err := trainer.Apply(old); !errors.Is(err, ErrOtherChampion) {
		t.Errorf("of another champion: %v", err)
	}
	observeIn(shard, 0, 300, events[2200:2300])
	shard.Install(&next)
	l := toldBy(t, shard)
	if l.Version != 8 || !reflect.DeepEqual(l.From, []report.Cut{{Topic: "t", Next: 150}}) || !reflect.DeepEqual(l.To, []report.Cut{{Topic: "t", Next: 400}}) {
		t.Errorf("version %d from %v to %v", l.Version, l.From, l.To)
	}
	if missed, err := trainer.Apply(l); missed != 0 || err != nil {
		t.Fatal(missed, err)
	}
	if a, b := foldInError(shard, events[:500]), foldInError(trainer, events[:500]); math.Abs(a-b) > 1e-4 {
		t.Errorf("error %.6f, told %.6f", a, b)
	}
}

// TestLearnedLimit: of more rows than a word may have, the others come with the next, and what they say is not lost.
func TestLearnedLimit(t *testing.T) {
	m := ratingsModel(nil)
	events := stream(3, 2300)
	cycles, _ := sharers(t, 2, m, events[:2000])
	observeIn(cycles[0], 0, 100, events[2000:])
	words := 0
	for more := true; more; words++ {
		var l *Learned
		l, more = cycles[0].TakeLearned(20, 1000)
		for _, part := range l.Parts {
			if len(part.Rows) > 20 {
				t.Fatalf("%d rows", len(part.Rows))
			}
		}
		if _, err := cycles[1].Apply(l); err != nil {
			t.Fatal(err)
		}
	}
	if words < 3 {
		t.Errorf("%d words", words)
	}
	if a, b := foldInError(cycles[0], events[:500]), foldInError(cycles[1], events[:500]); math.Abs(a-b) > 1e-6 {
		t.Errorf("error %.9f, told %.9f", a, b)
	}
}

// TestLearnedCutOff: rows that are cut off, or not of a part that there is, are refused.
func TestLearnedCutOff(t *testing.T) {
	cycles, _ := sharers(t, 1, ratingsModel(nil), stream(3, 2100)[:2000])
	observeIn(cycles[0], 0, 100, stream(3, 2100)[2000:])
	l, _ := cycles[0].TakeLearned(2, 1000)
	head, rows, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for n := range rows[0] {
		if _, err := DecodeLearned(head, [][]byte{rows[0][:n]}); err == nil {
			t.Fatalf("a row of %d of its %d bytes is read", n, len(rows[0]))
		}
	}
	strange := slices.Concat([]byte{9}, rows[0][1:])
	if _, err := DecodeLearned(head, [][]byte{strange}); err == nil {
		t.Error("a row of part 9 is read")
	}
	if _, err := DecodeLearned(head, [][]byte{append(bytes.Clone(rows[0]), 0)}); err == nil {
		t.Error("a row with a byte too many is read")
	}
}

// TestTeamLosses: what processes tell of their losses adds up to those of one that has all of their events.
func TestTeamLosses(t *testing.T) {
	m := ratingsModel(nil)
	events := stream(3, 2600)
	cycles, _ := sharers(t, 3, m, events[:2000])
	trainer := cycles[2]
	var n int64
	want := tally{}
	for k, c := range cycles[:2] {
		observeIn(c, int32(k), 200, events[2000+300*k:2300+300*k])
		for range 2 { // the second takes the place of the first
			text, err := c.Tell()
			if err != nil {
				t.Fatal(err)
			}
			if err := trainer.Hear(k, text); err != nil {
				t.Fatal(err)
			}
		}
		n += c.progressive.sums.N
		want.merge(&c.progressive.sums.All[live])
	}
	p := trainer.Progressive()
	if p.N != n || p.WindowN != n || p.All.Live.N != want.N || math.Abs(float64(*p.All.Live.RMSE)-want.rmse()) > 1e-12 {
		t.Errorf("%d of %d events, window %d, rmse %v, want %g", p.N, n, p.WindowN, *p.All.Live.RMSE, want.rmse())
	}
	if math.Abs(float64(*p.Window.Live.RMSE)-want.rmse()) > 1e-9 || p.Window.Published.N != n || p.Baselines.ItemMean == nil {
		t.Errorf("window %v of %d, want %g", *p.Window.Live.RMSE, p.Window.Published.N, want.rmse())
	}
	if c := trainer.Calibration(); len(c.Published)+len(c.Live) > 0 { // of events one by one, which it has not
		t.Errorf("calibration %+v", c)
	}
	cycles[0].progressive.alarmed("user", 1_700_000_000_000)
	observeIn(cycles[0], 0, 500, events[2500:2510])
	text, err := cycles[0].Tell()
	if err := errors.Join(err, trainer.Hear(0, text)); err != nil {
		t.Fatal(err)
	}
	alarms := trainer.DriftAlarms()
	if d := trainer.Progressive().Drift; len(alarms) != 1 || alarms[0].Group != "user" || len(d) != 1 || d[0].Alarms != 1 || d[0].EventsAgo != 10 {
		t.Errorf("alarms %v, told as %v", alarms, d)
	}
	if err := trainer.Hear(0, []byte("{")); err == nil {
		t.Error("losses that cannot be read are heard")
	}
}
