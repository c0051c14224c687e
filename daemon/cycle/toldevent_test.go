package cycle

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestEventsAreHeard: two cycles that have half of the events each and tell each other at once have the baselines of one that has all of them, and its
// mixture; one that observes nothing has the blend that updates are made of.
func TestEventsAreHeard(t *testing.T) {
	m := ratingsModel(nil)
	events := stream(3, 4400)
	cycles, _ := sharers(t, 4, m, events[:2000])
	one, trainer, shards := cycles[0], cycles[1], cycles[2:]
	for i := range events[2000:4200] {
		own := events[2000+i : 2001+i]
		partition, offset := int32(i%2), 200+int64(i/2)
		observeIn(one, partition, offset, own)
		observeIn(shards[partition], partition, offset, own)
		l := toldBy(t, shards[partition])
		for _, c := range cycles[1:] {
			if c == shards[partition] {
				continue
			}
			if missed, err := c.Apply(l); err != nil || missed > 100 { // the champion's cut is below
				t.Fatal(missed, err)
			}
		}
	}
	for i := range events[4200:] {
		ev := &events[4200+i]
		want := baselinesFor(one, ev)
		for k, c := range cycles[1:] {
			for b, v := range baselinesFor(c, ev) {
				if name := c.mixture.baselines[b].name(); math.Abs(v-want[b]) > 1e-9 || len(want) != len(c.mixture.baselines) {
					t.Fatalf("cycle %d: %s predicts %g, of one process %g", k+1, name, v, want[b])
				}
			}
		}
	}
	for i := range one.mixture.parts {
		for k, c := range cycles[1:] {
			if a, b := one.mixture.parts[i].told, c.mixture.parts[i].told; math.Abs(a.mean()-b.mean()) > 0.01*a.mean() || math.Abs(a.n-b.n) > 1e-6 {
				t.Errorf("cycle %d: loss of %s %.4f of %.1f, of one process %.4f of %.1f", k+1, one.mixture.parts[i].name, b.mean(), b.n, a.mean(), a.n)
			}
		}
	}
	if a, b := one.blend, trainer.blend; a.events != b.events || math.Abs(a.squares.mean()-b.squares.mean()) > 0.01*a.squares.mean() {
		t.Errorf("blend of %d events has mean square %.4f, of one process %d, %.4f", b.events, b.squares.mean(), a.events, a.squares.mean())
	}
}

func baselinesFor(c *Cycle, ev *event.Event) (values []float64) {
	var v [1]float64
	for _, b := range c.mixture.baselines {
		b.predict(v[:], ev)
		values = append(values, v[0])
	}
	return values
}

// TestToldEvents: events are told as they are, at most as many as asked for, and none twice; one that is cut off, or of another model, is not learned.
func TestToldEvents(t *testing.T) {
	events := stream(3, 2010)
	cycles, _ := sharers(t, 2, ratingsModel(nil), events[:2000])
	observeIn(cycles[0], 0, 100, events[2000:])
	l, _ := cycles[0].TakeLearned(1<<20, 3)
	if len(l.Events) != 3 || len(cycles[0].sharing.events) != 0 {
		t.Fatalf("%d events told of 3, %d wait", len(l.Events), len(cycles[0].sharing.events))
	}
	head, rows, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeLearned(head, rows)
	if err != nil || len(back.Events) != 3 {
		t.Fatal(len(back.Events), err)
	}
	for i := range back.Events {
		var ev event.Event
		err := DecodeEvent(&ev, back.Events[i].Payload, interner{})
		if err != nil || ev.Label != events[2000+i].Label || ev.Categorical[0] != events[2000+i].Categorical[0] {
			t.Errorf("event %d comes back as %+v, %v", i, ev, err)
		}
		for part, out := range l.Events[i].Outputs {
			got := back.Events[i].Outputs[part]
			if len(got) != len(out) || (out == nil) != (got == nil) {
				t.Fatalf("outputs %v of part %d come back as %v", out, part, got)
			}
			for c := range out {
				if math.Abs(out[c]-got[c]) > 1e-6*math.Abs(out[c]) {
					t.Errorf("output %g of part %d comes back as %g", out[c], part, got[c])
				}
			}
		}
	}
	mixture := cycles[1].mixture
	learned := func() float64 { return mixture.parts[partFoldIn].told.n }
	last := rows[len(rows)-1]
	for n := range last {
		if cut, err := DecodeLearned(head, [][]byte{last[:n]}); err == nil {
			for i := range cut.Events {
				cycles[1].hear(&cut.Events[i], &event.Event{})
			}
		}
	}
	if learned() != 0 {
		t.Errorf("%g events that are cut off were learned", learned())
	}
	other := ToldEvent{Payload: back.Events[0].Payload, Outputs: append([][]float64{{1, 2}}, back.Events[0].Outputs[1:]...)}
	if cycles[1].hear(&other, &event.Event{}); learned() != 0 {
		t.Error("an event with outputs of another model was learned")
	}
	if cycles[1].hear(&back.Events[0], &event.Event{}); learned() != 1 {
		t.Errorf("%g events learned, want 1", learned())
	}
}

