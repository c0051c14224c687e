package admission

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// TestCopies: what a stream draws again and again is no copy, and floods of events that came before are, of which 512
// events at most are learned, and 64 where hardly any came again. What comes between and after them is learned.
func TestCopies(t *testing.T) {
	schema := &event.Schema{Categorical: []string{"kind"}}
	of := func(kind int) *event.Event {
		return &event.Event{Label: float64(kind % 2), Weight: 1, Categorical: []string{fmt.Sprint(kind)}}
	}
	for name, draw := range map[string]func(r *rand.Rand, i int) int{
		"few kinds":           func(r *rand.Rand, _ int) int { return r.IntN(50) },
		"many kinds":          func(r *rand.Rand, _ int) int { return r.IntN(3000) },
		"hardly any again":    func(r *rand.Rand, _ int) int { return r.IntN(1_000_000) },
		"kinds of all shares": func(r *rand.Rand, _ int) int { return int(math.Exp(14 * r.Float64())) },
		"each twice":          func(_ *rand.Rand, i int) int { return i / 2 },
		"more come again": func(r *rand.Rand, i int) int {
			if r.Float64() < []float64{0.2, 0.4}[min(1, i/15_000)] {
				return r.IntN(i + 1)
			}
			return i
		},
		"others each day": func(r *rand.Rand, i int) int { return i/2000*1000 + r.IntN(1000) },
	} {
		c, r := newCopies(schema), rand.New(rand.NewPCG(7, 1))
		past := make([]int, 0, 30_000)
		for i := range 30_000 {
			past = append(past, draw(r, i))
			if c.take(of(past[i])) {
				t.Fatalf("%s: event %d is taken for a copy", name, i)
			}
		}
		if float64(c.single) < 0.3*float64(len(c.keys)) {
			continue // of what comes again and again a flood shows in nothing
		}
		unheard := 0
		for flood, sent := range map[string]func(i int) int{
			"one event":      func(int) int { return past[5] },
			"100 in turn":    func(i int) int { return past[i%100] },
			"2,000 again":    func(i int) int { return past[25_000+i%2000] },
			"5,000 again":    func(i int) int { return past[20_000+i] },
			"between others": func(i int) int { return []int{past[20_000+i], draw(r, 30_000+i)}[i%2] },
		} {
			learned := 0
			for i := range 5000 {
				kind := sent(i)
				isNew := c.count.of(keyOf(c, of(kind))) == 0
				switch isCopy := c.take(of(kind)); {
				case isCopy && isNew:
					t.Fatalf("%s, %s: a new event is taken for a copy", name, flood)
				case !isCopy && !isNew:
					learned++
				}
			}
			most := copiesWindow
			if float64(c.single) > 0.9*float64(len(c.keys)) {
				most = 4 * copiesLeast // where hardly an event comes again
			}
			if learned > most {
				t.Errorf("%s, %s: %d copies are learned, want at most %d", name, flood, learned, most)
			}
			for range copiesWindow {
				unheard--
				c.take(of(unheard))
			}
			if c.isFlood() {
				t.Errorf("%s, %s: has no end after %d new events", name, flood, copiesWindow)
			}
		}
	}
}

// TestTurnsAreNoCopies: fields that come again in turns, with other times, are no flood; with the same times they are.
func TestTurnsAreNoCopies(t *testing.T) {
	c := newCopies(&event.Schema{Categorical: []string{"shop"}})
	at := func(i, day int) *event.Event {
		return &event.Event{Weight: 1, Time: int64(day), Categorical: []string{fmt.Sprint("shop", i)}}
	}
	const shops, days = 2000, 3
	for i := range days * shops {
		if c.take(at(i%shops, i/shops)) {
			t.Fatalf("event %d is taken for a copy", i)
		}
	}
	for i := range shops {
		if isCopy := c.take(at(i, 0)); i > copiesWindow && !isCopy {
			t.Fatalf("event %d of the first day, sent again, is no copy", i)
		}
	}
}

// TestFloodsAreRemembered: which events came again in a flood is known for longer than the events are.
func TestFloodsAreRemembered(t *testing.T) {
	c := newCopies(&event.Schema{Categorical: []string{"kind"}})
	at := func(i int) *event.Event {
		return &event.Event{Weight: 1, Time: int64(i), Categorical: []string{"a"}}
	}
	for range 2 {
		for i := range 2000 {
			c.take(at(i))
		}
	}
	for i := range copiesMemory {
		c.take(at(10_000 + i))
	}
	key := keyOf(c, at(1500))
	if n, ok := c.flooded.get(uint64(key)); !ok || n != 1 || c.count.of(key) != 0 {
		t.Errorf("%d events counted, known: %t, remembered: %d", n, ok, c.count.of(key))
	}
}

// TestKeyCounts: keys, many of which have one home, are counted as by a map.
func TestKeyCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var counts keyCounts
	want := make(map[uint32]uint32)
	for i := range 20_000 {
		key, n := uint32(r.IntN(40))<<16|uint32(r.IntN(1+i/10)), 1
		if want[key] > 0 && r.IntN(2) == 0 {
			n = -1
		}
		want[key] = uint32(int(want[key]) + n)
		if got := counts.add(key, n); got != want[key] {
			t.Fatalf("%d events of key %x, want %d", got, key, want[key])
		}
		if want[key] == 0 {
			delete(want, key)
		}
		if other := uint32(r.IntN(40))<<16 | uint32(r.IntN(1+i/10)); uint32(counts.of(other)) != want[other] {
			t.Fatalf("%d events of key %x, want %d", counts.of(other), other, want[other])
		}
	}
	if counts.used != len(want) || counts.used < 1000 {
		t.Errorf("%d keys, want %d", counts.used, len(want))
	}
}

// BenchmarkCopies takes up events of two names that do not come again. An operation is one event.
func BenchmarkCopies(b *testing.B) {
	c := newCopies(&event.Schema{Categorical: make([]string, 2)})
	ev, names := event.Event{Weight: 1, Categorical: make([]string, 2)}, make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint("name-", i)
	}
	for b.Loop() {
		ev.Time++
		ev.Categorical[0], ev.Categorical[1] = names[ev.Time%1000], names[ev.Time%777]
		c.take(&ev)
	}
}