// BenchmarkHear is what an event of another process costs, beside one that is observed here, and how many bytes it takes to tell.
func BenchmarkHear(b *testing.B) {
	events := stream(3, 2010)
	cycles, _ := sharers(b, 2, ratingsModel(nil), events[:2000])
	observeIn(cycles[0], 0, 100, events[2000:])
	l, _ := cycles[0].TakeLearned(1<<20, 1000)
	_, rows, err := l.Encode()
	if err != nil {
		b.Fatal(err)
	}
	var ev event.Event
	b.Run("hear", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cycles[1].hear(&l.Events[len(l.Events)-1], &ev)
		}
		b.ReportMetric(float64(len(rows[len(rows)-1])), "bytes")
	})
	b.Run("observe", func(b *testing.B) {
		b.ReportAllocs()
		offset := int64(1000)
		for b.Loop() {
			offset++
			observeIn(cycles[0], 0, offset, events[2000:2001])
			cycles[0].sharing.events = nil
		}
	})
}

// TestToldIsJudgedThere: a baseline is judged by what it said where the event was observed, and not at all where that was nothing, or no number.
func TestToldIsJudgedThere(t *testing.T) {
	events := stream(3, 2010)
	cycles, _ := sharers(t, 2, ratingsModel(nil), events[:2000])
	observeIn(cycles[0], 0, 100, events[2000:2001])
	m := cycles[1].mixture
	at := m.learned + slices.IndexFunc(m.baselines, func(b baseline) bool { return b.name() == "first_mean" })
	part := &m.parts[at]
	told := toldBy(t, cycles[0]).Events[0]
	hear := func(said []float64) fading {
		before := part.told
		told.Outputs[at] = said
		cycles[1].hear(&told, &event.Event{})
		return fading{sum: part.told.sum - before.rate*before.sum, n: part.told.n - before.rate*before.n}
	}
	miss := 2 - events[2000].Label
	if loss := hear([]float64{2}); loss.n != 1 || math.Abs(loss.sum-miss*miss) > 1e-9 {
		t.Errorf("loss %g of %g events, want %g", loss.sum, loss.n, miss*miss)
	}
	for _, said := range [][]float64{nil, {math.Inf(1)}, {math.NaN()}, {2, 3}} {
		before := part.told
		if hear(said); part.told != before {
			t.Errorf("%v was judged", said)
		}
	}
	for i := range m.parts {
		if w := m.parts[i].weight; !(w > 0) {
			t.Errorf("weight %g of %s", w, m.parts[i].name)
		}
	}
}

// TestToldBytes: an event of many outputs counts as several, of those that wait and of those that are told.
func TestToldBytes(t *testing.T) {
	events := stream(3, 2010)
	cycles, _ := sharers(t, 1, ratingsModel(nil), events[:2000])
	s := cycles[0].sharing
	large := ToldEvent{Outputs: [][]float64{make([]float64, 1000)}} // 16 times 256 bytes
	for limit, want := range map[int]int{15: 0, 16: 1, 31: 1, 32: 2, 1000: 3} {
		s.events, s.waiting = []ToldEvent{large, large, large}, 48
		if told := s.takeEvents(limit); len(told) != want || len(s.events) != 0 || s.waiting != 0 {
			t.Errorf("%d events told of at most %d, want %d; %d wait", len(told), limit, want, len(s.events))
		}
	}
	s.waiting = maxTold - 1
	if observeIn(cycles[0], 0, 100, events[2000:2003]); len(s.events) != 1 || s.waiting != maxTold {
		t.Errorf("%d events wait, counted as %d", len(s.events), s.waiting)
	}
}