// TestCopiesForEver: what repeats for longer than is remembered is learned again, and memory is bounded.
func TestCopiesForEver(t *testing.T) {
	before := heap()
	c := newCopies(&event.Schema{Numeric: make([]string, 1)})
	ev := event.Event{Weight: 1, Numeric: make([]float64, 1)}
	for i := range 2*copiesMemory + 10 {
		ev.Numeric[0] = float64(i)
		c.take(&ev)
	}
	if used := int(heap() - before); used > copiesMemory*copyEntryBytes+stuckFootprint || c.count.used > copiesMemory ||
		c.single < copiesMemory-50 {
		t.Errorf("%d events take %d bytes, counted are %d", c.count.used, used,
			copiesMemory*copyEntryBytes+stuckFootprint)
	}
	for range copiesMemory + copiesWindow {
		c.take(&ev)
	}
	for range copiesWindow {
		if c.take(&ev) {
			t.Fatal("what is usual by now is taken for a copy")
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func keyOf(c *copies, ev *event.Event) uint32 {
	key, _ := c.fields.keys(ev)
	return key
}

// TestStuckProducers: events that are alike but for their time, and come again and again where that is unusual, are
// learned a few times, whatever comes between; those of a stream where some fields are usual, or in which they come in
// turns, are all learned.
func TestStuckProducers(t *testing.T) {
	schema := &event.Schema{Categorical: []string{"kind"}, Numeric: []string{"x", "y"}}
	of := func(i, kind int, x float64) *event.Event {
		return &event.Event{Weight: 1, Time: int64(i), Categorical: []string{fmt.Sprint(kind)}, Numeric: []float64{x, -x}}
	}
	for name, draw := range map[string]func(r *rand.Rand, i int) *event.Event{
		"numbers":       func(r *rand.Rand, i int) *event.Event { return of(i, 0, r.NormFloat64()) },
		"many kinds":    func(r *rand.Rand, i int) *event.Event { return of(i, r.IntN(3000), 0) },
		"in turns":      func(_ *rand.Rand, i int) *event.Event { return of(i, i%2000, 0) },
		"kinds by rank": func(r *rand.Rand, i int) *event.Event { return of(i, int(math.Exp(12*r.Float64())), 0) },
		"a twentieth is zero": func(r *rand.Rand, i int) *event.Event {
			return of(i, 0, r.NormFloat64()*float64(min(1, r.IntN(20))))
		},
	} {
		c, r := newCopies(schema), rand.New(rand.NewPCG(9, 1))
		for i := range 20_000 {
			if c.take(draw(r, i)) {
				t.Fatalf("%s: event %d is left out", name, i)
			}
		}
		if float64(c.stuck.agains) > stuckAgain*stuckMemory {
			continue // fields that come again at once are usual
		}
		at := 100_000
		for flood, sent := range map[string]func(i int) *event.Event{
			"one event":      func(i int) *event.Event { return of(20_000+i, 7, 1.5) },
			"three in turn":  func(i int) *event.Event { return of(30_000+i, 8+i%3, 2.5) },
			"almost equal":   func(i int) *event.Event { return of(40_000+i, 12, 3.5+1e-9*float64(i)) },
			"between others": func(i int) *event.Event { return of(50_000+i, 13*(i%2)+i*(1-i%2)+100, 4.5) },
		} {
			learned := 0
			for i := range 4000 {
				if !c.take(sent(i)) {
					learned++
				}
			}
			most := 3 * copiesLeast
			if flood == "between others" {
				most = 2000 + copiesLeast
			}
			if learned > most {
				t.Errorf("%s, %s: %d are learned", name, flood, learned)
			}
			for i := range 3 * copiesWindow {
				if at++; c.take(draw(r, at)) {
					t.Fatalf("%s, %s: event %d after it is left out", name, flood, i)
				}
			}
		}
	}
}

// TestCopiesOverRestarts: what was kept says of each further event what the run that kept it does, in a flood and after
// it; of a replay as many events count as were learned. What was kept by others is refused and changes nothing.
func TestCopiesOverRestarts(t *testing.T) {
	m := config.DefaultModel()
	m.Schema = config.Schema{Task: "binary", Label: "y", Categorical: []string{"kind"}, Numeric: []string{"x"}}
	m.Resolve()
	schema := m.Schema.Event()
	open := func() *EntityCap { return NewEntityCap(&m, &schema) }
	first, r := open(), rand.New(rand.NewPCG(11, 1))
	var log []*event.Event
	next := func(i int) *event.Event {
		switch ev := log[max(0, len(log)-1-i%4000)]; {
		case i > 12_000 && i < 16_000:
			return ev // sent again
		case i > 17_000 && i < 19_000:
			return &event.Event{Weight: 1, Time: int64(i), Categorical: []string{"stuck"}, Numeric: []float64{1}}
		}
		return &event.Event{Weight: 1, Time: int64(i), Categorical: []string{fmt.Sprint(r.IntN(50))},
			Numeric: []float64{r.NormFloat64()}}
	}
	log = append(log, &event.Event{Weight: 1, Categorical: []string{"0"}, Numeric: []float64{1}})
	var to, again rows.Counted
	learned, second := 0, (*EntityCap)(nil)
	for i := range 24_000 {
		ev := next(i)
		log = append(log, ev)
		if first.Take(&to, ev, rows.Position{}); !to.None {
			learned++
		}
		if second != nil {
			second.EndReplay()
			if second.Take(&again, ev, rows.Position{}); to.None != again.None {
				t.Fatalf("event %d is left out: %t, by the run that began before it: %t", i, to.None, again.None)
			}
		}
		if i%3000 == 500 {
			second = open()
			if err := second.Restore(first.Keep()); err != nil {
				t.Fatal(err)
			}
			relearned := 0
			for _, old := range log[1:] {
				if second.Take(&again, old, rows.Position{}); !again.None {
					relearned++
				}
			}
			if relearned > learned+10*copiesLeast || relearned < learned-10*copiesLeast {
				t.Errorf("at %d: %d events of the replay count, %d were learned", i, relearned, learned)
			}
		}
	}
	if n := first.Held[HeldCopy].Load(); n < 4000 {
		t.Errorf("%d copies were left out", n)
	}
	before := string(first.Keep())
	for name, text := range map[string]string{
		"another build":  strings.Replace(before, `"version":1`, `"version":2`, 1),
		"another name":   strings.Replace(before, `"copies"`, `"others"`, 1),
		"another field":  strings.Replace(before, `"kind"`, `"sort"`, 1),
		"a list cut":     strings.Replace(before, `"again":"`, `"again":"AAAA`, 1),
		"below 0":        strings.Replace(before, `"left_out":`, `"left_out":-1`, 1),
		"no JSON":        before[:100],
		"nothing":        "",
		"null":           "null",
		"keys and a bit": strings.Replace(before, `"keys":"`, `"keys":"AAAA`, 1),
	} {
		if err := first.Restore([]byte(text)); !errors.Is(err, ErrKept) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if string(first.Keep()) != before {
		t.Error("what was refused has changed something")
	}
}