// TestRowsOfLaterVersions: a row of a kind that there is not yet is left out, and what it comes with is learned.
func TestRowsOfLaterVersions(t *testing.T) {
	events := stream(3, 2010)
	cycles, _ := sharers(t, 1, ratingsModel(nil), events[:2000])
	observeIn(cycles[0], 0, 100, events[2000:])
	l, _ := cycles[0].TakeLearned(1<<20, 1000)
	head, rows, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeLearned(head, append([][]byte{{128}, {254, 1, 2, 3}}, rows...))
	if err != nil || len(back.Events) != len(l.Events) || len(back.Parts) != len(l.Parts) || len(back.Parts[0].Rows) != len(l.Parts[0].Rows) {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := DecodeLearned(head, [][]byte{append([]byte{127}, rows[0][1:]...)}); err == nil {
		t.Error("a row of a part that there is not was read")
	}
}

// TestAnotherBuild: what a process of another build says of parts and forms that are not the same here is left out and counted, and the rest is learned.
func TestAnotherBuild(t *testing.T) {
	events := stream(3, 2010)
	for name, change := range map[string]func(l *Learned){
		"another format":        func(l *Learned) { l.Format++ },
		"a build without names": func(l *Learned) { l.Format, l.Judged = 0, nil },
		"parts in another order": func(l *Learned) {
			n := len(l.Judged)
			l.Judged[n-1], l.Judged[n-2] = l.Judged[n-2], l.Judged[n-1]
		},
		"a part less": func(l *Learned) {
			l.Judged = l.Judged[:len(l.Judged)-1]
			for i := range l.Events {
				l.Events[i].Outputs = l.Events[i].Outputs[:len(l.Judged)]
			}
		},
	} {
		cycles, _ := sharers(t, 2, ratingsModel(nil), events[:2000])
		observeIn(cycles[0], 0, 100, events[2000:])
		l := toldBy(t, cycles[0])
		change(l)
		if missed, err := cycles[1].Apply(l); missed != 0 || err != nil {
			t.Errorf("%s: %d missed, %v", name, missed, err)
		}
		if u := cycles[1].TakeUnheard(); u.Events != 10 || cycles[1].TakeUnheard() != (Unheard{}) {
			t.Errorf("%s: %+v left out, want 10 events once", name, u)
		}
		if n := cycles[1].mixture.parts[partFoldIn].told.n; n != 0 {
			t.Errorf("%s: %g events were learned", name, n)
		}
		if known, _ := cycles[1].Known(); known[0].Next != 110 {
			t.Errorf("%s: rows up to %v", name, known)
		}
	}

	cycles, _ := sharers(t, 2, ratingsModel(nil), events[:2000])
	observeIn(cycles[0], 0, 100, events[2000:])
	if _, err := cycles[1].Apply(toldBy(t, cycles[0])); err != nil || cycles[1].TakeUnheard() != (Unheard{}) {
		t.Errorf("the same build: %v", err)
	}
	text, err := cycles[0].Tell()
	if err != nil {
		t.Fatal(err)
	}
	var told losses
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatal(err)
	}
	lag := lagSums{N: 5, Sum: 1}
	told.Forms = []formSums{{"numbers", "fold_in", lag}, {"fold_in", "numbers", lag}, {"of tomorrow", "fold_in", lag}, {"", "", lag}}
	if text, err = json.Marshal(&told); err != nil {
		t.Fatal(err)
	}
	if err := cycles[1].Hear(0, text); err != nil {
		t.Fatal(err)
	}
	if u := cycles[1].TakeUnheard(); u.Losses != 3 {
		t.Errorf("%+v left out, want 3 losses", u)
	}
	if n := cycles[1].race.pairs[formNumbers][formFoldIn].n; n != 5 {
		t.Errorf("losses of %g events, want 5", n)
	}
	older := bytes.ReplaceAll(text, []byte(`"form":"numbers","against":"fold_in"`), []byte(`"a":1,"b":0`))
	if err := cycles[1].Hear(0, older); err != nil || cycles[1].TakeUnheard().Losses != 4 {
		t.Errorf("numbers in place of names: %v", err)
	}
	for form, name := range toldForms {
		if name == "" || slices.Index(toldForms[:], name) != form {
			t.Errorf("form %d has the name %q", form, name)
		}
	}
}
